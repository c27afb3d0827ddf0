"""The system's limits on this process (file handles and threads), and its use of memory."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import threading
from typing import Final

from signoff.errors import StoreUnavailable

if sys.platform != "win32":
    import resource

RESERVED: Final = 128
"""Handles that client connections leave free for the store, steps and other files."""

LARGE_BLOCK_BYTES: Final = 256 * 1024
"""Blocks of this size or more return to the system when they are freed."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MALLOC_VARIABLES: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})


def handle_limit() -> int | None:
    """Return the limit of file handles; None if there is none."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_handle_limit() -> None:
    """Raise the limit of file handles, which is often 1,024 of a possible 500,000. Only for Signoff's own programs."""
    if sys.platform != "win32":
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
        if wanted > (handle_limit() or wanted):
            with contextlib.suppress(OSError, ValueError):  # some systems report a wrong hard limit
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def give_large_blocks_back() -> None:
    """Make glibc return large blocks to the system when they are freed. Only for Signoff's own programs.

    After it frees a block of some megabytes, glibc allocates later blocks of up to that size in its heap. There, free
    memory between used blocks stays with the process: values of 15 MiB took 14 to 30 MiB more. Environment variables
    take precedence. Other C libraries have no such call.
    """
    if sys.platform == "linux" and not any(name in os.environ for name in _MALLOC_VARIABLES):
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
            mallopt(_M_TRIM_THRESHOLD, 2 * LARGE_BLOCK_BYTES)


def connection_limit() -> int | None:
    """Return how many client connections a server may hold; None if there is no limit."""
    limit = handle_limit()
    return None if limit is None else max(limit - RESERVED, limit // 2)


def check_handles(location: str) -> None:
    """Check that the process can open another file.

    Raises:
        StoreUnavailable: It cannot.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        reason = f"this process cannot open a file: {error}"
        if error.errno in _EXHAUSTED:
            limit = handle_limit()
            reason = f"this process has no file handle left (of {limit}): raise the limit, as by ulimit -n"
        raise StoreUnavailable(location, reason) from None


def check_threads(location: str) -> None:
    """Check that the process can start another thread.

    Raises:
        StoreUnavailable: It cannot.
    """
    try:
        threading.Thread(target=_nothing, name="signoff readiness", daemon=True).start()
    except RuntimeError as error:
        raise StoreUnavailable(
            location, f"this process has no thread left ({error}): raise the process limit, or stop processes"
        ) from None


def _nothing() -> None: ...
