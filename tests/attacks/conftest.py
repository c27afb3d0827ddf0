from __future__ import annotations

import pytest

from tests.stores.scene import STORE_NAMES


@pytest.fixture(params=STORE_NAMES)
def store_name(request: pytest.FixtureRequest) -> str:
    return request.param
