"""Workflows of Signoff call functions of processes on a Resonate SDK: made by hand, and on the real ones."""

from __future__ import annotations

import asyncio
import base64
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, PromiseCancelled, PromiseRejected, RunTimeout, StepFailed
from signoff.errors import PayloadTooLarge, RunCancelled
from signoff.records import NewPromise, PromiseKind, PromiseState, RunState, WorkflowInfo
from signoff.records.tasks import NewInvocation, TaskState
from signoff.server.resonate import function_groups, signoff_groups
from signoff.server.resonate.durable_promises import Details, to_new
from signoff.server.server import Server
from signoff.stores.contract.store import Store
from tests.server.resonate.calling import TARGET, Database, Place, in_place, make_app, place, result
from tests.server.resonate.process import Process, Raw, Rejection, in_wire
from tests.support import comes


def test_a_workflow_gets_the_value_of_a_function_in_its_type(database: Database) -> None:
    async def test(here: Place) -> None:
        async with here.process() as process:
            assert await result(await here.client.start("bills", date(2026, 11, 28))) == 98
            assert process.params == [
                {"func": "bill", "args": ["2026-11-28"], "kwargs": {"cents": 70}, "version": 1}
            ]

    in_place(database, test)


def test_functions_are_called_beside_each_other_detached_and_by_clients(database: Database) -> None:
    async def test(here: Place) -> None:
        async with here.process() as process:
            assert await result(await here.client.start("beside", 3)) == [0, 2, 4]
            detached = await here.client.get(await result(await here.client.start("detaches")))
            assert await result(detached) == 8
            assert await result(await here.client.start("double", 21, group="ts-workers")) == 42
            assert len(process.calls) == 5

    in_place(database, test)


def test_a_call_waits_for_a_process_and_the_run_for_the_promise(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_groups, "LOOK_SECONDS", 0)  # all is looked at each time

    async def test(here: Place) -> None:
        started = await here.client.start("calls", "double", 2, id="waits")
        await here.run("waits")
        async with here.process(group="others"):
            for number in range(2):  # the server looks
                assert await result(await here.client.start("double", number, group="others")) == 2 * number
        assert (await here.app.store.get_run("waits.1")).epoch == 0  # no server has taken it
        async with here.process():
            assert await result(started) == 4
            assert (await here.app.store.get_promise("waits.1")).value == "4"

    in_place(database, test)


def in_base64(pickle: bytes) -> str:
    return base64.b64encode(pickle).decode()


PICKLED = in_base64(b"\x80\x04\x8c\x08builtins\x94\x8c\x08KeyError\x94\x93\x94\x8c\x02no\x94\x85\x94R\x94.")
"""``KeyError("no")``, as the Python SDK writes it."""


ERRORS: list[tuple[Any, str, str]] = [
    ({"__type": "error", "name": "RangeError", "message": "too far"}, "RangeError", "too far"),
    ({"__type": "error", "message": "no", "__py_pickle": PICKLED}, "KeyError", "no"),
    ({"__type": "error", "message": "no", "__py_pickle": "%%"}, "Error", "no"),
    ({"__type": "error", "name": 7, "message": None}, "Error", ""),
    ({"__error__": "of 2024"}, "Exception", "of 2024"),
    (Raw(headers={"a": "b"}, data=base64.b64encode(b'{"__error__": "h"}').decode()), "Exception", "h"),
]


@pytest.mark.parametrize(("value", "name", "message"), ERRORS)
def test_the_error_of_a_function_has_its_name_and_message(
    value: Any, name: str, message: str, tmp_path: Path
) -> None:
    async def test(here: Place) -> None:
        def breaks() -> None:
            raise Rejection(value)

        async with here.process(breaks=breaks):
            started = await here.client.start("calls", "breaks")
            with pytest.raises(StepFailed) as failed:
                await result(started)
        assert (failed.value.type_name, failed.value.message) == (name, message)

    in_place(lambda: nullcontext(f"sqlite:///{tmp_path}/signoff.db"), test)


def test_a_pickled_error_is_never_unpickled(database: Database, tmp_path: Path) -> None:
    made = tmp_path / "made"

    async def test(here: Place) -> None:
        def breaks() -> None:
            evil = in_base64(f"cos\nmkdir\n(V{made}\ntR.".encode())
            raise Rejection({"__type": "error", "message": "evil", "__py_pickle": evil})

        async with here.process(breaks=breaks):
            started = await here.client.start("calls", "breaks")
            with pytest.raises(StepFailed, match="evil"):
                await result(started)
        assert not made.exists()

    in_place(database, test)


