"""The store's rules for tokens: secrets with only their hashes stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signoff.errors import IdConflict, InvalidValue, NotFound
from signoff.records import NewToken, Token, TokenKind
from signoff.records.paging import TokenFilter
from signoff.stores.tokens import find_token, hash_of, new_token
from tests.stores.scene import Scene, postgres_scene, rule, sqlite_scene
from tests.support import in_asyncio

NOW = 1_000_000.0
LINKS = TokenFilter(TokenKind.LINK)


def token(id: str = "t", **more: Any) -> NewToken:
    said = {"kind": TokenKind.LINK, "hash": hash_of(id), "subject": "user:ana", **more}
    return NewToken(id, **said)


async def ids(scene: Scene, which: TokenFilter = LINKS) -> list[str]:
    return [each.id for each in (await scene.store.list_tokens(which)).items]


@rule
async def test_a_token_is_as_it_was_made(scene: Scene) -> None:
    new = NewToken(
        "t",
        TokenKind.LOGIN,
        hash_of("secret"),
        "service:billing",
        "r.0",
        '{"scopes": ["read"]}',
        "billing",
        "user:bob",
        NOW + 60,
    )
    made = await scene.store.create_token(new)
    assert (made.namespace, made.created_at, made.revoked_at, made.used_at) == ("default", NOW, None, None)
    assert {field: getattr(made, field) for field in NewToken.__dataclass_fields__} == {
        field: getattr(new, field) for field in NewToken.__dataclass_fields__
    }
    assert await scene.store.get_token("t") == made
    assert await scene.store.find_token(new.hash) == made


@rule
async def test_making_a_token_again_changes_nothing_and_a_conflict_is_refused(scene: Scene) -> None:
    first = await scene.store.create_token(token(label="one"))
    scene.clock.advance(5)
    assert await scene.store.create_token(token(label="two")) == first
    for other in (token(hash=hash_of("other")), token("other", hash=hash_of("t"))):
        with pytest.raises(IdConflict) as refused:
            await scene.store.create_token(other)
        assert other.hash not in str(refused.value)
    with pytest.raises(IdConflict):  # one secret opens one thing, in all namespaces
        await scene.within("acme").store.create_token(token())
    assert await ids(scene) == ["t"]


@rule
async def test_concurrent_makers_of_one_token_all_get_it_and_one_secret_is_kept(
    scene: Scene,
) -> None:
    same = await asyncio.gather(*(scene.store.create_token(token()) for _ in range(8)))
    assert len(set(same)) == 1
    others = [token("u", hash=hash_of(str(n))) for n in range(8)]
    made = await asyncio.gather(*map(scene.store.create_token, others), return_exceptions=True)
    [kept] = [each for each in made if isinstance(each, Token)]
    assert sum(isinstance(each, IdConflict) for each in made) == 7
    assert await scene.store.get_token("u") == kept


@rule
async def test_an_open_token_of_any_namespace_is_seen_from_each_until_it_ends(scene: Scene) -> None:
    keys = (TokenKind.LOGIN, TokenKind.RESUME)
    assert not await scene.store.has_token(keys)
    for number, namespace in enumerate(("acme", "default", "zeta")):
        link = token(f"l{number}", hash=hash_of(f"l{number}"))
        await scene.within(namespace).store.create_token(link)
    assert not await scene.store.has_token(keys)
    zeta = scene.within("zeta").store
    until = scene.clock.now() + 60
    await zeta.create_token(NewToken("k", TokenKind.LOGIN, hash_of("k"), "service:bot", expires_at=until))
    for namespace in ("acme", "default", "zeta", "none"):
        store = scene.within(namespace).store
        assert await store.has_token(keys)
        assert await store.has_token([TokenKind.LOGIN])
        assert not await store.has_token([TokenKind.RESUME])
        assert not await store.has_token([])
    scene.clock.advance(60)
    assert not await scene.store.has_token(keys)
    await zeta.create_token(NewToken("w", TokenKind.RESUME, hash_of("w"), "gpu"))
    assert await scene.store.has_token(keys)
    await zeta.revoke_token("w")
    assert not await scene.store.has_token(keys)


@rule
async def test_a_hash_finds_its_token_in_any_namespace_and_other_reads_do_not(
    scene: Scene,
) -> None:
    acme = scene.within("acme")
    await acme.store.create_token(token())
    found = await scene.store.find_token(hash_of("t"))
    assert found is not None
    assert found.namespace == "acme"
    assert await scene.store.find_token(hash_of("unknown")) is None
    for attempt in (scene.store.get_token("t"), scene.store.revoke_token("t")):
        with pytest.raises(NotFound):
            await attempt
    await scene.store.touch_token("t")
    assert await ids(scene) == []
    assert await scene.store.delete_tokens(NOW * 2, 100) == 0
    assert await acme.store.get_token("t") == found


@rule
async def test_a_token_is_revoked_once(scene: Scene) -> None:
    await scene.store.create_token(token(expires_at=NOW + 60))
    scene.clock.advance(5)
    revoked = await scene.store.revoke_token("t")
    assert revoked.revoked_at == NOW + 5
    scene.clock.advance(5)
    assert await scene.store.revoke_token("t") == revoked == await scene.store.find_token(hash_of("t"))
    with pytest.raises(NotFound):
        await scene.store.revoke_token("unknown")


@rule
async def test_a_token_expires_earlier_than_it_would_have_and_never_later(scene: Scene) -> None:
    await scene.store.create_token(token())
    await scene.store.create_token(token("short", expires_at=NOW + 60))
    assert (await scene.store.expire_token("t", NOW + 90)).expires_at == NOW + 90
    assert (await scene.store.expire_token("t", NOW + 30)).expires_at == NOW + 30
    assert (await scene.store.expire_token("t", NOW + 90)).expires_at == NOW + 30
    assert (await scene.store.expire_token("short", NOW + 90)).expires_at == NOW + 60
    found = await scene.store.find_token(hash_of("t"))
    assert found == await scene.store.get_token("t")
    assert found is not None
    assert not found.is_open(NOW + 30)
    for missing in (
        scene.store.expire_token("unknown", NOW),
        scene.within("acme").store.expire_token("t", NOW),
    ):
        with pytest.raises(NotFound):
            await missing
    assert await scene.store.delete_tokens(NOW + 31, 100) == 1


@rule
async def test_a_use_is_noted_once_a_minute(scene: Scene) -> None:
    await scene.store.create_token(token())
    seen: list[float | None] = []
    for _ in range(5):
        await scene.store.touch_token("t")
        seen.append((await scene.store.get_token("t")).used_at)
        scene.clock.advance(20)
    assert seen == [NOW, NOW, NOW, NOW + 60, NOW + 60]
    await scene.store.touch_token("unknown")


@rule
async def test_tokens_are_listed_by_kind_subject_and_question_in_pages(scene: Scene) -> None:
    await scene.within("acme").store.create_token(token("theirs", question_id="q"))
    await scene.store.create_token(token("key", kind=TokenKind.RESUME, question_id="q"))
    for n, name in enumerate(("c", "a", "b")):
        subject = "user:bob" if name == "a" else "user:ana"
        await scene.store.create_token(token(name, subject=subject, question_id="q" if n else None))
    first = await scene.store.list_tokens(LINKS, limit=2)
    assert [each.id for each in first.items] == ["c", "a"]
    second = await scene.store.list_tokens(LINKS, after=first.next, limit=2)
    assert ([each.id for each in second.items], second.next) == (["b"], None)
    assert await ids(scene, replace(LINKS, subject="user:ana")) == ["c", "b"]
    assert await ids(scene, replace(LINKS, question_id="q")) == ["a", "b"]
    assert await ids(scene, replace(LINKS, question_id="q", subject="user:ana")) == ["b"]
    assert await ids(scene, TokenFilter(TokenKind.RESUME)) == ["key"]
    assert await ids(scene, TokenFilter(TokenKind.LOGIN)) == []
    with pytest.raises(InvalidValue):
        await scene.store.list_tokens(LINKS, after="x")


@rule
async def test_what_expired_or_was_revoked_before_is_deleted_the_earliest_first(scene: Scene) -> None:
    await scene.store.create_token(token("forever"))
    for name, seconds in (("late", 90.0), ("soon", 30.0), ("first", 10.0)):
        await scene.store.create_token(token(name, expires_at=NOW + seconds))
    await scene.store.create_token(token("revoked"))
    scene.clock.advance(20)
    await scene.store.revoke_token("revoked")
    await scene.store.revoke_token("late")
    assert await scene.store.delete_tokens(NOW + 10, 100) == 0
    assert await scene.store.delete_tokens(NOW + 25, 1) == 1
    assert sorted(await ids(scene)) == ["forever", "late", "revoked", "soon"]
    assert await scene.store.delete_tokens(NOW + 30, 100) == 2
    assert await scene.store.delete_tokens(NOW + 30.5, 100) == 1
    assert await ids(scene) == ["forever"]
    assert await scene.store.find_token(hash_of("late")) is None
    assert (await scene.store.create_token(token("late"))).expires_at is None


@rule
async def test_what_no_store_could_keep_is_refused(scene: Scene) -> None:
    for wrong in (
        token(hash="secret"),
        token(hash=hash_of("t").upper()),
        token("a\0b"),
        token(subject="a\0b"),
        token(label="\ud800"),
        token(question_id="a\0b"),
        token(created_by="a\0b"),
        token(data="[]"),
        token(data="{"),
        token(kind=TokenKind("a\0b")),
    ):
        with pytest.raises(InvalidValue) as refused:
            await scene.store.create_token(wrong)
        assert wrong.hash not in str(refused.value)
    assert await ids(scene) == []


@rule
async def test_a_kind_of_a_newer_version_is_kept_as_it_is(scene: Scene) -> None:
    made = await scene.store.create_token(token(kind=TokenKind("badge")))
    assert made.kind == "badge"
    assert await ids(scene, TokenFilter(TokenKind("badge"))) == ["t"]


@rule
async def test_a_secret_finds_its_token_and_nothing_else_does(scene: Scene) -> None:
    secret, new = new_token(TokenKind.LINK, "user:ana", label="mail")
    made = await scene.store.create_token(new)
    assert await find_token(scene.store, TokenKind.LINK, secret) == made
    for wrong in (
        "",
        new.hash,
        secret[:-1],
        secret + "A",
        secret.lower(),
        f" {secret}",
        new.id,
        "sgl_" + "é" * 43,
    ):
        assert await find_token(scene.store, TokenKind.LINK, wrong) is None
    assert await find_token(scene.store, TokenKind.LOGIN, secret) is None
    assert secret not in f"{new!r}{made!r}"
    assert new.hash not in f"{new!r}{made!r}"


def test_a_token_is_open_until_it_expires_or_is_revoked() -> None:
    kept = Token("default", "t", TokenKind.LINK, hash_of("t"), "user:ana", 1.0, expires_at=5.0)
    assert kept.is_open(4.9)
    assert not kept.is_open(5.0)
    assert not replace(kept, revoked_at=2.0).is_open(3.0)
    assert replace(kept, expires_at=None).is_open(9e9)


@pytest.mark.parametrize("scene_of", [sqlite_scene, postgres_scene])
@in_asyncio
async def test_no_secret_is_in_the_database(
    tmp_path: Path, scene_of: Callable[[Path], AbstractAsyncContextManager[Scene]]
) -> None:
    async with scene_of(tmp_path) as scene:
        secret, new = new_token(TokenKind.LINK, "user:ana")
        made = await scene.store.create_token(new)
        kept = [str(getattr(made, field)) for field in Token.__dataclass_fields__]
        assert not [text for text in kept if secret in text]
    assert all(secret.encode() not in file.read_bytes() for file in tmp_path.iterdir())
