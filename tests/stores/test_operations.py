"""Every operation of a store is declared once: stores, wrappers and servers derive from the declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from signoff.records import NewPromise, NewRun
from signoff.stores.contract.leases import Write
from signoff.stores.contract.operations import OPERATIONS, Operation
from signoff.stores.contract.store import Store
from signoff.stores.postgres import operations as postgres
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite import operations as sqlite
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import StoreWrapper, unwrapped
from signoff.testing.memory_store import MemoryStore

pytestmark = pytest.mark.anyio


class Recording(StoreWrapper):
    """Notes each operation and its arguments."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        self.calls.append((operation.name, arguments))
        return await super().perform(operation, arguments)


def test_each_coroutine_of_the_contract_but_three_is_an_operation() -> None:
    coroutines = {name for name, method in inspect.getmembers(Store, inspect.iscoroutinefunction)}
    assert coroutines - OPERATIONS.keys() == {"open", "close", "check_writable", "perform"}


SQLITE = {**sqlite.WRITES, **sqlite.SMALL_READS, **sqlite.READS}
POSTGRES = {**postgres.REQUESTS, **postgres.CHANGES, **postgres.CALLS}


@pytest.mark.parametrize(("store", "functions"), [(SqliteStore, SQLITE), (PostgresStore, POSTGRES)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_database_has_each_operation_as_it_is_declared(
    name: str, store: type[Store], functions: dict[str, Callable[..., Any]]
) -> None:
    declared, own = getattr(Store, name), getattr(store, name)
    assert (own is declared) == (name in functions)
    assert str(inspect.signature(own)) == str(inspect.signature(declared))


@pytest.mark.parametrize(
    ("name", "function"),
    [*SQLITE.items(), *POSTGRES.items()],
    ids=lambda each: getattr(each, "__module__", each),
)
def test_a_function_of_a_database_takes_the_declared_arguments(
    name: str, function: Callable[..., Any]
) -> None:
    declared = [each for each in inspect.signature(getattr(Store, name)).parameters if each != "self"]
    taken = [each for each in inspect.signature(function).parameters if each not in ("db", "tx", "now")]
    assert taken == ["namespace", *declared]


async def test_a_wrapper_gets_arguments_by_name_with_their_defaults() -> None:
    store = Recording(MemoryStore())
    await store.create_run(NewRun("r", "w", "g", '{"args":[],"kwargs":{}}'))
    await store.list_sessions(limit=3)
    await store.signal("r", "go", "1", by="user:ana")
    (_, _), listed, signalled = store.calls
    assert listed == ("list_sessions", {"after": None, "limit": 3})
    assert signalled == (
        "signal",
        {"run_id": "r", "name": "go", "value": "1", "by": "user:ana", "request_id": None, "token": None},
    )


@pytest.mark.parametrize(
    ("args", "named", "problem"),
    [
        (("r", "x"), {}, "too many positional"),
        ((), {}, "missing a required argument: 'run_id'"),
        (("r",), {"run_id": "r"}, "multiple values"),
        (("r",), {"colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
async def test_a_call_that_is_not_declared_is_refused(
    args: tuple[Any, ...], named: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TypeError, match=problem):
        await Recording(MemoryStore()).get_run(*args, **named)


async def test_a_store_says_which_operation_it_does_not_implement() -> None:
    with pytest.raises(NotImplementedError, match="Store does not implement redeliver"):
        await Store().redeliver("d")


@pytest.mark.parametrize(
    ("name", "args", "lane"),
    [
        ("append", (Write("r", 1),), ("run", "r")),
        ("create_promise", (NewPromise("p", run_id="r"),), ("promise", "p")),
        ("cancel", ("r",), ("run", "r")),
        ("seal", ([],), ("chain", "")),
        ("delete_deliveries", (0.0, 10), ("deliveries", "")),
        ("get_run", ("r",), None),
    ],
)
def test_writes_to_one_thing_share_a_lane(
    name: str, args: tuple[Any, ...], lane: tuple[str, str] | None
) -> None:
    operation = OPERATIONS[name]
    assert operation.lane_of(operation.bind(args, {})) == lane


async def test_a_wrapper_in_another_namespace_is_the_same_wrapper() -> None:
    store = Recording(MemoryStore())
    other = store.within("other")
    await other.list_groups()
    assert (other.namespace, store.namespace) == ("other", "default")
    assert store.calls == [("list_groups", {})]
    assert isinstance(unwrapped(other), MemoryStore)
