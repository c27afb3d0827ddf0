"""The supported Pythons are the same in all files that name them."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.deploy.files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))


def test_the_package_admits_the_versions_that_it_names() -> None:
    minors = [int(version[2:]) for version in VERSIONS]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{minors[0]},<3.{minors[-1] + 1}"


def test_continuous_integration_tries_each() -> None:
    supported = re.search(r'^supported="(.*)"$', (ROOT / ".ci/pythons").read_text(), re.MULTILINE)
    assert supported is not None
    assert sorted(supported[1].split()) == VERSIONS


def test_tools_and_docs_name_them() -> None:
    for file in (".ci/bootstrap", "Makefile", "docs/workflows.md"):
        assert f"Python {VERSIONS[0]} to {VERSIONS[-1]}" in (ROOT / file).read_text(), file


def test_the_image_has_one_of_them() -> None:
    assert set(re.findall(r"^FROM python:([\d.]+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)) <= set(
        VERSIONS
    )


@pytest.mark.parametrize("name", ["on_newest_version", "between_versions"])
def test_what_is_tried_on_each_version_is_there(name: str) -> None:
    listed = re.search(rf"^{name}=\(\n([^)]*)^\)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert listed is not None
    for each in listed[1].split():
        path, _, test = each.partition("::")
        assert (ROOT / path).exists(), each
        assert test == "" or f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(), each
