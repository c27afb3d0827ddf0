"""A call of a user's async helper without an await fails the run before its first line, with the line."""

# Type checkers see what is wrong here.
# pyright: reportUnusedCoroutine=false, reportUnnecessaryComparison=false, reportUnusedExpression=false
# pyright: reportUntypedFunctionDecorator=false, reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false, reportRedeclaration=false
# pyright: reportCallIssue=false

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import importlib
import logging
import sys
from collections.abc import Callable, Coroutine, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.engine.run.unawaited_functions import unawaited
from signoff.errors import NotAwaited
from signoff.testing import MemoryStore, environment
from tests.places import NewStore
from tests.support import in_asyncio, pauses, running

paid: list[str] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


def pay() -> None:
    paid.append("paid")


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Workflow:
    """A workflow that is an object."""

    async def ask(self, ctx: Any) -> bool:
        return bool((await ctx.wait_for_user("Pay?")).approved)

    async def __call__(self, ctx: Any) -> None:
        if self.ask(ctx):  # type: ignore[truthy-bool]
            await ctx.step(pay)


class Desk:
    """A helper whose methods ask."""

    async def ask(self, ctx: Any) -> bool:
        return bool((await ctx.wait_for_user("Pay?")).approved)

    @staticmethod
    async def ask_static(ctx: Any) -> bool:
        return bool((await ctx.wait_for_user("Pay?")).approved)

    @classmethod
    async def ask_class(cls, ctx: Any) -> bool:
        return bool((await ctx.wait_for_user("Pay?")).approved)

    async def forgets(self, ctx: Any) -> bool:
        return bool(not self.ask(ctx))

    async def __call__(self, ctx: Any) -> bool:
        return bool((await ctx.wait_for_user("Pay?")).approved)


desk: Any = Desk()
here: Any = sys.modules[__name__]


# Its checkers see what is wrong here, too, so everything is Any to them. The helpers stand below.


async def statement(ctx: Any) -> None:
    approve(ctx)
    await ctx.step(pay)


async def condition(ctx: Any) -> None:
    if approved(ctx):
        await ctx.step(pay)


async def negation(ctx: Any) -> None:
    if not approved(ctx):
        return
    await ctx.step(pay)


async def both(ctx: Any) -> None:
    if approved(ctx) and ctx.run_id:
        await ctx.step(pay)


async def last_of_both(ctx: Any) -> None:
    if ctx.run_id and approved(ctx):
        await ctx.step(pay)


async def only_if_large(ctx: Any) -> None:
    ctx.run_id and approve(ctx)
    await ctx.step(pay)


async def comparison(ctx: Any) -> None:
    if approved(ctx) != False:  # noqa: E712
        await ctx.step(pay)


async def loop_condition(ctx: Any) -> None:
    while approved(ctx):
        await ctx.step(pay)


async def assertion(ctx: Any) -> None:
    assert approved(ctx)
    await ctx.step(pay)


async def named(ctx: Any) -> None:
    if answer := approved(ctx):
        await ctx.step(pay)
        print(answer)


async def matched(ctx: Any) -> None:
    match approved(ctx):
        case False:
            return
        case _:
            await ctx.step(pay)


async def chosen(ctx: Any) -> None:
    for _ in [1 if approved(ctx) else 0]:
        await ctx.step(pay)


async def all_of(ctx: Any) -> None:
    if all(approved(ctx) for _ in range(3)):
        await ctx.step(pay)


async def any_of(ctx: Any) -> None:
    if any([approved(ctx), approved(ctx)]):
        await ctx.step(pay)


async def filtered(ctx: Any) -> None:
    for _ in filter(approved, [ctx]):
        await ctx.step(pay)


async def filtered_by_a_lambda(ctx: Any) -> None:
    for _ in filter(lambda order: order and approved(order), [ctx]):
        await ctx.step(pay)


async def filtered_by_comprehension(ctx: Any) -> None:
    for _ in [order for order in [ctx] if approved(order)]:
        await ctx.step(pay)


async def converted(ctx: Any) -> None:
    if bool(approved(ctx)):
        await ctx.step(pay)


