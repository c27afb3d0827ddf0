"""Answer links on every store: each opens one question, and is used once."""

from __future__ import annotations

import asyncio
import json

import pytest

from signoff.errors import (
    AlreadySettled,
    AlreadyVoted,
    InvalidValue,
    LinkEnded,
    NotAllowed,
    NotFound,
    QuestionClaimed,
    UnknownLink,
    WrongAnswer,
)
from signoff.people.links.answer_links import (
    NewLink,
    OpenedLink,
    answer_by_form,
    answer_by_link,
    check_usable,
    create_link,
    find_link,
    is_used,
    revoke_link,
)
from signoff.people.questions.answers import answer
from signoff.people.questions.policies import Policy, Quorum
from signoff.people.questions.question import Question
from signoff.people.questions.question_operations import claim, delegate
from signoff.records import NewPromise, NewToken, PromiseKind, PromiseState, Settlement, TokenKind
from signoff.records.paging import AuditFilter
from signoff.records.responders import Responder
from signoff.redaction import Redaction
from signoff.stores.tokens import hash_of
from tests.stores.scene import Scene, rule

ASKED = Question.make("Go on?")


async def ask(
    scene: Scene, id: str = "q", *, policy: Policy | None = None, due_at: float | None = None
) -> None:
    assignees = () if policy is None else policy.assignees
    data = ASKED.to_json(policy)
    await scene.store.create_promise(
        NewPromise(id, PromiseKind.QUESTION, data=data, assignees=assignees, due_at=due_at)
    )


async def found(scene: Scene, new: NewLink) -> OpenedLink:
    return await find_link(scene.store, secret_of(new))


def secret_of(new: NewLink) -> str:
    return new.path.rpartition("/")[2]


async def outcome(scene: Scene, link: OpenedLink, value: bool) -> str:
    try:
        settled = await answer_by_link(scene.store, link, value, digest=ASKED.digest)
    except LinkEnded as ended:
        return ended.reason
    return settled.state.value


@rule
async def test_of_64_answers_by_one_link_at_once_one_counts_and_its_like_succeed(scene: Scene) -> None:
    await ask(scene)
    link = await found(scene, await create_link(scene.store, "q", user_id="ana"))
    told = await asyncio.gather(*(outcome(scene, link, number % 2 == 0) for number in range(64)))
    settled = await scene.store.get_promise("q")
    approved = json.loads(settled.value or "")["approved"]
    expected = {True: "resolved", False: "used"}
    assert told == [expected[(number % 2 == 0) == approved] for number in range(64)]
    assert (settled.settled_by, settled.request_id) == ("ana", link.request_id)
    kinds = [event.kind.value for event in (await scene.store.list_audit(AuditFilter("q"))).items]
    assert (kinds.count("resolved"), kinds[:2]) == (1, ["asked", "linked"])


@rule
async def test_a_link_is_used_by_the_answer_itself_even_if_not_recorded(scene: Scene) -> None:
    await ask(scene)
    new = await create_link(scene.store, "q", user_id="ana")
    link = await found(scene, new)
    assert not is_used(link)
    yes = Settlement(PromiseState.RESOLVED, '{"approved": true}', by="ana", request_id=link.request_id)
    await scene.store.settle("q", PromiseKind.QUESTION, yes)  # and the server was killed
    again = await found(scene, new)
    assert (is_used(again), again.token.used_at) == (True, None)
    with pytest.raises(LinkEnded, match="used"):
        check_usable(again, scene.clock.now())
    assert await outcome(scene, again, True) == "resolved"
    assert await outcome(scene, again, False) == "used"


@rule
async def test_votes_by_links_count_once_each(scene: Scene) -> None:
    await ask(scene, policy=Policy(quorum=Quorum(2, 3)))
    links = [
        await found(scene, await create_link(scene.store, "q", user_id=user))
        for user in ("ana", "ben", "eve")
    ]
    first = await asyncio.gather(*(outcome(scene, links[0], True) for _ in range(8)))
    assert set(first) == {"pending"}
    assert await outcome(scene, links[0], False) == "used"
    other = await found(scene, await create_link(scene.store, "q", user_id="user:ana"))
    with pytest.raises(AlreadyVoted):
        await answer_by_link(scene.store, other, False, digest=ASKED.digest)
    assert await outcome(scene, links[1], True) == "resolved"
    assert await outcome(scene, links[0], True) == "resolved"
    with pytest.raises(AlreadySettled):
        await answer_by_link(scene.store, links[2], True, digest=ASKED.digest)
    votes = json.loads((await scene.store.get_promise("q")).value or "")["votes"]
    assert [vote["user_id"] for vote in votes] == ["ana", "ben"]


