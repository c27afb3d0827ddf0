"""The process that Signoff runs in: forks, limits, the clock, loggers, and Python's private names."""