async def variable(ctx: Any) -> None:
    answer = approved(ctx)
    if not answer:
        return
    await ctx.step(pay)


async def variable_of_two_values(ctx: Any) -> None:
    answer = True
    if ctx.run_id:
        answer = approved(ctx)
    if answer and ctx.run_id:
        await ctx.step(pay)


async def variable_in_a_loop(ctx: Any) -> None:
    done: Any = False
    while not done:
        done = approved(ctx)
    await ctx.step(pay)


async def variable_never_read(ctx: Any) -> None:
    _ = approve(ctx)
    await ctx.step(pay)


async def pair(ctx: Any) -> None:
    first, second = approved(ctx), approved(ctx)
    if first and second:
        await ctx.step(pay)


async def list_of_answers(ctx: Any) -> None:
    answers = [approved(ctx) for _ in range(3)]
    if all(answers):
        await ctx.step(pay)


async def mapped(ctx: Any) -> None:
    if all(map(approved, [ctx, ctx])):
        await ctx.step(pay)


async def texted(ctx: Any) -> None:
    await ctx.step(f"pay {approved(ctx)}", pay)


async def each_dropped(ctx: Any) -> None:
    [approve(ctx) for _ in range(2)]
    await ctx.step(pay)


async def slept(ctx: Any) -> None:
    asyncio.sleep(60)  # pyright: ignore[reportUnusedCoroutine]
    await ctx.step(pay)


async def waited(ctx: Any) -> None:
    asyncio.wait_for(approve(ctx), 5)
    await ctx.step(pay)


async def task_asked(ctx: Any) -> None:
    if asyncio.create_task(approved(ctx)):
        await ctx.step(pay)


async def gathered_asked(ctx: Any) -> None:
    if not asyncio.gather(approved(ctx), approved(ctx)):
        return
    await ctx.step(pay)


async def of_an_object(ctx: Any) -> None:
    desk.ask(ctx)
    await ctx.step(pay)


async def of_an_object_made_here(ctx: Any) -> None:
    mine: Any = Desk()
    if mine.ask(ctx):
        await ctx.step(pay)


async def of_a_new_object(ctx: Any) -> None:
    if here.Desk().ask(ctx):
        await ctx.step(pay)


async def method_of_an_object_made_here(ctx: Any) -> None:
    mine: Any = Desk()
    await mine.forgets(ctx)
    await ctx.step(pay)


async def of_a_module(ctx: Any) -> None:
    here.approve(ctx)
    await ctx.step(pay)


async def static(ctx: Any) -> None:
    if Desk.ask_static(ctx):
        await ctx.step(pay)


async def of_a_class(ctx: Any) -> None:
    if Desk.ask_class(ctx):
        await ctx.step(pay)


async def callable_object(ctx: Any) -> None:
    if desk(ctx):
        await ctx.step(pay)


async def method_of_itself(ctx: Any) -> None:
    await desk.forgets(ctx)
    await ctx.step(pay)


async def wrapped(ctx: Any) -> None:
    if logged_approved(ctx):
        await ctx.step(pay)


async def partial(ctx: Any) -> None:
    if approved_here(ctx):
        await ctx.step(pay)


async def passed_on(ctx: Any) -> None:
    if passes_on(ctx):
        await ctx.step(pay)


async def awaited_once_of_twice(ctx: Any) -> None:
    if await returns_a_coroutine(ctx):
        await ctx.step(pay)


async def local(ctx: Any) -> None:
    async def ask() -> None:
        await ctx.wait_for_user("Pay?")

    ask()
    await ctx.step(pay)


async def local_of_a_local(ctx: Any) -> None:
    async def ask() -> bool:
        return bool((await ctx.wait_for_user("Pay?")).approved)

    async def pay_if_asked() -> None:
        if ask():
            await ctx.step(pay)

    await pay_if_asked()


async def in_a_helper(ctx: Any) -> None:
    await forgets(ctx)
    await ctx.step(pay)


async def in_a_local_call(ctx: Any) -> None:
    await ctx.lfc(forgets)
    await ctx.step(pay)


async def in_a_step(ctx: Any) -> None:
    await ctx.step(pays_and_forgets)


