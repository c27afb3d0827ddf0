"""The rules of the store contract for standing approvals. Every store must pass all of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from signoff.errors import InvalidValue, NotFound
from signoff.records import AuditKind, NewAuditEvent, NewRule, Promise, PromiseState, Rule, RunState
from signoff.records.paging import RuleFilter
from tests.stores.question_changes import amendment, ask, kinds
from tests.stores.scene import YES, Scene, rule


def new_rule(scene: Scene, id: str = "x", **more: Any) -> NewRule:
    terms = {"by": "ana", "tool": "mail", "arguments": '{"/to":"bob"}', "question_id": "r.0", **more}
    return NewRule(id, **{"expires_at": scene.clock.now() + 60, **terms})


async def made(scene: Scene, id: str = "x", asking: str = "r", **more: Any) -> Rule:
    """Make a rule with the answer to a question."""
    asked = await ask(scene, asking)
    new = new_rule(scene, id, question_id=asked.id, **more)
    _, done = await scene.store.amend(asked.id, amendment(asked, settlement=YES, rule=new))
    assert done
    await scene.claim()  # out of the way
    return await scene.store.get_rule(id)


async def use(scene: Scene, asked: Promise, id: str = "x") -> bool:
    return (await scene.store.amend(asked.id, amendment(asked, settlement=YES, by_rule=id)))[1]


def revoked(id: str = "e", **more: Any) -> NewAuditEvent:
    return NewAuditEvent(id, AuditKind.RULE_REVOKED, "r.0", **{"by": "ana", **more})


async def listed(scene: Scene, **which: Any) -> list[str]:
    return [each.id for each in (await scene.store.list_rules(RuleFilter(**which))).items]


@rule
async def test_a_rule_is_made_with_an_answer_and_kept_as_it_was_said(scene: Scene) -> None:
    now = scene.clock.now()
    terms: dict[str, Any] = {"run_id": "r", "groups": ("desk", "ops"), "roles": ("lead",), "max_uses": 3}
    found = await made(scene, **terms)
    assert found == Rule("default", "x", now, "ana", "mail", '{"/to":"bob"}', "r.0", now + 60, **terms)
    with pytest.raises(NotFound):
        await scene.within("other").store.get_rule("x")
    assert await listed(scene.within("other")) == []


@rule
async def test_a_rule_is_not_made_without_the_answer(scene: Scene) -> None:
    asked = await ask(scene)
    stale = replace(amendment(asked, settlement=YES, rule=new_rule(scene)), version=asked.version + 1)
    assert (await scene.store.amend("r.0", stale))[1] is False
    with pytest.raises(NotFound):
        await scene.store.get_rule("x")
    assert (await scene.store.get_promise("r.0")).state is PromiseState.PENDING


@rule
async def test_what_a_rule_approves_is_settled_and_counted_in_one_step(scene: Scene) -> None:
    await made(scene)
    asked = await ask(scene, "s")
    assert await use(scene, asked)
    assert (await scene.store.get_promise("s.0")).state is PromiseState.RESOLVED
    assert (await scene.store.get_rule("x")).uses == 1
    assert await scene.state("s") is RunState.READY
    assert not await use(scene, asked)  # settled: not counted again
    assert (await scene.store.get_rule("x")).uses == 1


@rule
async def test_repeating_a_call_makes_and_uses_a_rule_once(scene: Scene) -> None:
    asked = await ask(scene)
    change = amendment(asked, settlement=YES, rule=new_rule(scene))
    first = await scene.store.amend("r.0", change, token="t")
    assert await scene.store.amend("r.0", change, token="t") == first
    await scene.claim()
    other = await ask(scene, "s")
    change = amendment(other, settlement=YES, by_rule="x")
    first = await scene.store.amend("s.0", change, token="t")
    assert first[1]
    assert await scene.store.amend("s.0", change, token="t") == first
    assert (await scene.store.get_rule("x")).uses == 1


@rule
async def test_a_rule_that_is_not_in_force_approves_nothing(scene: Scene) -> None:
    await made(scene, "used up", "r1", max_uses=1)
    await made(scene, "revoked", "r2")
    await made(scene, "expired", "r3", expires_at=scene.clock.now() + 5)
    assert await use(scene, await ask(scene, "r4"), "used up")
    await scene.claim()
    await scene.store.revoke_rule("revoked", revoked())
    scene.clock.advance(5)
    asked = await ask(scene, "s")
    for id in ("used up", "revoked", "expired", "unknown"):
        assert not await use(scene, asked, id)
    await made(scene.within("other"), "elsewhere")
    assert not await use(scene, asked, "elsewhere")
    assert await scene.store.get_promise("s.0") == asked
    assert await listed(scene, in_force=True) == []
    assert [(await scene.store.get_rule(id)).uses for id in ("used up", "revoked", "expired")] == [1, 0, 0]


@rule
async def test_the_id_of_a_rule_is_taken_once(scene: Scene) -> None:
    first = await made(scene)
    asked = await ask(scene, "s")
    change = amendment(asked, settlement=YES, rule=new_rule(scene, tool="other"))
    assert (await scene.store.amend("s.0", change))[1] is False
    assert await scene.store.get_rule("x") == first
    assert await scene.store.get_promise("s.0") == asked


@rule
async def test_revoking_is_recorded_once(scene: Scene) -> None:
    await made(scene)
    scene.clock.advance(7)
    gone = await scene.store.revoke_rule("x", revoked())
    assert (gone.revoked_at, gone.revoked_by) == (scene.clock.now(), "ana")
    scene.clock.advance(7)
    assert await scene.store.revoke_rule("x", revoked("later", by="bob")) == gone
    assert (await kinds(scene)).count(AuditKind.RULE_REVOKED) == 1
    with pytest.raises(NotFound):
        await scene.store.revoke_rule("none", revoked())
    with pytest.raises(NotFound):
        await scene.within("other").store.revoke_rule("x", revoked())
    with pytest.raises(InvalidValue):
        await scene.store.revoke_rule("x", replace(revoked(), kind=AuditKind.ASKED))


@rule
async def test_rules_are_listed_in_order_and_by_pages(scene: Scene) -> None:
    for n in range(5):
        await made(scene, f"x{n}", f"r{n}", by="ana" if n % 2 else "bob", tool="mail" if n < 3 else "pay")
    await scene.store.revoke_rule("x1", revoked())
    assert await listed(scene) == ["x0", "x1", "x2", "x3", "x4"]
    assert await listed(scene, by="bob") == ["x0", "x2", "x4"]
    assert await listed(scene, by="bob", tool="mail") == ["x0", "x2"]
    assert await listed(scene, tool="pay") == ["x3", "x4"]
    assert await listed(scene, in_force=True) == ["x0", "x2", "x3", "x4"]
    assert await listed(scene, in_force=True, tool="mail", by="ana") == []
    assert await listed(scene.within("other")) == []
    for which in (RuleFilter(), RuleFilter(in_force=True), RuleFilter(by="bob")):
        whole = (await scene.store.list_rules(which)).items
        pages: list[Rule] = []
        after = None
        while True:
            page = await scene.store.list_rules(which, after=after, limit=2)
            pages += page.items
            after = page.next
            if after is None:
                break
        assert tuple(pages) == whole
    with pytest.raises(InvalidValue):
        await scene.store.list_rules(RuleFilter(tool="nul \0"))


@rule
async def test_a_rule_for_a_session_is_listed_with_it_and_may_have_no_end(scene: Scene) -> None:
    kept = await made(scene, "c", "r1", session_id="c-1", expires_at=None)
    assert (kept.session_id, kept.run_id, kept.expires_at) == ("c-1", None, None)
    await made(scene, "brief", "r2", session_id="c-1", max_uses=1)
    await made(scene, "d", "r3", session_id="c-2", expires_at=None, by="bob")
    await made(scene, "none", "r4")
    assert await listed(scene, session_id="c-1") == ["c", "brief"]
    assert await listed(scene, session_id="c-2", by="ana") == []
    assert await listed(scene, session_id="") == ["none"]
    assert await listed(scene, session_id="", in_force=True) == ["none"]
    assert await listed(scene, session_id="c-1", in_force=True, tool="mail") == ["c", "brief"]
    assert await listed(scene, session_id="c-2", in_force=True, by="ana") == []
    assert await listed(scene.within("other"), session_id="c-1") == []
    assert await listed(scene.within("other"), session_id="c-1", in_force=True) == []
    scene.clock.advance(10 * 365 * 86_400)
    assert await listed(scene, in_force=True) == ["c", "d"]
    assert await listed(scene, session_id="c-1", in_force=True) == ["c"]
    assert await use(scene, await ask(scene, "s"), "c")
    await scene.claim()
    assert (await scene.store.revoke_rule("c", revoked())).expires_at is None
    assert await listed(scene, session_id="c-1", in_force=True) == []
    assert not await use(scene, await ask(scene, "t"), "c")
    with pytest.raises(InvalidValue):
        await scene.store.list_rules(RuleFilter(session_id="nul \0"))


@rule
async def test_of_many_who_use_a_rule_at_once_no_more_do_than_may(scene: Scene) -> None:
    await made(scene, max_uses=3)
    asked = [await ask(scene, f"s{n}") for n in range(8)]

    async def try_to(question: Promise) -> bool:
        while not await use(scene, question):
            if not await listed(scene, in_force=True):
                return False
        return True

    assert sum(await asyncio.gather(*(try_to(each) for each in asked))) == 3
    assert (await scene.store.get_rule("x")).uses == 3


@rule
async def test_of_a_use_and_a_revocation_at_once_what_counts_is_counted(scene: Scene) -> None:
    for n in range(4):
        await made(scene, f"x{n}", f"r{n}")
        asked = await ask(scene, f"s{n}")
        done, gone = await asyncio.gather(
            use(scene, asked, f"x{n}"), scene.store.revoke_rule(f"x{n}", revoked(f"e{n}"))
        )
        settled = (await scene.store.get_promise(asked.id)).state is PromiseState.RESOLVED
        assert done == settled == bool((await scene.store.get_rule(f"x{n}")).uses)
        assert gone.revoked_at is not None
        await scene.claim()


@rule
@pytest.mark.parametrize(
    "wrong",
    [
        {"arguments": "[]"},
        {"arguments": "{"},
        {"by": "user:ana"},
        {"by": ""},
        {"by": "signoff:rule"},
        {"tool": "nul \0"},
        {"groups": ("",)},
        {"max_uses": 0},
        {"max_uses": 2**31},
        {"expires_at": float("inf")},
        {"expires_at": float("nan")},
        {"expires_at": None},
        {"session_id": ""},
        {"session_id": "nul \0"},
        {"session_id": "c-1", "run_id": "r"},
    ],
    ids=repr,
)
async def test_a_rule_that_cannot_be_kept_changes_nothing(scene: Scene, wrong: dict[str, Any]) -> None:
    asked = await ask(scene)
    with pytest.raises(InvalidValue):
        await scene.store.amend("r.0", amendment(asked, settlement=YES, rule=new_rule(scene, **wrong)))
    assert await scene.store.get_promise("r.0") == asked


@rule
async def test_rules_go_with_answers_and_one_makes_no_other(scene: Scene) -> None:
    asked = await ask(scene)
    for change in (
        amendment(asked, rule=new_rule(scene)),
        amendment(asked, by_rule="x"),
        amendment(asked, settlement=YES, rule=new_rule(scene), by_rule="y"),
    ):
        with pytest.raises(InvalidValue):
            await scene.store.amend("r.0", change)
