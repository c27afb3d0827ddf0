"""Checks values against the API's description."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema_rs

from tests.server.described import description
from tests.server.proxied import PROXY

LAPTOP = description()


BEHIND_PROXY = description(PROXY)


def check(described: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    """Raise ValidationError unless a value is what a schema of the description says."""
    assert described is LAPTOP or described is BEHIND_PROXY
    _validator(described is LAPTOP, json.dumps(schema)).validate(value)


@functools.cache
def _validator(is_laptop: bool, schema: str) -> jsonschema_rs.Draft202012Validator:
    """Made once for each schema: the same few problems are replies of every operation."""
    components = (LAPTOP if is_laptop else BEHIND_PROXY)["components"]
    return jsonschema_rs.Draft202012Validator({**json.loads(schema), "components": components})
