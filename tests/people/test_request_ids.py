"""Request ids from Python: overlong ones are refused before anything is stored."""

from __future__ import annotations

import pytest

from signoff import AsyncClient, Signoff
from signoff.errors import InvalidValue
from signoff.people.questions.bulk_answers import GivenAnswer
from signoff.records import AuditKind, PromiseState
from signoff.records.paging import AuditFilter
from tests.notifications.asking import ask
from tests.stores.scene import Scene, rule

LONG = "x" * 257


@rule
async def test_a_store_client_accepts_no_request_id_over_256_characters(scene: Scene) -> None:
    await ask(scene)
    async with AsyncClient(Signoff(scene.store)) as client:
        await client.promises.create("p")
        for given in (
            client.answer("q", "banana", user_id="ana", request_id=LONG),
            client.inbox.cancel("q", by="olga", request_id=LONG),
            client.signal("r", "paid", request_id=LONG),
            client.promises.resolve("p", 1, request_id=LONG),
        ):
            with pytest.raises(InvalidValue, match="257 characters, over the limit of 256"):
                await given
        [refused] = await client.inbox.answer_all([GivenAnswer("q", True, request_id=LONG)], user_id="ana")
        assert isinstance(refused, InvalidValue)
        events = (await scene.store.list_audit(AuditFilter("q"))).items
        assert [event.kind for event in events] == [AuditKind.ASKED]
        settled = await client.answer("q", True, user_id="ana", request_id=LONG[1:])
        assert settled.state is PromiseState.RESOLVED
