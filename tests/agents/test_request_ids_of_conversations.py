"""A request id identifies one request in a whole conversation: respond, resume and steer, in later turns, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel

from signoff import Signoff
from signoff.agents import Approve, Deny, Durable, Finished, Paused, agent_tool
from signoff.errors import InvalidValue, RequestConflict, ResumeRefused, WrongAnswer
from signoff.testing import MemoryStore, environment
from tests.agents.chats import ObedientModel
from tests.agents.paused_talks import WAYS, paused, talking
from tests.agents.scripts import Script, calls, says
from tests.places import NewStore
from tests.support import in_asyncio


@WAYS
@in_asyncio
async def test_a_repeated_response_answers_nothing_of_a_later_turn(new_store: NewStore, way: str) -> None:
    async with talking(new_store(), way) as talk:
        chat = talk.conversation("c")
        first, _ = await paused(chat, "rm a")
        for _ in range(2):
            turn = await chat.respond(first.pending[0].id, Approve(), request_id="r-1")
            assert isinstance(turn, Finished)
        second, token = await paused(chat, "rm b")
        with pytest.raises(RequestConflict, match="r-1"):
            await chat.respond(second.pending[0].id, Approve(), request_id="r-1")
        with pytest.raises(RequestConflict, match="r-1"):
            await chat.resume(token, True, request_id="r-1")
        with pytest.raises(RequestConflict, match="r-1"):
            await chat.steer("and be brief", request_id="r-1")
        assert talk.chats.removed == ["a"]
        await chat.respond(second.pending[0].id, Deny("no"), request_id="r-2")


@WAYS
@in_asyncio
async def test_a_repeated_resume_is_a_success_and_answers_once(new_store: NewStore, way: str) -> None:
    async with talking(new_store(), way) as talk:
        chat = talk.conversation("c")
        _, token = await paused(chat, "rm a")
        with pytest.raises(WrongAnswer):
            await chat.resume(token, {"approved": "perhaps"}, request_id="r-1")
        for _ in range(2):  # a refused attempt does not use the id up
            turn = await talk.conversation("c").resume(token, True, user_id="ana", request_id="r-1")
            assert isinstance(turn, Finished)
        with pytest.raises(RequestConflict, match="another value"):
            await chat.resume(token, False, request_id="r-1")
        with pytest.raises(ResumeRefused, match="was used"):
            await chat.resume(token, True, request_id="r-2")
        second, other = await paused(chat, "rm b")
        for id in ("r-1", "r-2"):
            with pytest.raises(RequestConflict if id == "r-1" else ResumeRefused):
                await chat.resume(other if id == "r-1" else token, True, request_id=id)
        with pytest.raises(RequestConflict):
            await chat.respond(second.pending[0].id, Approve(), request_id="r-1")
        assert talk.chats.removed == ["a"]


@WAYS
@in_asyncio
async def test_a_resume_of_another_person_is_no_repetition(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        _, token = await paused(chat, "rm a")
        for user in ("ana", "user:ana"):
            assert isinstance(await chat.resume(token, True, user_id=user, request_id="r-1"), Finished)
        with pytest.raises(ResumeRefused, match="by user:ana"):
            await chat.resume(token, True, user_id="bob", request_id="r-1")
        assert talk.chats.removed == ["a"]


@WAYS
@in_asyncio
async def test_a_repeated_message_to_a_running_turn_is_read_once(new_store: NewStore, way: str) -> None:
    async with talking(new_store(), way) as talk:
        chat = talk.conversation("c")
        first, _ = await paused(chat, "rm a")
        for _ in range(2):
            assert await chat.steer("and be brief", request_id="r-1") == first.run_id
        turn = await chat.respond(first.pending[0].id, Approve())
        assert isinstance(turn, Finished)
        assert turn.output == "did: removed a; and be brief"
        second, _ = await paused(chat, "rm b")
        assert await chat.steer("and be brief", request_id="r-1") == first.run_id
        with pytest.raises(RequestConflict, match="another value"):
            await chat.steer("and be long", request_id="r-1")
        turn = await chat.respond(second.pending[0].id, Approve())
        assert isinstance(turn, Finished)
        assert turn.output == "did: removed b"


@pytest.mark.parametrize("id", ["", "  ", "x" * 257, "resume:1"])
@in_asyncio
async def test_a_request_id_that_is_not_valid_is_refused(tmp_path: Path, id: str) -> None:
    async with talking(tmp_path, "store") as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a")
        for refused in (
            chat.respond(turn.pending[0].id, Approve(), request_id=id),
            chat.resume(token, True, request_id=id),
            chat.steer("and be brief", request_id=id),
        ):
            with pytest.raises(InvalidValue, match="request_id"):
                await refused
        assert talk.chats.removed == []


@in_asyncio
async def test_an_id_that_has_answered_a_sub_agent_answers_nothing_else() -> None:
    app, removed = Signoff(MemoryStore()), list[str]()
    helper = Agent(FunctionModel(ObedientModel(["rm"])), name="helper", capabilities=[Durable()])

    @helper.tool_plain(requires_approval=True)
    async def rm(path: str) -> str:  # pyright: ignore[reportUnusedFunction]
        removed.append(path)
        return "removed"

    script = Script(calls(("helper", {"task": "rm a"})), calls(("helper", {"task": "rm b"})), says("done"))
    chief = Agent(script.model, name="chief", tools=[agent_tool("helper")], capabilities=[Durable()])
    app.register(helper)
    app.register(chief)
    async with environment(app):
        chat = app.conversation("chief", session_id="c")
        turn = await chat.run("go")
        assert isinstance(turn, Paused)
        turn = await chat.respond(turn.pending[0].id, Approve(), request_id="r-1")
        assert isinstance(turn, Paused)
        with pytest.raises(RequestConflict):
            await chat.respond(turn.pending[0].id, Approve(), request_id="r-1")
        assert removed == ["a"]
