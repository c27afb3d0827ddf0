"""Paths to hidden values, and the search for them: all paths at once, visiting each value once.

A path is a JSONPath (RFC 9535) that begins at ``$``, the payload. Without ``$`` it begins anywhere in the payload, and
passes through lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json

from signoff.errors import InvalidValue
from signoff.redaction.hidden_values import PLACEHOLDER, Hidden, Pointer, json_in, marker, pointer_to

if TYPE_CHECKING:
    from jsonpath_rfc9535.segments import JSONPathSegment

__all__ = ["PLACEHOLDER", "Hidden", "Place", "Pointer", "marker", "pointer_to", "start_of"]

_Reached = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a path.

    Attributes:
        keys: The names and indexes that match; None: any.
        is_deep: Whether they match at any depth.
    """

    keys: frozenset[str | int] | None
    is_deep: bool


@dataclass(frozen=True, slots=True)
class _Path:
    """A parsed path.

    Attributes:
        steps: Its steps.
        passes_lists: Whether it passes through lists without a step for them.
    """

    steps: tuple[_Step, ...]
    passes_lists: bool


@dataclass(frozen=True, slots=True)
class _Paths:
    """All paths, and the names and indexes in them."""

    each: tuple[_Path, ...]
    keys: frozenset[str | int]


class Place:
    """A state of the walk through a payload: how many steps of each path match so far.

    Args:
        paths: All paths.
        reached: Pairs of a path's index and the number of its matched steps.
        known: All places of these paths so far, to be reused.
    """

    def __init__(self, paths: _Paths, reached: _Reached, known: dict[_Reached, Place]) -> None:
        self._paths = paths
        self._reached = reached
        self._known = known
        self._under: dict[str | int | type, Place] = {}
        self.is_hidden = any(count == len(paths.each[index].steps) for index, count in reached)
        """Whether the value here is hidden."""
        self.is_empty = not reached
        """Whether no value below is hidden."""

    def under(self, key: str | int) -> Place:
        """Return the place of a field or an item of the value here."""
        found = self._under.get(key)
        if found is not None:
            return found
        kind = key if key in self._paths.keys else type(key)  # keys that no path names share one place
        found = self._under.get(kind)
        if found is None:
            found = self._under[kind] = self._of(frozenset(self._following(key)))
        return found

    def under_any(self) -> Place:
        """Return the place of a field of unknown name: the union over all names."""
        names = (name for name in self._paths.keys if isinstance(name, str))
        return self.under("").joined(*(self.under(name) for name in names))

    def joined(self, *others: Place) -> Place:
        """Return the union of this place and others."""
        return self._of(self._reached.union(*(other._reached for other in others)))

    def _of(self, reached: _Reached) -> Place:
        found = self._known.get(reached)
        if found is None:
            found = self._known[reached] = Place(self._paths, reached, self._known)
        return found

    def _following(self, key: str | int) -> Iterator[tuple[int, int]]:
        for index, count in self._reached:
            path = self._paths.each[index]
            if count == len(path.steps):
                continue
            step = path.steps[count]
            if step.is_deep or (path.passes_lists and isinstance(key, int)):
                yield index, count
            if step.keys is None or key in step.keys:
                yield index, count + 1

    def shown(self, value: Any, hidden: Hidden, where: Pointer | None = None) -> Any:
        """Return a value with placeholders for hidden values; the same object if there are none.

        Args:
            value: Plain data.
            hidden: Collects the hidden values.
            where: Its place in an editable part, which the placeholder then names; None elsewhere.
        """
        if self.is_hidden:
            return hidden.note(value, where)
        if self.is_empty:
            return value
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return self._with_shown(fields, fields.items(), hidden, where)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return self._with_shown(items, enumerate(items), hidden, where)
        if isinstance(value, str):
            inner = json_in(value)  # models send arguments as JSON text
            shown = self.shown(inner, hidden) if inner is not None else None
            return value if shown is inner else to_json(shown).decode()
        return value

    def _with_shown(
        self, whole: Any, parts: Iterable[tuple[str | int, Any]], hidden: Hidden, where: Pointer | None
    ) -> Any:
        """Return a dict or a list with redacted parts; the same object if no part changes."""
        changed: dict[Any, Any] = {}
        for key, part in parts:
            place = self.under(key)
            if place.is_hidden or isinstance(part, dict | list | str):  # only these have parts
                new = place.shown(part, hidden, None if where is None else (*where, key))
                if new is not part:
                    changed[key] = new
        if not changed:
            return whole
        made = whole.copy()
        for key, new in changed.items():
            made[key] = new
        return made

    def at(self, pointer: str) -> Place | None:
        """Return the place of a JSON Pointer relative to this one; None if it is or passes a hidden value."""
        place = self
        for part in pointer.split("/")[1:]:
            if place.is_hidden:
                return None
            key = part.replace("~1", "/").replace("~0", "~")
            place = place.under(int(key)).joined(place.under(key)) if key.isdecimal() else place.under(key)
        return None if place.is_hidden else place


def start_of(paths: Iterable[str]) -> Place:
    """Return the root place of payloads. Raises InvalidValue for a malformed path."""
    read = tuple(_read(path) for path in paths)
    keys = frozenset(key for path in read for step in path.steps for key in step.keys or ())
    return Place(_Paths(read, keys), frozenset((index, 0) for index in range(len(read))), {})


def _read(path: str) -> _Path:
    from jsonpath_rfc9535 import JSONPathError, compile  # imported only if there are paths

    is_whole = path.startswith("$")
    text = path.strip() if is_whole else path.strip().replace("**.", ".").lstrip(".")
    try:
        query = compile(text if is_whole else f"$..{text}")
    except (JSONPathError, RecursionError) as error:
        reason = str(error).partition(", line 1,")[0]
        hint = "; write a name with other characters than letters, digits and _ as ['so-so']"
        raise InvalidValue("redact", f"{path!r} is not a valid path: {reason}{hint}") from None
    if not query.segments:
        raise InvalidValue(
            "redact", f"{path!r} selects whole payloads; write '$.*' to hide everything in them"
        )
    steps = tuple(_step(path, segment) for segment in query.segments)
    return _Path(steps, passes_lists=not is_whole)


def _step(path: str, segment: JSONPathSegment) -> _Step:
    from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment
    from jsonpath_rfc9535.selectors import IndexSelector, NameSelector, WildcardSelector

    keys: set[str | int] = set()
    is_any = False
    for selector in segment.selectors:
        match selector:
            case NameSelector(name=name):
                keys.add(name)
            case IndexSelector(index=index) if index >= 0:
                keys.add(index)
            case WildcardSelector():
                is_any = True
            case _:
                raise InvalidValue(
                    "redact",
                    f"{path!r} has {selector}: only names, indexes of 0 or more, and * are supported",
                )
    return _Step(None if is_any else frozenset(keys), isinstance(segment, JSONPathRecursiveDescentSegment))
