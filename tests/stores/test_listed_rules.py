"""Contents of lists: small payloads whole, sizes of large ones, and bounded pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff.records import (
    AuditKind,
    Entry,
    EntryKind,
    NewAuditEvent,
    NewPromise,
    NewSchedule,
    PromiseKind,
    PromiseState,
    RunState,
    Settlement,
)
from signoff.records.paging import AuditFilter, Page, PromiseFilter, RunFilter
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.shared.listed_payloads import LISTED_BYTES, PAGE_BYTES, bytes_of, may_be_cut
from tests.stores.scene import STORE_NAMES, Scene, question, rule

pytestmark = pytest.mark.parametrize("store_name", STORE_NAMES)

MIB = 1024 * 1024
AT_MOST = json.dumps("x" * (LISTED_BYTES // 2))  # also encrypted
TOO_LARGE = json.dumps("x" * (LISTED_BYTES - 1))
WIDE = json.dumps("\N{PILE OF POO}" * (LISTED_BYTES // 4), ensure_ascii=False)
"""Of fewer characters than ``LISTED_BYTES``, and of more bytes."""


def called_with(value: str) -> str:
    """The arguments of a function that is called with a value."""
    return json.dumps({"args": [json.loads(value)], "kwargs": {}}, ensure_ascii=False)


async def every(read: Any, limit: int = 100) -> tuple[list[Any], int]:
    """All items of a list, and on how many pages they were."""
    items: list[Any] = []
    pages, after = 0, None
    while True:
        page: Page[Any] = await read(after=after, limit=limit)
        assert page.items
        items += page.items
        pages += 1
        if (after := page.next) is None:
            return items, pages


@rule
async def test_a_large_payload_of_a_run_is_left_out_of_lists(scene: Scene) -> None:
    await scene.start("small", arguments=called_with(AT_MOST))
    await scene.start("wide", arguments=called_with(WIDE))
    run = await scene.run("large", workflow="other", arguments=called_with(TOO_LARGE))
    await scene.store.complete(Write("large", run.epoch), Outcome(RunState.SUCCEEDED, TOO_LARGE))
    large, wide, small = (await scene.store.list_runs(RunFilter())).items
    assert (large.arguments, large.result) == ("", None)
    assert (wide.arguments, wide.result) == ("", None)
    assert (small.arguments, small.left_out) == (called_with(AT_MOST), None)
    assert set(large.left_out or ()) == {"arguments", "result"}
    assert set(wide.left_out or ()) == {"arguments"}
    assert min((large.left_out or {}).values()) >= len(TOO_LARGE)  # encrypted, it is longer
    whole = await scene.store.get_run("large")
    assert (whole.arguments, whole.result, whole.left_out) == (called_with(TOO_LARGE), TOO_LARGE, None)


@rule
async def test_so_is_one_of_a_promise_but_not_of_a_question(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("p", data=TOO_LARGE))
    await scene.store.settle("p", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, TOO_LARGE))
    asked = json.dumps({"text": "x" * LISTED_BYTES})
    run = await scene.run()
    await scene.append(run, opens=[question("r", data=asked)])
    found = {each.id: each for each in (await scene.store.list_promises(PromiseFilter())).items}
    assert (found["p"].data, found["p"].value) == (None, None)
    assert set(found["p"].left_out or ()) == {"data", "value"}
    assert (found["r.0"].data, found["r.0"].left_out) == (asked, None)
    assert (await scene.store.get_promise("p")).value == TOO_LARGE
    inbox = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, answerable_by=frozenset({"user:ana"}))
    assert [each.data for each in (await scene.store.list_promises(inbox)).items] == [asked]


@rule
async def test_so_are_the_arguments_of_a_schedule(scene: Scene) -> None:
    arguments = json.dumps({"args": ["x" * LISTED_BYTES], "kwargs": {}})
    new = NewSchedule("s", "w", "g", arguments, "0 0 1 1 *", "UTC", next_at=4e9)
    await scene.store.put_schedule(new)
    [listed] = (await scene.store.list_schedules()).items
    assert (listed.arguments, set(listed.left_out or ())) == ("", {"arguments"})
    assert (await scene.store.get_schedule("s")).arguments == arguments


@rule
async def test_a_page_ends_when_it_has_as_much_as_a_page_holds(scene: Scene) -> None:
    run = await scene.run()
    for n in range(6):
        await scene.append(run, opens=[question("r", n, data=json.dumps({"text": "x" * MIB}))])
    items, pages = await every(lambda **page: scene.store.list_promises(PromiseFilter(), **page))
    assert [each.id for each in items] == [f"r.{n}" for n in range(6)]
    assert pages == 2
    which = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, workflow=run.workflow)
    items, pages = await every(lambda **page: scene.store.list_promises(which, **page))
    assert ([each.n for each in items], pages) == ([0, 1, 2, 3, 4, 5], 2)
    items, pages = await every(lambda **page: scene.store.list_promises(PromiseFilter(), **page), limit=1)
    assert (len(items), pages) == (6, 6)


@rule
async def test_so_does_a_page_of_what_is_recorded(scene: Scene) -> None:
    details = json.dumps({"x": "x" * MIB})
    for number in range(6):
        await scene.store.record([NewAuditEvent(f"e{number}", AuditKind.VIEWED, "q", details=details)])
    items, pages = await every(lambda **page: scene.store.list_audit(AuditFilter(), **page))
    assert ([each.id for each in items], pages) == ([f"e{n}" for n in range(6)], 2)
    first = await scene.store.unsealed(100)
    assert 0 < len(first) < 6 or not first  # a server seals for its remote stores


@rule
async def test_so_does_a_journal_that_is_read_with_a_limit(scene: Scene) -> None:
    run = await scene.run()
    value = json.dumps("x" * (MIB - 2))
    for seq in range(6):
        await scene.append(run, Entry(seq, 1.5, EntryKind.COMPLETED, n=seq, value=value))
    assert len(await scene.store.read_journal("r")) == 6
    seqs: list[int] = []
    sizes: list[int] = []
    while page := await scene.store.read_journal("r", after=seqs[-1] if seqs else -1, limit=100):
        seqs += [entry.seq for entry in page]
        sizes.append(bytes_of(page))
    assert seqs == [0, 1, 2, 3, 4, 5]
    assert max(sizes) <= PAGE_BYTES + 2 * MIB
    assert len(sizes) == 2


@rule
async def test_a_reader_of_a_short_page_knows_that_there_may_be_more(scene: Scene) -> None:
    """Also where the page is full of encrypted texts, which are shorter when they are read."""
    run = await scene.run()
    value = json.dumps("x" * (700 * 1024))
    for seq in range(9):
        await scene.append(run, Entry(seq, 1.5, EntryKind.COMPLETED, n=seq, value=value))
    await scene.append(run, Entry(9, 1.5, EntryKind.COMPLETED, n=9, value="1"))
    seqs: list[int] = []
    while True:
        page = await scene.store.read_journal("r", after=len(seqs) - 1, limit=100)
        seqs += [entry.seq for entry in page]
        if not may_be_cut(page, 100):
            break
    assert seqs == list(range(10))
    assert not may_be_cut(await scene.store.read_journal("r", after=8, limit=100), 100)


@rule
async def test_messages_that_do_not_fit_are_not_taken_for_seen(scene: Scene) -> None:
    run = await scene.run()
    for number in range(6):
        await scene.store.signal("r", "news", json.dumps(str(number) * MIB))
    seen: list[int] = []
    taken = 0
    while found := await scene.store.read_messages(["r"]):
        seen += [int(json.loads(message.value or "")[0]) for message, _ in found]
        entries = [Entry(taken + place, 1.5, EntryKind.SIGNALLED) for place in range(len(found))]
        write = Write("r", run.epoch, entries=entries, taken=[message.id for message, _ in found])
        is_last = len(seen) == 6
        assert await scene.store.pause(write, wakes=found[-1][1], wake_at=None) == is_last
        taken += len(found)
    assert seen == [0, 1, 2, 3, 4, 5]


@rule
async def test_a_claim_says_if_it_leaves_messages_to_be_read(scene: Scene) -> None:
    for run_id in ("full", "short"):
        await scene.start(run_id)
    for number in range(6):
        await scene.store.signal("full", "news", json.dumps(str(number) * MIB))
    await scene.store.signal("short", "news", "7")
    claims = {claim.run.id: claim for claim in await scene.claim(limit=2)}
    for run_id, values in (("full", ["0", "1", "2", "3", "4", "5"]), ("short", ["7"])):
        run, waiting = claims[run_id].run, claims[run_id].messages
        seen: list[str] = []
        wakes = run.wakes
        while True:
            seen += [str(json.loads(message.value or ""))[0] for message in waiting]
            entries = [
                Entry(len(seen) - len(waiting) + n, 1.5, EntryKind.SIGNALLED) for n in range(len(waiting))
            ]
            write = Write(run_id, run.epoch, entries=entries, taken=[message.id for message in waiting])
            if await scene.store.pause(write, wakes=wakes, wake_at=None):
                break
            found = await scene.store.read_messages([run_id])
            waiting, wakes = tuple(message for message, _ in found), found[-1][1]
        assert seen == values, run_id