def test_a_value_with_headers_comes_as_its_json(database: Database) -> None:
    async def test(here: Place) -> None:
        sent = {
            "json": Raw(headers={"resonate:format-py": "..."}, data=base64.b64encode(b"[1]").decode()),
            "other": Raw(headers={"h": "1"}, data="not base64"),
            "nothing": Raw(headers={"h": "1"}),
        }
        async with here.process(gives=sent.__getitem__):
            assert await result(await here.client.start("calls", "gives", "json")) == [1]
            assert await result(await here.client.start("calls", "gives", "nothing")) is None
            assert await result(await here.client.start("calls", "gives", "other")) == {
                "resonate:value": {"headers": {"h": "1"}, "data": "not base64"}
            }

    in_place(database, test)


def test_a_cancelled_parent_cancels_the_promise(database: Database) -> None:
    async def test(here: Place) -> None:
        async with here.process():
            started = await here.client.start("calls", "never", id="parent")
            await here.run("parent.1")
            await started.cancel("no longer needed")
            with pytest.raises(RunCancelled):
                await result(started)
            await here.promise("parent.1", PromiseState.CANCELLED)
            await here.run("parent.1", RunState.CANCELLED)

    in_place(database, test)


def test_the_deadline_of_a_run_is_that_of_its_promise(database: Database) -> None:
    async def test(here: Place) -> None:
        async with here.process():
            started = await here.client.start("hurries", id="hurry")
            with pytest.raises(RunTimeout):
                await result(started)
            child = await here.run("hurry.1", RunState.FAILED)
            promise = await here.promise("hurry.1", PromiseState.TIMED_OUT)
            assert promise.due_at is not None
            assert child.deadline_at is not None
            assert 0 <= child.deadline_at - promise.due_at <= 0.001

    in_place(database, test)


@pytest.mark.parametrize(
    ("state", "value", "error"),
    [
        (PromiseState.CANCELLED, None, PromiseCancelled),
        (PromiseState.REJECTED, '"not today"', PromiseRejected),
        (PromiseState.RESOLVED, '"done by hand"', None),
    ],
)
def test_an_operator_settles_the_promise_of_a_call(
    state: PromiseState, value: str | None, error: type[Exception] | None, tmp_path: Path
) -> None:
    async def test(here: Place) -> None:
        async with here.process():
            started = await here.client.start("calls", "never", id="settled")
            await here.run("settled.1")
            await here.settle("settled.1", state, value)
            if error is None:
                assert await result(started) == "done by hand"
            else:
                with pytest.raises(error):
                    await result(started)

    in_place(lambda: nullcontext(f"sqlite:///{tmp_path}/signoff.db"), test)


def test_the_promise_of_a_terminated_run_is_cancelled(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_groups, "LOOK_SECONDS", 0.2)

    async def test(here: Place) -> None:
        async with here.process():
            started = await here.client.start("never", id="ends~here", group="ts-workers")
            await here.run("ends~here")
            await started.terminate("stuck")
            await here.promise("ends~here", PromiseState.CANCELLED)

    in_place(database, test)


def test_a_promise_with_the_id_of_a_run_is_left_alone(database: Database) -> None:
    async def test(here: Place) -> None:
        store = here.app.store
        await store.create_promise(NewPromise("taken", PromiseKind.PROMISE))
        other = {"resonate:target": TARGET}
        new = NewInvocation(to_new("called", Details({}, other)), "poll://any@elsewhere")
        await store.open_invocation(new)
        async with here.process():
            for id in ("taken", "called"):
                started = await here.client.start("double", 5, id=id, group="ts-workers")
                assert await result(started) == 10
                assert (await store.get_promise(id)).state is PromiseState.PENDING

    in_place(database, test)


def test_a_run_with_the_id_of_a_deleted_one_calls_again(database: Database) -> None:
    async def test(here: Place) -> None:
        async with here.process() as process:
            assert await result(await here.client.start("double", 1, id="daily", group="ts-workers")) == 2
            await here.app.store.delete_ended(here.app.store.clock.now() + 1, 100)
            assert await result(await here.client.start("double", 2, id="daily", group="ts-workers")) == 4
            assert len(process.calls) == 2

    in_place(database, test)


@pytest.mark.parametrize("id", ["a:b", "schräg/ü 1", "x" * 256, "p~q", "%2F"])
def test_runs_with_odd_ids_call_functions(id: str, tmp_path: Path) -> None:
    async def test(here: Place) -> None:
        async with here.process():
            assert await result(await here.client.start("double", 3, id=id, group="ts-workers")) == 6

    in_place(lambda: nullcontext(f"sqlite:///{tmp_path}/signoff.db"), test)


def test_large_arguments_arrive_and_larger_ones_are_refused(database: Database) -> None:
    async def test(here: Place) -> None:
        async with here.process(length=len):
            large = "ä" * 520_000  # a little under a MiB
            assert await result(await here.client.start("length", large, group="ts-workers")) == 520_000
            with pytest.raises(PayloadTooLarge):
                await here.client.start("length", large + large, group="ts-workers")

    in_place(database, test)


