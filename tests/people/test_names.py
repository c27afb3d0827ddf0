"""Names of people: valid ones, and spellings that may be the same person."""

from __future__ import annotations

import pytest

from signoff import Context, Signoff
from signoff.errors import InvalidValue, NotAllowed
from signoff.people.questions.policies import most_voters
from signoff.records import PromiseState
from signoff.records.names import check_user, person_key
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

SPELLINGS = [
    ("ana", "ANA"),
    ("ana", "user:Ana"),
    ("ana", "\uff41\uff4e\uff41"),  # full width
    ("ana", "\u0430n\u0430"),  # Cyrillic
    ("ana", "\u1d00\u0274\u1d00"),  # small capitals
    ("ANA", "\u0391\u039d\u0391"),  # Greek
    ("ana", "\U0001d41a\U0001d427\U0001d41a"),  # mathematical
    ("stra\u00dfe", "STRASSE"),
    ("fina", "\ufb01na"),  # a ligature
    ("ipek", "\u0130pek"),
    ("ipek", "\u0131pek"),
    ("ana@x.example", "Ana@X.Example"),
]

OTHERS = [
    ("ana", "anna"),
    ("jose", "jos\u00e9"),
    ("user:ana", "bob"),
    ("\u0430\u043d\u043d\u0430", "anna"),
    ("\u4e00", "\u4e8c"),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
@in_asyncio
async def test_another_spelling_neither_approves_an_own_request_nor_votes_twice(one: str, other: str) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def pays(ctx: Context) -> None:
        await ctx.wait_for_user("Pay?", exclude_requester=True)

    @app.workflow
    async def votes(ctx: Context) -> None:
        await ctx.wait_for_user("Pay?", quorum=2)

    async with environment(app) as env:
        for requester, answerer in ((one, other), (other, one)):
            await env.client.start(pays, id=f"pay {requester}", started_by=requester)
            await env.client.start(votes, id=f"vote {requester}")
            await env.idle()
            with pytest.raises(NotAllowed, match="four eyes"):
                await env.client.answer(f"pay {requester}.1", True, user_id=answerer)
            for user in (requester, answerer):
                voted = await env.client.answer(f"vote {requester}.1", True, user_id=user)
                assert voted.state is PromiseState.PENDING
    assert most_voters([f"user:{person_key(one)}", f"user:{other.removeprefix('user:')}"]) == 1


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_names_are_other_people(one: str, other: str) -> None:
    assert person_key(one) != person_key(other)


@pytest.mark.parametrize("unseen", ["\u034f", "\u115f", "\u3164", "\ufe0f", "\u2800", "\u200b", "\U000e0100"])
def test_a_name_has_no_invisible_characters(unseen: str) -> None:
    for name in (f"ana{unseen}", f"a{unseen}na"):
        with pytest.raises(InvalidValue, match="is not a valid user name"):
            check_user("user_id", name)


@pytest.mark.parametrize("name", ["user:user:ana", "user:group:x", "user:", "user: ana"])
def test_a_name_begins_as_no_other_does(name: str) -> None:
    with pytest.raises(InvalidValue, match="is not a valid user name"):
        check_user("user_id", name)
