"""What all tests need."""

import gc
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sqlite_files import copied_files

# Nothing that is imported or collected becomes garbage, and to look for it takes a fifth of the time.
gc.disable()

# A machine that stands still for a moment is no slow program.
settings.register_profile(
    "unhurried", parent=settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

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
    with copied_files(tmp_path_factory.mktemp("migrated")):
        yield
