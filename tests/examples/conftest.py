"""Nothing of this machine's settings reaches the examples."""

from __future__ import annotations

import os

import pytest

PREFIXES = ("SIGNOFF_", "SUMMARY_", "OPENAI_", "SMTP_", "MAIL_", "REFUND_")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(PREFIXES) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
