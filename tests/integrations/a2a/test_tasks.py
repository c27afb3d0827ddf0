"""Workflows as A2A agents, with clients of the real SDK over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2AClientError, Client
from a2a.helpers.proto_helpers import get_data_parts
from a2a.types import CancelTaskRequest, GetTaskRequest, Role, SubscribeToTaskRequest, Task, TaskState
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from pydantic import BaseModel

from examples.website_summary.processes import free_port
from signoff import AsyncClient, Promise, Question
from signoff.integrations.a2a import Caller, asked_of_caller
from signoff.integrations.a2a.parts import part_of
from signoff.people.questions.answers import outcome_question
from signoff.records import PromiseKind, PromiseState
from tests.forks import Program
from tests.grouping import ROOT
from tests.integrations.a2a.desk import (
    COMPLETED,
    INPUT_REQUIRED,
    connected,
    desk_app,
    message,
    question,
    reply,
    send,
    serving,
    texts,
)
from tests.places import NewStore, front_door, new_store
from tests.support import asked, comes, in_asyncio, pauses, running

__all__ = ["new_store"]

HOME = {"street": "Main", "number": 7}


def effects(folder: Path) -> list[str]:
    file = folder / "effects"
    return file.read_text().split() if file.exists() else []


@in_asyncio
async def test_a_message_starts_a_run_whose_form_the_caller_answers(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with running(app), serving(app, "ship") as url, connected(url) as bot:
        task = await send(bot, message("m1", {"order": "o-1", "cents": 7000}))
        assert task.status.state == INPUT_REQUIRED
        shown = question(task)
        assert (shown["text"], shown["answered_by"]) == ("Where to?", "caller")
        assert set(shown["schema"]["properties"]) == {"street", "number"}
        task = await send(bot, message("m2", reply(shown, HOME), task=task.id))
        assert task.status.state == COMPLETED
        (result,) = get_data_parts(task.artifacts[0].parts)
        assert result == {"order": "o-1", "cents": 7000, "to": HOME, "by": "bot"}
        assert effects(tmp_path) == ["begun", "shipped"]


@in_asyncio
async def test_the_same_message_starts_and_answers_once_by_two_clients_at_once(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with running(app), serving(app, "ship") as url, connected(url) as one, connected(url) as two:
        first = message("m1", {"order": "o-1"}, context="trip ~1")
        started = await asyncio.gather(*(send(each, first) for each in (one, two, one)))
        assert len({each.id for each in started}) == 1
        assert {each.context_id for each in started} == {"trip ~1"}
        answer = message("m2", reply(question(started[0]), HOME), task=started[0].id)
        ended = await asyncio.gather(*(send(each, answer) for each in (one, two, one)))
        assert [each.status.state for each in ended] == [COMPLETED] * 3
        assert (await send(one, answer)).status.state == COMPLETED
        assert (await send(one, first)).status.state == COMPLETED
        assert effects(tmp_path) == ["begun", "shipped"]
        with pytest.raises(InvalidParamsError, match="arguments"):
            await send(one, message("m1", {"order": "o-2"}, context="trip ~1"))


@in_asyncio
async def test_a_wrong_answer_names_the_fields_and_keeps_the_question_open(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with running(app) as client, serving(app, "ship") as url, connected(url) as bot:
        task = await send(bot, message("m1", {"order": "o-1"}))
        shown = question(task)
        wrong: list[Any] = [
            reply(shown, {"street": "Main", "number": "seven"}),
            reply({**shown, "digest": "another"}, HOME),
            reply({**shown, "question_id": "o-1.7"}, HOME),
            "Main Street 7",
        ]
        for place, (part, reason) in enumerate(
            zip(wrong, ["number", "digest", "no question", "text"], strict=True)
        ):
            refused = await send(bot, message(f"w{place}", part, task=task.id))
            assert refused.status.state == INPUT_REQUIRED
            assert reason in texts(refused)
            assert question(refused) == shown
        for part in ({"value": HOME}, reply(shown, HOME, user_id="ana"), [1], reply(shown, HOME, note=3)):
            with pytest.raises(InvalidParamsError):
                await send(bot, message("w9", part, task=task.id))
        assert len(await asked(client, task.id)) == 1
        assert (await send(bot, message("w0", reply(shown, HOME), task=task.id))).status.state == COMPLETED


@in_asyncio
async def test_a_calling_agent_cannot_approve_what_people_decide(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with (
        running(app) as client,
        serving(app, "refund") as url,
        connected(url) as bot,
        connected(url, streaming=True) as listener,
    ):
        task = await send(bot, message("m1", {"cents": 7000}))
        assert task.status.state == INPUT_REQUIRED
        assert "group:finance must answer this in the inbox" in texts(task)
        assert question(task)["answered_by"] == "people"
        (promise,) = await asked(client, task.id)
        forged = {"question_id": promise.id, "digest": signed(promise.data), "value": True}
        for place, value in enumerate([True, {"approved": True}, "banana"]):
            refused = await send(bot, message(f"f{place}", {**forged, "value": value}, task=task.id))
            assert "not through A2A" in texts(refused)
        assert "yes" not in texts(await send(bot, message("f9", "yes", task=task.id)))
        assert len(await asked(client, task.id)) == 1
        events = listener.subscribe(SubscribeToTaskRequest(id=task.id))
        assert (await anext(events)).task.status.state == INPUT_REQUIRED
        await client.answer(promise.id, False, user_id="ana", groups=["finance"], note="too much")
        assert [each async for each in events][-1].status_update.status.state == COMPLETED
        task = await bot.get_task(GetTaskRequest(id=task.id))
        assert task.artifacts[0].parts[0].text == "denied: too much"
        with pytest.raises(UnsupportedOperationError, match="ended"):
            await send(bot, message("f8", forged, task=task.id))
        assert effects(tmp_path) == []


@in_asyncio
async def test_a_setting_lets_callers_approve_and_banana_is_no_yes(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with running(app) as client, serving(app, "agree") as url, connected(url) as bot:
        task = await send(bot, message("m1", {}))
        assert "A message cannot answer it" in texts(task)
    app = desk_app(tmp_path)
    async with (
        running(app) as client,
        serving(app, "agree", may_answer=bots_answer) as url,
        connected(url) as bot,
    ):
        shown = question(await bot.get_task(GetTaskRequest(id=task.id)))
        for place, value in enumerate(["banana", "yes", 1, None, {"approved": "true"}, {}]):
            refused = await send(bot, message(f"b{place}", reply(shown, value), task=task.id))
            assert (refused.status.state, question(refused)) == (INPUT_REQUIRED, shown)
        assert len(await asked(client, task.id)) == 1
        ended = await send(bot, message("m2", reply(shown, {"approved": True}), task=task.id))
        assert get_data_parts(ended.artifacts[0].parts) == [True]
        assert (await client.promises.get(shown["question_id"])).settled_by == "bot"


def test_steps_of_unknown_outcome_and_calls_are_for_people() -> None:
    class Pay(BaseModel):
        amount: int

    outcome = outcome_question("pay", run_id="run-1", returns=Any, key="key-1", assignees=())
    call = Question.make("Result?", input_type="form", answer_type=Pay, metadata={"tool": "pay"})
    plain = Question.make("How much?", input_type="form", answer_type=Pay)
    for data, callers in (
        (outcome, False),
        (call.to_json(), False),
        (Question.make("Pay?").to_json(), False),
        (plain.to_json(), True),
    ):
        promise = Promise("default", "q", PromiseKind.QUESTION, PromiseState.PENDING, 0.0, data=data)
        assert asked_of_caller(Caller("bot"), promise) is callers
        assert not asked_of_caller(Caller("bot"), replace(promise, assignees=("user:ana",)))


@in_asyncio
async def test_every_store_and_a_server_serve_tasks(new_store: NewStore, tmp_path: Path) -> None:
    app = desk_app(tmp_path, new_store())
    async with running(app), front_door(app.store) as door, AsyncClient(door) as remote:
        for place, source in enumerate((app, remote)):
            async with serving(source, "both") as url, connected(url) as bot:
                task = await send(bot, message(f"m{place}", {}))
                shown = [each["question"] for each in get_data_parts(task.status.message.parts)]
                if len(shown) == 1:  # the second one was not open yet
                    task = await bot.get_task(GetTaskRequest(id=task.id))
                    shown = [each["question"] for each in get_data_parts(task.status.message.parts)]
                assert [each["text"] for each in shown] == ["Why?", "When?"]
                one = await send(bot, message("a1", reply(shown[1], "now"), task=task.id))
                assert [question(one)["text"], one.status.state] == ["Why?", INPUT_REQUIRED]
                again = message(
                    "a2", reply(shown[0], "so", note="mine"), reply(shown[1], "never"), task=task.id
                )
                told = await send(bot, again)
                assert "too late" in texts(told)
                done = await comes(lambda: ended(bot, task.id))  # noqa: B023
                assert done is not None
                assert get_data_parts(done.artifacts[0].parts) == [["so", "now"]]


@in_asyncio
async def test_of_the_caller_and_the_inbox_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with running(app) as client, serving(app, "ship") as url, connected(url) as bot:
        task = await send(bot, message("m1", {"order": "o-1"}))
        shown = question(task)
        await client.answer(shown["question_id"], HOME, user_id="ana")
        assert (await client.backend.wait(task.id)).state == "succeeded"
        with pytest.raises(UnsupportedOperationError, match="ana"):
            await send(bot, message("m2", reply(shown, {"street": "Side", "number": 1}), task=task.id))
        task = await send(bot, message("m3", {"order": "o-2"}))
        shown = question(task)
        said = message("m4", reply(shown, HOME), task=task.id)
        both = await asyncio.gather(
            send(bot, said),
            client.answer(shown["question_id"], {"street": "Side", "number": 1}, user_id="ana"),
            return_exceptions=True,
        )
        winner = (await client.promises.get(shown["question_id"])).settled_by
        loser = both[0] if winner == "ana" else both[1]
        if not isinstance(loser, Exception):  # the task had not ended yet
            assert isinstance(loser, Task)
            assert "ana" in texts(loser)
        await client.backend.wait(task.id)
        assert effects(tmp_path) == ["begun", "shipped"] * 2


@in_asyncio
async def test_tasks_of_others_and_other_runs_are_not_found(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with (
        running(app) as client,
        serving(app, "ship") as url,
        serving(app, "agree") as other,
        connected(url) as bot,
        connected(url, "eve", streaming=True) as eve,
        connected(other) as elsewhere,
    ):
        task = await send(bot, message("m1", {"order": "o-1"}))
        plain = await client.start("ship", "o-2", id="plain", started_by="bot")
        await pauses(app, plain.id)
        answer = reply(question(task), HOME)
        for client_of, id in ((eve, task.id), (elsewhere, task.id), (bot, plain.id), (bot, "nothing")):
            with pytest.raises(TaskNotFoundError):
                await client_of.get_task(GetTaskRequest(id=id))
            with pytest.raises(TaskNotFoundError):
                await client_of.cancel_task(CancelTaskRequest(id=id))
            with pytest.raises(TaskNotFoundError):
                [each async for each in client_of.send_message(message("x", answer, task=id))]
        with pytest.raises(TaskNotFoundError):
            [each async for each in eve.subscribe(SubscribeToTaskRequest(id=task.id))]
        assert {
            each.task.id for each in [e async for e in eve.send_message(message("m1", {"order": "o-1"}))]
        } != {task.id}
        (theirs,) = (await client.questions(run_id=plain.id)).items
        other_run = {"question_id": theirs.id, "digest": signed(theirs.data), "value": HOME}
        assert "no question" in texts(await send(bot, message("m2", other_run, task=task.id)))
        assert (await client.promises.get(theirs.id)).state == "pending"
        with pytest.raises(InvalidParamsError, match="context"):
            await send(bot, message("m3", answer, task=task.id, context="another"))
        assert (await bot.get_task(GetTaskRequest(id=task.id))).status.state == INPUT_REQUIRED


@in_asyncio
async def test_a_stream_shows_the_states_and_the_result(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with running(app), serving(app, "ship") as url, connected(url, streaming=True) as bot:
        events = [each async for each in bot.send_message(message("m1", {"order": "o-1"}))]
        task = events[0].task
        assert task.id
        (*_, last) = events
        assert (last.task if last.HasField("task") else last.status_update).status.state == INPUT_REQUIRED
        shown = question(await bot.get_task(GetTaskRequest(id=task.id)))
        events = [each async for each in bot.send_message(message("m2", reply(shown, HOME), task=task.id))]
        assert [
            each.artifact_update.artifact.name for each in events if each.HasField("artifact_update")
        ] == ["result"]
        assert events[-1].status_update.status.state == COMPLETED


@in_asyncio
async def test_a_task_is_cancelled_once_and_a_failure_tells_no_secrets(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with (
        running(app) as client,
        serving(app, "ship") as url,
        serving(app, "fail") as broken,
        connected(url) as bot,
        connected(broken) as unlucky,
    ):
        task = await send(bot, message("m1", {"order": "o-1"}))
        ended = await bot.cancel_task(CancelTaskRequest(id=task.id))
        assert ended.status.state == TaskState.TASK_STATE_CANCELED
        assert not await asked(client, task.id)
        with pytest.raises(TaskNotCancelableError):
            await bot.cancel_task(CancelTaskRequest(id=task.id))
        failed = await send(unlucky, message("m1", {}))
        assert failed.status.state == TaskState.TASK_STATE_FAILED
        assert "ValueError" in texts(failed)
        assert "secret" not in str(failed)


@in_asyncio
async def test_values_keep_their_types_and_digits(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with running(app) as client, serving(app, "echo") as url, connected(url) as bot:
        for place, value in enumerate([7000, 0.5, "a\nb", "", [], {"a": [None, True]}, [[[[[[1]]]]]], None]):
            task = await send(bot, message(f"m{place}", {"value": value}))
            result = json.loads((await client.backend.get_run(task.id)).result or "null")
            assert (result, type(result)) == (value, type(value))
            assert len(task.artifacts) == (value is not None)
    nested: Any = 1
    for _ in range(60):
        nested = [nested]
    for value in (2**60, [-(2**53)], {"x": "\ud800"}, "\ud800", nested):
        assert json.loads(part_of(value).text) == value
    assert part_of(2**53 - 1).data.number_value == 2**53 - 1


@in_asyncio
async def test_a_message_sets_no_option_of_the_run_and_loses_no_digit(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    async with running(app), serving(app, "echo") as url, connected(url) as bot:
        bad: list[tuple[Any, ...]] = [
            ({"value": 1, "started_by": "user:ana"},),
            ({"value": 1, "priority": 9},),
            ({"value": 2**53 + 1},),
            ({"other": 1},),
            ({"value": 1}, {"value": 2}),
            ("text", {"value": 2}),
            (["x"],),
            (),
        ]
        for place, parts in enumerate(bad):
            with pytest.raises(InvalidParamsError):
                pytest.fail(f"{parts}: {await send(bot, message(f'm{place}', *parts))}")
        posed = message("m", "hello")
        posed.message.role = Role.ROLE_AGENT
        with pytest.raises(InvalidParamsError, match="role"):
            await send(bot, posed)
        for id, context in (("m" * 300, ""), ("m", "c" * 300), ("", "")):
            with pytest.raises(InvalidParamsError):
                await send(bot, message(id, {"value": 1}, context=context))
        assert (await send(bot, message("m", "hello"))).artifacts[0].parts[0].text == "hello"


@in_asyncio
async def test_strangers_and_requests_of_other_sites_are_refused(tmp_path: Path) -> None:
    app = desk_app(tmp_path)
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}

    async def nobody(request: Any) -> Caller | None:
        return by_id.get(request.headers.get("x-user"))

    by_id = {"bot": Caller("bot")}
    async with (
        running(app),
        serving(app, "echo", caller=nobody) as url,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        assert (await http.post(url, json=body)).status_code == 401
        mine = {"x-user": "bot", "a2a-version": "1.0"}
        assert (
            await http.post(url, content="{}", headers={**mine, "content-type": "text/plain"})
        ).status_code == 415
        large = await http.post(url, json={**body, "params": {"id": "x" * 2_000_000}}, headers=mine)
        assert large.status_code == 413
        twice = json.dumps(body).replace('"id": "x"', '"id": "x", "id": "y"')
        as_json = {**mine, "content-type": "application/json"}
        for text in (twice, "{", '{"a":' * 9000, b"\xff"):
            assert (await http.post(url, content=text, headers=as_json)).status_code == 400
        assert (await http.post(url, json=body, headers=mine)).json()["error"]["code"] == -32001
        card = (await http.get(f"{url}/.well-known/agent-card.json")).json()
        assert (
            card["capabilities"]["pushNotifications"] is False
            or not card["capabilities"]["pushNotifications"]
        )
        old = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
        sent = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": old}}
        reply_03 = (await http.post(url, json=sent, headers={"x-user": "bot"})).json()["result"]
        assert (reply_03["kind"], reply_03["status"]["state"]) == ("task", "completed")


@pytest.mark.long
@in_asyncio
async def test_a_killed_server_loses_no_task_and_repeats_nothing(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/agents/ship"
    first = message("m1", {"order": "o-1"})
    async with process(tmp_path, port), connected(url, streaming=True) as bot:
        events = bot.send_message(first)
        task = (await anext(events)).task
    with suppress(A2AClientError):
        assert not [each async for each in events if each.HasField("artifact_update")]
    async with process(tmp_path, port), connected(url) as bot, connected(url, streaming=True) as listener:
        again = await send(bot, first)
        assert (again.id, again.status.state) == (task.id, INPUT_REQUIRED)
        answer = message("m2", reply(question(again), HOME), task=task.id)
        answer.configuration.return_immediately = True
        events = listener.subscribe(SubscribeToTaskRequest(id=task.id))
        assert (await anext(events)).task.id == task.id
        await send(bot, answer)
    async with process(tmp_path, port), connected(url) as bot:
        answer.configuration.return_immediately = False
        ended = await send(bot, answer)
        assert (ended.id, ended.status.state) == (task.id, COMPLETED)
        assert await send(bot, first) == ended
        # Only a step that was cut in the middle runs again.
        assert list(dict.fromkeys(effects(tmp_path))) == ["begun", "shipped"]
        app = desk_app(tmp_path)
        async with AsyncClient(app) as client:
            assert [each.id for each in (await client.list(workflow="ship")).items] == [task.id]
        await app.store.close()


async def ended(bot: Client, task_id: str) -> Task | None:
    task = await bot.get_task(GetTaskRequest(id=task_id))
    return task if task.status.state == COMPLETED else None


def signed(data: str | None) -> str:
    return json.loads(data or "{}")["digest"]


def bots_answer(caller: Caller, asked: Promise) -> bool:
    return caller.user_id == "bot"


@asynccontextmanager
async def process(folder: Path, port: int) -> AsyncGenerator[None]:
    """A process that serves and runs the workflow ``ship``, killed at the end."""
    with (folder / "log").open("ab") as log:
        command = ("tests.integrations.a2a.desk", str(folder), str(port))
        running = Program(command, cwd=ROOT, env=os.environ, stdout=log, stderr=log)
    try:
        async with httpx.AsyncClient(trust_env=False) as http:

            async def is_up() -> bool:
                try:
                    return (await http.post(f"http://127.0.0.1:{port}/agents/ship")).status_code == 401
                except httpx.TransportError:
                    return False

            await comes(is_up)
        yield
    finally:
        running.kill()
        await asyncio.to_thread(running.wait)
