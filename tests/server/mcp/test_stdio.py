"""``signoff mcp`` as clients start it: on a database, and as a bridge to a server."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from signoff.records.paging import AuditFilter
from signoff.server import Role
from tests.cli.commands import signoff
from tests.server.conftest import app_in, asked, path_of, start
from tests.server.keyed import Keyed
from tests.server.mcp.clients import MODES, refused, told
from tests.server.mcp.programs import program
from tests.support import PATIENCE_SECONDS, pauses, running

EMPTY: dict[str, Any] = {}


async def let_it_ask(folder: Path) -> None:
    app = app_in(folder)
    async with running(app) as client:
        await client.start("sign", ["group:finance"], id="asked")
        await pauses(app, "asked")


def test_a_database_is_served_in_the_name_of_the_user_who_configured_it(tmp_path: Path) -> None:
    async def work() -> None:
        await let_it_ask(tmp_path)
        options = ("--store", "sqlite:///signoff.db", "--user", "ana")
        for mode, groups in ((MODES[1], ()), (MODES[0], ("--in-group", "finance"))):
            async with program(*options, *groups, folder=tmp_path, mode=mode) as client:
                [question] = told(await client.call_tool("list_questions", EMPTY))["questions"]
                shown = told(await client.call_tool("show_question", {"question_id": question["id"]}))
                answer = {"question_id": shown["id"], "value": True, "digest": shown["digest"]}
                result = await client.call_tool("answer_question", answer)
                if groups:
                    assert told(result)["settled_by"] == "ana"
                else:
                    assert "assigned to others" in refused(result)
        async with running(app_in(tmp_path)) as client:
            result = await (await client.get("asked")).result(PATIENCE_SECONDS)
            assert result == {"approved": True, "by": "ana"}
            page = await client.backend.list_audit(AuditFilter("asked.1"))
            [event] = [each for each in page.items if each.kind == "resolved"]
            assert event.origin is not None
            assert event.origin.way == "mcp"

    asyncio.run(work())


@pytest.mark.long
def test_a_server_is_reached_with_a_key_and_its_settings(served: Keyed, tmp_path: Path, name: str) -> None:
    with served.service("ops", [Role.OPERATOR]) as operator:
        start(operator, "ask", name)
        id = asked(operator, name)
        key = served.key("laptop")[0]

        async def work() -> None:
            async with program(
                "--url", served.server.url, folder=tmp_path, variables={"SIGNOFF_KEY": key}
            ) as client:
                tools = {tool.name for tool in (await client.list_tools()).tools}
                assert {"answer_question", "start__echo"} <= tools
                shown = told(await client.call_tool("show_question", {"question_id": id}))
                answer = {"question_id": id, "value": {"approved": True}, "digest": shown["digest"]}
                assert "by name" in refused(await client.call_tool("answer_question", answer))

        asyncio.run(work())
        assert operator.get(f"/v1/questions/{path_of(id)}").json()["state"] == "pending"


@pytest.mark.long
@pytest.mark.parametrize("key", [None, "sgk_" + "x" * 43])
def test_a_bridge_says_that_its_key_is_wrong(served: Keyed, tmp_path: Path, key: str | None) -> None:
    async def work() -> None:
        variables = {"SIGNOFF_KEY": key} if key else {}
        async with program("--url", served.server.url, folder=tmp_path, variables=variables) as client:
            assert "SIGNOFF_KEY" in refused(await client.call_tool("list_questions", EMPTY))
            with pytest.raises(Exception, match="SIGNOFF_KEY"):
                await client.list_tools()

    asyncio.run(work())


@pytest.mark.long
def test_a_bridge_without_its_server_fails_calls_and_denies_permissions(tmp_path: Path) -> None:
    async def work() -> None:
        async with program("--url", "http://127.0.0.1:9", "--retry", "1", folder=tmp_path) as client:
            assert "cannot be reached" in refused(await client.call_tool("list_runs", EMPTY))
            call = {"tool_name": "Bash", "input": {"command": "ls"}}
            denied = told(await client.call_tool("permission_prompt", call))
            assert denied["behavior"] == "deny"

    asyncio.run(work())


@pytest.mark.long
def test_the_program_ends_with_its_client(tmp_path: Path) -> None:
    """Else each session of a coding tool leaves a process behind."""
    command = [sys.executable, "-m", "signoff", "mcp", "--store", "sqlite:///signoff.db"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdin is not None
        process.stdin.close()
        try:
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.send_signal(signal.SIGKILL)


def test_options_of_the_database_are_refused_for_a_server(tmp_path: Path) -> None:
    ended = signoff("mcp", "--url", "http://127.0.0.1:9", "--user", "ana", cwd=tmp_path)
    assert ended.code == 2
    assert "the server decides" in ended.err
