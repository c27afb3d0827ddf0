"""One item of each kind that becomes due, and whether it has fired."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from signoff.records import NewPromise, PromiseState, Rate, RunState, WorkerInfo
from signoff.stores.contract.timers import GRACE_SECONDS
from signoff.stores.shared.failed_items import running_jobs
from tests.attacks.damage import Damaged
from tests.stores.scene import GROUP, Scene, entry

DUE = 1_000_008.0


async def _promise(scene: Scene, id: str = "p") -> None:
    await scene.store.create_promise(NewPromise(id, due_at=DUE))


async def _promise_fired(scene: Scene, id: str = "p") -> bool:
    return (await scene.store.get_promise(id)).state is PromiseState.TIMED_OUT


async def _timer(scene: Scene, id: str = "r") -> None:
    await scene.paused(id, wake_at=DUE)


async def _is_ready(scene: Scene, id: str = "r") -> bool:
    return await scene.state(id) is RunState.READY


async def _deadline(scene: Scene, id: str = "r") -> None:
    await scene.start(id, deadline_at=DUE)


async def _has_failed(scene: Scene, id: str = "r") -> bool:
    return await scene.state(id) is RunState.FAILED


async def _begun_deadline(scene: Scene, id: str = "r") -> None:
    await scene.paused(id, deadline_at=DUE)


async def _grace(scene: Scene, id: str = "r") -> None:
    run = await scene.run(id, deadline_at=scene.clock.now())
    await scene.append(run, entry(0))
    await scene.store.release("w")
    await scene.store.due()
    scene.clock.advance(GRACE_SECONDS - 30)


async def _is_not_paused(scene: Scene, id: str = "r") -> bool:
    """Whether the run was notified, or ended: no worker claims it."""
    return await scene.state(id) is not RunState.PAUSED


async def _lease(scene: Scene, id: str = "r") -> None:
    await scene.run(id)


async def _rate(scene: Scene, id: str = "r") -> None:
    await scene.store.limit_group(GROUP, starts_per=Rate(1, 5.0))
    for number in range(2):
        await scene.start(f"{id}-{number}")
        await scene.claim()


async def _opens(scene: Scene) -> bool:
    find = f"SELECT opens_at FROM groups WHERE namespace = '{scene.store.namespace}'"
    return Damaged(scene).find(find) is None


async def _worker(scene: Scene, id: str = "w") -> None:
    name = f"{id}-{scene.store.namespace}"
    await scene.store.enlist(
        WorkerInfo(name, "host", 1, 1.0, GROUP, scene.store.namespace, "1", "3", None, 1)
    )


async def _is_forgotten(scene: Scene, id: str = "w") -> bool:
    return f"{id}-{scene.store.namespace}" not in [each.id for each in await scene.store.list_workers()]


Make = Callable[[Scene], Awaitable[None]]


Fired = Callable[[Scene], Awaitable[bool]]


# Of each job: an item, whether it has fired, and the table whose rows are refused.
ITEMS: dict[str, tuple[Make, Fired, str]] = {
    "promise": (_promise, _promise_fired, "promises"),
    "timer": (_timer, _is_ready, "runs"),
    "deadline": (_deadline, _has_failed, "runs"),
    "deadline of a run that began": (_begun_deadline, _is_not_paused, "runs"),
    "grace": (_grace, _has_failed, "runs"),
    "lease": (_lease, _is_ready, "runs"),
    "rate": (_rate, _opens, "groups"),
    "worker": (_worker, _is_forgotten, "workers"),
}


def failing(damage: Damaged) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for aside in running_jobs():
        if aside.location == damage.scene.store.location:
            for item in aside.items:
                found.setdefault(item.job, []).append(f"{item.namespace}/{item.id}")
    return found


def advance(scene: Scene, seconds: float) -> None:
    scene.clock.advance(seconds)
    scene.lease_clock.advance(seconds)
