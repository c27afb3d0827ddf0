"""What came of a seed."""

from __future__ import annotations

from dataclasses import dataclass

from signoff.testing.simulation import Faults, World

CALM_AT = 15.0  # seconds
LAST_SECOND = 400.0


@dataclass(frozen=True)
class Played:
    """What came of a seed."""

    seed: int
    faults: Faults
    problems: list[str]
    digest: str
    trace: list[str]
    seconds: float
    world: World

    def __str__(self) -> str:
        begin = f"seed {self.seed}: {len(self.problems)} problems after {self.seconds:.1f} s; faults: {self.faults}"
        return "\n".join([begin, *self.problems])

    @classmethod
    def of(cls, seed: int, faults: Faults, world: World, seconds: float) -> Played:
        """Return what came of a world that has ended."""
        return cls(seed, faults, world.problems, world.digest(), world.trace, seconds, world)
