"""The command line ``signoff``. docs/cli.md lists its commands."""

from __future__ import annotations

import importlib.util
import sys
from typing import NoReturn

_NEEDED = ("click", "rich")


def main() -> NoReturn:
    """Run the command line with this process's arguments, and exit with a code from docs/cli.md."""
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        print('signoff: the command line needs more packages: pip install "signoff[server]"', file=sys.stderr)
        sys.exit(2)
    from signoff.cli.root import run

    sys.exit(run(sys.argv[1:]))
