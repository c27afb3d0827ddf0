from __future__ import annotations

import pytest

from tests.attacks.served import served as served
from tests.attacks.served import url as url
from tests.server.conftest import open_trail as open_trail
from tests.stores.scene import STORE_NAMES


@pytest.fixture(params=STORE_NAMES)
def store_name(request: pytest.FixtureRequest) -> str:
    return request.param
