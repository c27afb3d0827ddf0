"""The process: forks, limits, the clock, loggers, and the private names of Python that Signoff relies on."""
