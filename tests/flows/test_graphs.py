"""Graphs: joins, refusals at construction, and graphs as data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signoff import Signoff
from signoff.errors import InvalidValue, RegistrationError
from signoff.flows import ChunkFailed, Data, Executions, Flow
from signoff.records import CallKind
from signoff.testing import environment
from tests.flows.places import cases
from tests.flows.registered_flows import ended, new_flow, registered
from tests.support import in_asyncio, journal, new_app, running


def double(data: Data[Any]) -> int:
    return data.input * 2


def keep(data: Data[Any]) -> Any:
    data.append_state("kept", data.input)
    return data.input


@in_asyncio
async def test_what_is_put_twice_behind_one_place_runs_side_by_side() -> None:
    flow = new_flow()
    place = flow.to(double)
    place.to(keep).to(keep)
    place.to(keep)
    assert await ended(flow, 4) == {"kept": [8, 8, 8]}


@in_asyncio
async def test_several_lines_begin_at_the_start() -> None:
    flow = new_flow()
    flow.to(keep)
    flow.to(double).to(keep)
    assert sorted((await ended(flow, 4))["kept"]) == [4, 8]


@pytest.mark.parametrize(("given", "way"), [(1, "one"), (5, "some"), (50, "many")])
@in_asyncio
async def test_if_takes_the_first_line_whose_condition_holds(given: int, way: str) -> None:
    flow = new_flow()
    taken = flow.if_(lambda data: data.input == 1).to(_says(flow, "one"))
    taken = taken.elif_(lambda data: data.input < 10).to(_says(flow, "some"))
    taken.else_().to(_says(flow, "many")).end_if().to(keep)
    assert await ended(flow, given) == {"kept": [way]}


def _says(flow: Flow, word: str) -> str:
    def say(data: Data[Any]) -> str:
        return word

    flow.chunk(name=word)(say)
    return word


@in_asyncio
async def test_without_a_line_that_holds_the_value_goes_on() -> None:
    flow = new_flow()
    flow.if_(lambda data: False).to(double).end_if().match().case("x").to(double).end_match().to(keep)
    assert await ended(flow, 4) == {"kept": [4]}


@pytest.mark.parametrize(
    ("given", "first", "every"),
    [
        (True, "bool", ["bool"]),
        (1, "int", ["int", "small"]),
        ("x", "other", "other"),
        ([1], "list", ["list"]),
    ],
    ids=str,
)
@in_asyncio
async def test_match_takes_the_first_case_or_all_and_true_is_not_1(
    given: Any, first: str, every: Any
) -> None:
    for hits, expected in (("first", first), ("all", every)):
        flow = new_flow()
        line = flow.match(hits=hits)  # pyright: ignore[reportArgumentType]
        line = line.case(True).to(_says(flow, "bool"))
        line = line.case(1).to(_says(flow, "int"))
        line = line.case(lambda data: data.input == 1 and data.input is not True).to(_says(flow, "small"))
        line = line.case([1]).to(_says(flow, "list"))
        line.default().to(_says(flow, "other")).end_match().to(keep)
        assert await ended(flow, given) == {"kept": [expected]}


@in_asyncio
async def test_a_batch_joins_its_branches_in_a_dict_by_their_names() -> None:
    flow = new_flow()
    sub = Flow("sub")
    sub.to(double).to(double)
    line = flow.branch().to(double).to(keep)
    flow.batch(double, ("again", double), line=line, sub=sub).to(keep)
    state = await ended(flow, 1)
    assert state == {"kept": [2, {"double": 2, "again": 2, "line": 2, "sub": 4}]}
    assert list(state["kept"][1]) == ["double", "again", "line", "sub"]


@pytest.mark.parametrize("concurrency", [1, 3, None])
@in_asyncio
async def test_for_each_keeps_the_order_and_runs_at_most_so_many_at_once(concurrency: int | None) -> None:
    flow, running, most = new_flow(), 0, 0

    @flow.chunk
    async def slow(data: Data[Any]) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20 - 2 * data.input):
            await asyncio.sleep(0)
        running -= 1
        return [data.index, data.input]

    flow.for_each(concurrency=concurrency).to(slow).end_for_each().to(keep)
    items = list(range(9))
    assert await ended(flow, items) == {"kept": [[[item, item] for item in items]]}
    assert most == (concurrency or 9)


@in_asyncio
async def test_for_each_of_nothing_is_nothing_and_of_no_list_is_an_error() -> None:
    flow = new_flow()
    flow.for_each().to(double).end_for_each().to(keep)
    assert await ended(flow, []) == {"kept": [[]]}
    for wrong in ("text", {"a": 1}, None):
        with pytest.raises(ChunkFailed, match="needs a list"):
            await ended(flow, wrong)


@in_asyncio
async def test_when_and_joins_one_of_each_and_drops_nothing() -> None:
    flow = Flow("f", auto_close_timeout=None)
    flow.when("a", "b").to(keep)
    async with environment(registered(flow)) as env:
        execution = await Executions(env.client, "f").start()
        for event, value in (("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5), ("b", 6)):
            await execution.emit(event, value)
        await env.idle()
        joined = [{"a": 1, "b": 3}, {"a": 2, "b": 5}, {"a": 4, "b": 6}]
        kept = (await execution.close())["kept"]
        assert sorted(kept, key=lambda each: each["a"]) == joined  # they are kept side by side, in threads


@in_asyncio
async def test_when_or_begins_with_any_and_says_which() -> None:
    flow = Flow("f", auto_close_timeout=None)

    @flow.chunk
    def note(data: Data[Any]) -> None:
        data.append_state("seen", [data.event, data.input])

    flow.when("a", "b", {"state": "s"}, {"chunk": "write"}, mode="or").to(note)

    @flow.chunk
    def write(data: Data[Any]) -> str:
        data.set_state("s", 1)
        return "written"

    flow.when("go").to(write)
    async with environment(registered(flow)) as env:
        execution = await Executions(env.client, "f").start()
        for event in ("b", "a", "go"):
            await execution.emit(event, event)
            await env.idle()
        seen = (await execution.close())["seen"]
        assert seen[:2] == [["b", "b"], ["a", "a"]]
        assert sorted(seen[2:]) == [["state.s", 1], ["write", "written"]]  # both begun by one chunk


@in_asyncio
async def test_a_collection_goes_on_once_each_of_its_branches_has_come() -> None:
    flow = new_flow()
    flow.to(double).collect("both", "left")
    flow.to(keep).collect("both", "right").to(keep)
    assert await ended(flow, 4) == {"kept": [4, {"left": 8, "right": 4}]}


@in_asyncio
async def test_a_sub_flow_has_a_state_of_its_own_what_goes_in_and_out_is_said() -> None:
    inner, flow = Flow("inner"), new_flow()

    @inner.chunk
    def add(data: Data[int]) -> int:
        data.set_state("sum", data.input + data.get_state("start"))
        data.set_state("private", True)
        return data.input + 1

    inner.to(add)

    @flow.chunk
    def begin(data: Data[Any]) -> str:
        data.set_state("offset", 100)
        data.set_state("order", 7)
        return "ignored"

    flow.to(begin).to(
        inner,
        capture={"input": "state.order", "state.start": "state.offset"},
        write_back={"state.total": "state.sum", "state.last": "output"},
    ).to(keep)
    assert await ended(flow) == {"offset": 100, "order": 7, "total": 107, "last": 8, "kept": [8]}


@in_asyncio
async def test_a_flow_can_be_inside_of_others_several_times_at_once() -> None:
    inner, flow = Flow("inner"), new_flow()
    inner.to(double).to(keep)
    flow.for_each().to(inner).end_for_each().to(keep)
    assert await ended(flow, [1, 2, 3]) == {"kept": [[2, 4, 6]]}


def _twice() -> Flow:
    inner, flow = Flow("inner"), Flow("f", auto_close_timeout=None)
    inner.to(keep)
    flow.when("go").to(inner).to(double).to(inner)
    return flow


@in_asyncio
async def test_each_place_of_a_flow_within_has_a_name_of_its_own(tmp_path: Path) -> None:
    flow, app = _twice(), new_app(tmp_path)
    app.register(flow)
    async with running(app):
        execution = await flow.start(id="e")
        await execution.emit("go", 1)
        await execution.close()
        assert await _steps(app, "e") == ["inner/keep", "double", "inner#2/keep"]


@in_asyncio
async def test_an_execution_from_before_named_inner_flows_continues_as_it_began(
    tmp_path: Path,
) -> None:
    flow, app = _twice(), new_app(tmp_path)
    app.register(flow)
    graph = flow.graph.to_json()
    for op in graph["roots"][0]["then"]:
        if op["op"] == "flow":
            del op["id"]
    async with running(app) as client:
        await client.start(flow.name, None, {"state": {}, "joins": {}, "graph": graph}, id="e")
        execution = await flow.attach("e")
        await execution.emit("go", 1)
        await execution.close()
        assert await _steps(app, "e") == ["inner/keep", "double", "inner/keep"]


async def _steps(app: Signoff, run_id: str) -> list[str | None]:
    """The chunks that ran, by their places."""
    return [entry.name for entry in await journal(app, run_id) if entry.call == CallKind.STEP][1:]


@in_asyncio
async def test_a_chunks_record_says_for_which_item_of_each_list_it_ran(tmp_path: Path) -> None:
    flow, app = new_flow(), new_app(tmp_path)
    flow.to(keep).for_each(concurrency=1).for_each(concurrency=1).to(double).end_for_each().end_for_each()
    app.register(flow)
    async with running(app):
        await (await flow.start([[1, 2], [3]], id="e")).result(60)
        entries = await journal(app, "e")
    left = [json.loads(entry.value or "null") for entry in entries if entry.name == "double"]
    assert [each["items"] for each in left] == [[[0, 2], [0, 2]], [[0, 2], [1, 2]], [[1, 2], [0, 1]]]


@in_asyncio
async def test_a_condition_that_fails_fails_the_execution_by_its_name() -> None:
    flow = new_flow()

    @flow.condition
    def is_large(data: Data[Any]) -> bool:
        return data.input["cents"] > 7

    flow.if_(is_large).to(keep).end_if()
    with pytest.raises(ChunkFailed, match="is_large.*KeyError"):
        await ended(flow, {})


def wrong_graphs() -> dict[str, tuple[Callable[[], Any], str]]:
    """Return what is written wrongly, by what is wrong with it, and what the error says."""

    def flow() -> Flow:
        made = Flow("f")
        made.chunk(keep)
        return made

    def twice() -> None:
        made = flow()
        made.chunk(name="keep")(double)

    def inside_itself() -> Any:
        made = flow()
        made.to(made)
        return made.graph

    return {
        "an unknown chunk": (lambda: _graph(flow(), lambda f: f.to("nobody")), "no chunk 'nobody'"),
        "an unknown condition": (
            lambda: _graph(flow(), lambda f: f.if_("nobody").to(keep).end_if()),
            "'nobody'",
        ),
        "a chunk without a name": (lambda: flow().to(lambda data: 1), "has no name"),
        "a chunk with two parameters": (lambda: flow().chunk(_two), "takes one parameter"),
        "a name twice": (twice, "already"),
        "an if that is not ended": (lambda: _graph(flow(), lambda f: f.if_(bool).to(keep)), "end_if"),
        "else without if": (lambda: flow().to(keep).else_(), "has no open counterpart"),
        "end_match of an if": (lambda: flow().if_(bool).end_match(), "has no open counterpart"),
        "elif after else": (lambda: flow().if_(bool).else_().elif_(bool), "before else_"),
        "end_if twice": (_ended_twice, "already called"),
        "a match without a case": (lambda: flow().match().end_match(), "no case"),
        "an empty batch": (lambda: flow().batch(), "no branches"),
        "two branches of one name": (lambda: flow().batch(keep, keep), "two branches"),
        "an empty branch": (lambda: flow().batch(a=flow().branch()), "no chunk"),
        "no concurrency": (lambda: flow().for_each(concurrency=0), "at least 1"),
        "no lines": (lambda: _graph(flow(), lambda f: f), "no lines"),
        "a flow inside of itself": (inside_itself, "contains itself"),
        "when without events": (lambda: flow().when(), "needs events"),
        "when with one twice": (lambda: flow().when("a", "a"), "each of them once"),
        "when with something else": (lambda: flow().when({"timer": "x"}), "is not an event"),
        "when with an unknown chunk": (
            lambda: _graph(flow(), lambda f: f.when({"chunk": "x"}).to(keep)),
            "no line",
        ),
        "a capture that is no path": (
            lambda: flow().to(Flow("g"), capture={"state": "input"}),
            "is not one of",
        ),
        "a capture of a chunk": (lambda: flow().to(keep, capture={}), "belong to a flow"),
        "a collection with one branch twice": (_collects_twice, "two branches of one name"),
        "a collection that goes on twice": (_goes_on_twice, "several lines follow"),
        "a negative timeout": (lambda: Flow("f", auto_close_timeout=-1), "in seconds"),
        "no name": (lambda: Flow(""), "name"),
        "not registered": (lambda: asyncio.run(flow().start()), "app.register"),
    }


def _two(data: Data[Any], more: int) -> None: ...


def _graph(flow: Flow, write: Callable[[Flow], Any]) -> Any:
    write(flow)
    return flow.graph


def _ended_twice() -> Any:
    inside = Flow("f").if_(bool).to(keep)
    inside.end_if()
    return inside.end_if()


def _collects_twice() -> Any:
    flow = Flow("f")
    flow.to(keep).collect("c", "a")
    flow.to(keep).collect("c", "a")
    return flow.graph


def _goes_on_twice() -> Any:
    flow = Flow("f")
    flow.to(keep).collect("c", "a").to(keep)
    flow.to(keep).collect("c", "b").to(keep)
    return flow.graph


@pytest.mark.parametrize("what", list(wrong_graphs()))
def test_a_wrong_graph_is_refused_where_it_is_written(what: str) -> None:
    write, said = wrong_graphs()[what]
    with pytest.raises((RegistrationError, InvalidValue), match=said):
        write()


# As data


def test_a_graph_comes_back_from_json_and_yaml_as_it_was() -> None:
    for case in cases():
        if any(condition.startswith("condition") for condition in case.flow.conditions):
            continue
        for text, read in ((case.flow.to_json(), "from_json"), (case.flow.to_yaml(), "from_yaml")):
            again = Flow(case.flow.name)
            again.chunks, again.flows, again.conditions = (
                case.flow.chunks,
                case.flow.flows,
                case.flow.conditions,
            )
            assert getattr(again, read)(text).graph == case.flow.graph


@in_asyncio
async def test_a_handwritten_graph_runs(tmp_path: Path) -> None:
    flow = Flow("written", auto_close_timeout=0.0)
    flow.chunk(double)
    flow.chunk(keep)

    @flow.condition
    def is_large(data: Data[int]) -> bool:
        return data.input > 10

    flow.from_yaml("""
