"""Resume tokens: one-time secrets, bound to a session, a turn and its questions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import CallDeferred

from signoff import Alike, AlreadySettled, NotAllowed, NotFound, Signoff, WrongAnswer
from signoff.agents import Approve, Conversation, Deny, Edit, Finished, Paused, Reply, ask, pause
from signoff.errors import InvalidValue, NotSerializable, ResumeRefused
from signoff.people.links import resume_tokens
from signoff.people.questions.bulk_answers import GivenAnswer
from signoff.records import AuditKind
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock
from tests.agents.chats import Chats
from tests.agents.paused_talks import WAYS, paused, talking
from tests.places import NewStore
from tests.support import in_asyncio


async def refusal(chat: Conversation, token: str, given: object = "approved") -> str:
    with pytest.raises(ResumeRefused) as refused:
        await chat.resume(token, given)
    assert token not in str(refused.value)
    return refused.value.reason


@WAYS
@in_asyncio
async def test_a_token_answers_once(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        _, token = await paused(chat, "rm a")
        turn = await talk.conversation("c").resume(token, user_input="approved")
        assert isinstance(turn, Finished)
        assert talk.chats.removed == ["a"]
        assert await refusal(chat, token) == "used"
        assert await refusal(chat, token, "denied") == "used"
    assert talk.chats.removed == ["a"]


@in_asyncio
async def test_only_the_hash_of_a_token_is_kept(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        turn, token = await paused(chats.conversation("c"), "rm a")
        assert token not in repr(turn)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.encode() not in kept
    assert len(token) == len("sgr_") + 43, "256 bits"


@WAYS
@in_asyncio
async def test_a_wrong_or_foreign_token_changes_nothing_and_says_why(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        _, token = await paused(chat, "rm a")
        other, foreign = await paused(talk.conversation("d"), "rm b")
        assert await refusal(chat, "nonsense") == "unknown"
        assert await refusal(chat, token[:-1] + ("A" if token[-1] != "A" else "B")) == "unknown"
        assert await refusal(chat, foreign) == "foreign"
        with pytest.raises(WrongAnswer):
            await chat.resume(token, {other.pending[0].id: True})
        elsewhere = Signoff(SqliteStore(tmp_path / "signoff.db", namespace="acme"))
        assert await refusal(elsewhere.conversation("support", session_id="c"), token) == "unknown"
        await elsewhere.store.close()
        assert len(await chat.pending()) == 1
        assert isinstance(await chat.resume(token, True), Finished)
    assert talk.chats.removed == ["a"]


@WAYS
@in_asyncio
async def test_a_token_expires(tmp_path: Path, way: str) -> None:
    clock = VirtualClock()
    async with talking(tmp_path, way, clock=clock) as talk:
        chat = talk.conversation("c", token_seconds=60)
        _, token = await paused(chat, "rm a")
        clock.advance(61)
        assert await refusal(chat, token) == "expired"
        assert len(await chat.pending()) == 1


@WAYS
@in_asyncio
async def test_a_token_does_not_answer_what_was_asked_after_it_was_made(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        first, token = await paused(chat, "rm a")
        await chat.respond(first.pending[0].id, Deny())
        second, _ = await paused(chat, "rm b")
        with pytest.raises(AlreadySettled):
            await chat.resume(token, "approved")
        with pytest.raises((ResumeRefused, WrongAnswer, AlreadySettled)):
            await chat.resume(token, {second.pending[0].id: "approved"})
        assert [each.arguments for each in await chat.pending()] == [{"path": "b"}]
    assert talk.chats.removed == []


@WAYS
@in_asyncio
async def test_several_questions_are_answered_by_their_ids_only(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a b")
        with pytest.raises(ResumeRefused) as refused:
            await chat.resume(token, "approved")
        assert refused.value.reason == "several"
        assert sorted(refused.value.questions) == sorted(each.id for each in turn.pending)
        assert all(each.id in str(refused.value) for each in turn.pending)
        with pytest.raises(ResumeRefused, match=r"not those answered here: nope, and more") as unknown:
            await chat.resume(token, {turn.pending[0].id: True, "nope": True, "and more": True})
        assert (unknown.value.reason, unknown.value.questions) == ("question", ("nope", "and more"))
        answers = {
            each.id: Approve() if each.arguments == {"path": "a"} else Deny("keep") for each in turn.pending
        }
        assert isinstance(await chat.resume(token, answers), Finished)
    assert talk.chats.removed == ["a"]


@WAYS
@in_asyncio
async def test_a_token_is_not_used_up_while_an_open_question_of_it_has_no_answer(
    tmp_path: Path, way: str
) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a b c")
        a, b, c = turn.pending
        for context in (None, {"tenant": "other"}):
            with pytest.raises(ResumeRefused, match=f"some have none here: {b.id}, {c.id}$") as refused:
                await chat.resume(token, {a.id: True}, context=context, user_id="ana")
            assert (refused.value.reason, refused.value.questions) == ("missing", (b.id, c.id))
        assert len(await chat.pending()) == 3
        trail = await talk.trail(b.id)
        assert [each.by for each in trail if each.kind is AuditKind.REFUSED] == ["ana", "ana"]
        assert isinstance(await chat.respond(b.id, Deny()), Paused)
        assert isinstance(await chat.resume(token, {a.id: True, c.id: False}), Finished)
        assert await refusal(chat, token) == "used"
    assert talk.chats.removed == ["a"]
    assert talk.chats.deps == [{}]


@WAYS
@in_asyncio
async def test_a_wrong_answer_leaves_the_token_and_all_questions_as_they_were(
    tmp_path: Path, way: str
) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a b")
        a, b = turn.pending
        for wrong in ("perhaps", 7, {"approved": "yes"}):
            with pytest.raises(WrongAnswer):
                await chat.resume(token, {a.id: True, b.id: wrong}, context={"tenant": "other"})
        assert len(await chat.pending()) == 2
        assert isinstance(await chat.resume(token, {a.id: True, b.id: "no"}, context={}), Finished)
    assert talk.chats.deps == [{}]


@WAYS
@in_asyncio
async def test_of_two_that_use_one_token_at_once_one_wins(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        _, token = await paused(chat, "rm a")
        outcomes = await asyncio.gather(
            chat.resume(token, "approved"), chat.resume(token, "denied"), return_exceptions=True
        )
        assert sum(isinstance(each, Finished) for each in outcomes) == 1
        lost = next(each for each in outcomes if not isinstance(each, Finished))
        assert isinstance(lost, ResumeRefused | AlreadySettled)
    assert talk.chats.removed == (["a"] if outcomes[1] is lost else [])


@WAYS
@pytest.mark.parametrize("are_named", [True, False], ids=["named", "unnamed"])
@in_asyncio
async def test_of_equal_uses_of_a_token_one_wins_and_is_named_to_the_rest(
    new_store: NewStore, way: str, are_named: bool
) -> None:
    async with talking(new_store(), way) as talk:
        chat = talk.conversation("c")
        _, token = await paused(chat, "rm a")
        people = ["ana", "bob", "cem", "dan"]
        outcomes = await asyncio.gather(
            *(chat.resume(token, "approved", user_id=each if are_named else None) for each in people),
            return_exceptions=True,
        )
        (winner,) = (who for who, each in zip(people, outcomes, strict=True) if isinstance(each, Finished))
        lost = [each for each in outcomes if not isinstance(each, Finished)]
        late = await refused_of(chat, token, "eva")
        for each in [*lost, late]:
            assert isinstance(each, ResumeRefused)
            assert each.reason == "used"
            assert not are_named or each.by == winner
    assert talk.chats.removed == ["a"]


async def refused_of(chat: Conversation, token: str, user_id: str) -> Exception:
    with pytest.raises(ResumeRefused) as refused:
        await chat.resume(token, "approved", user_id=user_id)
    return refused.value


@WAYS
@in_asyncio
async def test_of_two_uses_of_a_token_only_the_winners_context_counts(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        for number in range(5):
            chat = talk.conversation(f"c{number}")
            turn = await chat.run("rm a", context={"tenant": "t0"})
            assert isinstance(turn, Paused)
            contexts: list[dict[str, Any] | None] = [{"tenant": "t1"}, {"tenant": "t2"}, None]
            outcomes = await asyncio.gather(
                *(chat.resume(turn.resume_token, "approved", context=each) for each in contexts),
                return_exceptions=True,
            )
            (won,) = [place for place, each in enumerate(outcomes) if isinstance(each, Finished)]
            lost = [each.reason for each in outcomes if isinstance(each, ResumeRefused)]
            assert lost == ["used"] * 2
            assert talk.chats.deps.pop() == (contexts[won] or {"tenant": "t0"})
    assert talk.chats.deps == []


@pytest.mark.parametrize("winner", ["the same token", "somebody else"])
@in_asyncio
async def test_who_comes_too_late_changes_no_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, winner: str
) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a", context={"tenant": "t1"})
        assert isinstance(turn, Paused)
        answer = resume_tokens.answer

        async def overtaken(*args: Any, **said: Any) -> Any:
            monkeypatch.undo()
            if winner == "the same token":
                await chat.resume(turn.resume_token, "approved", user_id="ana")
            else:
                await chat.respond(turn.pending[0].id, Approve(), user_id="ana")
            return await answer(*args, **said)

        monkeypatch.setattr(resume_tokens, "answer", overtaken)
        with pytest.raises((ResumeRefused, AlreadySettled)) as refused:
            await chat.resume(turn.resume_token, "approved", context={"tenant": "evil"}, user_id="ana")
        assert isinstance(refused.value, ResumeRefused) is (winner == "the same token")
        assert isinstance(await chat.wait(turn.run_id), Finished)
        entries = await chats.client.backend.read_journal(turn.run_id)
        assert not any("evil" in (each.value or "") for each in entries)
    assert chats.deps == [{"tenant": "t1"}]


@WAYS
@in_asyncio
async def test_a_context_that_is_no_json_is_refused_and_answers_nothing(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        _, token = await paused(chat, "rm a")
        with pytest.raises(NotSerializable, match="context"):
            await chat.resume(token, "approved", context={"client": object()})
        assert len(await chat.pending()) == 1
        assert isinstance(await chat.resume(token, "approved", context={"tenant": "t2"}), Finished)
    assert talk.chats.deps == [{"tenant": "t2"}]


@in_asyncio
async def test_a_resumption_that_was_cut_off_is_done_again_with_its_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a b")
        assert isinstance(turn, Paused)
        a, b = turn.pending
        answer, answered = resume_tokens.answer, list[str]()

        async def dies_second(store: Any, id: str, *args: Any, **said: Any) -> Any:
            answered.append(id)
            if len(answered) == 2:
                raise ConnectionError("gone")
            return await answer(store, id, *args, **said)

        monkeypatch.setattr(resume_tokens, "answer", dies_second)
        both, context = {a.id: True, b.id: True}, {"tenant": "t2"}
        with pytest.raises(ConnectionError):
            await chat.resume(turn.resume_token, both, context=context)
        with pytest.raises(ResumeRefused) as refused:
            await chat.resume(turn.resume_token, {b.id: True, a.id: True}, context={"tenant": "t3"})
        assert refused.value.reason == "used"
        assert len(await chat.pending()) == 1, "nothing of it was done"
        assert isinstance(await chat.resume(turn.resume_token, both, context=context), Finished)
    assert chats.deps == [{"tenant": "t2"}] * 2


@WAYS
@pytest.mark.parametrize("by_token", [True, False])
@in_asyncio
async def test_what_is_approved_for_the_session_pauses_no_later_turn(
    tmp_path: Path, way: str, by_token: bool
) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        first, token = await paused(chat, "rm a")
        approval = Approve(alike=Alike(session=True))
        if by_token:
            turn = await chat.resume(token, approval, user_id="ana")
        else:
            turn = await chat.respond(first.pending[0].id, approval, user_id="ana")
        assert isinstance(turn, Finished)
        for _ in range(5):
            assert isinstance(await chat.run("rm a"), Finished)
        turn, _ = await paused(chat, "rm a b")
        assert [each.arguments for each in turn.pending] == [{"path": "b"}], (
            "what a rule answers is not asked"
        )
        assert [each.arguments for each in await chat.pending()] == [{"path": "b"}]
        assert isinstance(await chat.respond(turn.pending[0].id, Deny(), user_id="bob"), Finished)
        await paused(talk.conversation("other"), "rm a")
    assert talk.chats.removed == ["a"] * 7


@WAYS
@in_asyncio
async def test_a_tokens_holder_answers_its_questions_and_no_others(tmp_path: Path, way: str) -> None:
    policy = {"rm": ask("Remove?", assignees=["group:finance"])}
    async with talking(tmp_path, way, durable={"approvals": policy}) as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a")
        for groups in ([], ["sales"]):
            with pytest.raises(NotAllowed):
                await chat.resume(token, True, context={"tenant": "t9"}, user_id="eve", groups=groups)
        assert talk.chats.deps == []
        trail = await talk.trail(turn.pending[0].id)
        assert [(each.by, each.kind) for each in trail if each.kind is AuditKind.REFUSED] == [
            ("eve", AuditKind.REFUSED)
        ] * 2
        assert isinstance(await chat.resume(token, True, user_id="ana", groups=["finance"]), Finished)
    assert talk.chats.removed == ["a"]
    assert talk.chats.deps == [{}]


@WAYS
@in_asyncio
async def test_each_attempt_with_a_token_is_on_record_where_its_question_is(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a")
        with pytest.raises(WrongAnswer):
            await chat.resume(token, Reply({"approved": "x"}), user_id="ana")
        assert await refusal(talk.conversation("d"), token) == "foreign"
        assert isinstance(await chat.resume(token, Approve(), user_id="ana"), Finished)
        assert await refusal(chat, token) == "used"
        trail = await talk.trail(turn.pending[0].id)
        refused = [json.loads(each.details or "{}") for each in trail if each.kind is AuditKind.REFUSED]
        assert [each["error"] for each in refused] == ["WrongAnswer", "ResumeRefused", "ResumeRefused"]
        assert not any(token in str(each) for each in trail)


@WAYS
@in_asyncio
async def test_whose_questions_are_all_answered_a_token_is_used_whatever_is_said(
    tmp_path: Path, way: str
) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a b")
        for each in turn.pending:
            await chat.respond(each.id, Deny())
        assert await refusal(chat, token, True) == "used"
        assert await refusal(chat, token, {turn.pending[0].id: True, "nope": True}) == "used"


@WAYS
@in_asyncio
async def test_what_is_no_token_or_another_agents_is_refused_with_what_it_is(
    tmp_path: Path, way: str
) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        _, token = await paused(chat, "rm a")
        for wrong in (None, 5, b"sgr_"):
            with pytest.raises(InvalidValue, match=f"^token: expected .* not a {type(wrong).__name__}"):
                await chat.resume(wrong, True)  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidValue, match="of agent 'support', not of 'other'"):
            await Conversation(talk.client, "other", session_id="c").resume(token, True)
        assert len(await chat.pending()) == 1


@WAYS
@in_asyncio
async def test_what_is_no_decision_is_refused_with_what_is_one(tmp_path: Path, way: str) -> None:
    with pytest.raises(InvalidValue, match="^arguments: expected the call's arguments, .* not 5"):
        Edit(5)  # pyright: ignore[reportArgumentType]
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a")
        for decision in (Approve, Deny, Edit, Reply):
            with pytest.raises(WrongAnswer, match=rf"{decision.__name__} is a class: give Approve\(\)"):
                await chat.respond(turn.pending[0].id, decision)  # pyright: ignore[reportArgumentType]
            with pytest.raises(WrongAnswer, match=f"{decision.__name__} is a class"):
                await chat.resume(token, decision)
        with pytest.raises(NotFound, match="no question 'nope'"):
            await chat.respond("nope", Approve())
        assert len(await chat.pending()) == 1


@WAYS
@in_asyncio
async def test_one_name_in_place_of_a_list_of_groups_or_roles_is_refused(tmp_path: Path, way: str) -> None:
    async with talking(tmp_path, way) as talk:
        chat = talk.conversation("c")
        turn, token = await paused(chat, "rm a")
        id = turn.pending[0].id
        inbox, who = talk.client.inbox, "ana"
        for names in ("groups", "roles"):
            one: Any = {names: "finance"}
            for attempt in (
                chat.respond(id, Approve(), **one),
                chat.resume(token, True, **one),
                talk.client.answer(id, True, **one),
                talk.client.questions(user_id=who, **one),
                talk.client.links.create(id, user_id=who, **one),
                inbox.answer_all([GivenAnswer(id, True)], **one),
                inbox.view(id, user_id=who, **one),
                inbox.claim(id, user_id=who, **one),
                inbox.comment(id, "so", user_id=who, **one),
                inbox.delegate(id, ["user:bob"], user_id=who, **one),
            ):
                with pytest.raises(
                    InvalidValue, match=rf"^{names}: pass a list of names, such as \['finance'\]"
                ):
                    await attempt
        assert len(await chat.pending()) == 1


@WAYS
@in_asyncio
async def test_an_unnamed_caller_is_asked_for_a_name(tmp_path: Path, way: str) -> None:
    policy = {"rm": ask("Remove?", assignees=["group:finance"])}
    async with talking(tmp_path, way, durable={"approvals": policy}) as talk:
        chat = talk.conversation("c")
        turn, _ = await paused(chat, "rm a")
        with pytest.raises(
            NotAllowed, match="an unnamed user to answer: the user is unknown; pass for example user_id='ana'"
        ):
            await chat.respond(turn.pending[0].id, Approve())


async def awaited_event(path: str) -> str:
    return f"went on after {(await pause('external_event', prompt='Has it arrived?')).value}"


async def event_for_the_model(path: str) -> None:
    await pause("external_event", then="model")


async def made_elsewhere(path: str) -> None:
    raise CallDeferred


@pytest.mark.parametrize("tool", [awaited_event, event_for_the_model, made_elsewhere])
@in_asyncio
async def test_after_an_event_a_turn_is_resumed_without_an_input(tmp_path: Path, tool: Any) -> None:
    chats = Chats(tmp_path)
    chats.agent.tool_plain(tool, name="odd")
    async with chats.running():
        chat = chats.conversation("c")
        turn = await chat.run("rm odd:1")
        assert isinstance(turn, Paused)
        assert turn.reason == "external_event"
        assert isinstance(await chat.resume(turn.resume_token), Finished)


@in_asyncio
async def test_what_was_settled_elsewhere_is_resumed_without_an_input(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a")
        assert isinstance(turn, Paused)
        with pytest.raises(ResumeRefused) as refused:
            await chat.resume(turn.resume_token)
        assert refused.value.reason == "missing", "a decision is never left out"
        await chats.client.answer(turn.pending[0].id, True, user_id="ana")
        assert isinstance(await chat.resume(turn.resume_token), Finished)
    assert chats.removed == ["a"]
