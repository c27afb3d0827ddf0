"""Slack's limits, from its reference of blocks and of ``chat.postMessage``.

The lengths are of characters as Slack counts them: UTF-16 code units, with ``&``, ``<`` and ``>`` escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MOST: dict[tuple[str, str], int] = {
    ("message", "text"): 40_000,
    ("message", "blocks"): 50,
    ("modal", "blocks"): 100,
    ("modal", "title"): 24,
    ("modal", "submit"): 24,
    ("modal", "close"): 24,
    ("modal", "private_metadata"): 3_000,
    ("modal", "callback_id"): 255,
    ("header", "text"): 150,
    ("section", "text"): 3_000,
    ("section", "fields"): 10,
    ("context", "elements"): 10,
    ("actions", "elements"): 25,
    ("input", "label"): 2_000,
    ("input", "hint"): 2_000,
    ("button", "text"): 75,
    ("button", "value"): 2_000,
    ("button", "url"): 3_000,
    ("button", "accessibility_label"): 75,
    ("static_select", "options"): 100,
    ("static_select", "option_groups"): 100,
    ("static_select", "placeholder"): 150,
    ("multi_static_select", "options"): 100,
    ("multi_static_select", "placeholder"): 150,
    ("radio_buttons", "options"): 10,
    ("checkboxes", "options"): 10,
    ("plain_text_input", "placeholder"): 150,
    ("plain_text_input", "initial_value"): 3_000,
    ("email_text_input", "initial_value"): 3_000,
    ("url_text_input", "initial_value"): 3_000,
    ("number_input", "initial_value"): 3_000,
    ("option_group", "label"): 75,
    ("option_group", "options"): 100,
    ("option", "text"): 75,
    ("option", "value"): 150,
    ("option", "description"): 75,
    ("confirm", "title"): 100,
    ("confirm", "text"): 300,
    ("confirm", "confirm"): 30,
    ("confirm", "deny"): 30,
}
"""How many characters a text may have, or how many items a list, by the kind of what it is in."""

EVERYWHERE: dict[str, int] = {"block_id": 255, "action_id": 255}

KINDS = {kind for kind, _ in MOST} | {"plain_text", "divider", "datepicker"}

PLACES = {
    "options": "option",
    "initial_option": "option",
    "initial_options": "option",
    "option_groups": "option_group",
    "confirm": "confirm",
}
"""Kinds of parts that name no type, by their place."""

MOST_OF_ALL_BLOCKS = 12_000
"""Slack documents none; it answers ``msg_blocks_too_long`` from some 13,000 on."""


def counted(text: str) -> int:
    """Return the length of a text as Slack counts."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return len(escaped.encode("utf-16-le", "surrogatepass")) // 2


def broken_limits(message: dict[str, Any]) -> list[str]:
    """Return what Slack would refuse in a message, or in a modal, one line each."""
    whole = "modal" if message.get("type") == "modal" else "message"
    found = list(_broken(message, whole, whole))
    size = sum(counted(text) for text in _texts(message.get("blocks", [])))
    if size > MOST_OF_ALL_BLOCKS:
        found.append(f"{whole}: {size} characters in all blocks, of {MOST_OF_ALL_BLOCKS}")
    return found


def _broken(part: dict[str, Any], kind: str, path: str) -> Iterator[str]:
    if kind not in KINDS:
        yield f"{path}: {kind} is in no table"
    if kind == "actions" and not part.get("elements"):
        yield f"{path}: has no elements"
    for name, value in part.items():
        where = f"{path}.{name}"
        most = EVERYWHERE.get(name) or MOST.get((kind, name))
        size = _size(value)
        if most is not None and size is not None and not 1 <= size <= most:
            yield f"{where}: {size}, of 1 to {most}"
        if isinstance(value, dict) and value.get("type") == "plain_text" and not value["text"].strip():
            yield f"{where}: is blank"
        yield from _inside(name, value, where)


def _inside(name: str, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        ids = [each.get("block_id") or each.get("action_id") for each in value if isinstance(each, dict)]
        given = [each for each in ids if each is not None]
        if len(set(given)) < len(given):
            yield f"{path}: two have one id"
        for index, each in enumerate(value):
            yield from _inside(name, each, f"{path}[{index}]")
    elif isinstance(value, dict):
        kind = PLACES.get(name) or value.get("type", "?")
        yield from _broken(value, kind, path)


def _size(value: Any) -> int | None:
    if isinstance(value, dict) and value.get("type") == "plain_text":
        return counted(value["text"])
    if isinstance(value, str):
        return counted(value)
    return len(value) if isinstance(value, list) else None


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from _texts(each)
    elif isinstance(part, dict):
        if part.get("type") == "plain_text":
            yield part["text"]
        else:
            for each in part.values():
                yield from _texts(each)
