"""A server that speaks the durable promise protocol, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.resonate.speaker import Speaker, speaking
from tests.support import OnThread


@pytest.fixture
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speaker]:
    serving = OnThread(lambda: speaking(tmp_path_factory.mktemp("resonate")))
    with serving as speaker, speaker:
        yield speaker
