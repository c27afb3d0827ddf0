"""``signoff worker --url`` and ``signoff keys``, as real processes."""

from __future__ import annotations

import signal
from pathlib import Path

from examples.website_summary.processes import free_port
from tests.cli.commands import ORDERS, Running, signoff, until


def test_a_worker_works_through_a_server_with_its_key_and_not_without(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    (there / "orders.py").write_text(ORDERS)
    made = signoff("keys", "create", "--worker", "--group", "default", "--json", cwd=here).json
    (here / "keys").write_text(made["line"] + "  # the worker there\n")
    with Running("server", "--port", "0", "--worker-key-file", "keys", cwd=here) as server:
        url = server.wait_for("listening")["url"]
        for given in ({}, {"SIGNOFF_WORKER_KEY": "sgw_wrong"}):
            refused = signoff("worker", "orders:app", "--url", url, cwd=there, **given)
            assert refused.code == 4
            assert "worker key" in refused.err
        environment = {"SIGNOFF_URL": url, "SIGNOFF_WORKER_KEY": made["key"]}
        with Running("worker", "orders:app", cwd=there, **environment) as worker:
            assert worker.wait_for("working")["store"] == url
            assert signoff("start", "add", "--arg", "2", "--wait", "--url", url, cwd=there).out.endswith(
                "3\n"
            )
        assert not (there / "signoff.db").exists(), "the app's own store is left alone"


def test_keys_of_the_environment_count_as_those_of_a_file_do(tmp_path: Path) -> None:
    lines = [signoff("keys", "create", "--worker", "--json", cwd=tmp_path).json["line"] for _ in range(2)]
    with Running("server", "--port", "0", cwd=tmp_path, SIGNOFF_WORKER_KEYS=";".join(lines)) as server:
        url = server.wait_for("listening")["url"]
        (tmp_path / "orders.py").write_text(ORDERS)
        assert signoff("worker", "orders:app", "--url", url, cwd=tmp_path).code == 4


def test_a_server_and_worker_on_one_machine_share_an_environment_key(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)
    shared = {"SIGNOFF_WORKER_KEY": signoff("keys", "create", "--worker", cwd=tmp_path).out.strip()}
    with Running("server", "--port", "0", cwd=tmp_path, **shared) as server:
        listening = server.wait_for("listening")
        assert listening["authenticates"] is False, "the browser on this machine needs no key"
        url = listening["url"]
        with Running("worker", "orders:app", "--url", url, cwd=tmp_path, **shared) as worker:
            worker.wait_for("working")
            ended = signoff("start", "add", "--arg", "2", "--wait", "--url", url, cwd=tmp_path)
            assert ended.out.endswith("3\n")


def test_a_worker_without_a_key_ends_at_once_and_says_how_to_make_one(tmp_path: Path) -> None:
    """Whether or not a server is there: none lets it in."""
    (tmp_path / "orders.py").write_text(ORDERS)
    ended = signoff("worker", "orders:app", "--url", f"http://127.0.0.1:{free_port()}", cwd=tmp_path)
    said = " ".join(ended.err.split())
    assert ended.code == 4
    for command in (
        "export SIGNOFF_WORKER_KEY=$(signoff keys create --worker)",
        "signoff keys create NAME --worker",
    ):
        assert command in said


def test_a_shared_key_that_is_not_one_is_refused_and_not_printed(tmp_path: Path) -> None:
    ended = signoff("server", "--port", "0", cwd=tmp_path, SIGNOFF_WORKER_KEY="sgw_secret")
    assert ended.code == 2
    assert "SIGNOFF_WORKER_KEY" in ended.err
    assert "sgw_secret" not in ended.err


def test_a_key_is_shown_once_to_people_too(tmp_path: Path) -> None:
    made = signoff("keys", "create", "--worker", "--namespace", "acme", "--group", "gpu", cwd=tmp_path)
    assert made.code == 0
    assert made.out.startswith("sgw_")
    assert made.err.rstrip().endswith("acme gpu")
    assert made.out.strip() not in made.err


def test_a_key_file_that_is_none_is_refused_before_anything_listens(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("sgw_secret default\n")
    refused = signoff("server", "--port", "0", "--worker-key-file", "keys", cwd=tmp_path)
    assert refused.code == 2
    assert "keys line 1" in refused.err
    assert "sgw_secret" not in refused.err


def test_a_key_without_a_server_is_a_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)
    assert signoff("worker", "orders:app", "--key", "sgw_x", cwd=tmp_path).code == 2


def test_a_worker_that_waits_for_its_server_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)
    url = f"http://127.0.0.1:{free_port()}"
    key = {"SIGNOFF_WORKER_KEY": "sgw_any"}
    with Running("worker", "orders:app", "--url", url, cwd=tmp_path, **key) as worker:
        until(lambda: "is unavailable, still retrying" in worker.err)
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
