"""Who answers: a person, with the groups and roles that they are known to have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from signoff.errors import InvalidValue
from signoff.records.names import check_assignee, check_part, check_user, user_name

SERVICE: Final = "service:"
"""How the names of services begin. No person is called so."""


@dataclass(frozen=True, slots=True)
class Responder:
    """A person who wants to answer; whoever vouches for them says what they are.

    Attributes:
        user_id: Who they are; None if nobody has said so.
        groups: The groups they are in, without ``group:``.
        roles: The roles they have, without ``role:``.

    Raises:
        InvalidValue: A name is none.
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
        """Make one of what a caller says. Raises InvalidValue, also for one name instead of a list."""
        return cls(user_id, frozenset(_listed("groups", groups)), frozenset(_listed("roles", roles)))

    @property
    def user(self) -> str | None:
        """Who they are as an assignee is written: ``user:ana``."""
        return None if self.user_id is None else user_name(self.user_id)

    @property
    def names(self) -> frozenset[str]:
        """Every assignee that they are."""
        user = self.user
        return frozenset(
            [
                *(() if user is None else (user,)),
                *(f"group:{group}" for group in self.groups),
                *(f"role:{role}" for role in self.roles),
            ]
        )


def check_names(path: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return assignees without repetitions.

    Raises:
        InvalidValue: One is not written as ``user:...``, ``group:...`` or ``role:...``.
    """
    return tuple(dict.fromkeys(check_assignee(path, name) for name in _listed(path, names)))


def _listed(path: str, names: Iterable[str]) -> Iterable[str]:
    """Return names unless they are one text, of which each letter would be a name. Raises InvalidValue."""
    if isinstance(names, str):
        raise InvalidValue(path, f"pass a list of names, such as [{names!r}]")
    if not isinstance(cast("object", names), Iterable):
        raise InvalidValue(path, f"expected a list of names, not {names!r}")
    return names
