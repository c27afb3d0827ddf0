"""Edits of a value: JSON Patch operations (RFC 6902) with the old values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, Literal, NotRequired, cast

from typing_extensions import TypedDict

from signoff.codec import MAX_BYTES
from signoff.errors import PayloadTooLarge

LONGEST: Final = 10_000
"""Longest JSON text of a value that an edit repeats, in characters. The whole value is stored anyway."""


class Edit(TypedDict):
    """One change of a value. Edits apply in order, like the operations of a JSON Patch.

    Attributes:
        op: ``add``, ``remove`` or ``replace``.
        path: JSON Pointer (RFC 6901) such as ``/lines/0/amount``; ``""`` is the whole value.
        value: The new value, unless it was removed. Left out if longer than ``LONGEST``.
        old: The old value, unless it was added. Likewise.
    """

    op: Literal["add", "remove", "replace"]
    path: str
    value: NotRequired[Any]
    old: NotRequired[Any]


def edits_between(old: Any, new: Any) -> list[Edit]:
    """Return the difference between two plain JSON values.

    Args:
        old: The old value.
        new: The new value.

    Returns:
        The edits that turn ``old`` into ``new``; empty if they are equal. Items in the middle of a list are compared by
        position.

    Raises:
        PayloadTooLarge: They are longer than a value may be.

    Example::

        edits_between({"amount": 7}, {"amount": 5}) == [
            {"op": "replace", "path": "/amount", "value": 5, "old": 7}
        ]
    """
    edits: list[Edit] = []
    size = 0
    for each in _edits(old, new, None):
        edit = _without_long(each)
        size += len(json.dumps(edit, ensure_ascii=False))
        if size > MAX_BYTES:  # each takes some ten times its length in memory
            raise PayloadTooLarge("value", size, MAX_BYTES)
        edits.append(edit)
    return edits


def applied(value: Any, edits: Iterable[Mapping[str, Any]]) -> Any:
    """Return a value with edits applied.

    Args:
        value: Plain JSON data.
        edits: Edits from ``all_edits``, or some of them as JSON.
    """
    made = {"": deepcopy(value)}
    for each in edits:
        *parents, last = [
            "",
            *(part.replace("~1", "/").replace("~0", "~") for part in each["path"].split("/")[1:]),
        ]
        target: Any = made
        for part in parents:
            target = target[int(part) if isinstance(target, list) else part]
        if not isinstance(target, list):
            if each["op"] == "remove":
                del target[last]
            else:
                target[last] = each["value"]
        elif each["op"] == "add":
            cast("list[Any]", target).insert(int(last), each["value"])
        elif each["op"] == "remove":
            del target[int(last)]
        else:
            target[int(last)] = each["value"]
    return made[""]


def all_edits(old: Any, new: Any) -> list[Edit]:
    """Return the edits that turn ``old`` into ``new``, with all values."""
    return list(_edits(old, new, None))


def _without_long(edit: Edit) -> Edit:
    return cast(
        "Edit", {name: part for name, part in edit.items() if name in ("op", "path") or not _is_long(part)}
    )


def _is_long(part: object) -> bool:
    if isinstance(part, str):
        return len(part) > LONGEST
    return isinstance(part, dict | list) and len(json.dumps(part)) > LONGEST


def _edits(old: Any, new: Any, place: _Place | None) -> Iterator[Edit]:
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _of_objects(cast("dict[str, Any]", old), cast("dict[str, Any]", new), place)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(cast("list[Any]", old), cast("list[Any]", new), place)
    elif not is_same(old, new):
        yield {"op": "replace", "path": _path(place), "value": new, "old": old}


def _of_objects(old: dict[str, Any], new: dict[str, Any], place: _Place | None) -> Iterator[Edit]:
    for name, item in old.items():
        if name in new:
            yield from _edits(item, new[name], (place, name))
        else:
            yield {"op": "remove", "path": _path((place, name)), "old": item}
    for name, item in new.items():
        if name not in old:
            yield {"op": "add", "path": _path((place, name)), "value": item}


def _of_lists(old: list[Any], new: list[Any], place: _Place | None) -> Iterator[Edit]:
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and is_same(old[head], new[head]):
        head += 1
    tail = 0
    while tail < shorter - head and is_same(old[-1 - tail], new[-1 - tail]):
        tail += 1
    both = shorter - tail
    for index in range(head, both):
        yield from _edits(old[index], new[index], (place, index))
    for index in range(both, len(new) - tail):
        yield {"op": "add", "path": _path((place, index)), "value": new[index]}
    for index in reversed(range(both, len(old) - tail)):
        yield {"op": "remove", "path": _path((place, index)), "old": old[index]}


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is 1.0, and true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        one, other = cast("list[Any]", one), cast("list[Any]", other)
        return len(one) == len(other) and all(map(is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def rows_from(old: list[Any], edit: list[Any]) -> list[int | None]:
    """Return for each row of an edited list its index in the old list; None for a new row.

    Equal rows are found at any index. A changed row is recognized only at its old index.
    """
    found: list[int | None] = [
        n if n < len(old) and is_same(old[n], row) else None for n, row in enumerate(edit)
    ]
    known = set(found)
    rest = [n for n in range(len(old)) if n not in known]
    for place, row in enumerate(edit):
        if (
            found[place] is None
            and (moved := next((n for n in rest if is_same(old[n], row)), None)) is not None
        ):
            found[place] = moved
            rest.remove(moved)
    if len(edit) == len(old):
        for place in range(len(edit)):
            if found[place] is None and place in rest:
                found[place] = place
    return found


def is_kept(old: Any, edit: Any, new: Any) -> bool:
    """Whether the parsed edit keeps the parts that the user did not touch, and adds nothing that the user has not seen.

    A field that the edit leaves out may come out as it was shown. Any other value of it, such as the default of another
    kind of object, was not seen. If fields of the edit are missing from the result, the type has converted it and names
    the rest differently.

    Args:
        old: The value as shown.
        edit: The user's edit of it.
        new: The value parsed from the edit.
    """
    if is_same(old, edit):
        return is_same(old, new)
    if isinstance(old, list) and isinstance(edit, list):
        before_rows, after_rows = cast("list[Any]", old), cast("list[Any]", edit)
        rows = cast("list[Any]", new) if isinstance(new, list) else []
        if len(rows) != len(after_rows):
            return False
        if rows_from(before_rows, after_rows) != list(
            range(len(before_rows))
        ):  # rows were added, removed or moved
            return is_same(edit, new)
        return all(map(is_kept, before_rows, after_rows, rows))
    if isinstance(edit, list) and isinstance(new, list):
        pairs = zip(cast("list[Any]", edit), cast("list[Any]", new), strict=False)
        return all(is_kept(None, after, made) for after, made in pairs)
    if isinstance(edit, dict) and isinstance(new, dict):
        before = cast("dict[str, Any]", old) if isinstance(old, dict) else {}
        return _are_kept(before, cast("dict[str, Any]", edit), cast("dict[str, Any]", new))
    return True


def _are_kept(before: dict[str, Any], after: dict[str, Any], made: dict[str, Any]) -> bool:
    for name in after.keys() & before.keys():
        if name not in made or not is_kept(before[name], after[name], made[name]):
            return False
    for name in (after.keys() & made.keys()) - before.keys():
        if not is_kept(None, after[name], made[name]):
            return False
    if not after.keys() <= made.keys():
        return True
    return all(name in before and is_same(before[name], made[name]) for name in made.keys() - after.keys())


_Place = tuple["_Place | None", str | int]
"""A place in a value: the place of its parent, None for the whole value, and its key or index."""


def _path(place: _Place | None) -> str:
    """Return a place as a JSON Pointer. It may be long, so only edits have it."""
    parts: list[str] = []
    while place is not None:
        place, key = place
        parts.append(str(key).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{part}" for part in reversed(parts))
