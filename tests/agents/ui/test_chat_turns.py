"""Turns of all kinds in a chat: sub-agents, deadlines, queued and long turns, files, and a server in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ImageUrl, UserPromptPart
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from signoff import AsyncClient, Signoff
from signoff.agents import Durable, agent_tool, ask, ask_user_tool, in_workflow
from tests.agents.chats import Chats
from tests.agents.scripts import Script, calls, says
from tests.agents.ui.chat_clients import Client, Node, approve, kinds, parts, said, serving_web
from tests.places import NewStore
from tests.server.conftest import serving
from tests.support import in_asyncio, new_app, running


@asynccontextmanager
async def scripted(
    folder: Path, node: Node, script: Script, *, tools: list[Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Signoff, Any]]:
    """A worker with an agent that follows a script, and a way to open AG-UI chats with it."""
    app = new_app(folder)
    app.register(Agent(script.model, name="desk", tools=tools or [], capabilities=[Durable()], **options))
    async with running(app), serving_web(app, "desk") as url:

        def opened(kind: str = "ag-ui") -> Client:
            path = "agent" if kind == "ag-ui" else "chat"
            return Client(node, kind=kind, url=f"{url}/{path}", thread="t", user="ana")

        yield app, opened


def results(state: dict[str, Any]) -> list[str]:
    """Return the results of tools that an AG-UI client shows."""
    return [each["content"] for each in state["messages"] if each["role"] == "tool"]


@in_asyncio
async def test_a_sub_agents_question_is_an_interrupt_of_its_own(tmp_path: Path, node: Node) -> None:
    script = Script(calls(("ask_researcher", {"task": "look"})), says("done"))
    inner = Script(calls(("dig", {"where": "here"})), says("found gold"))
    dug: list[str] = []
    app = new_app(tmp_path)
    researcher = Agent(inner.model, name="researcher", capabilities=[Durable()])

    @researcher.tool_plain(requires_approval=True)
    def dig(where: str) -> str:
        dug.append(where)
        return "gold"

    tool = agent_tool("researcher")
    script.replace(calls((tool.name, {"task": "look"})), says("done"))
    app.register(researcher)
    app.register(Agent(script.model, name="desk", tools=[tool], capabilities=[Durable()]))
    async with running(app), serving_web(app, "desk") as url:
        tab = Client(node, kind="ag-ui", url=f"{url}/agent", thread="t", user="ana")
        [question] = (await tab.do("say", id="m-1", text="go"))["pending"]
        assert "toolCallId" not in question
        assert question["metadata"]["tool"] == "dig"
        vercel = Client(node, kind="vercel", url=f"{url}/chat", thread="t", user="ana")
        await vercel.do("load")
        [told] = (await vercel.do("resume"))["data"]
        assert (told["type"], told["data"]["id"]) == ("data-question", question["id"])
        ended = await vercel.do("reply", answers=[{"id": question["id"], "payload": {"approved": True}}])
        assert [part["text"] for part in parts(ended, "text")] == ["done"]
        assert dug == ["here"]


@in_asyncio
async def test_a_deadline_shows_and_no_answer_in_time_is_a_denial(tmp_path: Path, node: Node) -> None:
    chats = Chats(tmp_path, durable={"approvals": {"rm": ask("Remove?", timeout=1)}})
    async with chats.running(), serving_web(chats.app, "support") as url:
        tab = Client(node, kind="ag-ui", url=f"{url}/agent", thread="t", user="ana")
        following = await tab.do("say", id="m-1", text="rm a")
        assert following["pending"][0]["expiresAt"].endswith("+00:00")
        other = Client(node, kind="ag-ui", url=f"{url}/agent", thread="t", user="ana")
        seen = await other.do("connect", props={"follow": True})
        assert said(seen)[-1] == ("assistant", "did: No one allowed this call in time.")
        await asyncio.sleep(0)
        late = await tab.do("answer", entries=[approve(following["pending"][0])])
        assert late["failed"] is not None or "CUSTOM" in kinds(late)
        assert chats.removed == []


@in_asyncio
async def test_a_message_while_a_turn_waits_is_answered_after_it(tmp_path: Path, node: Node) -> None:
    chats = Chats(tmp_path)
    async with chats.running(), serving_web(chats.app, "support") as url:

        def opened() -> Client:
            return Client(node, kind="ag-ui", url=f"{url}/agent", thread="t", user="ana")

        tab = opened()
        [question] = (await tab.do("say", id="m-1", text="rm a"))["pending"]
        await tab.do("forget")
        queued = await tab.do("say", id="m-2", text="hello")
        assert [each["id"] for each in queued["pending"]] == [question["id"]]
        ended = await tab.do("answer", entries=[approve(question)])
        assert [each for each in said(ended) if each[0] != "tool"] == [
            ("user", "rm a"),
            ("assistant", "did: removed a"),
            ("user", "hello"),
            ("assistant", "heard hello"),
        ]
        assert said(await opened().do("connect")) == said(ended)


@in_asyncio
async def test_a_long_turn_is_told_over_all_its_generations(tmp_path: Path, node: Node) -> None:
    script = Script(*(calls(("look", {"at": str(n)}, f"c-{n}")) for n in range(8)), says("done"))

    def look(at: str) -> str:
        return f"saw {at}"

    async with scripted(tmp_path, node, script, tools=[look]) as (_, opened):
        tab = opened()
        ended = await tab.do("say", id="m-1", text="go")
        assert results(ended) == [f"saw {n}" for n in range(8)]
        assert said(ended)[-1] == ("assistant", "done")
        reloaded = await opened().do("connect")
        assert results(reloaded) == results(ended)
        loaded = await opened("vercel").do("load")
        assert [part["output"] for part in parts(loaded, "tool-")] == results(ended)


@in_asyncio
async def test_results_of_workflow_code_come_at_the_end_at_the_latest(tmp_path: Path, node: Node) -> None:
    script = Script(calls(("plan", {"what": "a"}, "c-1")), says("done"))

    @in_workflow
    async def plan(what: str) -> str:
        return f"plan of {what}"

    async with scripted(tmp_path, node, script, tools=[plan]) as (_, opened):
        ended = await opened().do("say", id="m-1", text="go")
        assert results(ended) == ["plan of a"]
        assert said(await opened().do("connect"))[-1] == ("assistant", "done")


@in_asyncio
async def test_a_tool_that_runs_elsewhere_gets_its_result_from_the_chat(tmp_path: Path, node: Node) -> None:
    script = Script(calls(("locate", {}, "c-1")), says("done"))
    tool = ToolDefinition(name="locate", description="Where the user is.")
    async with scripted(tmp_path, node, script, toolsets=[ExternalToolset([tool])]) as (_, opened):
        tab = opened()
        [question] = (await tab.do("say", id="m-1", text="go"))["pending"]
        assert (question["reason"], question["toolCallId"]) == ("input_required", "c-1")
        wrong = await tab.do("answer", entries=[{"interruptId": question["id"], "payload": {"result": 1}}])
        assert wrong["events"][-1]["code"] == "WrongAnswer"
        payload = {"value": {"result": {"city": "Ulm"}}}
        ended = await tab.do("answer", entries=[{"interruptId": question["id"], "payload": payload}])
        assert results(ended) == ['{"city":"Ulm"}']
        assert said(ended)[-1] == ("assistant", "done")


@in_asyncio
async def test_questions_with_forms_are_answered_in_the_chat(tmp_path: Path, node: Node) -> None:
    asked = {"message": "The trip", "fields": [{"name": "seat", "question": "Window or aisle?"}]}
    script = Script(calls(("ask_user", asked, "c-1")), says("done"))
    async with scripted(tmp_path, node, script, tools=[ask_user_tool()]) as (_, opened):
        tab = opened()
        [question] = (await tab.do("say", id="m-1", text="go"))["pending"]
        assert question["responseSchema"]["required"] == ["value"]
        payload = {"value": {"seat": "aisle"}}
        ended = await tab.do("answer", entries=[{"interruptId": question["id"], "payload": payload}])
        assert "aisle" in str(results(ended))
        assert said(ended)[-1] == ("assistant", "done")


@in_asyncio
async def test_files_of_a_message_reach_the_model_if_a_client_may_name_them(
    tmp_path: Path, node: Node
) -> None:
    script = Script(says("nice"))
    look = {"type": "text", "text": "look"}
    image = {"type": "image", "source": {"type": "url", "value": "https://example.org/a.png"}}
    async with scripted(tmp_path, node, script) as (_, opened):
        tab = opened()
        for place in ("file:///etc/passwd", "s3://bucket/a", "gs://bucket/a"):
            secret = {"type": "document", "source": {"type": "url", "value": place}}
            refused = await opened().do("say", id="m-0", content=[look, secret])
            assert refused["events"][-1]["code"] == "InvalidValue"
        ended = await tab.do("say", id="m-1", content=[look, image])
        assert said(ended)[-1] == ("assistant", "nice")
    [messages] = script.asked
    [prompt] = [part for part in messages[-1].parts if isinstance(part, UserPromptPart)]
    [text, shown] = prompt.content
    assert text == "look"
    assert isinstance(shown, ImageUrl)


@pytest.mark.long
@in_asyncio
async def test_the_web_service_may_be_a_client_of_a_server(tmp_path: Path, node: Node) -> None:
    chats = Chats(tmp_path)
    async with serving(chats.app) as server, AsyncClient(server.url) as client:
        async with serving_web(client, "support") as url:
            for kind, path in (("ag-ui", "agent"), ("vercel", "chat")):
                tab = Client(node, kind=kind, url=f"{url}/{path}", thread=kind, user="ana")
                shown = await tab.do("say", id="m-1", text=f"rm {kind}")
                if kind == "ag-ui":
                    ended = await tab.do("answer", entries=[approve(shown["pending"][0])])
                else:
                    [call] = parts(shown, "tool-")
                    decision = {"id": call["approval"]["id"], "approved": True}
                    ended = await tab.do("answer", decisions=[decision])
                assert f"removed {kind}" in str(ended["messages"][-1])
        assert chats.removed == ["ag-ui", "vercel"]


@pytest.mark.parametrize("kind", ["postgres", "remote"])
@pytest.mark.long
@in_asyncio
async def test_a_chat_is_the_same_in_other_stores(new_store: NewStore, node: Node, kind: str) -> None:
    chats = Chats(new_store())
    async with chats.running():
        source = chats.client if kind == "remote" else Signoff(new_store())
        async with serving_web(source, "support") as url:
            tab = Client(node, kind="ag-ui", url=f"{url}/agent", thread="t", user="ana")
            asked = await tab.do("say", id="m-1", text="rm a b")
            ended = await tab.do("answer", entries=[approve(each) for each in asked["pending"]])
            assert said(ended)[-1] == ("assistant", "did: removed a, removed b")
            reloaded = Client(node, kind="vercel", url=f"{url}/chat", thread="t", user="ana")
            loaded = await reloaded.do("load")
            assert [part["text"] for part in parts(loaded, "text")] == ["did: removed a, removed b"]
        if isinstance(source, Signoff):
            await source.store.close()
    assert sorted(chats.removed) == ["a", "b"]
