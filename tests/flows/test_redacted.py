"""Executions behind a server that hides parts of payloads: their interrupts can be found and answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.flows import Data, Executions, Flow, PendingInterrupts
from signoff.records import Promise
from signoff.records.flow_records import EVENT_UNHEARD, INTERRUPT
from signoff.server import Server
from signoff.stores.sqlite.store import SqliteStore
from tests.support import in_asyncio, running, until

IBAN = "DE89370400440532013000"


def paying() -> Flow:
    flow = Flow("paying", auto_close_timeout=None)

    @flow.chunk
    async def ask(data: Data[str]) -> Any:
        asked = {"question": "Pay?", "iban": data.input}
        return await data.pause_for("approval", asked, interrupt_id="first")

    @flow.chunk
    async def ask_again(data: Data[Any]) -> Any:
        asked = {"question": "Really?", "iban": IBAN}
        return await data.pause_for("text", asked, interrupt_id=f"pay-{IBAN}", resume_event="said")

    @flow.chunk
    def keep(data: Data[Any]) -> None:
        data.set_state("said", data.input)

    flow.to(ask).to(ask_again)
    flow.when("said").to(keep)
    return flow


@pytest.mark.parametrize("path", ["iban", "id", "**.type", "resume_to", "requests", "$.*"])
@in_asyncio
async def test_an_execution_goes_on_whatever_is_hidden(tmp_path: Path, path: str) -> None:
    app = Signoff(SqliteStore(tmp_path / "signoff.db"))
    app.register(paying())
    store = SqliteStore(tmp_path / "signoff.db")
    async with (
        running(app),
        Server(store, port=0, redact=[path, "iban"]) as server,
        AsyncClient(server.url) as client,
    ):
        execution = await Executions(client, "paying").start(IBAN, id="e")
        (first,) = (await execution.get_pending_interrupts()).values()
        assert (first.chunk, first.type, first.resume_to) == ("ask", "approval", "next")
        assert first.id == (
            first.question_id if path == "$.*" else "first"
        )  # with it the id is hidden as a text
        assert IBAN not in str(first)
        for _ in range(2):
            await execution.continue_with(first.id, {"approved": True}, request_id="w")
        (second,) = (await execution.get_pending_interrupts()).values()
        assert (second.id, second.type) == (second.question_id, "text")
        assert IBAN not in str(second)
        with pytest.raises(PendingInterrupts):
            await execution.close()
        assert await execution.emit("said", "yes", request_id="v")
        await execution.get_pending_interrupts()
        await execution.close()
    await store.close()


@in_asyncio
async def test_a_payload_under_the_names_of_flows_is_hidden_all_the_same(tmp_path: Path) -> None:
    app = Signoff(SqliteStore(tmp_path / "signoff.db"))

    @app.workflow
    async def pay(ctx: Context) -> None:
        await ctx.progress(EVENT_UNHEARD, iban=IBAN)
        await ctx.wait_for_user("Pay?", metadata={INTERRUPT: {"iban": IBAN}})

    async with (
        running(app),
        Server(SqliteStore(tmp_path / "signoff.db"), port=0, redact=["iban"]) as server,
        AsyncClient(server.url) as client,
    ):
        run = await client.start("pay", id="r")

        async def asked() -> Sequence[Promise]:
            return (await client.questions()).items

        assert IBAN not in str(await until(app, asked))
        assert IBAN not in str(await run.journal())
