"""Processes forked from one that has imported their modules: they start at once, not after a second or two."""

from __future__ import annotations

import atexit
import fcntl
import gc
import multiprocessing
import multiprocessing.connection
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

_context = multiprocessing.get_context("forkserver")


def fork(function: Any, *arguments: object) -> ForkServerProcess:
    """Start a process that calls a function of a module with arguments that can be pickled."""
    # One server is for all tests of a process: it has what any of them needs.
    _context.set_forkserver_preload(["tests.preloaded"])
    process = _context.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


class Program:
    """A program of Python as a process of its own, as ``subprocess.Popen([sys.executable, "-m", *command])``.

    It is forked, so what a fresh interpreter does at its start is not tried: ``python -X``, ``PYTHONHASHSEED``, the
    imports of the program itself.

    Args:
        command: The module and its arguments.
        cwd: Where it runs.
        env: Its environment.
        stdin: A file that it reads; it finds nothing there if None.
        stdout: A file that it writes to.
        stderr: The same.

    Attributes:
        pid: Its number.
        unexpected_end: Why it ended with another code than it returned, as a line; empty if it did not, or was killed.
    """

    unexpected_end = ""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: IO[Any] | None = None,
        stdout: IO[Any],
        stderr: IO[Any],
    ) -> None:
        self._command = command
        files = [None if file is None else _Inherited(file.fileno()) for file in (stdin, stdout, stderr)]
        self._came_to = tempfile.TemporaryFile()  # how far it came, see _note  # noqa: SIM115
        note = _Inherited(self._came_to.fileno())
        self._process = fork(_run, list(command), str(cwd), dict(env), note, *files)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait()

    @property
    def returncode(self) -> int | None:
        """Its exit code, or None while it runs.

        One that is not the code it returned is explained on the tests' stderr: what makes a process end otherwise may
        well keep it from saying anything.
        """
        code = self._process.exitcode
        if code is not None and not self._came_to.closed:
            with self._came_to:
                self.unexpected_end = _unexpected_end(
                    self._command, code, os.pread(self._came_to.fileno(), 100, 0)
                )
            sys.stderr.write(self.unexpected_end)
        return code

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit code. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired(self._command, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], said: str = "", timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as ``subprocess.run([sys.executable, "-m", *command], capture_output=True)``.

    Args:
        command: The module and its arguments.
        cwd: Where it runs.
        env: Its environment.
        said: What it reads.
        timeout: In seconds. Then it is killed.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(said.encode())
        stdin.seek(0)
        program = Program(command, cwd=cwd, env=env, stdin=stdin, stdout=out, stderr=err)
        try:
            code = program.wait(timeout)
        finally:
            program.kill()
        printed = []
        for file in (out, err):
            file.seek(0)
            printed.append(file.read().decode().replace("\r\n", "\n"))
        printed[1] += program.unexpected_end
        return subprocess.CompletedProcess(list(command), code, *printed)


class _Inherited:
    """An open file that a forked process gets."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, (DupFd(self._fd),)


def _detached(duplicate: Any) -> int:
    return duplicate.detach()


def _unexpected_end(command: Sequence[str], code: int, came_to: bytes) -> str:
    """Explain an exit code in a line. Returns an empty one where the program returned it, or was killed."""
    if code < 0 or came_to == _returned(code):
        return ""
    return (
        f"{' '.join(command)} ended with {code} after it had {came_to.decode() or 'been forked'}: os._exit was called, "
        "or an exception has left the end of its process\n"
    )


def _returned(code: int) -> bytes:
    return b"returned %d" % code


def _note(fd: int, came_to: bytes) -> None:
    os.pwrite(fd, came_to, 0)


def _run(command: list[str], cwd: str, env: dict[str, str], note: int, *files: int | None) -> None:
    """Do in a forked process what ``python -m`` does in a new one that leads a session."""
    for number, fd in enumerate(files):  # first of all: what is printed before this is the server's
        opened = os.open(os.devnull, os.O_RDONLY) if fd is None else fd
        os.dup2(opened, number)
        os.close(opened)
    os.setsid()
    _end_with_tests()
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # from which Ctrl-C comes
    encoding, _, errors = env.get("PYTHONIOENCODING", "utf-8").partition(":")
    # Those that are here are the server's, and closed with it.
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=encoding, errors=errors or "strict", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    sys.path[:] = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    gc.unfreeze()  # what tests.preloaded has frozen: a new process has nothing frozen
    sys.argv = ["", *command[1:]]
    _note(note, b"begun")
    code = _ended(command[0])
    _note(note, _returned(code))
    threading._shutdown()  # the end of an interpreter, in its order
    atexit._run_exitfuncs()  # which processes of multiprocessing leave out
    sys.stdout.flush()
    sys.stderr.flush()
    if code == -signal.SIGINT:  # as Python itself does
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(code)


def _end_with_tests() -> None:
    """Have the kernel kill this process when the tests' process ends, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    # The other end of the sentinel's pipe closes with the tests. A thread that waits for it would be the program's own.
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(parent.sentinel, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC)
    if multiprocessing.connection.wait([parent.sentinel], timeout=0):
        os.write(2, b"the tests have ended\n")
        os._exit(1)


def _ended(module: str) -> int:
    """Run a module to its end, and return the exit code."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return -signal.SIGINT
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0
