"""A scene for the tests of channels."""

from __future__ import annotations

import time

from signoff.testing import MemoryStore, VirtualClock
from tests.stores.scene import Scene


def new_scene(now: float | None = None) -> Scene:
    clock = VirtualClock(time.time() if now is None else now)
    return Scene(MemoryStore(clock=clock), clock, VirtualClock())
