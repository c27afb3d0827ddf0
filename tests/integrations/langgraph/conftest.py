"""LangGraph is tested on the versions of Python for which its dependencies have wheels."""

from __future__ import annotations

import sys

collect_ignore_glob = ["test_*.py"] if sys.version_info >= (3, 15) else []
