"""``SignoffSaver`` passes LangGraph's own suite on every store, and the known faults of its peers are absent."""

from __future__ import annotations

import asyncio
import gc
import operator
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from signoff import Signoff
from signoff.codec.ciphers import Ciphers, EncryptionKey
from signoff.errors import InvalidValue, MissingKey, PayloadTooLarge
from signoff.integrations.langgraph import SignoffSaver
from signoff.integrations.langgraph.store_thread import StoreThread
from signoff.stores.contract.checkpoints import LARGEST_WRITE
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.encrypted import encrypted
from tests.postgres.databases import migrated_database
from tests.stores.scene import remote_scene

KEYS = Ciphers([EncryptionKey("k", b"k" * 32)])


class State(TypedDict):
    texts: Annotated[list[str], operator.add]


def config(thread_id: str = "t", **more: str) -> Any:
    return {"configurable": {"thread_id": thread_id, **more}}


def chain(saver: SignoffSaver, *, steps: int = 2) -> Any:
    builder = StateGraph(State)
    names = [f"n{number}" for number in range(steps)]
    for name in names:
        builder.add_node(name, lambda _, name=name: {"texts": [name]})
    for before, name in zip([START, *names], names, strict=False):
        builder.add_edge(before, name)
    return builder.compile(checkpointer=saver)


@contextmanager
def sqlite_app(folder: Path) -> Iterator[Signoff]:
    yield Signoff(f"sqlite:///{folder / 'signoff.db'}")


@contextmanager
def encrypted_app(folder: Path) -> Iterator[Signoff]:
    yield Signoff(encrypted(SqliteStore(folder / "signoff.db"), KEYS, refuses_plaintext=True))


@contextmanager
def postgres_app(_: Path) -> Iterator[Signoff]:
    with migrated_database() as url:
        yield Signoff(url)


APPS: dict[str, Callable[[Path], Any]] = {
    "sqlite": sqlite_app,
    "encrypted": encrypted_app,
    "postgres": postgres_app,
}


@pytest.fixture(params=APPS)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Signoff]:
    with APPS[request.param](tmp_path) as made:
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SignoffSaver]:
    with SignoffSaver(f"sqlite:///{tmp_path / 'signoff.db'}") as made:
        yield made


async def conform(make: Callable[[], AsyncIterator[SignoffSaver]]) -> None:
    report = await validate(checkpointer_test("SignoffSaver")(make))
    assert {name: each.failures for name, each in report.results.items() if not each.passed} == {}
    assert sum(each.tests_passed for each in report.results.values()) > 80


def test_the_conformance_suite_of_langgraph_passes_whole(app: Signoff) -> None:
    async def make() -> AsyncIterator[SignoffSaver]:
        async with SignoffSaver(app) as made:
            yield made

    asyncio.run(conform(make))


@pytest.mark.long
def test_the_conformance_suite_passes_through_a_server(tmp_path: Path) -> None:
    async def play() -> None:
        async with remote_scene(tmp_path) as scene:

            async def make() -> AsyncIterator[SignoffSaver]:
                yield SignoffSaver(Signoff(scene.store))

            await conform(make)

    asyncio.run(play())


def test_a_graph_goes_on_in_another_process_of_the_store(app: Signoff) -> None:
    chain(SignoffSaver(app)).invoke({"texts": ["in"]}, config())
    again = chain(SignoffSaver(app))
    assert again.get_state(config()).values == {"texts": ["in", "n0", "n1"]}
    assert again.invoke({"texts": ["more"]}, config())["texts"][-3:] == ["more", "n0", "n1"]


def test_history_is_filtered_limited_and_paged_like_python_compares(saver: SignoffSaver) -> None:
    graph = chain(saver, steps=4)
    graph.invoke({"texts": []}, config())
    history = [*graph.get_state_history(config())]
    assert [each.metadata["step"] for each in history] == [4, 3, 2, 1, 0, -1]
    assert [each.metadata["step"] for each in graph.get_state_history(config(), filter={"step": 2})] == [2]
    assert [*graph.get_state_history(config(), filter={"step": "2"})] == []
    assert [*graph.get_state_history(config(), filter={"source') OR 1=1 --": 1})] == []
    later = graph.get_state_history(config(), before=history[1].config, limit=2)
    assert [each.metadata["step"] for each in later] == [2, 1]
    assert [*graph.get_state_history(config(), limit=0)] == []


def test_a_fork_changes_no_value_of_the_thread_it_left(saver: SignoffSaver) -> None:
    graph = chain(saver)
    graph.invoke({"texts": ["in"]}, config())
    [begun] = [each for each in graph.get_state_history(config()) if each.next == ("n1",)]
    latest = graph.get_state(config()).config
    forked = graph.update_state(begun.config, {"texts": ["fork"]})
    assert graph.invoke(None, forked)["texts"] == ["in", "n0", "fork", "n1"]
    assert graph.get_state(latest).values["texts"] == ["in", "n0", "n1"]


