"""Answers of a megabyte take little of a server's memory, whatever they are made of and whatever they edit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from signoff.errors import InvalidValue, PayloadTooLarge
from signoff.people.questions.answer_checks import MOST_PARTS, read_value
from signoff.people.questions.edits import edits_between
from signoff.people.questions.question import Question
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.requests_of_all import VALUES, operation
from tests.attacks.served import JSON, MOST_KIB, Served

measured = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc")

JUST_ALLOWED = {
    "lists": b"[" + b",".join([b"[]"] * (MOST_PARTS - 1)) + b"]",
    "objects": b"[" + b",".join([b'{"abc":1}'] * (MOST_PARTS - 1)) + b"]",
    "nested": b"[" + b",".join([b'{"":{"":0}}'] * (MOST_PARTS // 2 - 1)) + b"]",
}


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Served]:
    """A server of an empty store, with options."""
    with ExitStack() as stack:
        asyncio.run(_make(SqliteStore(tmp_path / "signoff.db")))
        yield Served(stack, f"sqlite:///{tmp_path}/signoff.db", tmp_path, "--redact", "secret")


async def _make(store: SqliteStore) -> None:
    await store.open()
    await store.close()


def _ask(served: Served, id: str, question: Question) -> str:
    """Have a run ask a question. Returns its id."""
    run_id, epoch = served.hold(id)
    opened = {"seq": 1, "at": 1.5, "kind": "opened", "n": 1, "call": "question", "name": question.text}
    new = {"id": f"{run_id}.1", "kind": "question", "run_id": run_id, "n": 1, "data": question.to_json()}
    write = {"run_id": run_id, "epoch": epoch, "entries": [opened], "opens": [new]}
    served.ask(operation("append", write=write))
    return f"{run_id}.1"


@measured
def test_no_large_answer_takes_much_of_a_server_s_memory(empty: Served) -> None:
    values = {**VALUES, **{f"{name} as many as may be": value for name, value in JUST_ALLOWED.items()}}
    taken: dict[str, tuple[int, int]] = {}
    for number, (name, value) in enumerate(values.items()):
        for kind, question, body in (
            ("form", Question.make("Pay?", input_type="form", answer_type={}), b"%b"),
            ("edit", Question.make("Pay?", proposal=[], proposal_type={}), b'{"approved":true,"edited":%b}'),
        ):
            id = _ask(empty, f"{kind}-{number}", question)
            content = b'{"user_id":"ana","value":%b}' % (body % value)
            with empty.memory.rise() as risen:
                status = empty.take("POST", f"/v1/questions/{id}/answer", content=content, headers=JSON)
            taken[f"{kind} of {name}"] = status, risen[0]
    assert {name: each for name, each in taken.items() if each[1] > MOST_KIB} == {}
    assert {status for status, _ in taken.values()} == {200, 413, 422}
    assert {taken[f"form of {name} as many as may be"][0] for name in JUST_ALLOWED} == {200}


@measured
def test_one_of_too_many_parts_is_refused_before_it_is_parsed(empty: Served) -> None:
    question_id = _ask(empty, "parts", Question.make("Pay?", input_type="form", answer_type={}))
    content = b'{"user_id":"ana","value":%b}' % VALUES["lists"]
    with empty.memory.rise() as risen:
        reply = empty.http.post(f"/v1/questions/{question_id}/answer", content=content, headers=JSON)
    assert (reply.status_code, reply.json()["path"]) == (422, "value")
    assert risen[0] < 16 * 1024  # 25 MiB as parsed


@pytest.mark.parametrize("value", [[[]] * MOST_PARTS, [{"a": 1}] * MOST_PARTS], ids=["lists", "objects"])
def test_an_answer_of_too_many_parts_is_refused_with_the_bound(value: Any) -> None:
    with pytest.raises(InvalidValue, match="more than 100,000 lists and objects"):
        read_value(Question.make("Pay?", input_type="form", answer_type={}), value)


def test_brackets_in_texts_are_not_parts() -> None:
    text = '[{"' * MOST_PARTS
    assert read_value(Question.make("Pay?", input_type="text"), text) == text


def test_an_edit_with_more_changes_than_a_value_may_hold_is_refused() -> None:
    with pytest.raises(PayloadTooLarge):
        edits_between([], [0] * 250_000)


def test_edits_name_their_places_as_json_pointers() -> None:
    old, new = {"a/b": [{"~": 1}], "same": 2}, {"a/b": [{"~": 3}], "same": 2}
    assert json.dumps(edits_between(old, new)) == json.dumps(
        [{"op": "replace", "path": "/a~1b/0/~0", "value": 3, "old": 1}]
    )
