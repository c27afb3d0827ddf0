"""A trail that an attacker truncated, emptied or rebuilt: its anchor shows it; without one, no claim is made."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from signoff.people.audit.anchors.anchor import AnchorUnavailable, Kept, cursor_of
from signoff.people.audit.anchors.anchoring import EMPTY, LONGEST_PAUSE, Anchoring, heads_of, restart
from signoff.people.audit.anchors.checkpoint import Checkpoint, read_checkpoint
from signoff.people.audit.anchors.config import Anchors, anchors_of
from signoff.people.audit.anchors.file import FileAnchor
from signoff.people.audit.anchors.verification import UNANCHORED, Examination, examine
from signoff.people.audit.hash_chain import hash_of
from signoff.records import AuditEvent, Seal
from signoff.stores.contract.store import Store
from tests.attacks.trails import add, anchor, cut_from, forge
from tests.cli.commands import Ended, Running, signoff, until
from tests.cli.diagnoses import examine as diagnose
from tests.cli.diagnoses import on_store
from tests.postgres.databases import fresh_database
from tests.stores.scene import Scene, rule
from tests.support import in_asyncio

SECRET = "whsec_" + "c2Vj" * 10


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/signoff.db"
        return
    with fresh_database() as url:
        yield url


def file_in(folder: Path) -> Anchors:
    return Anchors((FileAnchor(folder / "audit.anchor"),))


async def look(store: Store, anchors: Anchors | None = None, **more: Any) -> Examination:
    return await examine(store, store.namespace, anchors or Anchors(), store=store, **more)


# What an attacker does with the tables, who has all rights on them.


def chain(address: str) -> list[tuple[Seal, AuditEvent]]:
    async def read(store: Store) -> Any:
        return await store.read_chain()

    return list(on_store(address, read))


def sealed_anew(links: list[tuple[Seal, AuditEvent]]) -> list[str]:
    """Statements that give a chain of these events right hashes."""
    statements: list[str] = []
    hash = EMPTY
    for seq, (_, event) in enumerate(links):
        hash = hash_of(hash, event)
        statements.append(
            f"UPDATE signoff.seals SET hash = '{hash}', event_id = '{event.id}x' WHERE seq = {seq}"
        )
    statements.append("UPDATE signoff.seals SET event_id = substr(event_id, 1, length(event_id) - 1)")
    return statements


def rewritten(address: str) -> tuple[str, ...]:
    links = [
        (seal, replace(event, by="user:eve") if event.id == "e4" else event) for seal, event in chain(address)
    ]
    return ("UPDATE signoff.audit SET by = 'user:eve' WHERE id = 'e4'", *sealed_anew(links))


def without_a_row(address: str) -> tuple[str, ...]:
    links = [(seal, event) for seal, event in chain(address) if event.id != "e4"]
    return (
        "DELETE FROM signoff.audit WHERE id = 'e4'",
        "DELETE FROM signoff.seals WHERE seq = 9",
        *sealed_anew(links),
    )


def swapped(address: str) -> tuple[str, ...]:
    links = chain(address)
    links[4], links[5] = links[5], links[4]
    return tuple(sealed_anew(links))


FORGERIES: dict[str, tuple[Callable[[str], tuple[str, ...]], str]] = {
    "cut off at its end": (lambda _: cut_from(7), "the chain ends at event 6, and had event 9"),
    "emptied": (lambda _: cut_from(0), "the chain ends at event -1, and had event 9"),
    "one event changed, all sealed anew": (rewritten, "event 9 has hash"),
    "one event removed, all sealed anew": (without_a_row, "the chain ends at event 8, and had event 9"),
    "two events swapped, all sealed anew": (swapped, "event 9 has hash"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_trail_is_found_by_its_anchor_or_not_called_unchanged(
    address: str, tmp_path: Path, forgery: str
) -> None:
    change, found = FORGERIES[forgery]
    anchors = file_in(tmp_path)

    async def begin(store: Store) -> Examination:
        await add(store, 10)
        await anchor(store, anchors)
        return await look(store, anchors)

    before = on_store(address, begin)
    assert (before.verdict.problems, before.unverified, before.anchored) == ((), [], 9)
    forge(address, *change(address))
    environment = {"SIGNOFF_AUDIT_ANCHORS": (tmp_path / "audit.anchor").as_uri()}
    anchored = verify(address, tmp_path, **environment)
    assert (anchored.code, found in anchored.err) == (1, True), anchored
    assert ("failure", True) in [
        (level, "signoff audit verify" in text)
        for level, text in diagnose(signoff, "--store", address, cwd=tmp_path, **environment)["audit trail"]
    ]
    alone = verify(address, tmp_path)
    assert alone.code == 0
    assert "not checked: nothing outside the database anchors this trail" in alone.err
    assert verify(address, tmp_path, "--strict").code == 1
    told = verify(address, tmp_path, "--json").json
    assert told["anchored"] is None
    assert told["unverified"] == [UNANCHORED]


def verify(address: str, folder: Path, *more: str, **environment: str) -> Ended:
    return signoff("audit", "verify", "--store", address, *more, cwd=folder, **environment)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE signoff.audit SET by = 'user:eve' WHERE id = 'e4'", "event 4 (e4"),
        ("DELETE FROM signoff.audit WHERE id = 'e4'", "event 4 (e4) is missing"),
        ("DELETE FROM signoff.seals WHERE seq = 4", "event 4 is missing"),
        (f"UPDATE signoff.seals SET hash = '{EMPTY}' WHERE seq = 4", "event 4 (e4"),
        ("UPDATE signoff.seals SET event_id = 'x' WHERE seq = 4", "event 4 (x) is missing"),
    ],
)
def test_one_row_that_does_not_fit_is_found_without_an_anchor(
    address: str, tmp_path: Path, change: str, found: str
) -> None:
    on_store(address, lambda store: add(store, 10))
    forge(address, change)
    ended = verify(address, tmp_path)
    assert (ended.code, found in ended.err) == (1, True), ended


def test_an_older_database_copy_is_found_until_the_trail_is_restarted(
    tmp_path: Path,
) -> None:
    address, copy = f"sqlite:///{tmp_path}/signoff.db", tmp_path / "copy.db"
    environment = {"SIGNOFF_AUDIT_ANCHORS": (tmp_path / "audit.anchor").as_uri()}
    anchors = file_in(tmp_path)

    async def anchored(store: Store, name: str) -> None:
        await add(store, 5, name)
        await anchor(store, anchors)

    on_store(address, lambda store: anchored(store, "a"))
    shutil.copy(tmp_path / "signoff.db", copy)
    on_store(address, lambda store: anchored(store, "b"))
    shutil.copy(copy, tmp_path / "signoff.db")
    found = verify(address, tmp_path, **environment)
    assert (found.code, "ends at event 4, and had event 9" in found.err) == (1, True), found
    # It goes on, and is longer again than what was lost. That is anchored, and hides nothing.
    on_store(address, lambda store: anchored(store, "c"))
    on_store(address, lambda store: anchored(store, "d"))
    found = verify(address, tmp_path, **environment)
    assert (found.code, "event 9 has hash" in found.err) == (1, True), found
    reason = "backup of May 1 restored: the disk\nfailed"
    restarted = signoff(
        "audit", "restart", "--store", address, "--reason", reason, cwd=tmp_path, **environment
    )
    assert restarted.code == 0, restarted
    found = verify(address, tmp_path, **environment)
    assert (found.code, "event 14 on" in found.out, ": backup of May 1" in found.out) == (0, True, True), (
        found
    )
    assert verify(address, tmp_path, "--strict", "--json", **environment).json["anchors"][0]["restarts"]
    forge(address, *cut_from(12))
    assert verify(address, tmp_path, **environment).code == 1


def test_a_trail_truncated_with_its_anchor_marks_is_found_by_the_file(address: str, tmp_path: Path) -> None:
    anchors = file_in(tmp_path)

    async def begin(store: Store) -> None:
        await add(store, 10)
        await anchor(store, anchors)

    on_store(address, begin)
    forge(address, *cut_from(5), "DELETE FROM signoff.channels")
    found = on_store(address, lambda store: look(store, anchors))
    assert "ends at event 4, and had event 9" in found.verdict.problems[0]


def anchored_thrice(folder: Path) -> tuple[str, Path, Anchors]:
    """Make a trail of nine events, anchored after each third. Returns the store's address, the file and its anchors."""
    address, anchors = f"sqlite:///{folder}/signoff.db", file_in(folder)

    async def begin(store: Store) -> None:
        for name in "abc":
            await add(store, 3, name)
            await anchor(store, anchors)

    on_store(address, begin)
    return address, folder / "audit.anchor", anchors


