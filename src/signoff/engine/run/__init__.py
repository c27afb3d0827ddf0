"""One run in memory: its event loop, its calls, and its replay."""
