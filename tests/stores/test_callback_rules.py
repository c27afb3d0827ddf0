"""The store's rules for callbacks: questions with a token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from signoff.errors import InvalidValue, NotFound
from signoff.records import NewPromise, PromiseKind, Token, TokenKind
from signoff.records.paging import TokenFilter
from signoff.stores.contract.tokens import CALLBACK
from signoff.stores.tokens import hash_of
from tests.stores.scene import Scene, entry, question, rule

HASH = hash_of("sgc_one")
LATER = 2_000_000.0


async def tokens(scene: Scene) -> list[Token]:
    return list((await scene.store.list_tokens(TokenFilter(TokenKind.CALLBACK))).items)


@rule
async def test_a_callback_question_and_its_token_are_created_together_and_once(scene: Scene) -> None:
    run = await scene.run()
    new = replace(question("r"), callback=HASH)
    await scene.append(run, entry(0), opens=[new])
    await scene.append(run, entry(0), opens=[new])  # its reply was lost
    token = await scene.store.find_token(HASH)
    assert token is not None
    promise = await scene.store.get_promise("r.0")
    assert (token.kind, token.subject, token.question_id) == (TokenKind.CALLBACK, CALLBACK, "r.0")
    assert (token.created_at, token.expires_at, token.data) == (promise.created_at, None, None)
    assert await tokens(scene) == [token] == [await scene.store.get_token(token.id)]
    await scene.append(run, entry(1), opens=[question("r", 1)])
    assert len(await tokens(scene)) == 1


@rule
async def test_a_callback_token_stays_with_its_question_until_its_run_is_deleted(
    scene: Scene,
) -> None:
    run = await scene.run()
    await scene.append(run, entry(0), opens=[replace(question("r"), callback=HASH)])
    await scene.complete(run)
    scene.clock.advance(10)
    acme = scene.within("acme")
    other = await acme.run()
    await acme.append(other, entry(0), opens=[replace(question("r"), callback=hash_of("sgc_two"))])
    assert await scene.store.delete_tokens(LATER, 100) == 0
    assert await scene.store.find_token(HASH) is not None
    assert await scene.store.delete_ended(LATER, 100) == 1
    assert await scene.store.find_token(HASH) is None
    found = await scene.store.find_token(hash_of("sgc_two"))
    assert found is not None
    assert found.namespace == "acme"
    assert await tokens(scene) == []


@rule
async def test_a_write_that_is_fenced_off_leaves_no_token(scene: Scene) -> None:
    run = await scene.run()
    with pytest.raises(Exception, match="lease"):
        await scene.append(
            replace(run, epoch=run.epoch + 1), entry(0), opens=[replace(question("r"), callback=HASH)]
        )
    assert await scene.store.find_token(HASH) is None


@rule
async def test_a_callback_without_hash_or_question_is_refused_without_its_secret(
    scene: Scene,
) -> None:
    for new in (
        NewPromise("p", PromiseKind.QUESTION, callback="sgc_secret"),
        NewPromise("p", PromiseKind.PROMISE, callback=HASH),
    ):
        with pytest.raises(InvalidValue) as refused:
            await scene.store.create_promise(new)
        assert "sgc_secret" not in str(refused.value)
    run = await scene.run()
    with pytest.raises(InvalidValue):
        await scene.append(run, opens=[replace(question("r"), callback="sgc_secret")])
    with pytest.raises(NotFound):
        await scene.store.get_promise("r.0")