@pytest.mark.parametrize("change", ["cut", "emptied", "removed", "another"])
def test_an_anchor_that_lost_its_end_is_found_by_the_marks_in_the_database(
    tmp_path: Path, change: str
) -> None:
    address, file, anchors = anchored_thrice(tmp_path)
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    match change:
        case "cut":
            file.write_text("".join(lines[:2]))
        case "emptied":
            file.write_text("")
        case "removed":
            file.unlink()
        case _:
            file.write_text(json.dumps({"note": Checkpoint("staging", "default", 9, EMPTY, 1.0).text}) + "\n")
    found = on_store(address, lambda store: look(store, anchors))
    assert "was given event 8" in found.verdict.problems[0]


def test_an_edited_anchor_line_contradicts_the_trail_or_is_counted(tmp_path: Path) -> None:
    address, file, anchors = anchored_thrice(tmp_path)
    whole = file.read_text()
    [first, *_] = whole.splitlines()
    checkpoint = read_checkpoint(json.loads(first)["note"])
    forged = json.dumps({"note": replace(checkpoint, hash="ab" * 32).text})
    file.write_text(whole.replace(first, forged))
    assert "event 2 has hash" in on_store(address, lambda store: look(store, anchors)).verdict.problems[0]
    file.write_bytes(b"\xff\xfe{\n" + whole.encode() + b'{"note": 7}\n[' + b"[" * 100_000 + b"\n{}\n")
    found = on_store(address, lambda store: look(store, anchors))
    assert found.verdict.problems == ()
    assert "lines of anchor" in found.unverified[0]


