"""How many runs of a workflow may run at once, in all or for each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from signoff import codec
from signoff.errors import InvalidValue

LONGEST_KEY = 256

_CONCURRENCY = "__signoff_concurrency__"

Slot = tuple[str, int] | tuple[None, None]
"""A run's concurrency key and limit."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """At most ``limit`` runs of a workflow in one group run at once; with a ``key``, at most so many of each key.

    Args:
        limit: How many. A paused run does not count.
        key: Makes the key of a run from the arguments of the workflow, without the context; by default there is one
            key for all. It returns a text, and always the same one for the same arguments.

    Raises:
        InvalidValue: The limit is not above 0.

    Example::

        @app.workflow(concurrency=Concurrency(1, key=lambda order: order.customer))
        async def ship(ctx: Context, order: Order) -> None: ...
    """

    limit: int
    key: Callable[..., str] | None = None

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InvalidValue("concurrency.limit", f"{self.limit} lets nothing run")

    def slot(self, function: Callable[..., Any], arguments: str) -> tuple[str, int]:
        """Return the key and the limit of a run of ``function`` with these arguments (JSON).

        Raises:
            InvalidValue: The key cannot be made, or is no text of at most 256 characters.
        """
        if self.key is None:
            return "", self.limit
        args, kwargs = codec.decode_arguments(arguments, function)
        try:
            key = self.key(*args, **kwargs)
        except Exception as error:
            raise InvalidValue(
                "concurrency.key", f"it cannot be made of these arguments: {type(error).__name__}: {error}"
            ) from error
        return check_key(key), self.limit


def declare(function: Callable[..., Any], concurrency: Concurrency) -> None:
    """Note on a workflow's function how many of its runs may run at once."""
    setattr(function, _CONCURRENCY, concurrency)


def slot_of(function: Callable[..., Any] | None, arguments: str) -> Slot:
    """Return the slot that a run with these arguments needs; none if its code is not known or not limited."""
    concurrency: Concurrency | None = getattr(function, _CONCURRENCY, None)
    if function is None or concurrency is None:
        return None, None
    return concurrency.slot(function, arguments)


def named_slot(key: str | None, limit: int | None) -> Slot | None:
    """Return the slot that a caller names; None: they leave it to the workflow.

    Raises:
        InvalidValue: There is a key without a limit, or the other way round, or the key cannot be one.
    """
    if key is None and limit is None:
        return None
    if key is None or limit is None:
        raise InvalidValue("concurrency_key", "give it together with concurrency_limit, or neither")
    return check_key(key, "concurrency_key"), limit


def check_key(key: object, path: str = "concurrency.key") -> str:
    """Return a concurrency key if it can be one. Raises InvalidValue."""
    if not isinstance(key, str) or len(key) > LONGEST_KEY or not key.strip():
        raise InvalidValue(path, f"{key!r} is no text of 1 to {LONGEST_KEY} characters")
    return key
