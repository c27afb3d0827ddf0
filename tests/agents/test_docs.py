"""The examples in docs/agents.md and docs/integrations/pydantic-ai.md run unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from signoff import Context, Signoff
from signoff.testing import MemoryStore, environment
from tests.agents.scripts import Script, calls, says
from tests.support import in_asyncio

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "agents.md"


def code_with(text: str, page: Path = PAGE) -> Any:
    """The page's example that has this text in it, for a scripted model."""
    blocks = [each.split("```")[0] for each in page.read_text().split("```python\n")[1:]]
    (block,) = [each for each in blocks if text in each]
    return compile(block.replace('"openai:gpt-5"', "model"), str(page), "exec")


@in_asyncio
async def test_the_first_example_of_the_page_runs(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    script = Script(calls(("refund", {"order_id": "o-1", "cents": 700})), says("done"))
    names: dict[str, Any] = {"__name__": "page", "model": script.model}
    exec(code_with("async def refund("), names)
    async with environment(names["app"]) as env:
        env.people.answer("support wants to call refund", approved=True)
        assert await env.run(names["help_with"], "Pay it back") == "done"
    assert "refunded 700 cents of o-1" in str(script.asked[1])


@in_asyncio
async def test_tools_that_wait_in_the_middle_do_so_as_shown() -> None:
    asked_for = {"message": "The trip", "fields": [{"name": "seat", "question": "Window or aisle?"}]}
    turn = calls(("deploy", {"service": "api"}), ("book", {"city": "Ulm"}), ("ask_user", asked_for))
    script, plans = Script(turn, says("done")), list[str]()

    def make_plan(service: str) -> str:
        plans.append(service)
        return f"plan of {service}"

    def apply_plan(plan: str) -> str:
        return f"applied the {plan}"

    names = {"__name__": "page", "model": script.model, "make_plan": make_plan, "apply_plan": apply_plan}
    exec(code_with("async def deploy("), names)
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await names["ops"].run("go")).output

    async with environment(app, hot_runs=0) as env:
        env.people.answer("Deploy api?", approved=True)
        env.people.answer("Which day in Ulm?", "Monday")
        env.people.answer("The trip", {"seat": "aisle"})
        assert await env.run(work) == "done"
    told = str(script.asked[1])
    assert "applied the plan of api" in told
    assert "booked Ulm for Monday" in told
    assert "aisle" in told
    assert plans == ["api"]


def test_the_program_of_the_page_about_pydantic_ai_runs(
    monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    script = Script(says("Mexico City"))
    names: dict[str, Any] = {"__name__": "page", "model": script.model}
    exec(code_with("def main()", DOCS / "integrations" / "pydantic-ai.md"), names)
    for _ in range(2):
        names["main"]()
    names["app"].close()
    assert capsys.readouterr().out == "Mexico City\nMexico City\n"
    assert len(script.asked) == 1
