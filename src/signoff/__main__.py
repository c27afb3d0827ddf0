"""``python -m signoff``: the command line."""

from signoff.cli import main

main()