async def in_a_lambda(ctx: Any) -> None:
    await ctx.step("pay", lambda: pay() if not approved(ctx) else None)


def generated(ctx: Any) -> Generator[Any, Any, None]:
    approve(ctx)
    yield ctx.step(pay)


def generated_condition(ctx: Any) -> Generator[Any, Any, None]:
    if approved(ctx):
        yield ctx.lfc(lambda ctx: pay())


def generated_by_a_generator(ctx: Any) -> Generator[Any, Any, None]:
    ask_by_yielding(ctx)
    yield ctx.step(pay)


def generator_asked(ctx: Any) -> Generator[Any, Any, None]:
    if ask_by_yielding(ctx):
        yield ctx.step(pay)


async def _approve(ctx: Any) -> None:
    await ctx.wait_for_user("Pay?")


async def _approved(ctx: Any) -> bool:
    return bool((await ctx.wait_for_user("Pay?")).approved)


async def _forgets(ctx: Any) -> None:
    if not approved(ctx):
        raise ValueError("no")


def _passes_on(ctx: Any) -> Any:
    return approved(ctx)


async def _returns_a_coroutine(ctx: Any) -> Any:
    return approved(ctx)


def _ask_by_yielding(ctx: Any) -> Generator[Any, Any, bool]:
    answer = yield ctx.wait_for_user("Pay?")
    return bool(answer.approved)


def _pays_and_forgets() -> None:
    approve(None)
    pay()


approve: Any = _approve
approved: Any = _approved
forgets: Any = _forgets
passes_on: Any = _passes_on
returns_a_coroutine: Any = _returns_a_coroutine
ask_by_yielding: Any = _ask_by_yielding
pays_and_forgets: Any = _pays_and_forgets
logged_approved: Any = logged(_approved)
approved_here: Any = functools.partial(_approved)

FORGETFUL: list[Callable[..., Any]] = [
    *(
        statement,
        condition,
        negation,
        both,
        last_of_both,
        only_if_large,
        comparison,
        loop_condition,
        assertion,
    ),
    *(
        named,
        matched,
        chosen,
        all_of,
        any_of,
        filtered,
        filtered_by_comprehension,
        converted,
        texted,
        each_dropped,
    ),
    *(
        slept,
        waited,
        task_asked,
        gathered_asked,
        of_an_object,
        of_a_module,
        static,
        of_a_class,
        callable_object,
    ),
    *(
        method_of_itself,
        wrapped,
        partial,
        passed_on,
        awaited_once_of_twice,
        local,
        local_of_a_local,
        in_a_helper,
    ),
    *(in_a_local_call, in_a_step, in_a_lambda),
    *(of_an_object_made_here, of_a_new_object, method_of_an_object_made_here),
    *(generated, generated_condition, generated_by_a_generator, generator_asked),
]


@pytest.mark.parametrize("work", FORGETFUL, ids=lambda work: work.__name__)
@in_asyncio
async def test_a_helper_that_is_not_awaited_fails_the_run_before_it_begins(work: Any) -> None:
    app = Signoff(MemoryStore())
    app.workflow(work)
    async with environment(app) as env:
        run = await env.start(work)
        with pytest.raises(NotAwaited) as refused:
            await run.result()
        assert (await env.client.backend.get_run(run.id)).retryable
        assert not (await env.client.questions()).items
    assert f"{Path(__file__).name}:" in refused.value.where
    assert paid == []


@pytest.mark.parametrize("how", ["object", "decorated"])
@in_asyncio
async def test_workflows_that_are_objects_or_wrapped_are_refused_as_well(how: str) -> None:
    app = Signoff(MemoryStore())

    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(ctx: Context) -> Any:
            return await function(ctx)

        return wrapper

    work: Any = Workflow() if how == "object" else decorated(statement)
    app.workflow(name="work")(work)
    async with environment(app) as env:
        with pytest.raises(NotAwaited):
            await env.run("work")
    assert paid == []


