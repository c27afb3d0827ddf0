"""The imports of forked processes (tests/forks.py)."""

import gc

import tests.crash.helper
import tests.crash.processes
import tests.crash.servers
import tests.crash.worker
import tests.remote.processes  # noqa: F401

gc.collect()
gc.freeze()  # or the first collection of each process would copy all pages
