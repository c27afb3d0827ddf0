"""Workers that settle questions with answers that no client could give: the server refuses them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from signoff import Signoff
from signoff.errors import InvalidValue, NotAllowed, NotFound, WrongAnswer
from signoff.people.questions.answers import answer
from signoff.people.questions.edits import edits_between
from signoff.people.questions.question import Action, Question
from signoff.people.questions.question_operations import bring_up_to_date, cancel
from signoff.people.questions.question_state import TIMEOUT
from signoff.people.questions.standing_approvals import Alike
from signoff.records import Amendment, AuditKind, NewPromise, PromiseKind, PromiseState, Settlement
from signoff.records.paging import AuditFilter, RuleFilter
from signoff.server import Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.server.store_api.worker_settlements import check_settlement
from signoff.stores.contract.store import Store
from signoff.stores.contract.tokens import CALLBACK
from signoff.stores.remote.store import RemoteStore
from tests.attacks.damage import DATABASES, damaged
from tests.stores.scene import Scene
from tests.support import in_asyncio

PROPOSAL: Final = {"to": "bob", "cents": 100}
FLAG: Final = {"urgent": 1}
FORM: Final = {
    "type": "object",
    "properties": {"cents": {"type": "integer", "maximum": 100}},
    "required": ["cents"],
}


def _data(question: Question, **policy: Any) -> str:
    return json.dumps({**json.loads(question.to_json()), "policy": {"asked_at": 1_000_000.0, **policy}})


APPROVAL: Final = Question.make("Pay?")
QUESTIONS: Final = {
    "approval": _data(APPROVAL),
    "form": _data(Question.make("How much?", input_type="form", answer_type=FORM)),
    "select": _data(Question.make("Which?", input_type="select", options=["red", "blue"])),
    "skippable": _data(Question.make("Which?", input_type="select", options=["red"], skippable=True)),
    "proposal": _data(Question.make("Send?", proposal=PROPOSAL)),
    "action": _data(Question.make("Send?", action=Action("mail", {"to": "bob"}))),
    "quorum": _data(APPROVAL, quorum={"approvals": 2, "of": 3}),
    "four eyes": _data(APPROVAL, excluded=["user:eve"]),
    "flag": _data(Question.make("Send?", proposal=FLAG)),
    "quorum, four eyes": _data(APPROVAL, quorum={"approvals": 2, "of": 3}, excluded=["user:eve"]),
    "default": _data(APPROVAL, deadline=60.0, timeout_answer={"approved": False}),
}


def _resolved(value: Any, by: str | None = "ana", **more: Any) -> Settlement:
    return Settlement(PromiseState.RESOLVED, json.dumps(value), by, **more)


def _votes(*users: str) -> dict[str, Any]:
    return {
        "approved": True,
        "votes": [{"user_id": each, "approved": True, "note": None, "at": 1.0} for each in users],
    }


APPROVED: Final = {"approved": True}

BAD: Final[dict[str, tuple[str, Settlement, type[Exception]]]] = {
    "an unknown member": ("approval", _resolved({"approve": "banana"}), WrongAnswer),
    "a decision that is a text": ("approval", _resolved({"approved": "yes"}), WrongAnswer),
    "a bare decision": ("approval", _resolved(True), WrongAnswer),
    "null": ("approval", _resolved(None), WrongAnswer),
    "no value": ("approval", Settlement(PromiseState.RESOLVED, None, "ana"), WrongAnswer),
    "a rejection": ("approval", Settlement(PromiseState.REJECTED, '"no"', "ana"), InvalidValue),
    "votes where one decides": ("approval", _resolved(_votes("ana", "bob")), WrongAnswer),
    "a default where there is none": ("approval", _resolved(APPROVED, TIMEOUT), WrongAnswer),
    "a callback where there is none": ("approval", _resolved(APPROVED, CALLBACK), NotAllowed),
    "too much": ("form", _resolved({"cents": 101}), WrongAnswer),
    "a member that is missing": ("form", _resolved({}), WrongAnswer),
    "no option": ("select", _resolved("green"), WrongAnswer),
    "skipped, unskippable": ("select", _resolved(None), WrongAnswer),
    "an approval of nothing": ("proposal", _resolved(APPROVED), WrongAnswer),
    "an edit that is not told": (
        "proposal",
        _resolved({"approved": True, "proposal": {"to": "eve", "cents": 100}, "edits": []}),
        WrongAnswer,
    ),
    "a proposal of another kind": (
        "proposal",
        _resolved({"approved": True, "proposal": 1, "edits": []}),
        WrongAnswer,
    ),
    "true where 1 was proposed": (
        "flag",
        _resolved({"approved": True, "proposal": {"urgent": True}, "edits": []}),
        WrongAnswer,
    ),
    "a rule that is not used": ("action", _resolved({"approved": True, "rule": "x"}), WrongAnswer),
    "one where two must agree": ("quorum", _resolved(APPROVED), WrongAnswer),
    "one vote of two": ("quorum", _resolved(_votes("ana")), WrongAnswer),
    "one user twice": ("quorum", _resolved(_votes("ana", "user:ANA")), WrongAnswer),
    "the requester": ("four eyes", _resolved(APPROVED, "eve"), NotAllowed),
    "the requester in capitals": ("four eyes", _resolved(APPROVED, "user:EVE"), NotAllowed),
    "nobody": ("four eyes", _resolved(APPROVED, None), NotAllowed),
    "a default before its time": ("default", _resolved({"approved": False}, TIMEOUT), WrongAnswer),
    "a default that is another": ("default", _resolved(APPROVED, TIMEOUT), WrongAnswer),
}


@dataclass(frozen=True)
class Place:
    """A server on a database, its scene, and the store as a worker of group ``gpu`` has it by its key."""

    scene: Scene
    far: Store

    async def ask(self, kind: str, run_id: str = "r") -> str:
        """Have a run of the group ask, and return the question's id."""
        id = f"{run_id}.0"
        await self.scene.start(run_id, group="gpu")
        claims = {claim.run.id: claim.run for claim in await self.scene.claim(group="gpu")}
        new = NewPromise(id, PromiseKind.QUESTION, run_id, 0, data=QUESTIONS[kind])
        assert await self.scene.pause(claims[run_id], opens=[new])
        return id

    async def state(self) -> PromiseState:
        return (await self.scene.store.get_promise("r.0")).state