name: written
roots:
  - begins: [{kind: start}]
    then:
      - {op: chunk, chunk: double}
      - op: if
        cases: [{when: is_large, then: [{op: chunk, chunk: double}]}]
      - {op: chunk, chunk: keep}
""")
    app = new_app(tmp_path)
    app.register(flow)
    async with running(app):
        assert await (await flow.start(4)).result(60) == {"kept": [8]}
        assert await (await flow.start(6)).result(60) == {"kept": [24]}


def _written(*line: dict[str, Any], **root: Any) -> str:
    """A graph of flow ``f`` with one line, as a user might write it."""
    return json.dumps({"name": "f", "roots": [{"begins": [{"kind": "start"}], "then": line, **root}]})


KEEP = {"op": "chunk", "chunk": "keep"}
WRONG_TEXTS = {
    "no JSON": ("{", "invalid JSON"),
    "a list": ("[]", "graph"),
    "another flow's": (json.dumps({"name": "g"}), "flow 'g'"),
    "a newer form": (json.dumps({"name": "f", "format": 2}), "format"),
    "an unknown operation": (_written({"op": "jump"}), "jump"),
    "an unknown chunk": (_written({"op": "chunk", "chunk": "nobody"}), "no chunk 'nobody'"),
    "a misspelt word": (_written(KEEP, thn=[]), "thn"),
    "a line that nothing begins": (_written(KEEP, begins=[]), "roots.0.begins"),
    "a line that one thing begins twice": (_written(KEEP, begins=[{"kind": "start"}] * 2), "twice"),
    "nothing at once": (_written({"op": "for_each", "each": [KEEP], "concurrency": 0}), "concurrency"),
    "a batch of nothing": (_written({"op": "batch", "branches": {}}), "branches"),
    "an if without a case": (_written({"op": "if", "cases": []}), "cases"),
    "a match without a case": (_written({"op": "match", "hits": "all", "cases": []}), "cases"),
    "no path": (
        _written({"op": "flow", "flow": "g", "capture": {"x": "input"}, "write_back": {}}),
        "not one of",
    ),
}


@pytest.mark.parametrize("what", list(WRONG_TEXTS))
def test_a_graph_that_is_none_is_refused_and_leaves_the_flow_as_it_was(what: str) -> None:
    text, said = WRONG_TEXTS[what]
    flow = Flow("f")
    flow.chunk(keep)
    flow.flows["g"] = Flow("g")
    with pytest.raises((InvalidValue, RegistrationError), match=said):
        flow.from_json(text)
    flow.to(keep)
    assert flow.graph.roots
    with pytest.raises(RegistrationError, match="already has lines"):
        flow.from_json(flow.to_json())


def test_a_drawing_has_each_chunk_and_each_arrow() -> None:
    flow = Flow("f")
    for name in ("ask", "refund", "refuse", 'odd "name" <b>'):
        flow.chunk(name=name)(_only(keep))
    flow.to("ask").if_(_large).to("refund").else_().to("refuse").end_if().to('odd "name" <b>')
    flow.when("late").to("refuse")
    assert flow.to_mermaid() == (
        "flowchart TD\n"
        '    n1(["start"])\n'
        '    n2["ask"]\n'
        "    n1 --> n2\n"
        '    n3{"if"}\n'
        "    n2 --> n3\n"
        '    n4["refund"]\n'
        '    n3 -- "_large" --> n4\n'
        '    n5["refuse"]\n'
        '    n3 -- "else" --> n5\n'
        '    n6["odd &quot;name&quot; &lt;b&gt;"]\n'
        "    n4 --> n6\n"
        "    n5 --> n6\n"
        '    n7{{"event late"}}\n'
        '    n8["refuse#2"]\n'
        "    n7 --> n8\n"
    )
    for case in cases():
        assert case.flow.to_mermaid().startswith("flowchart TD\n")


def _only(function: Callable[[Data[Any]], Any]) -> Callable[[Data[Any]], Any]:
    def chunk(data: Data[Any]) -> Any:
        return function(data)

    return chunk


def _large(data: Data[int]) -> bool:
    return data.input > 10