def test_namespaces_do_not_vouch_for_each_other_and_a_lost_one_is_reported(
    address: str, tmp_path: Path
) -> None:
    anchors = file_in(tmp_path)
    environment = {"SIGNOFF_AUDIT_ANCHORS": (tmp_path / "audit.anchor").as_uri()}

    async def begin(store: Store) -> Any:
        await add(store, 3)
        await add(store.within("bank/ä b"), 4, "o")
        await anchor(store, anchors)
        return [(name, head.seq) async for name, head in heads_of(store)]

    assert on_store(address, begin) == [("bank/ä b", 3), ("default", 2)]
    forge(
        address,
        "DELETE FROM signoff.audit WHERE namespace <> 'default'",
        "DELETE FROM signoff.seals WHERE namespace <> 'default'",
        "DELETE FROM signoff.channels WHERE namespace <> 'default'",
    )
    assert verify(address, tmp_path, **environment).code == 0
    gone = verify(address, tmp_path, "--namespace", "bank/ä b", **environment)
    assert (gone.code, "ends at event -1, and had event 3" in gone.err) == (1, True)
    [(level, text)] = diagnose(signoff, "--store", address, cwd=tmp_path, **environment)["audit trail"]
    assert (level, "bank/ä b" in text) == ("failure", True)


# The job


class Failing:
    """An anchor that is away, and then is not."""

    def __init__(self, name: str = "test", *, is_away: bool = True) -> None:
        self.name = name
        self.is_away = is_away
        self.kept: list[Checkpoint] = []

    async def keep(self, checkpoint: Checkpoint) -> None:
        if self.is_away:
            raise AnchorUnavailable(self.name, "no answer")
        self.kept.append(checkpoint)

    async def read(self, origin: str, namespace: str | None = None) -> Kept | None:
        return Kept([each for each in self.kept if each.namespace == namespace])

    async def close(self) -> None:
        pass


