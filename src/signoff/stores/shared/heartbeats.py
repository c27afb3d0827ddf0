"""Heartbeats in one statement; run by run if that fails, so that one refused row costs no other run its lease."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.shared.set_aside_items import raise_outage

log = own_logger("signoff.store")


async def extend_leases(
    store: Store, held: Mapping[str, int], extend: Callable[[Mapping[str, int]], Awaitable[set[str]]]
) -> set[str]:
    """Extend the leases of runs, and return those that are not held any more.

    A run whose row the database refuses to change counts as lost: its worker could write nothing more of it.

    Args:
        store: Where the runs are.
        held: The epochs of the leases, by run id.
        extend: Extends leases in one statement.

    Raises:
        StoreUnavailable: The store takes no writes at all: no run is at fault.
    """
    try:
        return await extend(held)
    except Exception as error:
        await raise_outage(store, error)
    lost: set[str] = set()
    for run_id, epoch in held.items():
        try:
            lost |= await extend({run_id: epoch})
        except Exception as error:
            await raise_outage(store, error)
            log.error(
                "the lease of run %s of namespace %s cannot be extended, and the worker drops the run: %s",
                run_id,
                store.namespace,
                error,
            )
            lost.add(run_id)
    return lost


def log_unreleased(run_id: str, namespace: str, error: Exception | str) -> None:
    """Log that a run could not be made ready when its worker let go of it."""
    log.error(
        "run %s of namespace %s cannot be made ready, and waits until its lease has run out: %s",
        run_id,
        namespace,
        error,
    )