def test_a_workflow_of_the_group_is_left_to_its_workers(database: Database) -> None:
    async def test(here: Place) -> None:
        async with here.process(group="signoff-workers") as process:
            options = {"group": "signoff-workers"}
            assert await result(await here.client.start("ship", **options)) == "shipped by Signoff"
            assert await result(await here.client.start("calls", "double", 1, **options, id="c")) is not None
            assert process.calls == []

    async def with_both(here: Place) -> None:
        async with here.process():
            await test(here)

    in_place(database, with_both)


def test_workflows_wait_for_their_workers_beside_processes_of_the_group(database: Database) -> None:
    async def test(url: str) -> None:
        app = make_app(url)
        try:
            async with AsyncClient(app) as client:
                async with app.worker():
                    assert await result(await client.start("ship")) == "shipped by Signoff"
                async with Server(app, port=0, resonate_port=0) as server:
                    here = Place(app, client, server)
                    async with here.process(group="signoff-workers", ship=lambda: "stolen"):
                        started = await client.start("ship", id="later")
                        other = await client.start("double", 1, group="signoff-workers")
                        assert await result(other) == 2  # the server looks at the group
                        assert await started.status() is RunState.READY
                        async with app.worker():
                            assert await result(started) == "shipped by Signoff"
        finally:
            await app.store.close()

    with database() as url:
        asyncio.run(test(url))


def test_a_call_is_not_taken_for_the_call_of_a_workflow(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the run would wait for its promise, and the promise for the run."""
    for module in (function_groups, signoff_groups):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.2)
    looks: list[str] = []

    async def look(store: Store, run_id: str) -> None:  # each look at the tasks begins with the open runs
        looks.append(run_id)

    async def has_looked() -> bool:
        return len(looks) > 2

    monkeypatch.setattr(signoff_groups, "_cancel_if_settled", look)

    async def test(url: str) -> None:
        app = make_app(url)
        try:
            async with Server(app, port=0, resonate_port=0) as server, AsyncClient(app) as client:
                here = Place(app, client, server)
                async with here.process(group="signoff-workers"):
                    assert await result(await client.start("double", 1)) == 2
                started = await client.start("ship", id="early")  # no worker has announced it
                await here.run("early")
                # Before the worker is in the list, or else the first look may find no such workflow.
                await app.store.announce([WorkflowInfo("signoff-workers", "ship", "1", is_current=True)])
                async with app.worker():
                    await comes(has_looked)
                    assert await started.status() is RunState.PAUSED
                    assert (await app.store.get_task("early")).state is TaskState.PENDING
        finally:
            await app.store.close()

    with database() as url:
        asyncio.run(test(url))


def test_a_program_calls_a_workflow_that_calls_a_function(database: Database) -> None:
    async def test(here: Place) -> None:
        async with here.process() as process:
            for id, function in (("works", "double"), ("stops", "never")):
                call = {"func": "calls", "args": [function, *([4] if function == "double" else [])]}
                tags = {"resonate:target": "poll://any@signoff-workers"}
                data = {"id": id, "timeoutAt": 2**53 - 1, "param": in_wire(call), "tags": tags}
                assert await process.send("promise.create", data) is not None
            assert (await here.promise("works", PromiseState.RESOLVED)).value == "8"
            await here.run("stops.1")
            await here.settle("stops", PromiseState.CANCELLED)
            await here.promise("stops.1", PromiseState.CANCELLED)
            await here.run("stops", RunState.CANCELLED)

    in_place(database, test)


def test_a_function_that_no_process_has_costs_little_until_one_has_it(database: Database) -> None:
    async def test(here: Place) -> None:
        async with Process(here.url, {}):
            started = await here.client.start("calls", "double", 4, id="typo")
            await here.run("typo.1")
            await asyncio.sleep(2)
            assert (await here.app.store.get_task("typo.1")).version < 30
            async with here.process():
                assert await result(started) == 8

    in_place(database, test)


def test_a_retry_gets_the_outcome_of_the_same_call(database: Database) -> None:
    async def test(here: Place) -> None:
        def breaks() -> None:
            raise Rejection({"__type": "error", "name": "E", "message": "no"})

        async with here.process(breaks=breaks) as process:
            started = await here.client.start("breaks", group="ts-workers")
            with pytest.raises(StepFailed):
                await result(started)
            await here.client.retry(started.id)
            with pytest.raises(StepFailed):
                await result(started)
            assert len(process.calls) == 1

    in_place(database, test)


def test_a_begun_call_ends_on_a_new_server_without_processes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_groups, "LOOK_SECONDS", 0.2)

    async def test(url: str) -> None:
        async with place(url) as here, here.process():
            await here.client.start("calls", "never", id="parent")
            await here.run("parent.1")
        async with place(url) as here:
            started = await here.client.get("parent")
            await started.cancel()
            with pytest.raises(RunCancelled):
                await result(started)
            await here.promise("parent.1", PromiseState.CANCELLED)

    with database() as url:
        asyncio.run(test(url))
