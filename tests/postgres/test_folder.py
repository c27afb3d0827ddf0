from __future__ import annotations

import fcntl
import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor

from tests.postgres.folder import HeldFolder, held_folders, on_disk


def test_a_folder_is_there_until_its_last_holder_is_gone() -> None:
    name = secrets.token_hex(4)
    one, other = HeldFolder.hold(name, on_disk()), HeldFolder.hold(name, on_disk())
    assert one.path == other.path
    (one.path / "file").touch()
    other.release()
    assert (one.path / "file").exists()
    one.release()
    assert one.path not in held_folders()


def test_a_folder_that_is_just_being_removed_is_not_joined() -> None:
    name = secrets.token_hex(4)
    path = on_disk() / f"held-{name}"
    with ThreadPoolExecutor() as threads:
        path.mkdir()
        with (path / "held").open("wb") as keeper:
            fcntl.flock(keeper, fcntl.LOCK_EX)
            holding = threads.submit(HeldFolder.hold, name, on_disk())
            shutil.rmtree(path.rename(f"{path}-removed"))
        folder = holding.result()
    assert (folder.path / "held").exists()
    folder.release()
