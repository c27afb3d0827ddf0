"""Paths to what is hidden, and looking for it: all paths at once, each value once.

A path is a JSONPath (RFC 9535) that begins at ``$``, the payload; or, without ``$``, one that begins anywhere in it and
looks into lists by itself.
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
    """What leads further at one place of a path.

    Attributes:
        keys: The names and numbers that do; None: any.
        is_deep: Whether they may come at any depth.
    """

    keys: frozenset[str | int] | None
    is_deep: bool


@dataclass(frozen=True, slots=True)
class _Path:
    """A path in steps.

    Attributes:
        steps: In their order.
        passes_lists: Whether a list on the way counts as what is in it.
    """

    steps: tuple[_Step, ...]
    passes_lists: bool


@dataclass(frozen=True, slots=True)
class _Paths:
    """All paths, and the names and numbers in them."""

    each: tuple[_Path, ...]
    keys: frozenset[str | int]


class Place:
    """Where a walk through a payload is: how far each path has come there.

    Args:
        paths: All paths.
        reached: Of which path, and of how many of its steps.
        known: All places of these paths that were made so far.
    """

    def __init__(self, paths: _Paths, reached: _Reached, known: dict[_Reached, Place]) -> None:
        self._paths = paths
        self._reached = reached
        self._known = known
        self._under: dict[str | int | type, Place] = {}
        self.is_hidden = any(count == len(paths.each[index].steps) for index, count in reached)
        """Whether what is here is hidden."""
        self.is_empty = not reached
        """Whether nothing is hidden from here on."""

    def under(self, key: str | int) -> Place:
        """Return the place of a field or an item of what is here."""
        found = self._under.get(key)
        if found is not None:
            return found
        kind = key if key in self._paths.keys else type(key)  # what no path names is all the same
        found = self._under.get(kind)
        if found is None:
            found = self._under[kind] = self._of(frozenset(self._following(key)))
        return found

    def under_any(self) -> Place:
        """Return the place of a field whose name nobody knows: of all that it may be at once."""
        names = (name for name in self._paths.keys if isinstance(name, str))
        return self.under("").joined(*(self.under(name) for name in names))

    def joined(self, *others: Place) -> Place:
        """Return a place that is this one and others at once."""
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

    # What is done on the way

    def shown(self, value: Any, hidden: Hidden, where: Pointer | None = None) -> Any:
        """Return a value with what is hidden replaced; the very value if nothing is.

        Args:
            value: Plain data.
            hidden: Notes what was.
            where: Where it is in something that people may edit, so that the placeholder says it; None: it is not.
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
            inner = json_in(value)  # a model sends arguments as text
            shown = self.shown(inner, hidden) if inner is not None else None
            return value if shown is inner else to_json(shown).decode()
        return value

    def _with_shown(
        self, whole: Any, parts: Iterable[tuple[str | int, Any]], hidden: Hidden, where: Pointer | None
    ) -> Any:
        """Return an object or a list with its parts as they are shown; itself if they are as they were."""
        changed: dict[Any, Any] = {}
        for key, part in parts:
            place = self.under(key)
            if place.is_hidden or isinstance(part, dict | list | str):  # nothing is in what is none of these
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
        """Return the place that a JSON Pointer leads to from here; None if it leads through what is hidden."""
        place = self
        for part in pointer.split("/")[1:]:
            if place.is_hidden:
                return None
            key = part.replace("~1", "/").replace("~0", "~")
            place = place.under(int(key)).joined(place.under(key)) if key.isdecimal() else place.under(key)
        return None if place.is_hidden else place


def start_of(paths: Iterable[str]) -> Place:
    """Return where the walk through a payload begins. Raises InvalidValue for a path that is none."""
    read = tuple(_read(path) for path in paths)
    keys = frozenset(key for path in read for step in path.steps for key in step.keys or ())
    return Place(_Paths(read, keys), frozenset((index, 0) for index in range(len(read))), {})


def _read(path: str) -> _Path:
    from jsonpath_rfc9535 import JSONPathError, compile  # whoever hides nothing does not load it

    is_whole = path.startswith("$")
    text = path.strip() if is_whole else path.strip().replace("**.", ".").lstrip(".")
    try:
        query = compile(text if is_whole else f"$..{text}")
    except (JSONPathError, RecursionError) as error:
        reason = str(error).partition(", line 1,")[0]
        hint = "; a name with other characters than letters, digits and _ is written ['so-so']"
        raise InvalidValue("redact", f"{path!r} is no path: {reason}{hint}") from None
    if not query.segments:
        raise InvalidValue("redact", f"{path!r} selects whole payloads; '$.*' is all that is in them")
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
                    f"{path!r} has {selector}: names, numbers from 0 on and * are what is known here",
                )
    return _Step(None if is_any else frozenset(keys), isinstance(segment, JSONPathRecursiveDescentSegment))
