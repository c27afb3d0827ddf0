"""Tools to test durable code: virtual time, scripted people, and crashes at chosen places."""

from signoff.testing.clock import VirtualClock
from signoff.testing.crashes import (
    CrashPoint,
    Place,
    after_entry,
    after_step,
    at_pause,
    before_entry,
    before_step,
)
from signoff.testing.crashing_process import DoomedStore
from signoff.testing.environment import Environment, NothingHappens, crash_everywhere, environment
from signoff.testing.memory_store import MemoryStore
from signoff.testing.people import Asked, People, ScriptedAnswer

__all__ = [
    "Asked",
    "CrashPoint",
    "DoomedStore",
    "Environment",
    "MemoryStore",
    "NothingHappens",
    "People",
    "Place",
    "ScriptedAnswer",
    "VirtualClock",
    "after_entry",
    "after_step",
    "at_pause",
    "before_entry",
    "before_step",
    "crash_everywhere",
    "environment",
]
