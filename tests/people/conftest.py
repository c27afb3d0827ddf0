from __future__ import annotations

import pytest

from tests.places import new_store
from tests.stores.scene import STORE_NAMES

__all__ = ["new_store", "store_name"]


@pytest.fixture(params=STORE_NAMES)
def store_name(request: pytest.FixtureRequest) -> str:
    return request.param
