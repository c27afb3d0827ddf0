"""Rule: a package imports those below it, never those above. See ``docs/architecture.md``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import signoff

LAYERS = [
    "errors",
    "version",
    "runtime",
    "codec",
    "records",
    "wire",
    "observability",
    "stores",
    "engine",
    "redaction",
    "people",
    "workflow",
    "service",
    "client",
    "agents",
    "flows",
    "app",
    "asking",
    "signoff",
    "integrations",
    "server",
    "doctor",
    "testing",
    "cli",
    "__main__",
]

SERVER_LAYERS = [
    ({"http", "limits", "auth"}, {"store_api", "routes", "resonate", "pages", "openapi"}),
    ({"resonate/*.py"}, {"resonate.legacy"}),
]
"""Folders or files of the server, and the packages of the server that they must not import."""

PACKAGE = Path(signoff.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"


def _layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from (f"signoff.{each.name}" if module == "signoff" else module for each in node.names)


def _upward(file: Path) -> list[str]:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    own = _layer(".".join(parts).removesuffix(".__init__"))
    below = LAYERS[: LAYERS.index(own) + 1]
    ours = {name for name in _imports(file) if name == "signoff" or name.startswith("signoff.")}
    layers = {name: _layer(name) for name in ours}
    # ``from signoff import Context`` names no package: it is the public API.
    return [name for name, layer in layers.items() if (layer if layer in LAYERS else "signoff") not in below]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_imports_none_above_it(layer: str) -> None:
    files = [PACKAGE / "__init__.py"] if layer == "signoff" else [*(PACKAGE / layer).rglob("*.py")]
    files = files or [PACKAGE / f"{layer}.py"]
    assert {str(file): found for file in files if (found := _upward(file))} == {}


@pytest.mark.parametrize(("importing", "above"), SERVER_LAYERS)
def test_the_servers_packages_import_none_above_them(importing: set[str], above: set[str]) -> None:
    files = [
        file
        for each in sorted(importing)
        for file in (PACKAGE / "server").glob(each if each.endswith(".py") else f"{each}/**/*.py")
    ]
    assert files
    prefixes = tuple(f"signoff.server.{name}" for name in above)
    assert {str(file): found for file in files if (found := [*_starting(file, prefixes)])} == {}


def _starting(file: Path, prefixes: tuple[str, ...]) -> Iterator[str]:
    return (name for name in _imports(file) if any(f"{name}.".startswith(f"{each}.") for each in prefixes))


def test_every_package_has_its_layer() -> None:
    found = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - {"__init__"} == {*LAYERS} - {"signoff"}


def test_the_architecture_page_names_files_that_exist() -> None:
    page = (DOCS / "architecture.md").read_text()
    named = {part for part in page.split("`")[1::2] if part.endswith(".py") and "/" in part}
    assert len(named) > 30
    assert [
        name for name in sorted(named) if not (PACKAGE / name).exists() and not (DOCS.parent / name).exists()
    ] == []


def test_no_test_module_imports_from_another() -> None:
    root = Path(__file__).parent
    found = [
        f"{path.relative_to(root)} imports {name}"
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tests"
        for name in (f"{node.module}.{each.name}" for each in node.names)
        if any(part.startswith("test_") for part in name.split("."))
    ]
    assert found == []
