from __future__ import annotations

import pytest

from tests.places import new_store
from tests.stores.scene import STORES

__all__ = ["new_store", "store_name"]


@pytest.fixture(params=sorted(STORES))
def store_name(request: pytest.FixtureRequest) -> str:
    return request.param
