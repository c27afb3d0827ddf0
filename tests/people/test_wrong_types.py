"""Arguments of wrong types: an error that names the argument, on every store and over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signoff import AsyncClient, Signoff
from signoff.errors import InvalidValue, NotFound
from signoff.people.questions.bulk_answers import GivenAnswer
from tests.places import NewStore
from tests.support import in_asyncio

WRONG: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "page of runs": ("after", lambda c: c.list(after=5)),
    "count of runs": ("limit", lambda c: c.list(limit=-1)),
    "text as count": ("limit", lambda c: c.list(limit="5")),
    "fraction as count": ("limit", lambda c: c.list(limit=1.5)),
    "workflow of runs": ("workflow", lambda c: c.list(workflow=5)),
    "page of questions": ("after", lambda c: c.questions(after=5)),
    "run of questions": ("run_id", lambda c: c.questions(run_id=5)),
    "page of sessions": ("after", lambda c: c.sessions.list(after=5)),
    "page of schedules": ("limit", lambda c: c.schedules.list(limit=0)),
    "page of rules": ("after", lambda c: c.rules.list(after=5)),
    "page of links": ("after", lambda c: c.links.list("q", after=5)),
    "page of history": ("after", lambda c: c.inbox.history(after=5)),
    "run": ("id", lambda c: c.get(5)),
    "no run": ("id", lambda c: c.get(None)),
    "promise": ("id", lambda c: c.promises.get(5)),
    "resolved promise": ("id", lambda c: c.promises.resolve(5)),
    "question": ("id", lambda c: c.answer(5, True)),
    "claimed question": ("id", lambda c: c.inbox.claim(5, user_id="ana")),
    "suspended run": ("id", lambda c: c.suspend(5)),
    "retried run": ("id", lambda c: c.retry(5)),
    "cancelled run": ("id", lambda c: c.cancel(5)),
    "delay": ("delay_seconds", lambda c: c.start("w", delay_seconds="5")),
    "moment": ("start_at", lambda c: c.start("w", start_at="tomorrow")),
    "deadline": ("timeout_seconds", lambda c: c.start("w", timeout_seconds=timedelta(hours=1))),
    "age": ("older_than", lambda c: c.prune("30d")),
    "answers": ("answers", lambda c: c.inbox.answer_all(5, user_id="ana")),
    "an answer": ("answers", lambda c: c.inbox.answer_all([("q", True)], user_id="ana")),
}


@in_asyncio
async def test_what_is_of_another_type_is_refused_by_its_name(new_store: NewStore) -> None:
    store = new_store()
    async with AsyncClient(Signoff(store)) as client:
        for name, (argument, call) in WRONG.items():
            with pytest.raises(InvalidValue) as refused:
                await call(client)
            assert argument in refused.value.path, name
        await client.promises.create("p")
        with pytest.raises(InvalidValue, match="lifetime_seconds"):
            await client.links.create("p", user_id="ana", lifetime_seconds="x")  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await client.get("5")
        assert (await client.start("w", start_at=datetime.now(UTC))).id
        assert len(await client.inbox.answer_all([GivenAnswer("q", True)], user_id="ana")) == 1
    await store.close()
