from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.ui.chat_clients import Node
from tests.agents.ui.chat_clients import node as node_process


@pytest.fixture(scope="package")
def node() -> Iterator[Node]:
    with node_process() as running:
        yield running
