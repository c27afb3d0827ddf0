from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from signoff.cli.root import run
from tests.cli.commands import ORDERS, Ended, Running

Here = Callable[..., Ended]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a module ``orders``, and no database yet."""
    (tmp_path / "orders.py").write_text(ORDERS)
    return tmp_path


@pytest.fixture(scope="module")
def open_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a module ``orders`` and a database, for which a worker works."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "orders.py").write_text(ORDERS)
    with Running("worker", "orders:app", "--build", "8f3a9c1", cwd=folder) as worker:
        worker.wait_for("working")
        yield folder


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Runs a command in this process: what a process would do, without the time to start one."""

    def run_here(*arguments: str, cwd: Path, **variables: str) -> Ended:
        with monkeypatch.context() as patched:
            patched.chdir(cwd)
            patched.setattr(sys, "path", list(sys.path))
            loaded = set(sys.modules)
            for name in [name for name in os.environ if name.startswith("SIGNOFF_")]:
                patched.delenv(name)
            for name, value in variables.items():
                patched.setenv(name, value)
            capsys.readouterr()
            code = run(arguments)
            printed = capsys.readouterr()
            for name in set(sys.modules) - loaded:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(cwd)):
                    del sys.modules[name]
            return Ended(code, printed.out, printed.err)

    return run_here
