"""Extends leases in one statement, or one by one if that fails, so that a refused row costs no other run its lease."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import raise_outage

log = own_logger("signoff.store")


async def extend_leases(
    store: Store, held: Mapping[str, int], extend: Callable[[Mapping[str, int]], Awaitable[set[str]]]
) -> set[str]:
    """Extend the leases of runs, and return those that are no longer held.

    A run whose row the database refuses to change counts as lost: its worker could not write to it either.

    Args:
        store: The runs' store.
        held: The epochs of the leases, by run id.
        extend: Extends leases in one statement.

    Raises:
        StoreUnavailable: The store accepts no writes at all, so no run is at fault.
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
                "the lease of run %s of namespace %s cannot be extended; the worker drops the run: %s",
                run_id,
                store.namespace,
                error,
            )
            lost.add(run_id)
    return lost


def log_unreleased(run_id: str, namespace: str, error: Exception | str) -> None:
    """Log that a run could not be made ready when its worker released it."""
    log.error(
        "run %s of namespace %s cannot be released, and waits until its lease expires: %s",
        run_id,
        namespace,
        error,
    )
