"""The store or server that commands choose, and their errors if there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.website_summary.processes import free_port
from signoff.cli import target
from tests.cli.commands import Running, environment, signoff
from tests.cli.conftest import Here


def python(program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=cwd, env=environment({}), capture_output=True, text=True, check=False)


@pytest.fixture
def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr(target, "DEFAULT_URL", url)
    return url


def test_the_working_directorys_database_comes_before_the_default_server(
    here: Here, shop: Path, nobody_listens: str
) -> None:
    here("start", "add", "--arg", "1", "--id", "a", "--store", "sqlite:///signoff.db", cwd=shop)
    assert here("runs", "--json", cwd=shop).json["items"][0]["id"] == "a"


def test_environment_before_default_and_option_before_environment(
    here: Here, shop: Path, tmp_path: Path
) -> None:
    for name in ("signoff", "env", "option"):
        here("start", "add", "--id", name, "--store", f"sqlite:///{name}.db", cwd=shop)
    env = {"SIGNOFF_STORE": "sqlite:///env.db"}
    assert here("runs", "--json", cwd=shop, **env).json["items"][0]["id"] == "env"
    option = here("runs", "--json", "--store", "sqlite:///option.db", cwd=shop, **env)
    assert option.json["items"][0]["id"] == "option"


def test_nothing_there_is_said_in_one_line(here: Here, tmp_path: Path, nobody_listens: str) -> None:
    ended = here("runs", cwd=tmp_path)
    assert ended.code == 5
    assert f"no signoff.db in {tmp_path}" in ended.err
    assert nobody_listens in ended.err


@pytest.mark.parametrize(
    "command",
    [
        ("runs",),
        ("show", "r"),
        ("inbox",),
        ("answer", "q", "--approve"),
        ("signal", "r", "go"),
        ("cancel", "r"),
        ("retry", "r"),
        ("suspend", "r"),
        ("resume", "r"),
        ("resolve", "p"),
        ("reject", "p"),
        ("export", "r"),
    ],
)
def test_a_missing_database_is_not_created_by_looking(
    here: Here, tmp_path: Path, command: tuple[str, ...]
) -> None:
    ended = here(*command, "--store", "sqlite:///missing.db", cwd=tmp_path)
    assert ended.code == 5
    assert str(tmp_path / "missing.db") in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused(here: Here, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at" * 100)
    ended = here("runs", "--store", "sqlite:///text.db", cwd=tmp_path)
    assert ended.code == 5
    assert "text.db is not available" in ended.err


def test_a_server_that_is_down_is_named(here: Here, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ended = here("cancel", "r", "--url", url, "--json", cwd=tmp_path)
    assert ended.code == 5
    assert url in ended.err


def test_a_server_does_what_its_store_does(shop: Path, here: Here) -> None:
    with Running("server", "orders:app", "--port", "0", cwd=shop) as server:
        url = server.wait_for("listening")["url"]
        assert signoff("start", "add", "--arg", "1", "--id", "a", "--url", url, cwd=shop).out == "a\n"
        through_url = here("show", "a", "--json", cwd=shop, SIGNOFF_URL=url).json
        assert through_url == here("show", "a", "--json", "--store", "sqlite:///signoff.db", cwd=shop).json
        assert here("show", "b", "--url", url, cwd=shop).code == 3
        assert here("cancel", "a", "--url", url, cwd=shop).out == "run a is cancelled\n"


def test_looking_loads_neither_the_server_nor_what_draws_tables(here: Here, shop: Path) -> None:
    here("start", "add", "--arg", "1", "--store", "sqlite:///signoff.db", cwd=shop)
    program = (
        "import sys; from signoff.cli.root import run; assert run(['runs', '--json']) == 0; "
        "print([name for name in ('fastapi', 'uvicorn', 'watchfiles', 'rich') if name in sys.modules])"
    )
    done = python(program, shop)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import importlib.util as util; find = util.find_spec; "
        "util.find_spec = lambda name, *rest: None if name == 'click' else find(name, *rest); "
        "import signoff.cli; signoff.cli.main()"
    )
    done = python(program, tmp_path)
    assert done.returncode == 2
    assert done.stderr == 'signoff: the command line needs more packages: pip install "signoff[server]"\n'
