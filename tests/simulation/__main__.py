"""Plays one seed again, exactly, and prints what happened.

python -m tests.simulation SEED [TEXT]      TEXT: only the lines that contain it
"""

from __future__ import annotations

import sys

from tests.simulation.play import play


def main() -> None:
    played = play(int(sys.argv[1]))
    text = sys.argv[2] if len(sys.argv) > 2 else ""
    print("\n".join(line for line in played.trace if text in line))
    print(played)
    sys.exit(bool(played.problems))


main()
