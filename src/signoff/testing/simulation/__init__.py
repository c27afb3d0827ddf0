"""A seeded simulation of workers, an unreliable store, and people. See ``World``."""

from signoff.testing.simulation.faults import Faults
from signoff.testing.simulation.observer import Observer
from signoff.testing.simulation.process import Process
from signoff.testing.simulation.world import World

__all__ = ["Faults", "Observer", "Process", "World"]
