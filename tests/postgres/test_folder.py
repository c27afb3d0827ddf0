from __future__ import annotations

import fcntl
import secrets
import shutil
from pathlib import Path
from typing import IO

import pytest

from tests.postgres.folder import HeldFolder, held_folders, on_disk
from tests.postgres.keeper import keep
from tests.postgres.port import reserve


def test_a_folder_is_there_until_its_last_holder_is_gone() -> None:
    name = secrets.token_hex(4)
    one, other = HeldFolder.hold(name, on_disk()), HeldFolder.hold(name, on_disk())
    assert one.path == other.path
    (one.path / "file").touch()
    other.release()
    assert (one.path / "file").exists()
    one.release()
    assert one.path not in held_folders()


def test_a_folder_that_was_removed_as_it_was_joined_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,  # where no other keeper clears up
) -> None:
    name = secrets.token_hex(4)
    path = tmp_path / f"held-{name}"
    lock = fcntl.flock

    def wait_while_it_is_removed(file: IO[bytes], operation: int) -> None:
        if file.name == str(path / "held") and file.mode == "rb" and operation == fcntl.LOCK_SH:
            shutil.rmtree(path)
        lock(file, operation)

    path.mkdir()
    with (path / "held").open("wb") as keeper:
        lock(keeper, fcntl.LOCK_SH)
        monkeypatch.setattr(fcntl, "flock", wait_while_it_is_removed)
        folder = HeldFolder.hold(name, tmp_path)
    assert (folder.path / "held").exists()
    folder.release()


def test_a_keeper_does_not_remove_a_folder_that_was_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "held-by-another"

    def make() -> None:
        path.mkdir()
        (path / "held").touch()

    def wait_while_it_is_made_anew(*_: object) -> None:
        path.rename(tmp_path / "former")
        make()

    make()
    monkeypatch.setattr(fcntl, "flock", wait_while_it_is_made_anew)
    keep(path)
    assert (path / "held").exists()


def test_a_port_is_reserved_while_another_servers_folder_is_being_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone, here = HeldFolder.hold_new(on_disk()), HeldFolder.hold_new(on_disk())
    server, other = gone.path / "postgres-gone", here.path / "postgres-here"
    for folder in (server, other):
        folder.mkdir()
    (server / "port").write_text("15000")
    read_text = Path.read_text

    def read_once_it_is_removed(file: Path) -> str:
        if file.parent == server:
            shutil.rmtree(server)
        return read_text(file)

    monkeypatch.setattr(Path, "read_text", read_once_it_is_removed)
    reserved = reserve(other)
    monkeypatch.undo()
    assert (reserved, server.exists()) == (int((other / "port").read_text()), False)
    for folder in (gone, here):
        folder.release()