@rule
async def test_an_unreachable_anchor_stops_no_sealing_and_catches_up(
    scene: Scene,
) -> None:
    away, other = Failing("away"), Failing("other", is_away=False)
    anchoring = Anchoring(scene.store, [away, other])
    await add(scene.store, 3)
    pauses = [await anchoring.attempt(away) for _ in range(12)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 1.0
    assert pauses[-1] == LONGEST_PAUSE
    scene.clock.advance(30.0)
    await scene.store.last_seal()  # a remote store learns the time with each reply
    assert 29.0 < anchoring.late_seconds(away) < 40.0  # on a remote store's clock
    await anchoring.bring_all()
    assert [each.size for each in other.kept] == [3]
    assert await scene.store.read_cursor(cursor_of(away)) is None
    await add(scene.store, 3, "f")
    assert (await scene.store.last_seal() or Seal(-1, "", "")).seq == 5
    away.is_away = False
    await anchoring.bring_all()
    assert [each.size for each in away.kept] == [6]
    assert (anchoring.late_seconds(away), await scene.store.read_cursor(cursor_of(away))) == (0.0, 5)
    await anchoring.bring_all()
    assert len(away.kept) == 1


class Crashing:
    """A store whose process dies after the anchor has a checkpoint, before the store knows."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def within(self, namespace: str) -> Crashing:
        return Crashing(self._inner.within(namespace))

    async def expand(self, *_: Any) -> bool:
        raise SystemExit


@rule
async def test_a_crash_between_anchor_and_store_repeats_but_loses_no_checkpoint(scene: Scene) -> None:
    kept = Failing(is_away=False)
    await add(scene.store, 3)
    with pytest.raises(SystemExit):
        await Anchoring(Crashing(scene.store), [kept]).bring_all()  # type: ignore[arg-type]
    await Anchoring(scene.store, [kept]).bring_all()
    assert [each.size for each in kept.kept] == [3, 3]
    found = await examine(scene.store, scene.store.namespace, Anchors((kept,)), store=scene.store)
    assert (found.verdict.problems, found.unverified, found.anchored) == ((), [], 2)


@rule
async def test_heads_are_of_all_namespaces_by_name_and_paged(scene: Scene) -> None:
    names = ["default", "b", "ä", "a/1", "Z"]
    for name in names:
        await add(scene.store.within(name), 2, name)
    found = await scene.store.heads()
    assert [name for name, _ in found] == sorted(names, key=str.encode)
    assert [head for _, head in found] == [await scene.store.within(name).last_seal() for name, _ in found]
    assert await scene.store.heads(limit=2) == found[:2]
    assert await scene.store.heads(after=found[1][0]) == found[2:]
    assert await scene.store.heads(after="\U0001f600") == []


@in_asyncio
async def test_processes_that_share_a_file_tear_no_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.anchor"
    path.write_bytes(b'{"note": "signoff/default\\n1')  # a full disk, some time ago
    sizes = range(1, 41)
    await asyncio.gather(
        *(
            FileAnchor(path).keep(Checkpoint("signoff", f"n{size % 3}", size, f"{size:064x}", 1.0))
            for size in sizes
        )
    )
    kept = await FileAnchor(path).read("signoff")
    assert kept is not None
    assert (sorted(each.size for each in kept.checkpoints), kept.unreadable) == ([*sizes], 1)


@in_asyncio
async def test_a_file_that_cannot_be_one_is_an_error_that_names_it(tmp_path: Path) -> None:
    checkpoint = Checkpoint("signoff", "default", 1, EMPTY, 1.0)
    for path in (tmp_path / "none" / "f", tmp_path, Path("/dev/null")):
        with pytest.raises(AnchorUnavailable, match=path.name):
            await FileAnchor(path).keep(checkpoint)
    with pytest.raises(AnchorUnavailable):
        await FileAnchor(tmp_path).read("signoff")


def test_an_unreadable_anchor_exits_with_5_and_says_what_is_unverified(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/signoff.db"
    on_store(address, lambda store: add(store, 3))
    ended = verify(address, tmp_path, SIGNOFF_AUDIT_ANCHORS=tmp_path.as_uri())
    assert (ended.code, "check its permissions" in ended.err) == (5, True), ended
    for wrong in ("audit.anchor", "ftp://x/y", "file://host/x", "https://a.example/hook"):
        assert verify(address, tmp_path, SIGNOFF_AUDIT_ANCHORS=wrong).code == 2


# Webhooks


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    got: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(500 if len(got) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook/very-secret", got
        server.shutdown()
        thread.join()


def test_a_webhook_gets_signed_checkpoints_that_expect_compares(
    tmp_path: Path, receiver: tuple[str, list[tuple[dict[str, str], bytes]]]
) -> None:
    url, got = receiver
    address = f"sqlite:///{tmp_path}/signoff.db"
    environment = {
        "SIGNOFF_AUDIT_ANCHORS": url,
        "SIGNOFF_AUDIT_ANCHOR_SECRETS": SECRET,
        "SIGNOFF_AUDIT_ORIGIN": "signoff.example.com/prod",
    }

    async def begin(store: Store) -> str | None:
        anchors = anchors_of(environment)
        await add(store, 4)
        anchoring = await anchor(store, anchors)  # answered with 500
        error = anchoring.states[anchors.anchors[0].name].error
        await anchoring.bring_all()
        await anchoring.close()
        return error

    error = on_store(address, begin)
    assert error is not None
    assert "HTTP 500" in error
    assert "very-secret" not in error
    headers, body = got[-1]
    sent = Webhook(SECRET).verify(body, headers)
    assert sent["type"] == "audit.anchored"
    checkpoint = read_checkpoint(sent["data"]["note"])
    assert (checkpoint.origin, checkpoint.namespace, checkpoint.seq) == (
        "signoff.example.com/prod",
        "default",
        3,
    )
    assert got[0][0]["webhook-id"] == headers["webhook-id"]  # the receiver knows a repetition
    expect = f"{sent['data']['seq']}:{sent['data']['hash']}"
    ended = verify(address, tmp_path, **environment)
    assert (ended.code, "cannot be read back (it was given event 3 last)" in ended.err) == (0, True), ended
    assert "very-secret" not in ended.err + ended.out
    forge(address, *rewritten_of_four(address))
    assert verify(address, tmp_path, **environment).code == 0  # the receiver alone knows
    assert verify(address, tmp_path, "--expect", expect, **environment).code == 1
    forge(address, *cut_from(2))
    assert "ends at event 1, and had event 3" in verify(address, tmp_path, **environment).err


def rewritten_of_four(address: str) -> tuple[str, ...]:
    links = [
        (seal, replace(event, by="user:eve") if event.id == "e1" else event) for seal, event in chain(address)
    ]
    return ("UPDATE signoff.audit SET by = 'user:eve' WHERE id = 'e1'", *sealed_anew(links))


# The commands that seal


def test_a_server_anchors_what_it_seals_and_says_in_metrics_when_it_cannot(tmp_path: Path) -> None:
    address, file = f"sqlite:///{tmp_path}/signoff.db", tmp_path / "audit.anchor"
    on_store(address, lambda store: add(store, 3))
    environment = {"SIGNOFF_AUDIT_ANCHORS": f"{file.as_uri()} {(tmp_path / 'none' / 'f').as_uri()}"}
    with Running("server", "--store", address, "--port", "0", cwd=tmp_path, **environment) as server:
        url = server.wait_for("listening")["url"]
        until(lambda: file.exists() and file.read_text())

        def failing() -> str | None:
            text = httpx.get(f"{url}/metrics").text
            lines = [line for line in text.splitlines() if line.startswith("signoff_audit_")]
            found = [
                line
                for line in lines
                if "anchor_failing_seconds" in line and "none/f" in line and not line.endswith(" 0.0")
            ]
            return found[0] if found else None

        until(failing)
        assert 'outcome="kept"' in httpx.get(f"{url}/metrics").text
        assert "is not anchored" in server.err
    ended = verify(address, tmp_path, "--strict", SIGNOFF_AUDIT_ANCHORS=file.as_uri())
    assert (ended.code, "up to event 2 as anchored at" in ended.out) == (0, True), ended


@rule
async def test_a_restart_is_kept_by_every_anchor_and_moves_the_stores_mark_back(scene: Scene) -> None:
    kept = Failing(is_away=False)
    await add(scene.store, 3)
    await Anchoring(scene.store, [kept]).bring_all()
    await scene.store.expand(cursor_of(kept), 2, 7, [])  # as after a trail of 8 events was lost
    assert (await examine(scene.store, "default", Anchors((kept,)), store=scene.store)).verdict.problems
    checkpoint = await restart(scene.store, [kept], "restored")
    assert (checkpoint.seq, kept.kept[-1]) == (2, checkpoint)
    found = await examine(scene.store, "default", Anchors((kept,)), store=scene.store)
    assert (found.verdict.problems, found.looks[0].restarts) == ((), [checkpoint])
