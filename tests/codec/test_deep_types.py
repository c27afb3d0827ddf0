"""Types and schemas that are nested too deep are named at each interface, without a RecursionError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import pytest

from signoff import Context, Signoff, codec
from signoff.errors import InvalidValue, RegistrationError, SignoffError
from signoff.people.schemas.answer_schemas import form_of
from signoff.people.schemas.foreign_schemas import checkable
from signoff.people.schemas.validation import problems, schema_problem
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

LEVELS = [50, 120, 200, 250, 330, 480, 700, 2_000]


def lists(levels: int) -> Any:
    declared: Any = int
    for _ in range(levels):
        declared = list[declared]
    return declared


def mappings(levels: int) -> Any:
    declared: Any = int
    for _ in range(min(levels, 700)):  # typing itself refuses more
        declared = Optional[dict[str, declared]]  # noqa: UP045 - the other spelling is another type
    return declared


def objects(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def items(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def branches(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"allOf": [schema]}
    return schema


def _tried(door: Callable[[], Any]) -> tuple[Any, SignoffError | None]:
    try:
        return door(), None
    except SignoffError as error:
        return None, error


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("make", [lists, mappings])
def test_a_type_is_read_or_refused_by_name(make: Any, levels: int) -> None:
    declared = make(levels)

    def function(x: Any) -> None: ...

    function.__annotations__["x"] = declared
    codec.value_schema(declared)
    codec.parameters_schema(function, skip=0)
    value: Any = [] if make is lists else {}
    for door in (
        lambda: codec.decode(codec.encode(value), declared),
        lambda: codec.normalize(value, declared)[1],
        lambda: form_of("question", "answer_type", declared) and value,
    ):
        found, refused = _tried(door)
        if refused is None:
            assert found == value
        else:
            assert isinstance(refused, InvalidValue | RegistrationError)
            assert "nested too deep" in str(refused)
            assert len(str(refused)) < 600


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("make", [objects, items, branches])
def test_a_schema_is_used_or_refused_by_name(make: Any, levels: int) -> None:
    schema = make(levels)
    problem = schema_problem(schema)
    assert problem is None or "nested too deep" in problem
    found = problems(schema, {} if make is objects else [])
    if problem is not None:
        assert "nested too deep" in found[0][1]
    checkable(schema)
    _, refused = _tried(lambda: form_of("question", "answer_type", schema))
    assert refused is None or "nested deeper than 100 levels" in str(refused)


@in_asyncio
async def test_a_form_type_that_is_too_deep_fails_its_run_with_the_reason() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await ctx.wait_for_user("Which?", input_type="form", answer_type=lists(2_000))

    async with environment(app) as env:
        run = await env.start(flow)
        with pytest.raises(RegistrationError, match="'Which\\?': answer_type is nested too deep"):
            await run.result()
