"""The repository's Dockerfile and compose.yaml, read as Docker reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


@dataclass
class Stage:
    """One stage of a Dockerfile: its instructions in order, as (word, rest)."""

    name: str
    parent: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def last(self, word: str) -> str | None:
        return next((rest for found, rest in reversed(self.instructions) if found == word), None)


def stages() -> dict[str, Stage]:
    """The Dockerfile's stages by name, in order."""
    found: dict[str, Stage] = {}
    current: Stage | None = None
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            parent, _, name = rest.partition(" AS ")
            current = found[name] = Stage(name, parent)
        else:
            assert current is not None
            current.instructions.append((word, rest))
    return found


def inherited(name: str, word: str) -> str | None:
    """What a stage, or the nearest one that it comes from, says with a word."""
    known = stages()
    while name in known:
        if (rest := known[name].last(word)) is not None:
            return rest
        name = known[name].parent
    return None


def healthcheck(stage: str) -> list[str] | None:
    """The command of a stage's HEALTHCHECK; None if it has none."""
    rest = inherited(stage, "HEALTHCHECK")
    return None if rest is None or rest == "NONE" else json.loads(rest[rest.index("CMD") + 3 :])


def compose(variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """compose.yaml with its variables filled in: those given, else their defaults."""
    given = variables or {}

    def fill(match: re.Match[str]) -> str:
        assert match[2] is not None, f"{match[0]} has no default for a laptop"
        return given.get(match[1], match[2])

    text = re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", fill, (ROOT / "compose.yaml").read_text())
    return yaml.safe_load(text)


def seconds(duration: str) -> float:
    """Read a duration such as ``30s``."""
    match = re.fullmatch(r"(\d+)(s|m)", duration)
    assert match is not None, duration
    return int(match[1]) * {"s": 1, "m": 60}[match[2]]
