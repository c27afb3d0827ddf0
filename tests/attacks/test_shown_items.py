"""Items of periodic jobs that fail are listed to operators of their namespace, with an error that quotes no data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import Signoff
from signoff.doctor.deployment import of_server
from signoff.doctor.findings import Finding, Level
from signoff.records import NewPromise
from signoff.runtime.loggers import hiding_texts
from signoff.server import Role, Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.shared.failure_isolation import ItemFailed
from signoff.stores.shared.failure_texts import LONGEST, text_of, text_of_postgres
from tests.attacks.damage import DATABASES, Damaged, damaged
from tests.stores.scene import question
from tests.support import in_asyncio

DUE = 1_000_008.0
SECRET = "4929 1234 5678 9012"

Items = list[dict[str, Any]]


class Place:
    """A server on a database whose rows can be damaged, and a key of each namespace and role."""

    def __init__(self, damage: Damaged, server: Server) -> None:
        self.damage = damage
        self.url = server.url

    async def key(self, namespace: str, role: Role = Role.OPERATOR) -> str:
        keys = StoredKeys(self.damage.scene.store.within(namespace))
        return (await keys.create_for_service(f"{namespace}-{role.value}", [role]))[0]

    async def get(self, key: str | None, **params: Any) -> httpx.Response:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False) as http:
            return await http.get("/v1/set-aside", params=params)

    async def items(self, key: str, is_there: Callable[[Items], bool]) -> Items:
        """Return what a key lists as soon as it is as said. The server's timers look each second."""
        async with asyncio.timeout(60):
            while not is_there(items := (await self.get(key)).json()["items"]):
                await asyncio.sleep(0.05)
        return items

    def doctor(self) -> list[Finding]:
        return [each for each in of_server(self.url, None, "evil") if each.check == "periodic jobs"]


@asynccontextmanager
async def placed(database: str, folder: Path) -> AsyncIterator[Place]:
    async with (
        damaged(database, folder) as damage,
        Server(Signoff(damage.scene.store), port=0, require_auth=True) as server,
    ):
        yield Place(damage, server)


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_failing_item_is_listed_with_its_error_until_it_is_repaired(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with placed(database, tmp_path) as place:
        scene = place.damage.scene
        evil, zoo = await place.key("evil"), await place.key("zoo", Role.ADMIN)
        for name in ("evil", "zoo"):
            for id in ("p", "q"):
                await scene.within(name).store.create_promise(NewPromise(id, due_at=DUE))
        place.damage.refuse("promises", when="namespace = 'evil' AND NEW.id = 'p'")
        scene.clock.advance(60)
        [item] = await place.items(evil, bool)
        assert (item["job"], item["namespace"], item["id"]) == ("promise", "evil", "p")
        assert item["failures"] >= 1
        assert "poisoned" in item["error"]
        assert item["first_at"] < item["next_at"]
        assert (await place.items(zoo, lambda _: True)) == [], "never another namespace's"

        monkeypatch.setenv("SIGNOFF_KEY", evil)
        _, named = await asyncio.to_thread(place.doctor)
        assert named.level is Level.WARNING
        for part in ("promise 'p'", "namespace 'evil'", "failed ", "next try in ", "poisoned"):
            assert part in named.message
        monkeypatch.setenv("SIGNOFF_KEY", zoo)
        _, other = await asyncio.to_thread(place.doctor)
        assert other.level is Level.SKIPPED
        assert "poisoned" not in other.message

        place.damage.allow("promises")
        scene.clock.advance(400)
        assert await place.items(evil, lambda items: not items) == []


@in_asyncio
async def test_who_is_no_operator_lists_no_items(tmp_path: Path) -> None:
    async with placed("sqlite", tmp_path) as place:
        for role, status in {
            Role.VIEWER: 403,
            Role.RESPONDER: 403,
            Role.OPERATOR: 200,
            Role.ADMIN: 200,
        }.items():
            assert (await place.get(await place.key("evil", role))).status_code == status
        assert (await place.get(None)).status_code == 401


@in_asyncio
async def test_a_long_list_is_read_page_by_page(tmp_path: Path) -> None:
    async with placed("sqlite", tmp_path) as place:
        scene = place.damage.scene
        evil = await place.key("evil")
        ids = sorted(f"a/{number}" for number in range(25))
        for id in ids:
            await scene.within("evil").store.create_promise(NewPromise(id, due_at=DUE))
        place.damage.refuse("promises")
        scene.clock.advance(60)
        await place.items(evil, lambda items: len(items) == len(ids))
        found: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = (await place.get(evil, limit=10, **after)).json()
            found += [item["id"] for item in page["items"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert found == ids
        refused = await place.get(evil, after="nonsense")
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:signoff:InvalidValue")


@in_asyncio
async def test_an_error_of_postgres_that_quotes_a_row_is_listed_without_it(tmp_path: Path) -> None:
    async with placed("postgres", tmp_path) as place:
        scene = place.damage.scene
        evil = await place.key("evil")
        data = json.dumps({"text": SECRET})
        asked = replace(question("r", id="q", due_at=DUE, data=data), run_id=None, n=None)
        await scene.within("evil").store.create_promise(asked)
        place.damage.run(
            "",
            "CREATE OR REPLACE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM NEW.data::bigint; RETURN NEW; END $$;"
            "CREATE TRIGGER poison_promises BEFORE UPDATE ON signoff.promises FOR EACH ROW "
            "EXECUTE FUNCTION public.poison()",
        )
        try:
            scene.clock.advance(60)
            items = await place.items(evil, bool)
        finally:
            place.damage.run("", "DROP TRIGGER poison_promises ON signoff.promises")
        assert "bigint" in items[0]["error"]
        assert SECRET not in json.dumps(items)


@in_asyncio
async def test_a_question_that_cannot_be_read_is_listed_without_its_text(tmp_path: Path) -> None:
    async with placed("sqlite", tmp_path) as place:
        scene = place.damage.scene
        evil = await place.key("evil")
        asked = replace(question("r", id="q", act_at=DUE, data='{"text": "Pay?"}'), run_id=None, n=None)
        await scene.within("evil").store.create_promise(asked)
        place.damage.run(
            f"""UPDATE promises SET data = '{{"text": ["{SECRET}"]', progress = '["{SECRET}"]'"""
        )
        scene.clock.advance(60)
        items = await place.items(evil, bool)
        assert [item["id"] for item in items] == ["q"]
        assert SECRET not in json.dumps(items)


def test_a_text_of_a_failure_is_bounded_and_quotes_no_data() -> None:
    assert text_of(ItemFailed("x" * 9_999)) == "x" * LONGEST
    assert text_of(ItemFailed("first\nDETAIL: Failing row contains (secret)")) == "first"
    for error in (
        ValueError(f"'{SECRET}' is not a valid RunState"),
        ValueError(f"can't decode '{SECRET}'"),
        ValueError(f'it has "{SECRET}\n and no end'),
        KeyError(SECRET),
    ):
        said = text_of(error)
        assert type(error).__name__ in said
        assert SECRET not in said
    quoted = text_of_postgres("22P02", f'invalid input syntax for type json: "a" is "{SECRET}"')
    assert quoted == 'invalid input syntax for type json: "..."'
    assert '"budget"' in text_of_postgres("23514", 'new row violates check constraint "budget"')
    with hiding_texts():
        assert SECRET not in text_of(ValueError(SECRET))
        assert text_of(ItemFailed("poisoned")) == "poisoned"
