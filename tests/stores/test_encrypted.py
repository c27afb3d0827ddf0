"""Encryption at rest in a store. The rules of stores run on an encrypted one, too."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import aclosing, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import signoff
from signoff import Action, Alike, AsyncClient, Context, LiveText, Quorum, RetryPolicy, Signoff
from signoff.codec.ciphers import MARK, CannotDecrypt, Ciphers, EncryptionKey
from signoff.engine.timers.timers import TimerService
from signoff.errors import IdConflict, InvalidValue, MissingKey, RequestConflict
from signoff.people.audit.hash_chain import verify
from signoff.people.audit.sealing import seal_events
from signoff.records import (
    CallKind,
    NewPromise,
    NewRun,
    NewSchedule,
    Promise,
    PromiseKind,
    PromiseState,
    RunState,
    Settlement,
)
from signoff.records.paging import AuditFilter
from signoff.records.tasks import NewInvocation, TaskLease, TaskRef
from signoff.stores.address import KEYS_VARIABLE, PLAINTEXT_VARIABLE, store_at
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.encrypted import encrypted
from signoff.stores.wrappers.store_wrapper import unwrapped
from tests.postgres.databases import fresh_database
from tests.support import in_asyncio, opens, reaches, running, until

OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
WORD = "tell-nobody-7f3a"


# Ciphers


def test_a_text_comes_back_and_says_nothing_until_then() -> None:
    ciphers = Ciphers([OLD])
    for text in ("", "x", WORD, "\N{SNOWMAN}" * 1000, '{"a": 1}'):
        sealed = ciphers.encrypt(text, bound_to="default")
        assert sealed.startswith(f"{MARK}old:")
        assert WORD not in sealed
        assert ciphers.decrypt(sealed, bound_to="default") == text


def test_the_same_text_is_the_same_ciphertext_in_the_same_place_only() -> None:
    ciphers = Ciphers([OLD])

    def seal(text: str = WORD, bound_to: str = "r.0") -> str:
        return ciphers.encrypt(text, bound_to=bound_to)

    assert seal() == seal()
    others = {
        seal(),
        seal("else"),
        seal(bound_to="r.1"),
        seal("r.0", bound_to=WORD),
    }
    assert len(others) == 4


def test_an_earlier_key_still_reads_and_never_writes() -> None:
    sealed = Ciphers([OLD]).encrypt(WORD, bound_to="default")
    both = Ciphers([NEW, OLD])
    assert both.decrypt(sealed, bound_to="default") == WORD
    assert both.encrypt(WORD, bound_to="default").startswith(f"{MARK}new:")


def test_what_was_changed_or_moved_or_needs_another_key_is_not_read() -> None:
    ciphers = Ciphers([OLD])
    sealed = ciphers.encrypt(WORD, bound_to="default")
    body = sealed.removeprefix(f"{MARK}old:")
    changed = [
        sealed[:-1],
        sealed + "A",
        f"{MARK}old:",
        f"{MARK}old",
        f"{MARK}old:{body[:20]}",
        f"{MARK}old:\N{SNOWMAN}",
    ]
    flipped = ["A" if letter != "A" else "B" for letter in body]
    changed += [f"{MARK}old:{body[:n]}{flipped[n]}{body[n + 1 :]}" for n in range(len(body) - 4)]
    for each in changed:
        with pytest.raises(CannotDecrypt, match="does not decrypt it"):
            ciphers.decrypt(each, bound_to="default")
    with pytest.raises(CannotDecrypt, match="does not decrypt it"):
        ciphers.decrypt(sealed, bound_to="other")
    with pytest.raises(CannotDecrypt, match="needs key 'old'"):
        Ciphers([NEW]).decrypt(sealed, bound_to="default")
    with pytest.raises(CannotDecrypt, match="does not decrypt it"):
        Ciphers([replace(NEW, name="old")]).decrypt(sealed, bound_to="default")


def test_keys_are_written_and_read_and_never_shown() -> None:
    key = EncryptionKey.new("k-1")
    assert EncryptionKey.new("k-1") != key
    sealed = Ciphers([key]).encrypt(WORD, bound_to="default")
    for text in (f"{NEW.text} {key.text}", f"\n{NEW.text},\n{key.text}=\n"):
        assert Ciphers.parse(text).decrypt(sealed, bound_to="default") == WORD
    assert key.text.partition(":")[2] not in repr(key)
    assert repr(key.secret) not in repr(key)


@pytest.mark.parametrize(
    "text", ["", "k", "k:", "k:abc", "k:%%%", f"k k:{'A' * 43}", f":{'A' * 43}", f"a b:{'A' * 43}"]
)
def test_what_is_no_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Ciphers.parse(text.replace("$", "A" * 43))
    assert "A" * 20 not in str(refused.value)


def test_two_keys_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValue, match="two keys share a name"):
        Ciphers([OLD, replace(NEW, name="old")])


# Stores


@contextmanager
def changed(folder: Path, change: str) -> Iterator[None]:
    """A database file with changes by another program; restored afterwards."""
    with (
        closing(sqlite3.connect(folder / "signoff.db")) as db,
        closing(sqlite3.connect(folder / "kept.db")) as kept,
    ):
        db.backup(kept)
        db.execute(change)
        db.commit()
        yield
        kept.backup(db)


def with_keys(store: Store, *keys: EncryptionKey) -> Store:
    return encrypted(store, Ciphers(keys))


async def asking(app: Signoff, text: str) -> Promise:
    """Wait until there is a question with that text."""

    async def look() -> Promise | None:
        found = (await AsyncClient(app).questions()).items
        return next((each for each in found if json.loads(each.data or "")["text"] == text), None)

    return await until(app, look)


async def say_it_everywhere(store: Store) -> None:
    """Have people, programs and workflows say the word wherever they can, and see that it is read everywhere."""
    app = Signoff(store)
    said = {"word": WORD}

    def fail() -> None:
        raise LookupError(WORD)

    async def speak() -> Any:
        signoff.current_step().live(WORD)
        await was_heard.wait()
        return said

    was_heard = asyncio.Event()

    @app.workflow
    async def echo(ctx: Context, said: Any) -> Any:
        return said

    @app.workflow
    async def fails(ctx: Context, said: Any) -> None:
        raise LookupError(WORD)

    @app.workflow
    async def tell(ctx: Context, said: Any) -> list[Any]:
        await ctx.progress(WORD, at=said)
        with pytest.raises(LookupError, match=WORD):
            await ctx.step("fails", fail, retry=RetryPolicy(initial_seconds=0.01, max_attempts=2))
        heard = [await ctx.step("first", speak)]
        asked = await ctx.wait_for_user(
            f"{WORD}?",
            metadata=said,
            proposal=said,
            help=WORD,
            quorum=Quorum(1, of=2),
            assignees=["group:all"],
        )
        heard += [asked.note, asked.proposal]
        asked = await ctx.wait_for_user("Which?", input_type="text", default=WORD)
        heard += [asked.value, asked.note, await ctx.wait_for_signal("go")]
        for _ in range(2):
            asked = await ctx.wait_for_user("Do it?", action=Action("tell", said))
            heard.append(asked.approved)
        return [*heard, await (await ctx.promise(id="outside", data=said)), await ctx.rfc(echo, said)]

    async with running(app) as client:
        await client.schedules.put("s", echo, said, cron="0 0 1 1 *")
        failed = await client.start(fails, said, id="f")
        told = await client.start(tell, said, id="r")
        async with aclosing(told.events(live=True)) as events:
            assert await anext(each.text async for each in events if isinstance(each, LiveText)) == WORD
        was_heard.set()
        await client.answer(
            (await asking(app, f"{WORD}?")).id, True, user_id="ana", groups=["all"], note=WORD
        )
        asked = await asking(app, "Which?")
        await client.inbox.delegate(asked.id, ["user:ana"], user_id="bob", note=WORD)
        await client.answer(asked.id, WORD, user_id="ana", note=WORD)
        await told.signal("go", said, request_id="once")
        asked = await asking(app, "Do it?")
        await client.answer(asked.id, True, user_id="ana", alike=Alike(3600, same=["/word"]))
        assert WORD in ((await opens(app, "outside")).data or "")
        await client.promises.resolve("outside", said)
        assert await told.result() == [said, WORD, said, WORD, WORD, said, True, True, said, said]
        [rule] = (await client.rules.list()).items
        assert (WORD in rule.arguments, rule.uses) == (True, 1)
        with pytest.raises(LookupError, match=WORD):
            await failed.result()
        assert WORD in (await client.schedules.get("s")).arguments
        history = (await client.inbox.history(run_id="r")).items
        for kind in ("asked", "voted", "resolved", "delegated"):
            assert any(WORD in (event.details or "") for event in history if event.kind.value == kind), kind
        journal = await told.journal()
        assert {WORD in f"{entry.value} {entry.error} {entry.details}" for entry in journal} == {True, False}
        assert {entry.call for entry in journal if entry.name == WORD} == {CallKind.PROGRESS}
        await say_it_to_a_task(app.store)


async def say_it_to_a_task(store: Store) -> None:
    """Have a task, its result and the message about it say the word."""
    text = json.dumps({"word": WORD})
    lease = TaskLease("p", 60_000)
    new = NewInvocation(NewPromise("task", data=text), "poll://any@g", branch="task", lease=lease)
    opened = await store.open_invocation(new)
    assert opened.promise.data == text
    await store.listen_promise("task", "poll://any@g/p")
    settlement = Settlement(PromiseState.RESOLVED, value=text)
    assert (await store.settle_held(TaskRef("task", 1), "task", settlement)).value == text
    assert [(each.data, each.value) for each in await store.list_branch("task")] == [(text, text)]
    [message] = await store.take_task_messages(["poll://any@g"], 10)
    assert message.promise is not None
    assert (message.promise.data, message.promise.value) == (text, text)


@in_asyncio
async def test_no_payload_is_in_an_sqlite_file(tmp_path: Path) -> None:
    await say_it_everywhere(with_keys(SqliteStore(tmp_path / "signoff.db"), OLD))
    for file in tmp_path.iterdir():
        assert WORD.encode() not in file.read_bytes(), file


@in_asyncio
async def test_no_payload_is_in_a_postgres_database() -> None:
    with fresh_database() as url:
        await say_it_everywhere(with_keys(PostgresStore(url), OLD))
        with psycopg.connect(url) as db:
            tables = db.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'signoff'"
            )
            for (table,) in tables.fetchall():
                rows = db.execute(f"SELECT t::text FROM signoff.{table} t").fetchall()  # type: ignore[arg-type]
                assert not [row for (row,) in rows if WORD in row], table


@in_asyncio
async def test_without_encryption_the_same_look_finds_it(tmp_path: Path) -> None:
    await say_it_everywhere(SqliteStore(tmp_path / "signoff.db"))
    assert any(WORD.encode() in file.read_bytes() for file in tmp_path.iterdir())


@in_asyncio
async def test_a_plaintext_run_continues_encrypted_and_after_a_key_change(
    tmp_path: Path,
) -> None:
    def stores() -> Iterable[Store]:
        yield SqliteStore(tmp_path / "signoff.db")
        yield with_keys(SqliteStore(tmp_path / "signoff.db"), OLD)
        yield with_keys(SqliteStore(tmp_path / "signoff.db"), NEW, OLD)

    async def three(ctx: Context, first: str) -> list[str]:
        return [first] + [(await ctx.wait_for_user(f"{n}?", input_type="text")).value for n in range(3)]

    for n, store in enumerate(stores()):
        app = Signoff(store)
        app.workflow(three)
        async with running(app) as client:
            handle = await client.start(three, WORD, id="r")
            asked = await asking(app, f"{n}?")
            await client.answer(asked.id, str(n))
            if n == 2:
                assert await handle.result() == [WORD, "0", "1", "2"]


@in_asyncio
async def test_what_was_said_under_an_earlier_key_is_known_when_it_is_said_again(tmp_path: Path) -> None:
    new = NewRun("r", "tell", "default", '{"args": [1], "kwargs": {}}')
    yes = Settlement(PromiseState.RESOLVED, '{"b": 0, "a": [1, 2]} ', request_id="once")
    database = SqliteStore(tmp_path / "signoff.db")
    old, both = with_keys(database, OLD), with_keys(database, NEW, OLD)
    await old.open()
    try:
        app = Signoff(old)
        async with AsyncClient(app) as client:
            await client.promises.create("p", data=WORD)
        first, _ = await old.create_run(new)
        await old.settle("p", PromiseKind.PROMISE, yes)
        again = replace(new, arguments='{"kwargs":{},"args":[1]}')
        assert await both.create_run(again) == (first, False)
        for same in (yes.value, '{"a":[1,2],"b":0}'):
            for store in (old, both):
                settled, done = await store.settle("p", PromiseKind.PROMISE, replace(yes, value=same))
                assert (settled.value, done) == (yes.value, False)
        for changed in (
            replace(new, arguments='{"args": [2], "kwargs": {}}'),
            replace(new, workflow="other"),
        ):
            with pytest.raises(IdConflict):
                await both.create_run(changed)
        for change in (replace(yes, value="[2]"), replace(yes, state=PromiseState.REJECTED)):
            with pytest.raises(RequestConflict):
                await both.settle("p", PromiseKind.PROMISE, change)
    finally:
        await old.close()


@pytest.mark.parametrize("keys", [(), (NEW,)])
@in_asyncio
async def test_a_worker_without_the_key_changes_nothing_and_one_with_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, keys: tuple[EncryptionKey, ...]
) -> None:
    async def echo(ctx: Context, said: str) -> str:
        return said

    database = SqliteStore(tmp_path / "signoff.db", lease_seconds=0.5)
    keyed = Signoff(with_keys(database, OLD))
    wrong = Signoff(with_keys(database, *keys) if keys else database)
    for app in (keyed, wrong):
        app.workflow(echo)
    async with AsyncClient(keyed) as client:
        await client.start(echo, WORD, id="r")
        async with wrong.worker():
            await reaches(keyed, "r", RunState.RUNNING)
            if keys:
                with pytest.raises(MissingKey, match="needs key 'old'"):
                    await wrong.store.get_run("r")
            assert await keyed.store.read_journal("r") == []
        assert "cannot be decrypted" in caplog.text
        async with keyed.worker():
            assert await (await client.get("r")).result() == WORD
    await keyed.store.close()


@in_asyncio
async def test_a_value_moved_to_another_namespace_is_not_read(tmp_path: Path) -> None:
    database = SqliteStore(tmp_path / "signoff.db")
    one = with_keys(database, OLD)
    await one.open()
    try:
        await one.create_run(NewRun("r", "tell", "default", '{"args": []}'))
        stolen = (await database.get_run("r")).arguments
        assert stolen.startswith(f'"{MARK}old:')
        await database.within("other").create_run(NewRun("r", "tell", "default", stolen))
        with pytest.raises(MissingKey, match="does not decrypt it"):
            await one.within("other").get_run("r")
        assert (await one.get_run("r")).arguments == '{"args": []}'
    finally:
        await database.close()


@in_asyncio
async def test_a_value_moved_to_another_row_is_not_read(tmp_path: Path) -> None:
    database = SqliteStore(tmp_path / "signoff.db")
    one = with_keys(database, OLD)
    await one.open()
    try:
        for id in ("a", "b"):
            await one.create_promise(NewPromise(id, data=f'"{id}"'))
            await one.settle(id, PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, f'"{id}"', note=id))
            await one.create_run(NewRun(id, "tell", "default", f'{{"args": ["{id}"]}}'))
            await one.put_schedule(
                NewSchedule(id, "tell", "default", f'{{"args": ["{id}"]}}', "0 0 1 1 *", "UTC")
            )
        moves = {
            "UPDATE promises SET data = (SELECT data FROM promises WHERE id = 'b')": one.get_promise,
            "UPDATE promises SET data = value": one.get_promise,
            "UPDATE promises SET value = (SELECT value FROM promises WHERE id = 'b')": one.get_promise,
            "UPDATE promises SET note = (SELECT note FROM promises WHERE id = 'b')": one.get_promise,
            "UPDATE runs SET arguments = (SELECT arguments FROM runs WHERE id = 'b')": one.get_run,
            "UPDATE runs SET result = (SELECT value FROM promises WHERE id = 'b')": one.get_run,
            "UPDATE runs SET arguments = (SELECT arguments FROM schedules WHERE id = 'a')": one.get_run,
            "UPDATE schedules SET arguments = (SELECT arguments FROM runs WHERE id = 'a')": one.get_schedule,
        }
        for move, read in moves.items():
            await read("a")
            with (
                changed(tmp_path, f"{move} WHERE id = 'a'"),
                pytest.raises(MissingKey, match="does not decrypt it"),
            ):
                await read("a")
    finally:
        await database.close()


@in_asyncio
async def test_with_plaintext_refused_planted_rows_are_not_read(
    tmp_path: Path,
) -> None:
    database = SqliteStore(tmp_path / "signoff.db")
    strict = encrypted(database, Ciphers([OLD]), refuses_plaintext=True)
    await say_it_everywhere(strict)
    await strict.open()
    try:
        await strict.cancel((await strict.create_run(NewRun("c", "tell", "none", '{"args": []}')))[0].id)
        assert (await strict.get_run("c")).error is not None
        plain = [
            ("promises", "data", '"outside"', strict.get_promise, "outside"),
            ("promises", "value", '"outside"', strict.get_promise, "outside"),
            ("promises", "note", "said", strict.get_promise, "outside"),
            ("runs", "arguments", '{"args": []}', strict.get_run, "r"),
            ("runs", "result", "true", strict.get_run, "f"),
            ("journal", "value", "true", strict.read_journal, "r"),
        ]
        for table, column, said, read, id in plain:
            await read(id)
            change = f"UPDATE {table} SET {column} = '{said}'"
            with changed(tmp_path, change), pytest.raises(MissingKey, match="not encrypted"):
                await read(id)
        event = (
            "INSERT INTO audit (namespace, id, at, kind, question_id, details) "
            "VALUES ('default', 'planted', 0, '{}', 'q', '{{\"data\": \"{{}}\"}}')"
        )
        for kind in ("asked", "voted"):
            with changed(tmp_path, event.format(kind)):
                events = {each.id: each.details for each in (await strict.list_audit(AuditFilter())).items}
                assert "it cannot be decrypted: it is not encrypted" in (events.pop("planted") or "")
                assert "cannot be decrypted" not in str(events)
    finally:
        await strict.close()


PLANTED = f"{MARK}x:eA=="


@in_asyncio
async def test_a_value_that_looks_encrypted_before_there_are_keys_stays_the_same(tmp_path: Path) -> None:
    async def ask(ctx: Context, said: str) -> list[str]:
        kept = await ctx.step("keep", lambda: PLANTED)
        return [said, kept, (await ctx.wait_for_user("Your remarks?", input_type="text")).value]

    plain, keyed = (
        Signoff(store)
        for store in (
            SqliteStore(tmp_path / "signoff.db"),
            with_keys(SqliteStore(tmp_path / "signoff.db"), OLD),
        )
    )
    for app in (plain, keyed):
        app.workflow(ask)
    async with running(plain) as client:
        await client.start(ask, PLANTED, id="r")
        question = await asking(plain, "Your remarks?")
        with pytest.raises(InvalidValue, match="note"):
            await client.answer(question.id, "yes", note=PLANTED)
    async with AsyncClient(plain) as client:
        await client.answer(question.id, PLANTED)
        await client.promises.create("p")
        with pytest.raises(InvalidValue, match="note"):
            await client.backend.settle("p", Settlement(PromiseState.CANCELLED, note=PLANTED))
        await client.promises.resolve("p", PLANTED)
    async with running(keyed) as client:
        assert await (await client.get("r")).result() == [PLANTED] * 3
        assert json.loads((await client.promises.get("p")).value or "") == PLANTED
        assert (await client.inbox.history()).items


@in_asyncio
async def test_a_run_that_cannot_be_decrypted_keeps_no_other_from_being_claimed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def echo(ctx: Context, said: str) -> str:
        return said

    app = Signoff(with_keys(SqliteStore(tmp_path / "signoff.db"), OLD))
    app.workflow(echo)
    async with AsyncClient(app) as client:
        handles = [await client.start(echo, WORD, id=f"r-{n}") for n in range(4)]
        with closing(sqlite3.connect(tmp_path / "signoff.db")) as db:
            db.execute("UPDATE runs SET arguments = ? WHERE id = 'r-0'", (json.dumps(PLANTED),))
            db.commit()
        async with app.worker():
            assert [await handle.result() for handle in handles[1:]] == [WORD] * 3
    assert "run 'r-0' is skipped" in caplog.text
    await app.store.close()


@in_asyncio
async def test_a_job_item_that_cannot_be_decrypted_stops_no_other_item(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    done = asyncio.Event()

    async def stuck(_: Store) -> None:
        raise MissingKey(store.location, "it needs key 'x'")

    async def goes_on(_: Store) -> None:
        done.set()

    await store.open()
    try:
        timers = asyncio.create_task(TimerService(store, periodic_jobs=[stuck, goes_on]).run())
        async with asyncio.timeout(60):
            await done.wait()
        timers.cancel()
        await asyncio.wait([timers])
    finally:
        await store.close()


@in_asyncio
async def test_a_reason_that_looks_encrypted_is_refused(tmp_path: Path) -> None:
    one = with_keys(SqliteStore(tmp_path / "signoff.db"), OLD)
    await one.open()
    try:
        await one.create_run(NewRun("r", "tell", "default", '{"args": []}'))
        with pytest.raises(InvalidValue, match="reason"):
            await one.cancel("r", reason=f"{MARK}none:AAAA")
        assert (await one.cancel("r", reason=WORD)).state is RunState.CANCELLED
    finally:
        await one.close()


@in_asyncio
async def test_the_trail_is_verified_with_and_without_keys_and_read_with_them(tmp_path: Path) -> None:
    database = SqliteStore(tmp_path / "signoff.db")
    one = with_keys(database, OLD)
    await say_it_everywhere(one)
    await database.open()
    try:
        await seal_events(one)
        async with AsyncClient(Signoff(one)) as client:
            for chain in (client.backend, database):
                verdict = await verify(chain)
                assert verdict.events > 0
                assert verdict.problems == ()
        links = await one.read_chain()
        assert WORD in json.dumps([event.details for _, event in links if event is not None])
        read, kept = [(await store.list_audit(AuditFilter())).items for store in (one, database)]
        assert WORD in json.dumps([event.details for event in read])
        assert WORD not in json.dumps([event.details for event in kept])
    finally:
        await database.close()


def test_an_address_gives_an_encrypted_store_if_the_environment_has_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"sqlite:///{tmp_path}/signoff.db"
    assert isinstance(store_at(address), SqliteStore)
    monkeypatch.setenv(KEYS_VARIABLE, OLD.text)
    store = store_at(address)
    assert not isinstance(store, SqliteStore)
    assert isinstance(unwrapped(store), SqliteStore)
    assert isinstance(unwrapped(store.within("other")), SqliteStore)
    monkeypatch.setenv(PLAINTEXT_VARIABLE, "refuse")
    assert isinstance(unwrapped(store_at(address)), SqliteStore)
    monkeypatch.setenv(PLAINTEXT_VARIABLE, "sometimes")
    with pytest.raises(InvalidValue, match=PLAINTEXT_VARIABLE):
        store_at(address)
    monkeypatch.setenv(PLAINTEXT_VARIABLE, "refuse")
    monkeypatch.delenv(KEYS_VARIABLE)
    with pytest.raises(InvalidValue, match=PLAINTEXT_VARIABLE):
        store_at(address)
    monkeypatch.delenv(PLAINTEXT_VARIABLE)
    monkeypatch.setenv(KEYS_VARIABLE, "nonsense")
    with pytest.raises(InvalidValue, match="encryption key"):
        store_at(address)
