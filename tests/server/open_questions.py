"""A question that is open, with a policy."""

from __future__ import annotations

from typing import Any

import httpx

from tests.server.conftest import asked


def open_question(http: httpx.Client, name: str, **policy: Any) -> str:
    response = http.post(
        "/v1/runs", json={"workflow": "approve", "id": name, "kwargs": policy, "started_by": "user:req"}
    )
    assert response.json()["started_by"] == "user:req"
    return asked(http, name)