def test_a_deleted_thread_begins_anew_without_its_old_writes(saver: SignoffSaver) -> None:
    def ask(state: State) -> Any:
        return {"texts": [interrupt("?")]}

    graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)
    graph.invoke({"texts": []}, config())
    saver.delete_thread("t")
    assert [*saver.list(config())] == []
    assert graph.invoke({"texts": ["new"]}, config())["texts"] == ["new"]
    assert graph.invoke(Command(resume="yes"), config())["texts"] == ["new", "yes"]


def test_threads_write_at_once_and_none_finds_the_database_locked(saver: SignoffSaver) -> None:
    graph = chain(saver, steps=3)

    def play(number: int) -> int:
        return len(graph.invoke({"texts": []}, config(str(number)))["texts"])

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(play, range(24))] == [3] * 24


def test_one_saver_serves_several_event_loops_and_blocking_calls_inside_one(saver: SignoffSaver) -> None:
    graph = chain(saver)
    asyncio.run(graph.ainvoke({"texts": []}, config("a")))

    async def blocking_within() -> Any:
        return graph.invoke({"texts": []}, config("b"))

    asyncio.run(blocking_within())
    other = threading.Thread(target=lambda: asyncio.run(graph.ainvoke({"texts": []}, config("c"))))
    other.start()
    other.join()
    threads = {each.config["configurable"]["thread_id"] for each in saver.list(None)}
    assert threads == {"a", "b", "c"}


def test_pruning_a_paused_thread_keeps_its_interrupt_and_its_subgraph(saver: SignoffSaver) -> None:
    def ask(state: State) -> Any:
        return {"texts": [interrupt("?")]}

    inner = StateGraph(State).add_node("before", lambda _: {"texts": ["in"]}).add_node("ask", ask)
    inner.add_edge(START, "before").add_edge("before", "ask")
    outer = StateGraph(State).add_node("first", lambda _: {"texts": ["1"]}).add_node("sub", inner.compile())
    outer.add_edge(START, "first").add_edge("first", "sub")
    graph = outer.compile(checkpointer=saver)
    graph.invoke({"texts": []}, config())
    saver.prune(["t"])
    assert len({each.config["configurable"]["checkpoint_ns"] for each in saver.list(config())}) == 2
    assert len([*saver.list(config(checkpoint_ns=""))]) == 1
    assert graph.invoke(Command(resume="yes"), config())["texts"][-1] == "yes"
    saver.prune(["t"])
    assert [each.config["configurable"]["checkpoint_ns"] for each in saver.list(config())] == [""]


def test_a_copied_thread_goes_on_without_its_source(saver: SignoffSaver) -> None:
    def ask(state: State) -> Any:
        return {"texts": [interrupt("?")]}

    graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)
    graph.invoke({"texts": ["in"]}, config())
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert graph.invoke(Command(resume="yes"), config("copy"))["texts"] == ["in", "yes"]


def test_a_state_that_is_too_large_is_refused_with_its_channel(saver: SignoffSaver) -> None:
    with pytest.raises(PayloadTooLarge, match="'__start__'"):
        chain(saver).invoke({"texts": ["x" * (LARGEST_WRITE + 1)]}, config())


def test_nothing_is_unpickled_and_no_serializer_that_would_is_accepted(saver: SignoffSaver) -> None:
    with pytest.raises(InvalidValue, match="pickle"):
        SignoffSaver("sqlite:///unused.db", serde=JsonPlusSerializer(pickle_fallback=True))
    with pytest.raises(TypeError):
        chain(saver).invoke({"texts": [threading.Lock()]}, config())


def test_an_encrypted_store_keeps_no_text_of_a_state(tmp_path: Path) -> None:
    with ExitStack() as stack:
        app = stack.enter_context(encrypted_app(tmp_path))
        stack.callback(app.close)
        chain(SignoffSaver(app)).invoke({"texts": ["a secret word"]}, config())
    kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"secret word" not in kept
    plain = Signoff(f"sqlite:///{tmp_path / 'signoff.db'}")
    other = Signoff(encrypted(SqliteStore(tmp_path / "signoff.db"), Ciphers([EncryptionKey("k", b"x" * 32)])))
    try:
        with pytest.raises(MissingKey):
            chain(SignoffSaver(other)).get_state(config())
    finally:
        other.close()
        plain.close()


def test_importing_signoff_imports_no_langgraph() -> None:
    program = (
        "import signoff, signoff.testing, sys; assert not {'langgraph', 'langchain_core'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_saver_that_is_dropped_ends_its_thread_wherever_it_is_collected() -> None:
    for collect in (lambda _: gc.collect(), lambda other: other.call(_collected())):
        dropped, other = StoreThread(), StoreThread()
        dropped.call(asyncio.sleep(0))
        thread = next(each for each in threading.enumerate() if each.name == "signoff saver")
        del dropped
        collect(other)
        other.stop()
        thread.join(10)
        assert not thread.is_alive()


def test_a_thread_may_be_stopped_by_its_own_work_and_begins_again() -> None:
    used = StoreThread()

    async def stop() -> str:
        used.stop()
        return "stopped"

    assert used.call(stop()) == "stopped"
    assert used.call(_collected()) is None
    used.stop()


async def _collected() -> None:
    gc.collect()
