from __future__ import annotations

import pytest

from tests.stores.scene import STORES


@pytest.fixture(params=sorted(STORES))
def store_name(request: pytest.FixtureRequest) -> str:
    return request.param