@asynccontextmanager
async def placed(database: str, folder: Path) -> AsyncIterator[Place]:
    async with damaged(database, folder) as damage:
        scene = damage.scene
        async with Server(Signoff(scene.store), port=0, require_auth=True) as server:
            key, _ = await StoredKeys(scene.store).create_for_worker("gpu", groups=["gpu"])
            far = RemoteStore(server.url, key=key)
            await far.open()
            try:
                yield Place(scene, far)
            finally:
                await far.close()


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_no_answer_of_a_worker_counts_that_the_question_does_not_accept(
    tmp_path: Path, database: str
) -> None:
    async with placed(database, tmp_path) as place:
        for number, (name, (kind, settlement, error)) in enumerate(BAD.items()):
            id = await place.ask(kind, f"r{number}")
            with pytest.raises(error):
                await place.far.settle(id, PromiseKind.QUESTION, settlement)
            asked = await place.far.get_promise(id)
            amendment = Amendment(asked.version, asked.progress, (), None, settlement=settlement)
            with pytest.raises(error):
                await place.far.amend(id, amendment)
            found = await place.scene.store.get_promise(id)
            assert (found.state, found.value) == (PromiseState.PENDING, None), name
            events = (await place.scene.store.list_audit(AuditFilter(question_id=id))).items
            assert [each.kind for each in events].count(AuditKind.REFUSED) == 2, name


