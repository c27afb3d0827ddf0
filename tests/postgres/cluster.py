"""New database clusters: made by ``initdb`` once for each version in a test run, then copied."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from pathlib import Path

from tests.postgres.account import give, unprivileged
from tests.postgres.folder import in_memory, locked, of_this_run
from tests.postgres.installations import Installation


def password() -> str:
    """The superuser's password, the same in all servers of a test run."""
    file = _password_file()
    with locked(file.with_suffix(".lock")):
        if not file.exists():
            file.touch()
            give(file)
            file.write_text(secrets.token_urlsafe(12))
        return file.read_text()


def new_cluster(data: Path, installation: Installation) -> None:
    """Make a folder with the data of a server that never ran."""
    made = of_this_run(in_memory()).path / f"cluster-{installation.major}"
    with locked(made.with_suffix(".lock")):
        if not made.exists():
            partial = made.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            give(partial)
            _initdb(partial, installation)
            partial.rename(made)
    subprocess.run(["cp", "-Rp", made, data], check=True)


def _initdb(data: Path, installation: Installation) -> None:
    password()
    command = [
        *(installation.bin / "initdb", "-D", data, "--no-sync", "--no-instructions"),
        *("--username=postgres", "--auth=scram-sha-256", f"--pwfile={_password_file()}"),
        *("--encoding=UTF8", "--locale=C"),
    ]
    if installation.has_icu:  # text is then sorted as in most people's databases
        command += ["--locale-provider=icu", "--icu-locale=und"]
    if installation.major >= 16:
        command += ["--set=scram_iterations=1"]  # 5 ms less a connection
    made = subprocess.run(command, cwd=data, capture_output=True, text=True, check=False, **unprivileged())
    if made.returncode:
        raise RuntimeError(f"initdb of Postgres {installation.major} failed: {made.stderr}")


def _password_file() -> Path:
    return of_this_run(in_memory()).path / "password"