@in_asyncio
async def test_the_error_has_the_call_its_line_and_the_function() -> None:
    app = Signoff(MemoryStore())
    app.workflow(condition)
    line = condition.__code__.co_firstlineno + 1
    async with environment(app) as env:
        with pytest.raises(NotAwaited) as refused:
            await env.run(condition, id="r")
    assert refused.value.what == "coroutine approved(ctx)"
    assert refused.value.where == f"{__file__}:{line} in condition"
    assert refused.value.how == "was tested for truth without an await: it is always true"
    assert str(refused.value).startswith("run 'r': coroutine approved(ctx), at ")


@in_asyncio
async def test_a_worker_says_so_when_it_starts_and_serves_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Signoff(MemoryStore())
    app.workflow(statement)

    @app.workflow
    async def fine(ctx: Context) -> str:
        return "fine"

    with caplog.at_level(logging.ERROR, "signoff.worker"):
        async with environment(app) as env:
            assert await env.run(fine) == "fine"
            await env.idle()
            app.workflow(version="2")(fine)
            await env.sleep(timedelta(minutes=10))  # it is announced anew
    (said,) = [each.message for each in caplog.records]
    assert "workflow 'statement': coroutine approve(ctx), at " in said


@in_asyncio
async def test_a_run_that_has_begun_goes_on_when_the_code_is_mended(new_store: NewStore) -> None:
    async def before(ctx: Context) -> None:
        await ctx.step(pay)
        await ctx.wait_for_signal("go")

    async def broken(ctx: Context) -> None:
        await ctx.step(pay)
        approve(ctx)
        await ctx.wait_for_signal("go")
        await ctx.step("pay again", pay)

    async def mended(ctx: Context) -> str:
        await ctx.step(pay)
        await ctx.wait_for_signal("go")
        return "mended"

    store = new_store()
    for each in (before, broken, mended):
        app = Signoff(store)
        app.workflow(name="work")(each)
        async with running(app) as client:
            if each is before:
                await client.start("work", id="r")
                await pauses(app, "r")
            elif each is broken:
                await client.signal("r", "go")
                with pytest.raises(NotAwaited):
                    await (await client.get("r")).result(60)
            else:
                await client.retry("r")
                assert await (await client.get("r")).result(60) == "mended"
    assert paid == ["paid"]


# what is right


async def right(ctx: Any) -> Any:
    first = approved(ctx)
    second, third = approved(ctx), approved(ctx)
    later = [approved(ctx) for _ in range(2)]
    found: list[Any] = [await first, *await asyncio.gather(second, third, *later)]
    if await approved(ctx) and not (await passes_on(ctx)) and await (await returns_a_coroutine(ctx)):
        found.append(await desk.ask(ctx))
    async with asyncio.TaskGroup() as group:
        group.create_task(approve(ctx))
    await asyncio.wait([asyncio.create_task(approve(ctx))])
    asyncio.create_task(approve(ctx))  # noqa: RUF006
    found.append(await ctx.lfc(approve))
    return found


def right_generator(ctx: Any) -> Generator[Any, Any, Any]:
    first = yield approved(ctx)
    second = yield from ask_by_yielding(ctx)
    third = yield ctx.lfc(ask_by_yielding)
    for _ in ask_by_yielding(ctx):
        yield ctx.step("again", str)
    return [first, second, third, (yield passes_on(ctx))]


async def other_names(ctx: Any, approve: Any = None) -> Any:
    approve(ctx)  # a parameter may be anything
    for approved in [len, bool]:
        if approved(ctx):
            return approved
    return None


async def defined_twice(ctx: Any, quick: bool = False) -> Any:
    if quick:

        def ask() -> Any:
            return True
    else:

        async def ask() -> Any:
            return await ctx.wait_for_user("Pay?")

    if ask():
        return "asked"
    return "not asked"


async def decorated(ctx: Any) -> Any:
    @contextlib.asynccontextmanager
    async def scope() -> Any:
        yield

    async with scope():
        scope()
    return None


async def rebound_by_another(ctx: Any) -> Any:
    async def ask() -> Any: ...

    def change() -> None:
        nonlocal ask
        ask = lambda: True  # type: ignore[assignment]  # noqa: E731

    change()
    return "yes" if ask() else "no"


