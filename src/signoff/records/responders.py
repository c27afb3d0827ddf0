"""Responders: users who answer questions, with their groups and roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from signoff.errors import InvalidValue
from signoff.records.names import check_assignee, check_part, check_user, user_name

SERVICE: Final = "service:"
"""Prefix of the names of services. No user name has it."""


@dataclass(frozen=True, slots=True)
class Responder:
    """A user who answers, with groups and roles as stated by the authenticated caller.

    Attributes:
        user_id: The user; None if unknown.
        groups: Their groups, without ``group:``.
        roles: Their roles, without ``role:``.

    Raises:
        InvalidValue: A name is not valid.
    """

    user_id: str | None = None
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.user_id is not None:
            check_user("user_id", self.user_id)
        for path, names in (("groups", self.groups), ("roles", self.roles)):
            for name in names:
                check_part(path, name)

    @classmethod
    def of(cls, user_id: str | None, groups: Iterable[str], roles: Iterable[str]) -> Responder:
        """Make one from the arguments of a call. Raises InvalidValue, also for a single name instead of a list."""
        return cls(user_id, frozenset(_check_list("groups", groups)), frozenset(_check_list("roles", roles)))

    @property
    def user(self) -> str | None:
        """The user as an assignee: ``user:ana``."""
        return None if self.user_id is None else user_name(self.user_id)

    @property
    def names(self) -> frozenset[str]:
        """All assignees that the user stands for: the user, the groups and the roles."""
        user = self.user
        return frozenset(
            [
                *(() if user is None else (user,)),
                *(f"group:{group}" for group in self.groups),
                *(f"role:{role}" for role in self.roles),
            ]
        )


def check_names(path: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return assignees without duplicates.

    Raises:
        InvalidValue: One is not written as ``user:...``, ``group:...`` or ``role:...``.
    """
    return tuple(dict.fromkeys(check_assignee(path, name) for name in _check_list(path, names)))


def _check_list(path: str, names: Iterable[str]) -> Iterable[str]:
    """Return names; those of a set sorted, since its order differs between processes.

    Raises:
        InvalidValue: They are a string, each letter of which would become a name, or not iterable.
    """
    if isinstance(names, str):
        raise InvalidValue(path, f"pass a list of names, such as [{names!r}]")
    if not isinstance(cast("object", names), Iterable):
        raise InvalidValue(path, f"expected a list of names, not {names!r}")
    return sorted(names, key=str) if isinstance(names, set | frozenset) else names
