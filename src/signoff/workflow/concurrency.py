"""Limits on how many runs of a workflow execute at once, in total or by key."""

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
    """A limit on the runs of a workflow that execute at once in one group, in total or for each ``key``.

    Args:
        limit: The maximum number of runs. A paused run does not count.
        key: Computes the key from the workflow's arguments, without the context. It must return the same text for the
            same arguments. By default all runs share one key.

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
            raise InvalidValue("concurrency.limit", f"{self.limit} allows no runs; the limit is at least 1")

    def slot(self, function: Callable[..., Any], arguments: str) -> tuple[str, int]:
        """Return the key and the limit of a run of ``function`` with these arguments (JSON).

        Raises:
            InvalidValue: The key function failed, or did not return a text of 1 to 256 characters.
        """
        if self.key is None:
            return "", self.limit
        args, kwargs = codec.decode_arguments(arguments, function)
        try:
            key = self.key(*args, **kwargs)
        except Exception as error:
            raise InvalidValue(
                "concurrency.key",
                f"the key function failed for these arguments: {type(error).__name__}: {error}",
            ) from error
        return check_key(key), self.limit


def declare(function: Callable[..., Any], concurrency: Concurrency) -> None:
    """Attach a concurrency limit to a workflow's function."""
    setattr(function, _CONCURRENCY, concurrency)


def slot_of(function: Callable[..., Any] | None, arguments: str) -> Slot:
    """Return the slot for a run with these arguments; empty if the code is unknown here or not limited."""
    concurrency: Concurrency | None = getattr(function, _CONCURRENCY, None)
    if function is None or concurrency is None:
        return None, None
    return concurrency.slot(function, arguments)


def named_slot(key: str | None, limit: int | None) -> Slot | None:
    """Return the slot that a caller chose, or None to use the workflow's own.

    Raises:
        InvalidValue: Only one of the two is given, or the key is not valid.
    """
    if key is None and limit is None:
        return None
    if key is None or limit is None:
        raise InvalidValue("concurrency_key", "give it together with concurrency_limit, or neither")
    return check_key(key, "concurrency_key"), limit


def check_key(key: object, path: str = "concurrency.key") -> str:
    """Return a valid concurrency key.

    Raises:
        InvalidValue: It is not a text of 1 to 256 characters.
    """
    if not isinstance(key, str) or len(key) > LONGEST_KEY or not key.strip():
        raise InvalidValue(path, f"{key!r} is not a text of 1 to {LONGEST_KEY} characters")
    return key