async def variables(ctx: Any) -> Any:
    first = approved(ctx)
    if first:
        first = await first
    second = None
    if ctx.run_id:
        second = approved(ctx)
    if second is not None:
        await second
    calls = [approved(ctx) for _ in range(3)]
    if calls:
        await asyncio.gather(*calls)
    if (again := approved(ctx)) is not None:
        await again
    await (last := approved(ctx))  # pyright: ignore[reportUnusedVariable]
    third = approved(ctx)

    async def later() -> Any:
        return await third

    if third:
        await later()
    fourth = approved(ctx)  # pyright: ignore[reportUnusedVariable]
    print(locals()["fourth"])
    return first


async def shared_variable(ctx: Any) -> Any:
    global _shared  # noqa: PLW0603
    _shared = approved(ctx)
    if _shared:
        return await in_a_global()
    return None


_shared: Any = None


async def in_a_global() -> Any:
    return await _shared


class Chosen:
    """An object that may have another method than its class."""

    def __init__(self, ask: Any = None) -> None:
        if ask is not None:
            self.ask = ask

    async def ask(self, ctx: Any) -> bool:  # type: ignore[no-redef]
        return True


class Instead:
    """A class whose objects are of another one."""

    def __new__(cls) -> Any:
        return Chosen(bool)

    async def ask(self, ctx: Any) -> bool:
        return True


async def objects(ctx: Any) -> Any:
    chosen: Any = Chosen(bool)
    other: Any = Instead()
    if chosen.ask(ctx) and other.ask(ctx) and Chosen(bool).ask(ctx):
        return "asked"
    again: Any = Desk()
    if ctx.run_id:
        again = Chosen(bool)
    made: Any = Desk()
    changed: Any = Desk()
    changed.ask = bool
    return again.ask(ctx) and changed.ask(ctx) and await made.ask(ctx)


async def patched_object(ctx: Any, patch: Any = None) -> Any:
    made: Any = Desk()
    patch.setattr(made, "ask", bool)
    return "asked" if made.ask(ctx) else "not asked"


def kept_generator(ctx: Any) -> Generator[Any, Any, Any]:
    kept = ask_by_yielding(ctx)  # noqa: F841  # pyright: ignore[reportUnusedVariable]
    yield approved(ctx)


async def own_bool(ctx: Any) -> Any:
    def bool(call: Any) -> Any:
        return asyncio.ensure_future(call)

    return await bool(approved(ctx))


async def not_always_one(ctx: Any) -> Any:
    return "yes" if sometimes(ctx) else "no"


def _sometimes(ctx: Any) -> Any:
    if ctx is None:
        return False
    return approved(ctx)


sometimes: Any = _sometimes


async def typed(ctx: Any) -> None:
    if False:
        approve(ctx)


RIGHT: list[Callable[..., Any]] = [
    *(right, right_generator, other_names, defined_twice, decorated, rebound_by_another, own_bool),
    *(not_always_one, typed, variables, shared_variable, kept_generator, objects, patched_object),
]


@pytest.mark.parametrize("work", RIGHT, ids=lambda work: work.__name__)
def test_what_may_be_right_is_not_refused(work: Any) -> None:
    assert unawaited([work]) == []


def test_code_without_source_is_not_refused() -> None:
    names: dict[str, Any] = {}
    exec("async def ask(): ...\nasync def work(ctx):\n    ask()\n", names)
    assert unawaited([names["work"], len, functools.partial(len), 3, None, object()]) == []


def module_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> Any:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    importlib.invalidate_caches()
    try:
        return importlib.import_module(next(iter(files)))
    finally:
        for name in files:
            sys.modules.pop(name, None)


HELPERS = "async def ask(ctx): ...\nasync def both(ctx):\n    if ask(ctx): return ask(ctx)\n"


@pytest.mark.parametrize(
    ("imports", "call", "line"),
    [
        ("import un_helpers", "un_helpers.ask(ctx)", "un_work.py:3 in work"),
        ("from un_helpers import ask as confirm", "confirm(ctx)", "un_work.py:3 in work"),
        ("from un_helpers import both", "await both(ctx)", "un_helpers.py:3 in both"),
        ("import un_helpers as help", "await help.both(ctx)", "un_helpers.py:3 in both"),
    ],
)
def test_helpers_of_other_modules_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: str, call: str, line: str
) -> None:
    work = f"{imports}\nasync def work(ctx):\n    {call}\n"
    module = module_of(tmp_path, monkeypatch, un_work=work, un_helpers=HELPERS)
    (found,) = unawaited([module.work])
    assert found.where.endswith(line)


