from __future__ import annotations

import pytest


@pytest.fixture(params=["memory", "postgres", "sqlite"])
def store_name(request: pytest.FixtureRequest) -> str:
    return request.param
