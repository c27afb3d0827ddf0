"""Two steps of one name with different functions: a replay that swaps them stops.

What a deploy does to functions does not stop it: another name, another body, another function that the code names.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from signoff import Context
from signoff.errors import NonDeterminism
from tests.engine import restarts
from tests.engine.restarts import pay, restarted
from tests.support import in_asyncio

Call = tuple[Any, ...]


def by_mail(order: str = "o") -> str:
    return f"mailed {order}"


def by_text(order: str = "o") -> str:
    return f"texted {order}"


SENDERS: dict[str, Callable[..., str]] = {"mail": by_mail, "text": by_text}
LAMBDAS = {"mail": lambda: "mailed o", "text": lambda: "texted o"}
IN_A_SET = {"mail": lambda: "mail" in {"a", "b", "mail"}, "text": lambda: "text" in {"a", "b", "text"}}


class Mailer:
    def __init__(self) -> None:
        self.lock = object()  # nothing that could be compared

    def send(self) -> str:
        return "mailed o"

    def __call__(self) -> str:
        return self.send()


class Texter(Mailer):
    def send(self) -> str:
        return "texted o"


SERVICES = {"mail": Mailer(), "text": Texter()}
KINDS = {"mail": Mailer, "text": Texter}


class Static:
    @staticmethod
    def mail() -> str:
        return "mailed o"

    @staticmethod
    def text() -> str:
        return "texted o"


@dataclass
class Note:
    how: str

    def send(self) -> str:
        return f"sent by {self.how}"


class OtherStatic:
    @staticmethod
    def mail() -> str:
        return "mailed o, otherwise"


def module_with_mail(name: str, done: str) -> ModuleType:
    """Return a module that has a function of the same name as others have."""
    module = ModuleType(name)
    exec(f"def mail():\n    return {done!r}", vars(module))
    sys.modules[name] = module
    return module


NAMED = {"mail": pay, "text": by_text}  # ``pay`` is of the workflow's module
STATIC = {"mail": Static.mail, "text": OtherStatic.mail}
MODULES = {how: module_with_mail(f"{__name__}_{how}", f"{how}ed o") for how in ("mail", "text")}


def local(how: str) -> Callable[[], str]:
    def mail() -> str:
        return "mailed o"

    def text() -> str:
        return "texted o"

    return {"mail": mail, "text": text}[how]


def called_alike(how: str) -> Callable[[], str]:
    function = local(how)
    function.__name__ = "send"
    return function


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    def traced_call(*args: Any) -> Any:
        return function(*args)

    return traced_call


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced_call(*args: Any) -> Any:
        return function(*args)

    return traced_call


def call(function: Callable[..., Any], *more: Callable[..., Any]) -> Any:
    return str(function())


def call_first(functions: list[Callable[..., Any]]) -> Any:
    return functions[0]()


SAME: dict[str, Callable[[str], Call]] = {
    "function": lambda how: ("send", SENDERS[how]),
    "function with arguments": lambda how: ("send", SENDERS[how], "o-1"),
    "lambda": lambda how: ("send", LAMBDAS[how]),
    "lambda with a set": lambda how: ("send", IN_A_SET[how]),
    "local function": lambda how: ("send", local(how)),
    "local function with a name that was set": lambda how: (called_alike(how),),
    "function that the step is named after": lambda how: ("pay", NAMED[how], "o-1"),
    "functions of two modules by their own name": lambda how: (MODULES[how].mail,),
    "static methods of two classes by their own name": lambda how: (STATIC[how],),
    "static method": lambda how: ("send", getattr(Static, how)),
    "method of a service": lambda how: ("send", SERVICES[how].send),
    "method of a service by its own name": lambda how: (SERVICES[how].send,),
    "method of a new object": lambda how: ("send", KINDS[how]().send),
    "object that can be called": lambda how: ("send", SERVICES[how]),
    "class": lambda how: ("send", functools.partial(call, KINDS[how]().send)),
    "partial": lambda how: ("send", functools.partial(SENDERS[how], "o-1")),
    "decorated": lambda how: ("send", traced(SENDERS[how])),
    "decorated with wraps": lambda how: ("send", wrapped(SENDERS[how])),
    "cached": lambda how: ("send", functools.cache(SENDERS[how])),
    "closed over": lambda how: ("send", (lambda send: lambda: send("o-1"))(SENDERS[how])),
    "default": lambda how: ("send", (lambda send: lambda by=send: by("o-1"))(SENDERS[how])),
    "argument": lambda how: ("send", call, SENDERS[how]),
    "lambda as argument": lambda how: ("send", call, LAMBDAS[how]),
    "second argument": lambda how: ("send", call, by_mail, SENDERS[how]),
    "method as argument": lambda how: ("send", call, Note(how).send),
    "method of a service as argument": lambda how: ("send", call, SERVICES[how].send),
    "closure as argument": lambda how: ("send", call, lambda: f"sent by {how}"),
    "decorated as argument": lambda how: ("send", call, traced(SENDERS[how])),
    "partial as argument": lambda how: ("send", call, functools.partial(Note(how).send)),
    "argument of a partial": lambda how: ("send", functools.partial(call, LAMBDAS[how])),
    "in a list": lambda how: ("send", call_first, [SENDERS[how]]),
}


def in_order(make: Callable[[str], Call], *hows: str) -> Callable[[Context], Any]:
    async def code(ctx: Context) -> list[Any]:
        done = [await ctx.step(*make(how)) for how in hows]
        await ctx.wait_for_signal("go")
        return done

    return code


@pytest.mark.parametrize("name", SAME)
@in_asyncio
async def test_functions_that_have_changed_places_stop_a_replay(name: str) -> None:
    make = SAME[name]
    error = await restarted(in_order(make, "mail", "text"), in_order(make, "text", "mail"))
    assert isinstance(error, NonDeterminism), error
    assert error.n == 1


@pytest.mark.parametrize("name", SAME)
@in_asyncio
async def test_functions_in_the_same_order_do_not(name: str) -> None:
    make = SAME[name]
    done = await restarted(in_order(make, "mail", "text"), in_order(make, "mail", "text"))
    assert len(done) == 2, done


class Carrier:
    def __init__(self, item: str) -> None:
        self.item = item

    def __call__(self) -> str:
        return f"carried {self.item}"


def carried(item: str) -> Carrier:
    """Make an object in a function that has returned when a replay compares it."""
    return Carrier(item)


@in_asyncio
async def test_a_step_that_has_moved_to_where_the_journal_ends_is_not_run_again() -> None:
    ran: list[str] = []

    def steps(order: Sequence[str]) -> Callable[[Context], Any]:
        async def code(ctx: Context) -> None:
            for number, item in enumerate(order):
                function = carried(item) if item == "a" else None
                await ctx.step("send", function or (lambda: ran.append("b")))
                if number == 0:
                    await ctx.wait_for_signal("go")

        return code

    error = await restarted(steps("ab"), steps("ba"))
    assert isinstance(error, NonDeterminism), error
    assert (error.n, ran) == (1, [])


@in_asyncio
async def test_both_functions_are_named() -> None:
    error = await restarted(*(in_order(SAME["function"], *hows) for hows in (["mail"], ["text"])))
    assert "step 'send' with (function=\"tests.engine.test_other_functions:by_mail\")" in str(error)
    assert "step 'send' with (function=\"tests.engine.test_other_functions:by_text\")" in str(error)


async def gone() -> str:
    return "done"


def step_of(function: Any, *args: Any, **options: Any) -> Callable[[Context], Any]:
    async def code(ctx: Context) -> Any:
        done = await ctx.step("send", function, *args, **options)
        await ctx.wait_for_signal("go")
        return done

    return code


@in_asyncio
async def test_a_function_that_was_renamed_is_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    code = step_of(gone)
    monkeypatch.delitem(globals(), "gone")
    assert await restarted(code, step_of(by_mail)) == "done"


@in_asyncio
async def test_a_function_that_a_test_has_replaced_is_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    code = step_of(gone)
    monkeypatch.setitem(globals(), "gone", by_mail)
    assert await restarted(code, step_of(by_mail)) == "done"


@in_asyncio
async def test_a_deploy_may_replace_a_steps_function_that_its_code_names() -> None:
    async def before(ctx: Context) -> Any:
        done = await ctx.step("send", by_mail)
        await ctx.wait_for_signal("go")
        return done

    async def after(ctx: Context) -> Any:
        done = await ctx.step("send", by_text)
        await ctx.wait_for_signal("go")
        return done

    assert await restarted(before, after) == "mailed o"


@pytest.mark.parametrize(
    "function",
    [lambda: by_mail("o-2"), traced(by_mail), wrapped(by_mail), functools.partial(by_mail)],
    ids=["lambda", "decorated", "decorated with wraps", "partial"],
)
@in_asyncio
async def test_a_deploy_may_wrap_a_function(function: Any) -> None:
    assert await restarted(step_of(by_mail), step_of(function)) == "mailed o"


@in_asyncio
async def test_a_deploy_may_change_a_lambda() -> None:
    changed = eval("lambda: 'mailed o, twice'", {"__name__": __name__})
    was = eval("lambda: 'mailed o, once'", {"__name__": __name__})
    assert await restarted(step_of(was), step_of(changed)) == "mailed o, once"


@in_asyncio
async def test_a_deploy_may_move_the_function_that_a_step_is_named_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def code(function: Callable[..., str]) -> Callable[[Context], Any]:
        async def run(ctx: Context) -> Any:
            done = await ctx.step("pay", function, "o-1")
            await ctx.wait_for_signal("go")
            return done

        return run

    before = code(pay)
    monkeypatch.delattr(restarts, "pay")
    assert await restarted(before, code(by_mail)) == "paid o-1"


class Live:
    def send(self) -> str:
        return "sent"


class Sandbox(Live):
    def send(self) -> str:
        return "pretended"


held: dict[str, Live] = {}


@in_asyncio
async def test_the_client_of_the_process_may_be_of_another_class() -> None:
    kinds = iter([Live, Sandbox])

    async def code(ctx: Context) -> Any:
        held["client"] = next(kinds)()  # as a module does with what its settings name
        done = await ctx.step("send", held["client"].send)
        await ctx.wait_for_signal("go")
        return done

    assert await restarted(code) == "sent"


@pytest.mark.parametrize("compare", [None, {"order": "o"}])
@in_asyncio
async def test_compare_says_what_is_compared_instead_of_the_function(compare: Any) -> None:
    assert await restarted(
        step_of(LAMBDAS["mail"], compare=compare), step_of(LAMBDAS["text"], compare=compare)
    ) == ("mailed o")