@rule
async def test_the_policy_is_asked_at_each_answer(scene: Scene) -> None:
    await ask(scene, policy=Policy(assignees=("group:finance",), excluded=("user:req",)))
    with pytest.raises(NotAllowed):
        await create_link(scene.store, "q", user_id="ana")
    with pytest.raises(NotAllowed):
        await create_link(scene.store, "q", user_id="req", groups=["finance"])
    link = await found(scene, await create_link(scene.store, "q", user_id="ana", groups=["finance"]))
    await claim(scene.store, "q", Responder("bob", frozenset({"finance"})))
    with pytest.raises(QuestionClaimed):
        await answer_by_link(scene.store, link, True, digest=ASKED.digest)
    await delegate(scene.store, "q", Responder("bob", frozenset({"finance"})), ["user:eve"])
    now = scene.clock.now()
    with pytest.raises(NotAllowed):
        check_usable(OpenedLink(link.token, await scene.store.get_promise("q"), link.responder), now)
    with pytest.raises(NotAllowed):
        await answer_by_link(scene.store, link, True, digest=ASKED.digest)
    assert (await scene.store.get_promise("q")).state is PromiseState.PENDING


@rule
async def test_a_link_opens_one_question_of_one_namespace_while_it_is_good(scene: Scene) -> None:
    await ask(scene, due_at=scene.clock.now() + 100)
    new = await create_link(scene.store, "q", user_id="ana", lifetime_seconds=1000)
    assert new.token.expires_at == scene.clock.now() + 100, "never longer than the question"
    short = await create_link(scene.store, "q", user_id="ana", lifetime_seconds=10)
    acme = scene.within("acme")
    await ask(acme)
    with pytest.raises(UnknownLink):
        await found(acme, new)
    await scene.store.create_token(NewToken("x", TokenKind.RESUME, hash_of("x"), "user:ana"))
    for unknown in ("none", "x"):
        with pytest.raises(NotFound, match="link"):
            await revoke_link(scene.store, unknown)
    with pytest.raises(NotFound):
        await revoke_link(acme.store, short.token.id)
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InvalidValue):
            await create_link(scene.store, "q", user_id="ana", lifetime_seconds=seconds)
    link = await found(scene, short)
    with pytest.raises(WrongAnswer):
        await answer_by_link(scene.store, link, True, digest="another")
    scene.clock.advance(11)  # a remote store's clock may be a little behind
    with pytest.raises(LinkEnded, match="has expired"):
        await found(scene, short)
    await revoke_link(scene.store, new.token.id, by="bob")
    with pytest.raises(LinkEnded, match="was revoked"):
        await found(scene, new)


@rule
async def test_an_overdue_question_is_closed_even_before_it_is_served(scene: Scene) -> None:
    await ask(scene, due_at=scene.clock.now() + 100)
    link = await found(scene, await create_link(scene.store, "q", user_id="ana"))
    scene.clock.advance(100)
    with pytest.raises(AlreadySettled) as closed:
        check_usable(link, scene.clock.now())
    assert closed.value.state == "timed_out"
    with pytest.raises(AlreadySettled):
        await answer_by_link(scene.store, link, True, digest=ASKED.digest)


@rule
async def test_the_trail_names_the_link_of_each_accepted_and_refused_answer(scene: Scene) -> None:
    await ask(scene, policy=Policy(quorum=Quorum(2, 2)))
    ana = await found(scene, await create_link(scene.store, "q", user_id="ana"))
    ben = await found(scene, await create_link(scene.store, "q", user_id="ben"))
    with pytest.raises(WrongAnswer):
        await answer_by_form(scene.store, ana, {"digest": [ASKED.digest]}, Redaction([]))
    with pytest.raises(WrongAnswer):
        await answer_by_link(scene.store, ana, True, digest="another")
    for link in (ana, ben):
        await answer_by_link(scene.store, link, True, digest=ASKED.digest)
    events = (await scene.store.list_audit(AuditFilter("q"))).items
    told = [(event.kind.value, json.loads(event.details or "{}").get("request_id")) for event in events]
    assert [each for each in told if each[0] not in ("asked", "linked")] == [
        ("refused", ana.request_id),
        ("refused", ana.request_id),
        ("voted", ana.request_id),
        ("voted", ben.request_id),
        ("resolved", ben.request_id),
    ]


@rule
@pytest.mark.parametrize("several", [False, True])
async def test_a_link_is_used_only_by_its_person(scene: Scene, several: bool) -> None:
    policy = Policy.make("Pay?", input_type="approval", quorum=2) if several else None
    await ask(scene, policy=policy)
    link = await create_link(scene.store, "q", user_id="ana")
    secret = link.path.removeprefix("/l/")
    opened = await find_link(scene.store, secret)
    for_bob = {"user_id": "bob", "request_id": opened.request_id}  # as a client could before
    await answer(scene.store, "q", True, **for_bob)
    assert not is_used(await find_link(scene.store, secret))
    if several:
        await answer_by_link(scene.store, opened, False)
        assert is_used(await find_link(scene.store, secret))
