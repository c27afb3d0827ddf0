"""A program that logs at level 1: secrets of links, callbacks and keys are in paths and headers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.server.keyed import keyed
from tests.support import OnThread

SECRETS = ("sgl_L1NK-S3CR3T", "sgc_C4LL-S3CR3T", "sgk_K3Y-S3CR3T")


def test_no_secret_of_a_path_or_a_header_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    link, callback, key = SECRETS
    # a command that ran in this process may have set uvicorn's level
    with (
        caplog.at_level(1),
        caplog.at_level(1, "uvicorn.error"),
        OnThread(lambda: keyed(tmp_path, require_auth=False)) as here,
    ):
        assert logging.getLogger("uvicorn.error").isEnabledFor(5)
        with here.http(key) as http:
            for path in (f"/l/{link}", f"/c/{callback}", f"/v1/runs?after={link}"):
                http.get(path)
    ours = [
        each for each in caplog.records if not each.name.startswith(("httpx", "httpcore"))
    ]  # the client's
    assert ours
    said = " ".join(each.getMessage() for each in ours)
    assert not [secret for secret in SECRETS if secret in said]