GOOD: Final[dict[str, tuple[str, Settlement]]] = {
    "an approval": ("approval", _resolved({"approved": True})),
    "a rejection": ("approval", _resolved({"approved": False})),
    "a form": ("form", _resolved({"cents": 100})),
    "an option": ("select", _resolved("red")),
    "skipped": ("skippable", _resolved(None)),
    "as proposed": ("proposal", _resolved({"approved": True, "proposal": PROPOSAL, "edits": []})),
    "votes": ("quorum", _resolved(_votes("ana", "bob"), "bob")),
    "four eyes": ("four eyes", _resolved({"approved": True})),
    "cancelled": ("four eyes", Settlement(PromiseState.CANCELLED, note="no longer needed")),
    "timed out": ("approval", Settlement(PromiseState.TIMED_OUT)),
}


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_what_a_client_could_answer_a_worker_settles(tmp_path: Path, database: str) -> None:
    async with placed(database, tmp_path) as place:
        for number, (name, (kind, settlement)) in enumerate(GOOD.items()):
            id = await place.ask(kind, f"r{number}")
            settled, is_first = await place.far.settle(id, PromiseKind.QUESTION, settlement)
            assert (settled.state, is_first) == (settlement.state, True), name


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_what_a_workers_code_does_with_questions_passes(tmp_path: Path, database: str) -> None:
    """Answers, votes, edits, defaults and withdrawals, as Signoff itself makes them in a worker's process."""
    async with placed(database, tmp_path) as place:
        edited = {"to": "bob", "cents": 50}
        given: dict[str, list[tuple[str, Any]]] = {
            "approval": [("ana", True)],
            "proposal": [("ana", {"approved": True, "edited": edited})],
            "action": [("ana", {"approved": True})],
            "quorum": [("ana", True), ("bob", True)],
            "four eyes": [("ana", False)],
            "skippable": [("ana", None)],
            "flag": [("ana", {"approved": True, "edited": {"urgent": True}})],
            "form": [("ana", {"cents": 1})],
        }
        for number, (kind, answers) in enumerate(given.items()):
            id = await place.ask(kind, f"r{number}")
            for user, value in answers:
                settled = await answer(place.far, id, value, user_id=user)
            assert settled.state is PromiseState.RESOLVED, kind
            if kind == "proposal":
                kept = json.loads(settled.value or "")
                assert kept["edits"] == json.loads(json.dumps(list(edits_between(PROPOSAL, edited))))
        await place.ask("default")
        asked = await place.scene.store.get_promise("r.0")
        default = _resolved({"approved": False}, TIMEOUT)
        await check_settlement(asked, default, asked.created_at + 60)
        with pytest.raises(WrongAnswer, match="deadline has not passed"):
            await check_settlement(asked, default, asked.created_at + 50)


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_an_excluded_vote_from_a_worker_is_refused_before_it_counts(
    tmp_path: Path, database: str
) -> None:
    async with placed(database, tmp_path) as place:
        id = await place.ask("quorum, four eyes")
        asked = await place.far.get_promise(id)
        votes = [{"user_id": "EVE", "approved": True, "note": None, "at": 1.0}]
        amendment = Amendment(asked.version, json.dumps({"votes": votes}), (), None)
        with pytest.raises(NotAllowed, match="four eyes"):
            await place.far.amend(id, amendment)
        assert (await answer(place.scene.store, id, True, user_id="ana")).state is PromiseState.PENDING


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_worker_lets_a_rule_approve(tmp_path: Path, database: str) -> None:
    """It does so when it looks at a question before the server does. Only keys for all groups see rules."""
    async with placed(database, tmp_path) as place:
        store = place.scene.store
        alike = Alike(seconds=3600.0, any_arguments=True, everywhere=True)
        await answer(store, await place.ask("action", "first"), True, user_id="ana", alike=alike)
        id = await place.ask("action", "second")
        async with Server(store, port=0, require_auth=True) as server:
            key, _ = await StoredKeys(store).create_for_worker("all")
            far = RemoteStore(server.url, key=key)
            await far.open()
            settled = await bring_up_to_date(far, await far.get_promise(id))
            await far.close()
        [rule] = (await store.list_rules(RuleFilter())).items
        assert json.loads(settled.value or "") == {"approved": True, "rule": rule.id}


@in_asyncio
async def test_a_promises_own_door_settles_no_question(tmp_path: Path) -> None:
    async with placed("sqlite", tmp_path) as place:
        await place.ask("approval")
        for store in (place.scene.store, place.far):
            with pytest.raises(NotFound):
                await store.settle("r.0", PromiseKind.PROMISE, _resolved({"approve": "banana"}))
        await cancel(place.far, "r.0", by="ana")
        assert await place.state() is PromiseState.CANCELLED
