"""Functions of a retry policy that fail or return invalid values leave the step's own error unchanged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from signoff import Context, RetryPolicy
from signoff.errors import RegistrationError
from signoff.records import EntryKind
from tests.support import in_asyncio, journaled, new_app, running


class Declined(Exception):
    pass


class NoTruth:
    def __bool__(self) -> NoReturn:
        raise TypeError("neither")


def raises(error: BaseException) -> Callable[[Exception], Any]:
    def ask(_: Exception) -> NoReturn:
        raise error

    return ask


@pytest.mark.parametrize(
    ("retried", "said"),
    [
        (raises(KeyError("status")), "RetryPolicy.retried raised KeyError: 'status'"),
        (raises(SystemExit(3)), "RetryPolicy.retried raised SystemExit: 3"),
        (lambda error: error.response.status, "RetryPolicy.retried raised AttributeError"),
        (lambda error: NoTruth(), "returned a value that is not a bool"),
    ],
)
@pytest.mark.parametrize("is_function", [True, False])
@in_asyncio
async def test_the_error_of_a_step_is_kept_if_the_policy_fails(
    tmp_path: Path, retried: Any, said: str, is_function: bool
) -> None:
    app, attempts = new_app(tmp_path), list[int]()

    async def fail(*_: Any) -> None:
        attempts.append(1)
        raise Declined("no money")

    @app.workflow
    async def flow(ctx: Context) -> None:
        policy = RetryPolicy(initial_seconds=0, retried=retried)
        await (ctx.lfc(fail).options(retry=policy) if is_function else ctx.step(fail, retry=policy))

    async with running(app) as client:
        with pytest.raises(Declined, match="no money") as raised:
            await (await client.start(flow, id="r")).result(60)
    assert any(said in note for note in raised.value.__notes__)
    assert attempts == [1]


@pytest.mark.parametrize(
    ("retry_after", "waits", "said"),
    [
        (lambda error: timedelta(seconds=90), 90, None),
        (lambda error: timedelta(seconds=-90), 1, None),
        (lambda error: timedelta(days=9), 86_400, None),
        (lambda error: float("inf"), 86_400, None),
        (lambda error: float("nan"), 1, "not a number of seconds"),
        (lambda error: "90", 1, "not a number of seconds"),
        (lambda error: True, 1, "not a number of seconds"),
        (raises(ValueError("late")), 1, "RetryPolicy.retry_after raised ValueError: late"),
    ],
)
def test_a_wait_may_be_a_timedelta_and_nonsense_is_ignored_and_named(
    retry_after: Any, waits: float, said: str | None
) -> None:
    error = Declined("x")
    assert RetryPolicy(jitter=False, retry_after=retry_after).wait_after_error(error, 1) == waits
    assert (
        any(said in note for note in getattr(error, "__notes__", ()))
        if said
        else not hasattr(error, "__notes__")
    )


@in_asyncio
async def test_a_policy_is_asked_once_for_each_attempt_and_its_note_is_journaled(tmp_path: Path) -> None:
    app, asked = new_app(tmp_path), list[int]()

    def retry_after(_: Exception) -> str:
        asked.append(1)
        return "soon"

    async def fail() -> NoReturn:
        raise Declined("x")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(fail, retry=RetryPolicy(initial_seconds=0, max_attempts=3, retry_after=retry_after))  # type: ignore[arg-type]

    async with running(app) as client:
        with pytest.raises(Declined):
            await (await client.start(flow, id="r")).result(60)
        failed = await journaled(app, "r", EntryKind.ATTEMPT_FAILED)
    assert len(asked) == len(failed) == 2
    assert all("returned 'soon'" in (entry.error or "") for entry in failed)


async def asks(_: Exception) -> bool:
    return True


@pytest.mark.parametrize("options", [{"retried": asks}, {"retry_after": asks}])
def test_an_async_function_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError, match="is async"):
        RetryPolicy(**options)
