"""Isolates the examples from this machine's settings."""

from __future__ import annotations

import os

import pytest

PREFIXES = ("SIGNOFF_", "SUMMARY_", "OPENAI_", "SMTP_", "MAIL_", "REFUND_")


WITHIN_THIS_PROCESS = ("test_readme", "test_shop")
"""Files that ``make test`` tries. The others start examples as programs: what they show is tried everywhere else."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/examples/" in item.path.as_posix() and item.path.stem not in WITHIN_THIS_PROCESS:
            item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(PREFIXES) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
