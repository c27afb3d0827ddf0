"""A question that one click cannot answer is answered by a form in Slack, as the audited answer of its user."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import AnyUrl, BaseModel, EmailStr, Field

from signoff.people.questions.answers import answer
from signoff.people.questions.policies import Policy
from signoff.records import AuditKind, Origin, OriginWay, PromiseState
from tests.notifications.slack_forms import Workspace, workspace
from tests.stores.scene import until
from tests.support import in_asyncio


async def value(on: Workspace) -> Any:
    return json.loads((await on.scene.store.get_promise("q")).value or "null")


class Trip(BaseModel):
    """A form of everything that Slack has inputs for."""

    city: Annotated[str, Field(max_length=40)]
    reason: str
    nights: int
    budget: float
    exact: Decimal
    is_urgent: bool
    hotel: Literal["Ritz", "Ibis"]
    begins: date
    contact: EmailStr
    site: AnyUrl
    extras: list[Literal["car", "meal"]]
    tags: list[str]
    remark: str | None = None


FILLED = {
    "city": "Rome",
    "reason": "two\nlines",
    "nights": "3",
    "budget": "99.5",
    "exact": "10.00",
    "is_urgent": "Yes",
    "hotel": "Ibis",
    "begins": "2026-12-24",
    "contact": "ana@example.org",
    "site": "https://example.org/a",
    "extras": ["meal"],
    "tags": "a\nb",
}


def by_label(view: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    ids = {block["label"]["text"]: block["block_id"] for block in view["blocks"] if block["type"] == "input"}
    titles = {label.lower().replace(" ", "_"): id for label, id in ids.items()}
    return {titles[name]: each for name, each in values.items()}


@in_asyncio
async def test_a_form_of_every_input_is_the_answer_of_its_user() -> None:
    async with workspace() as on:
        buttons = await on.asked(input_type="form", answer_type=Trip, assignees=["group:finance"])
        assert [each["text"]["text"] for each in buttons] == ["Answer …", "Look and answer"]
        view = await on.opened()
        kinds = {
            block["block_id"]: block["element"]["type"]
            for block in view["blocks"]
            if block["type"] == "input"
        }
        assert list(kinds.values()) == [
            "plain_text_input", "plain_text_input", "number_input", "number_input", "plain_text_input",
            "radio_buttons", "radio_buttons", "datepicker", "email_text_input", "url_text_input",
            "multi_static_select", "plain_text_input", "plain_text_input", "plain_text_input",
        ]  # fmt: skip
        assert await on.submit(view, {**by_label(view, FILLED), "note": "as agreed"}) is None
        question = await on.scene.store.get_promise("q")
        assert (question.settled_by, question.note) == ("ana", "as agreed")
        assert await value(on) == {
            "city": "Rome", "reason": "two\nlines", "nights": 3, "budget": 99.5, "exact": "10.00", "is_urgent": True,
            "hotel": "Ibis", "begins": "2026-12-24", "contact": "ana@example.org", "site": "https://example.org/a",
            "extras": ["meal"], "tags": ["a", "b"], "remark": None,
        }  # fmt: skip
        [event] = await on.trail(AuditKind.RESOLVED)
        assert (event.by, event.origin) == ("ana", Origin(OriginWay.SLACK, "T1:U1", address="127.0.0.1"))
        assert json.loads(event.details or "")["request_id"] == "slack:T1:U1:V1"
        assert "Answered by ana: Pay 70?" in (await on.told())["text"]


@in_asyncio
async def test_a_refused_form_stays_open_with_the_errors_at_its_fields() -> None:
    async with workspace() as on:
        await on.asked(input_type="form", answer_type=Trip)
        view = await on.opened()
        names = by_label(view, {name: name for name in FILLED})
        blocks = {name: block for block, name in names.items()}
        wrong = {**FILLED, "nights": "3.5", "contact": "nobody", "tags": ""}
        said = await on.submit(view, by_label(view, wrong))
        assert said["response_action"] == "errors"
        assert "whole number" in said["errors"][blocks["nights"]]
        assert await on.state() is PromiseState.PENDING
        assert len(await on.trail(AuditKind.REFUSED)) == 1
        assert await on.submit(view, by_label(view, FILLED)) is None  # the same view, corrected
        assert await on.state() is PromiseState.RESOLVED


CASES: list[tuple[dict[str, Any], dict[str, Any], Any]] = [
    ({"input_type": "text"}, {"f0": "a & <b>\nc"}, "a & <b>\nc"),
    ({"input_type": "text", "default": "as it is"}, {}, "as it is"),
    ({"input_type": "select", "options": ["a", "b"]}, {"f0": "b"}, "b"),
    ({"input_type": "select", "options": [f"n{n}" for n in range(250)]}, {"f0": "n249"}, "n249"),
    ({"input_type": "select", "options": ["a"], "other": "Else"}, {"f0.other": "c"}, {"other": "c"}),
    ({"input_type": "multiselect", "options": ["a", "b", "c"]}, {"f0": ["a", "c"]}, ["a", "c"]),
    ({"input_type": "multiselect", "options": ["a", "b"], "default": ["b"]}, {}, ["b"]),
    (
        {"input_type": "multiselect", "options": ["a"], "other": "Else"},
        {"f0": ["a"], "f0.other": "x\ny"},
        ["a", {"other": "x"}, {"other": "y"}],
    ),
    ({"input_type": "text", "skippable": True}, {"skip": ["Skip"]}, None),
    ({}, {"decision": "Reject", "note": "too much"}, {"approved": False}),
]


@in_asyncio
async def test_each_input_type_is_answered_by_its_form() -> None:
    async with workspace() as on:
        for number, (form, values, expected) in enumerate(CASES):
            id = f"q{number}"
            await on.asked(id, **form)
            assert await on.submit(await on.opened(), values, id=id) is None
            question = await on.scene.store.get_promise(id)
            assert json.loads(question.value or "null") == expected
            assert question.note == values.get("note")


@in_asyncio
async def test_a_proposal_is_approved_as_it_is_or_edited() -> None:
    async with workspace() as on:
        await on.asked(proposal={"cents": 7000, "to": "Ana"})
        view = await on.opened()
        unsure = await on.submit(view, {"decision": "Approve as proposed", "f0": "5000"})
        assert "you have changed the proposal" in unsure["errors"]["decision"]
        assert await on.submit(view, {"decision": "Approve with my changes", "f0": "5000"}) is None
        said = await value(on)
        assert (said["approved"], said["proposal"]) == (True, {"cents": 5000, "to": "Ana"})
        assert said["edits"] == [{"op": "replace", "path": "/cents", "value": 5000, "old": 7000}]


@in_asyncio
async def test_an_approval_that_sets_nothing_right_is_no_approval() -> None:
    async with workspace() as on:
        await on.asked(proposal={"cents": 7000})
        view = await on.opened()
        assert "decision" in (await on.submit(view, {}))["errors"]
        assert await on.state() is PromiseState.PENDING
        assert await on.submit(view, {"decision": "Approve as proposed"}) is None
        assert (await value(on))["proposal"] == {"cents": 7000}


@in_asyncio
async def test_a_proposal_that_slack_cannot_edit_is_decided_whole() -> None:
    async with workspace() as on:
        await on.asked(proposal={"lines": [{"cents": 1}, {"cents": 2}]})
        view = await on.opened()
        assert [each["block_id"] for each in view["blocks"] if each["type"] == "input"] == [
            "decision",
            "note",
        ]
        assert await on.submit(view, {"decision": "Approve"}) is None
        assert (await value(on))["proposal"] == {"lines": [{"cents": 1}, {"cents": 2}]}


WITHOUT_FORM: list[dict[str, Any]] = [
    {"input_type": "form", "answer_type": {"type": "array", "items": {"type": "object"}}},
    {"input_type": "form", "answer_type": {"type": "object", "properties": {"x": {"enum": ["y" * 76]}}}},
    {"input_type": "text", "default": "x" * 3_001},
    {"input_type": "text", "default": "a\u202eb"},
    {"input_type": "select", "options": ["x" * 76, "b"]},
    {
        "input_type": "form",
        "answer_type": {
            "type": "object",
            "properties": {f"f{n}": {"type": "string"} for n in range(100)},
        },
    },
    {"input_type": "text", "text": "x" * 3_001},
]


@in_asyncio
async def test_a_question_without_a_form_in_slack_says_so_with_a_link() -> None:
    async with workspace() as on:
        for number, form in enumerate(WITHOUT_FORM):
            [link] = await on.asked(f"q{number}", **form)
            assert link["text"]["text"] == "Answer on its page"
            assert link["url"] == f"https://s.example.org/inbox/q{number}"


@in_asyncio
async def test_a_repeated_submission_counts_once_and_another_one_is_refused() -> None:
    async with workspace() as on:
        await on.asked(input_type="text")
        view = await on.opened()
        for _ in range(3):  # Slack got no reply, and the user sends it again
            assert await on.submit(view, {"f0": "yes"}) is None
        again = await on.submit(view, {"f0": "no"})
        assert again["response_action"] == "update"
        other = await on.submit(view, {"f0": "no"}, user="U2", id="V2")
        assert "ana was first" in other["view"]["blocks"][0]["text"]["text"]
        assert await value(on) == "yes"
        assert len(await on.trail(AuditKind.RESOLVED)) == 1


@in_asyncio
async def test_only_a_configured_and_assigned_user_gets_and_sends_a_form() -> None:
    async with workspace() as on:
        await on.asked(input_type="text", assignees=["group:finance"])
        view = await on.opened()
        button = on.buttons()[0]["value"]
        for user, team, said in (
            ("U9", "T1", "not configured"),
            ("U2", "T1", "assigned to others"),
        ):
            on.slack.got = [got for got in on.slack.got if got.path == "/chat.postMessage"]
            await on.click(button, "signoff_answer", user=user, team={"team_id": team}, trigger_id="t")
            assert said in (await on.told())["text"]
            assert on.calls("views.open") == []
            refused = await on.submit(view, {"f0": "x"}, user=user)
            assert said in refused["view"]["blocks"][0]["text"]["text"]
        assert len(await on.trail(AuditKind.REFUSED)) == 4
        assert await on.state() is PromiseState.PENDING


@in_asyncio
async def test_a_form_of_another_question_is_neither_opened_nor_taken() -> None:
    async with workspace() as on:
        [button, _] = await on.asked(input_type="text")
        view = await on.opened()
        meant = {**json.loads(button["value"]), "digest": "0" * 64}
        await on.click(json.dumps(meant), "signoff_answer", trigger_id="t")
        assert "not the one you saw" in (await on.told())["text"]
        stale = await on.submit({**view, "private_metadata": json.dumps(meant)}, {"f0": "x"})
        assert "not the one you saw" in stale["view"]["blocks"][0]["text"]["text"]
        assert await on.submit({**view, "callback_id": "of another app"}, {"f0": "x"}) is None
        assert await on.state() is PromiseState.PENDING


@in_asyncio
async def test_a_form_shows_the_outcome_in_its_message_after_it_is_sent() -> None:
    async with workspace() as on:
        await on.asked(input_type="text")
        assert await on.submit(await on.opened(), {"f0": "yes"}) is None
        on.scene.clock.advance(2)
        await until(lambda: len(on.calls("chat.update")) == 1, seconds=10)
        [update] = on.calls("chat.update")
        assert (update["channel"], update["ts"]) == ("DC1", "1700.000001")
        assert "Answered: resolved by ana" in [block["text"]["text"] for block in update["blocks"]]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("expired_trigger_id", "Slack was too slow. Click again."),
        ("missing_scope", "Slack returned: missing_scope"),
        ("exchanged_trigger_id", None),
    ],
)
@in_asyncio
async def test_a_form_that_slack_does_not_open_is_reported_to_the_user(error: str, said: str | None) -> None:
    async with workspace() as on:
        [button, _] = await on.asked(input_type="text")
        on.script["views.open"] = [{"ok": False, "error": error}]
        await on.click(button["value"], "signoff_answer", trigger_id="t")
        await until(lambda: len(on.calls("views.open")) == 1)
        if said is None:
            await on.opened()  # the click that came twice has opened it
            assert [got.path for got in on.slack.got if got.path == "/response"] == []
        else:
            told = await on.told()
            assert (told["response_type"], told["replace_original"]) == ("ephemeral", False)
            assert said in told["text"]


@in_asyncio
async def test_a_form_of_an_answered_question_is_not_opened() -> None:
    async with workspace() as on:
        [button, _] = await on.asked(input_type="text", assignees=["user:ana"])
        view = await on.opened()
        await answer(on.scene.store, "q", "first", user_id="ana")
        await on.click(button["value"], "signoff_answer", trigger_id="t")
        assert "The question is answered" in (await on.told())["text"]
        late = await on.submit(view, {"f0": "second"})
        assert "ana was first" in late["view"]["blocks"][0]["text"]["text"]
        assert await value(on) == "first"


@in_asyncio
async def test_a_vote_by_form_leaves_the_question_to_others() -> None:
    async with workspace() as on:
        policy = Policy.make("Pay?", input_type="approval", quorum=2)
        await on.asked(policy=policy, proposal={"cents": 1})
        view = await on.opened()
        assert await on.submit(view, {"decision": "Approve"}) is None
        told = await on.told()
        assert (told["replace_original"], told["text"]) == (
            False,
            "Approved by ana: more approvals are needed.",
        )
        assert await on.submit(view, {"decision": "Approve"}, user="U2", id="V2") is None
        assert await on.state() is PromiseState.RESOLVED
