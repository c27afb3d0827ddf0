"""Events, metrics, traces and log lines of runs."""
