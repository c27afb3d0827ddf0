"""The decorator of record classes of which many objects are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a dataclass with slots that only the type checker treats as frozen.

    Freezing at run time would triple the cost of construction, and one step constructs four such objects.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
