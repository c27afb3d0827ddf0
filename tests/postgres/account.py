"""The user that runs the tests' servers: Postgres refuses to be root."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any


def unprivileged() -> dict[str, Any]:
    """The arguments of ``subprocess`` to run as nobody if this is root, and as the current user otherwise."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def give(path: Path) -> None:
    """Make the unprivileged account the only user of a file or folder."""
    path.chmod(0o700 if path.is_dir() else 0o600)
    if account := unprivileged():
        os.chown(path, account["user"], account["group"])
