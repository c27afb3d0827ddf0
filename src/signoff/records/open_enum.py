"""An enum that accepts values of newer versions."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class OpenEnum(StrEnum):
    """Enum of strings that newer versions may extend. A string that this version does not know stays as it is."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = unknown._value_ = value
        return unknown
