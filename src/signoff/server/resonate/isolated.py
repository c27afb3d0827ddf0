"""Work of which a failure stops nothing else."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from signoff.errors import SignoffError
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.server")


async def isolated(work: Coroutine[Any, Any, None], waits: str) -> None:
    """Do work whose failure is logged. It is tried again later.

    Args:
        work: The work.
        waits: What waits after a failure, for the log.
    """
    try:
        await work
    except SignoffError as error:
        log.warning("%s wait: %s", waits, error)
    except Exception:
        log.exception("%s wait", waits)