def test_a_file_that_has_changed_since_its_import_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "async def ask(ctx): ...\nasync def work(ctx):\n    await ask(ctx)\n"
    module = module_of(tmp_path, monkeypatch, un_changed=text)
    (tmp_path / "un_changed.py").write_text(text.replace("await ", ""))
    assert unawaited([module.work]) == []


def test_a_file_that_is_no_python_refuses_nothing(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    file = tmp_path / "template.txt"
    file.write_text("{{ work( }}\n" * 5)
    exec(compile("async def ask(): ...\nasync def work(ctx):\n    ask()\n", str(file), "exec"), names)
    assert unawaited([names["work"]]) == []


def test_a_module_whose_import_is_lazy_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = (
        "import importlib.util\n"
        "spec = importlib.util.find_spec('un_lazy')\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\n"
        "lazy = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(lazy)\n"
        "async def work(ctx):\n    lazy.ask(ctx)\n"
    )
    module = module_of(tmp_path, monkeypatch, un_lazily=work, un_lazy="raise ValueError('imported')\n")
    assert unawaited([module.work]) == []


def test_source_is_read_again_where_another_thread_parses_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as to log a traceback: CPython 3.11 fails then, and the worker ended with it."""
    text = "async def ask(ctx): ...\nasync def work(ctx):\n    ask(ctx)\n"
    module = module_of(tmp_path, monkeypatch, un_parsed_twice=text)
    failed: list[str] = []
    parse = ast.parse

    def fail_once(text: str, file: str) -> ast.Module:
        if not failed:
            failed.append(file)
            raise SystemError("AST constructor recursion depth mismatch (before=180, after=196)")
        return parse(text, file)

    monkeypatch.setattr(ast, "parse", fail_once)
    assert len(unawaited([module.work])) == 1
    assert failed == [module.__file__]


def test_a_loader_that_fails_is_passed_over() -> None:
    class Loader:
        def get_source(self, name: str) -> str:
            raise ValueError(name)

    names: dict[str, Any] = {"__name__": "odd", "__loader__": Loader()}
    exec(compile("async def ask(): ...\nasync def work(ctx):\n    ask()\n", "odd.py", "exec"), names)
    assert unawaited([names["work"]]) == []


def test_a_function_that_is_nested_too_deep_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = "def deep():\n    return " + " + ".join(["1.0"] * 2000) + "\n"
    module = module_of(
        tmp_path, monkeypatch, un_deep=deep + "async def ask(ctx): ...\nasync def work(ctx):\n    ask(ctx)\n"
    )
    assert [each.what for each in unawaited([module.work])] == ["coroutine ask(ctx)"]


def test_circles_of_helpers_end() -> None:
    async def one(ctx: Any) -> Any:
        return await two(ctx)

    async def two(ctx: Any) -> Any:
        return await one(ctx)

    def passes(ctx: Any) -> Any:
        return passes(ctx)

    async def asks(ctx: Any) -> None:
        if passes(ctx):
            await one(ctx)

    assert unawaited([one, two, asks]) == []


def test_an_object_whose_attributes_fail_is_passed_over() -> None:
    class Odd:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    odd: Any = Odd()

    async def work(ctx: Any) -> None:
        odd.ask(ctx)
        if odd.ask(ctx):
            approve(ctx)

    assert [each.what for each in unawaited([work])] == ["coroutine approve(ctx)"]


Work = Callable[[Any], Coroutine[Any, Any, Any]]


def test_a_function_that_a_closure_has_is_the_one_that_counts() -> None:
    def asking(ask: Any) -> Work:
        async def work(ctx: Any) -> Any:
            return "yes" if ask(ctx) else "no"

        return work

    assert [each.how[:9] for each in unawaited([asking(approved)])] == ["was teste"]
    assert unawaited([asking(len)]) == []
