"""Reads channels from a TOML file. Secrets come from environment variables named in it."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from signoff.errors import InvalidValue
from signoff.people.links.answer_links import LIFETIME_SECONDS
from signoff.people.notifications.channels.channel import CALLS, Channel, Retry, Sender
from signoff.records import AuditKind
from signoff.records.names import check_assignee
from signoff.records.responders import Responder
from signoff.wire.http import server_url

_NAME: Final = "^[a-z0-9][a-z0-9_-]{0,63}$"
_EVERYTHING: Final = [kind.value for kind in AuditKind]


def read_channels(path: Path, environ: Mapping[str, str] = os.environ) -> list[Channel]:
    """Return the channels in a file.

    Args:
        path: The TOML file.
        environ: The environment with its secrets.

    Raises:
        InvalidValue: The file cannot be read, or has an invalid setting. The message contains no secret.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidValue(str(path), f"cannot be read: {error}") from None
    try:
        return channels_of(data, environ)
    except InvalidValue as error:
        raise InvalidValue(f"{path}: {error.path}", error.reason) from None


def channels_of(data: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> list[Channel]:
    """Return the channels in parsed TOML. Raises InvalidValue."""
    try:
        described = _File.model_validate(data, context=environ)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidValue(path, first["msg"].removeprefix("Value error, ")) from None
    names = Counter(each.name for each in described.channels)
    for name, count in names.items():
        if count > 1:
            raise InvalidValue("channels", f"{count} channels have the name {name!r}")
    return [each.channel(described.public_url) for each in described.channels]


def _secret(value: object, info: ValidationInfo) -> object:
    """Return the environment variable that a value names. A literal secret is refused."""
    name = _reference(value)
    if name is None:
        raise ValueError(
            "name an environment variable such as '$SLACK_TOKEN'; the file must not contain secrets"
        )
    return _found(name, info)


def _referable(value: object, info: ValidationInfo) -> object:
    name = _reference(value)
    return value if name is None else _found(name, info)


def _reference(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    for prefix in ("env:", "$"):
        if value.startswith(prefix):
            return value.removeprefix(prefix)
    return None


def _found(name: str, info: ValidationInfo) -> str:
    environ: Mapping[str, str] = info.context or {}
    value = environ.get(name, "").strip()
    if not value:
        raise ValueError(f"the environment variable {name} is not set")
    return value


def _url(value: str) -> str:
    server_url(value)
    return value


def _event(value: str) -> str:
    if value not in _EVERYTHING:
        raise ValueError(f"{value!r} is not an event; the events are {', '.join(_EVERYTHING)}")
    return value


Secret = Annotated[str, BeforeValidator(_secret)]
Referable = Annotated[str, BeforeValidator(_referable)]
Url = Annotated[str, AfterValidator(_url)]
Event = Annotated[str, AfterValidator(_event)]
Assignee = Annotated[str, AfterValidator(lambda name: check_assignee("assignee", name))]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Retry(_Part):
    first_seconds: Seconds = 5.0
    max_seconds: Seconds = 3600.0
    give_up_seconds: Seconds = 3 * 24 * 3600.0
    max_attempts: int | None = Field(default=None, ge=1)


class _Channel(_Part):
    name: str = Field(pattern=_NAME)
    events: list[Event] | None = Field(default=None, min_length=1)
    assignees: list[Assignee] = Field(default_factory=list[str])
    public_url: Url | None = None
    timeout_seconds: Seconds = 15.0
    concurrency: int = Field(default=4, ge=1, le=100)
    retry: _Retry = Field(default_factory=_Retry)
    begin: Literal["now", "open"] = "now"

    def channel(self, public_url: str | None) -> Channel:
        """Return the channel. Raises InvalidValue."""
        try:
            sender = self.sender()
        except ModuleNotFoundError as missing:
            raise InvalidValue(
                self.name, f"needs {missing.name}: pip install 'signoff[notifications,apprise]'"
            ) from None
        try:
            return Channel(
                self.name,
                sender,
                events=frozenset(CALLS if self.events is None else map(AuditKind, self.events)),
                assignees=frozenset(self.assignees),
                recipients=self.people,
                to=tuple(self.everything_to),
                retry=Retry(**self.retry.model_dump()),
                concurrency=self.concurrency,
                timeout_seconds=self.timeout_seconds,
                public_url=self.public_url or public_url,
                begin=self.begin,
                **self.links,
            )
        except InvalidValue as error:
            raise InvalidValue(f"{self.name}.{error.path}", error.reason) from None

    @property
    def people(self) -> dict[str, str]:
        """Addresses of assignees."""
        return {}

    @property
    def everything_to(self) -> list[str]:
        """Addresses that receive every notice."""
        return []

    @property
    def links(self) -> dict[str, Any]:
        """Settings of answer links."""
        return {}

    def sender(self) -> Sender:
        """Return the sender. Raises InvalidValue, ModuleNotFoundError."""
        raise NotImplementedError


class _Addressed(_Channel):
    recipients: dict[Assignee, str] = Field(default_factory=dict[str, str])
    to: list[str] = Field(default_factory=list[str])

    @property
    def people(self) -> dict[str, str]:
        return self.recipients

    @property
    def everything_to(self) -> list[str]:
        return self.to


class _Webhook(_Channel):
    kind: Literal["webhook"]
    url: Annotated[Url, BeforeValidator(_referable)]
    secrets: list[Secret] = Field(min_length=1, max_length=10)
    events: list[Event] | None = Field(default=_EVERYTHING, min_length=1)

    def sender(self) -> Sender:
        from signoff.people.notifications.channels.webhook import WebhookSender

        return WebhookSender(self.url, self.secrets)


class _Mail(_Addressed):
    kind: Literal["email"]
    host: str = Field(min_length=1)
    port: int | None = Field(default=None, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: Referable | None = None
    password: Secret | None = None
    ca_file: str | None = Field(default=None, min_length=1)
    sender_address: str = Field(alias="from")
    answer_links: bool = False
    answer_link_seconds: Seconds = LIFETIME_SECONDS

    @property
    def links(self) -> dict[str, Any]:
        return {"answer_links": self.answer_links, "answer_link_seconds": self.answer_link_seconds}

    def sender(self) -> Sender:
        from signoff.people.notifications.channels.mail import MailSender, MailServer, check_address

        for address in (*self.to, *self.recipients.values()):
            check_address(f"{self.name}.recipients", address)
        ca_file = None if self.ca_file is None else Path(self.ca_file)
        server = MailServer(self.host, self.port, self.security, self.username, self.password, ca_file)
        return MailSender(server, self.sender_address)


class _SlackUser(_Part):
    user: str
    groups: list[str] = Field(default_factory=list[str])
    roles: list[str] = Field(default_factory=list[str])


class _Slack(_Addressed):
    kind: Literal["slack"]
    webhook_url: Annotated[Url, BeforeValidator(_secret)] | None = None
    token: Secret | None = None
    api_url: Url = "https://slack.com/api"
    signing_secret: Secret | None = None
    users: dict[str, _SlackUser] = Field(default_factory=dict[str, _SlackUser])
    team: str | None = Field(default=None, pattern="^[TE][A-Z0-9]+$", max_length=64)

    def sender(self) -> Sender:
        from signoff.people.notifications.channels.slack import Answering, SlackSender

        if self.webhook_url is None and not (self.to or self.recipients):
            raise InvalidValue(self.name, "has no recipients: set 'to' or 'recipients'")
        if self.webhook_url is not None and (self.to or self.recipients):
            raise InvalidValue(
                self.name, "a webhook_url posts to one place; 'to' and 'recipients' need a token"
            )
        users = {
            id: Responder(each.user, frozenset(each.groups), frozenset(each.roles))
            for id, each in self.users.items()
        }
        answering = None if self.signing_secret is None else Answering(self.signing_secret, users, self.team)
        if answering is None and (users or self.team):
            raise InvalidValue(self.name, "'users' and 'team' need a signing_secret")
        return SlackSender(
            webhook_url=self.webhook_url, token=self.token, answering=answering, api_url=self.api_url
        )


class _Apprise(_Channel):
    kind: Literal["apprise"]
    url: Referable

    def sender(self) -> Sender:
        from signoff.people.notifications.channels.apprise import AppriseSender

        return AppriseSender(self.url)


class _File(_Part):
    public_url: Url | None = None
    channels: list[Annotated[_Webhook | _Mail | _Slack | _Apprise, Field(discriminator="kind")]] = Field(
        default_factory=list[Any]
    )
