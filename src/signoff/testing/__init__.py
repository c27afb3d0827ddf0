"""What a test of durable code needs: time that the test owns, and crashes at the place it chooses."""

from signoff.testing.clock import VirtualClock
from signoff.testing.doomed import DoomedStore
from signoff.testing.memory import MemoryStore

__all__ = ["DoomedStore", "MemoryStore", "VirtualClock"]
