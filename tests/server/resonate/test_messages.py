"""Rule: a process that polls gets the messages of its group and its own; a URL gets them by POST."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signoff.errors import InvalidValue
from signoff.records import NewPromise, PromiseKind
from signoff.records.tasks import NewInvocation
from signoff.server import Server
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.push import MOST_AT_ONCE, Push
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import MemoryStore, VirtualClock
from tests.server.resonate.receiver import receiving
from tests.server.resonate.speaker import START, Speaker, speaking
from tests.support import OnThread, comes, in_asyncio, new_app


def execute(speaker: Speaker, id: str, version: int) -> Any:
    task = {"id": id, "version": version}
    return {"kind": "execute", "head": {"serverUrl": speaker.url}, "data": {"task": task}}


def to(address: str) -> dict[str, str]:
    return {"resonate:target": address}


def test_a_task_is_sent_to_a_process_of_its_group(speaker: Speaker) -> None:
    speaker.create("before", tags=to("poll://any@g"))
    with speaker.polling("g", "p") as messages:
        assert next(messages) == execute(speaker, "before", 0)
        speaker.create("after", tags=to("poll://any@g/elsewhere"))
        assert next(messages) == execute(speaker, "after", 0)
        speaker.ask("task.acquire", {"id": "after", "version": 0, "pid": "p", "ttl": 1000})
        speaker.ask("task.release", {"id": "after", "version": 1})
        assert next(messages) == execute(speaker, "after", 1)


def test_a_message_prefers_its_process_and_one_to_a_process_reaches_no_other(speaker: Speaker) -> None:
    with speaker.polling("g", "first") as first, speaker.polling("g", "second") as second:
        for number in range(4):
            speaker.create(f"t{number}", tags=to("poll://any@g/second"))
            assert next(second)["data"]["task"]["id"] == f"t{number}"
        speaker.create("u", tags=to("poll://uni@g/first"))
        assert next(first)["data"]["task"]["id"] == "u"


def test_tasks_of_a_group_are_shared_by_its_processes(speaker: Speaker) -> None:
    with speaker.polling("g", "first") as first, speaker.polling("g", "second") as second:
        for number in range(6):
            speaker.create(f"t{number}", tags=to("poll://any@g"))
        found = [next(each)["data"]["task"]["id"] for _ in range(3) for each in (first, second)]
        assert sorted(found) == [f"t{number}" for number in range(6)]


def test_a_settled_promise_is_sent_to_its_listeners_once(
    speaker: Speaker, elapse: Callable[[float], None]
) -> None:
    speaker.create("p")
    with speaker.polling("g", "p") as messages:
        listen = {"awaited": "p", "address": "poll://uni@g/p"}
        assert speaker.ask("promise.register_listener", listen)["promise"]["state"] == "pending"
        settled = speaker.settle("p", data="MQ==")
        assert next(messages) == {"kind": "unblock", "head": {}, "data": {"promise": settled}}
        assert speaker.ask("promise.register_listener", listen)["promise"] == settled
        elapse(60)
        speaker.clock.advance(60)
        speaker.create("t", tags=to("poll://uni@g/p"))
        assert next(messages) == execute(speaker, "t", 0)  # and not the promise again


def test_a_message_that_no_process_reacts_to_is_sent_again(speaker: Speaker) -> None:
    with speaker.polling("g", "p") as messages:
        speaker.create("t", tags=to("poll://any@g"))
        assert next(messages) == execute(speaker, "t", 0)
        speaker.clock.advance(31)
        assert next(messages) == execute(speaker, "t", 0)


def test_a_delayed_task_is_sent_at_its_time(speaker: Speaker) -> None:
    with speaker.polling("g", "p") as messages:
        delayed = {**to("poll://any@g"), "resonate:delay": str(START + 10_000)}
        speaker.create("late", tags=delayed)
        speaker.create("now", tags=to("poll://any@g"))
        assert next(messages)["data"]["task"]["id"] == "now"
        speaker.clock.advance(11)
        assert next(messages)["data"]["task"]["id"] == "late"


def test_a_schedule_creates_promises_at_its_times(speaker: Speaker) -> None:
    new = {
        "id": "every-minute",
        "cron": "* * * * *",
        "promiseId": "{{.id}}.{{.timestamp}}",
        "promiseTimeout": 600_000,
        "promiseParam": {"data": "MQ=="},
        "promiseTags": {**to("poll://any@g"), "a": "b"},
    }
    first = START - START % 60_000 + 60_000
    made = speaker.ask("schedule.create", new)["schedule"]
    assert made == {**new, "createdAt": START, "nextRunAt": first}
    assert speaker.ask("schedule.create", {**new, "cron": "0 0 * * *"})["schedule"] == made
    assert speaker.ask("schedule.search", {"tags": {"a": "b"}})["schedules"] == [made]
    assert speaker.ask("schedule.search", {"tags": {"a": "c"}})["schedules"] == []
    with speaker.polling("g", "p") as messages:
        speaker.clock.advance(60)
        id = f"every-minute.{first}"
        assert next(messages) == execute(speaker, id, 0)
    promise = speaker.ask("promise.get", {"id": id})["promise"]
    assert (promise["timeoutAt"], promise["param"]) == (first + 600_000, {"data": "MQ=="})
    assert promise["tags"]["resonate:schedule"] == "every-minute"
    assert promise["tags"]["resonate:branch"] == promise["tags"]["resonate:origin"] == id
    found = speaker.ask("schedule.get", {"id": "every-minute"})["schedule"]
    assert (found["lastRunAt"], found["nextRunAt"]) == (first, first + 60_000)
    assert speaker.ask("schedule.delete", {"id": "every-minute"}) == {}
    speaker.ask("schedule.get", {"id": "every-minute"}, 404)


def test_messages_are_posted_to_allowed_urls_until_they_are_taken(tmp_path: Path) -> None:
    with receiving() as receiver:
        url = f"http://127.0.0.1:{receiver.server_port}/hooks"
        options = {"resonate_push": [url]}
        with OnThread(lambda: speaking(tmp_path, **options)) as speaker, speaker:
            receiver.statuses = [500, 302, 200, 200]
            speaker.create("t", tags=to(f"{url}/t"))
            assert receiver.arrived.acquire(timeout=30)
            for _ in range(2):
                speaker.clock.advance(31)
                assert receiver.arrived.acquire(timeout=30)
            assert receiver.got == [execute(speaker, "t", 0)] * 3
            speaker.create("p")
            speaker.ask("promise.register_listener", {"awaited": "p", "address": f"{url}/p"})
            settled = speaker.settle("p")
            assert receiver.arrived.acquire(timeout=30)
            assert receiver.got[3]["data"] == {"promise": settled}
            root = url.removesuffix("/hooks")
            for other in (f"{root}/other", f"{url}/../other", f"{url}/%2e%2e/o", "http://127.0.0.1:1/hooks"):
                refused = {"awaited": "p", "address": other}
                assert "--resonate-push" in speaker.ask("promise.register_listener", refused, 400)


def test_messages_of_all_namespaces_are_posted_without_a_request_in_them(tmp_path: Path) -> None:
    with receiving() as receiver:
        url = f"http://127.0.0.1:{receiver.server_port}/hooks"

        async def prepare() -> None:
            store = SqliteStore(tmp_path / "signoff.db", clock=VirtualClock(START / 1000))
            await store.open()
            theirs = store.within("theirs")
            await theirs.open_invocation(NewInvocation(NewPromise("t", PromiseKind.PROMISE), url))
            await store.close()

        asyncio.run(prepare())
        with OnThread(lambda: speaking(tmp_path, resonate_push=[url])) as speaker, speaker:
            assert receiver.arrived.acquire(timeout=30)
            assert receiver.got == [execute(speaker, "t", 0)]


@in_asyncio
async def test_slow_urls_of_one_namespace_leave_others_their_posts() -> None:
    hung = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hung.wait()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        push, store = Push([url]), MemoryStore()
        deliveries = Deliveries(lambda _: {}, push, passes_on=True)
        for number in range(MOST_AT_ONCE + 1):
            await store.open_invocation(NewInvocation(NewPromise(f"t{number}", PromiseKind.PROMISE), url))
        deliveries.of(store)
        await comes(lambda: asyncio.sleep(0, push.room(store.namespace) < MOST_AT_ONCE))
        await asyncio.sleep(0.2)
        assert (push.room(store.namespace), push.room("other")) == (0, MOST_AT_ONCE)
        hung.set()
        await deliveries.close()
        await store.close()


def test_wrong_url_to_push_to_is_refused_by_the_name_of_the_argument(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"^resonate_push: 'ftp://x' is not a URL such as"):
        Server(new_app(tmp_path), resonate_push=["https://fine.example.com", "ftp://x"])
