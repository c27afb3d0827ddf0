"""A server that authenticates callers by key and by proxy, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.keyed import Keyed, keyed
from tests.server.proxied import PROXY
from tests.support import OnThread

pytest.importorskip("mcp", reason="the SDK needs packages that have no wheel for this Python")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("mcp"), proxy=PROXY)) as server:
        yield server
