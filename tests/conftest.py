"""Fixtures of all tests."""

import gc
import signal
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Nothing that is imported or collected becomes garbage, and to look for it takes a fifth of the time.
gc.disable()

# A machine that stands still for a moment is no slow program. And a change fails for what it changes: the examples are
# the same each time, until the test is another one. `make explore` tries others.
settings.register_profile(
    "repeatable",
    parent=settings.default,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", parent=settings.get_profile("repeatable"), derandomize=False)
settings.load_profile("repeatable")

# A shell that starts the tests in the background has them ignore interrupts, and every process they start would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have tests that share something run in one process."""
    from tests.grouping import Grouped

    return Grouped(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that are given more time than others: they take it."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


LEFT_OUT: Final = pytest.StashKey[int]()
"""How many tests marked ``long`` this run leaves out."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = 0


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.config.stash[LEFT_OUT] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the number on from a process of xdist: each collects all tests, and the one that reports collects none."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    left_out = getattr(node, "workeroutput", {}).get("left_out", 0)
    node.config.stash[LEFT_OUT] = max(left_out, node.config.stash[LEFT_OUT])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left_out := config.stash[LEFT_OUT]:
        terminalreporter.write_line(f"{left_out} long tests are left out: `make test-long` runs them")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through the imports and all collected tests again and again."""
    # Hypothesis makes its random numbers' generator now: it warns of one that the collector does not find, and from
    # Python 3.14 on that is each whose thread's variables were frozen before.
    given(st.none())(lambda _: None)()
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def new_files_are_copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    from tests.sqlite_files import (
        copied_files,
    )  # the process that only distributes tests needs nothing of ours

    with copied_files(tmp_path_factory.mktemp("migrated")):
        yield
