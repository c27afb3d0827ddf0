"""Questions without a run, and dispatchers that the test drives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from signoff.people.audit.sealing import seal_events
from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.outbox import Dispatcher
from signoff.people.questions.answers import answer
from signoff.people.questions.policies import Policy
from signoff.people.questions.question import Question
from signoff.records import NewPromise, Promise, PromiseKind
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.records.paging import DeliveryFilter
from signoff.stores.contract.store import Store
from tests.stores.scene import Scene, until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def ask(
    scene: Scene,
    id: str = "q",
    text: str = "Pay 70?",
    *,
    assignees: Sequence[str] = (),
    due_at: float | None = None,
    policy: Policy | None = None,
    **form: Any,
) -> Promise:
    question = Question.make(text, **form)
    first_act = None if policy is None else policy.first_act
    if question.action is not None:  # a rule may answer it
        first_act = 0.0
    new = NewPromise(
        id,
        PromiseKind.QUESTION,
        data=question.to_json(policy),
        assignees=tuple(assignees),
        due_at=due_at,
        act_at=None if first_act is None else scene.clock.now() + first_act,
    )
    return (await scene.store.create_promise(new))[0]


async def approve(scene: Scene, id: str = "q", **more: Any) -> Promise:
    return await answer(scene.store, id, True, user_id="ana", **more)


@asynccontextmanager
async def dispatching(scene: Scene, *channels: Channel, begins: bool = True) -> AsyncIterator[Dispatcher]:
    """A dispatcher that has begun at what has happened so far."""
    dispatcher = Dispatcher(scene.store, channels)
    try:
        if begins:
            await dispatcher.serve(scene.store)
        yield dispatcher
    finally:
        await dispatcher.close()


async def carry_out(scene: Scene, *dispatchers: Dispatcher) -> None:
    """Have what has happened become deliveries, and send all that may be sent now."""
    await seal_events(scene.store)
    await asyncio.gather(*(dispatcher.serve(scene.store) for dispatcher in dispatchers))
    await until(lambda: not any(dispatcher.is_sending for dispatcher in dispatchers))


async def deliveries(
    store: Store, state: DeliveryState | None = None, channel: str | None = None
) -> list[Delivery]:
    """All of them, oldest first."""
    page = await store.list_deliveries(DeliveryFilter(state, channel), limit=1000)
    return list(reversed(page.items))
