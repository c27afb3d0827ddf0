"""The API's description, as a program reads it."""

from __future__ import annotations

import functools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from signoff.server import TrustedProxy, create_server_app
from signoff.stores.sqlite.store import SqliteStore
from tests.postgres.folder import in_memory, locked, of_this_run

Operation = tuple[str, str, dict[str, Any]]


@functools.cache  # it takes a second, and several modules ask for it
def description(proxy: TrustedProxy | None = None) -> dict[str, Any]:
    """The OpenAPI document of a server. It is not changed. The processes of xdist make one together."""
    if proxy is not None or "PYTEST_XDIST_WORKER" not in os.environ:
        return _describe(proxy)
    made = of_this_run(in_memory()).path / "openapi.json"
    with locked(made.with_suffix(".lock")):
        if not made.exists():
            made.write_text(json.dumps(_describe(None)))
        return json.loads(made.read_text())


def _describe(proxy: TrustedProxy | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return create_server_app(SqliteStore(Path(folder) / "signoff.db"), proxy=proxy).openapi()


def operations(described: dict[str, Any]) -> Iterator[Operation]:
    """Each operation: its method, its path, and what is said of it."""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def examples(content: dict[str, Any]) -> list[Any]:
    """The examples of a body or of a reply."""
    named = [example["value"] for example in content.get("examples", {}).values()]
    return [content["example"], *named] if "example" in content else named


def bodies(described: dict[str, Any], operation: dict[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    """The schema of what an operation takes, and its examples."""
    [content] = operation["requestBody"]["content"].values()
    schema = content["schema"]
    for option in schema.get("anyOf", [schema]):
        if "$ref" in option:
            name = option["$ref"].rpartition("/")[2]
            return [
                (option, example) for example in described["components"]["schemas"][name].get("examples", ())
            ]
    return []
