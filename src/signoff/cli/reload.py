"""Reloading: a supervisor watches files and replaces the process that runs the user's code.

A new process first loads the code and reports that. Only then is the old process stopped gracefully, and the new one
started. So code that cannot be loaded changes nothing. The two processes communicate over a socket pair, one message a
line:

    process -> supervisor   loaded, listening PORT          supervisor -> process   go PORT

The end of the stream means that the other process is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import click

from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.output import Output
from signoff.cli.signals import StopSignals


class Supervision:
    """The connection to the supervisor, in the supervised process.

    Args:
        fd: The socket's file descriptor.
    """

    def __init__(self, fd: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both: the supervisor decides
        sys.dont_write_bytecode = (
            True  # with two versions saved within a second, cached bytecode could be the wrong one's
        )
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)

    def wait_for_turn(self) -> int:
        """Report that the code is loaded. Return the port to listen on once the previous process has stopped."""
        self._socket.sendall(b"loaded\n")
        said = self._socket.makefile("r").readline().split()
        if not said:
            raise click.exceptions.Exit(ExitCode.OK)
        return int(said[1])

    def listening(self, port: int) -> None:
        """Report that this process is serving."""
        self._socket.sendall(f"listening {port}\n".encode())

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on the running loop when the supervisor is gone."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self._socket)
            callback()

        loop.add_reader(
            self._socket, ended
        )  # no more messages follow, so only the end of the stream is readable


class Supervisor:
    """Keeps one process running the newest code that can be loaded.

    Args:
        arguments: The command line of ``signoff`` to run.
        port: The port to listen on; 0 takes a free one, which is then kept.
        watched: Folders and files of the code.
        files: Other files that the process reads.
        out: The output for events.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        port: int,
        watched: Sequence[Path],
        files: Sequence[Path],
        out: Output,
    ) -> None:
        self._arguments = arguments
        self._port = port
        self._watched = watched
        self._files = [os.path.realpath(file) for file in files]
        self._out = out
        self._current: _Process | None = None
        self._alive: set[_Process] = set()
        self._stopping = False

    async def run(self) -> int:
        """Supervise until asked to stop, and return the exit code."""
        with StopSignals(noticed=self._pass_on) as stop:
            supervising = asyncio.create_task(self._supervise())
            try:
                await stop.asked(supervising)
                return supervising.result() if supervising.done() else ExitCode.OK
            finally:
                self._stopping = True
                supervising.cancel()
                await asyncio.gather(supervising, return_exceptions=True)
                for process in list(self._alive):
                    await process.end()

    def _pass_on(self) -> None:
        self._stopping = True
        for process in self._alive:
            process.ask_to_stop()

    async def _supervise(self) -> int:
        async with aclosing(self._changes()) as changes:
            upcoming = asyncio.create_task(anext(changes))
            try:
                await asyncio.sleep(0)  # start watching before the code is first read
                failed = await self._replace()
                while failed is None:
                    files = await upcoming
                    upcoming = asyncio.create_task(anext(changes))
                    self._out.event("changed", f"changed: {', '.join(files)}", files=files)
                    await self._replace()
                return failed
            finally:
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)

    async def _replace(self) -> int | None:
        """Start the newest code. Return the exit code of a process that could not listen."""
        process = await _Process.start(self._arguments)
        self._alive.add(process)
        process.exited.add_done_callback(lambda _: self._gone(process))
        if not await process.loaded():
            rest = "the previous version keeps running" if self._current else "nothing is running"
            self._out.event(
                "broken", f"{rest}; waiting for the next change", running=self._current is not None
            )
            return None
        if self._current is not None:
            before, self._current = self._current, None
            await before.end()
        port = await process.go(self._port)
        if port is None:
            return await process.exited
        self._port = port
        self._current = process
        return None

    def _gone(self, process: _Process) -> None:
        self._alive.discard(process)
        if process is self._current and not self._stopping:
            self._current = None
            code = process.exited.result()
            self._out.event(
                "exited", f"the process ended with {code}; waiting for the next change", code=code
            )

    async def _changes(self) -> AsyncGenerator[list[str]]:
        import watchfiles

        is_code = watchfiles.PythonFilter()

        def matters(change: watchfiles.Change, path: str) -> bool:
            return is_code(change, path) or os.path.realpath(path) in self._files

        try:
            watching = watchfiles.awatch(*self._watched, *self._files, watch_filter=matters)  # pyright: ignore[reportUnknownMemberType]
            async for changes in watching:
                yield sorted({_shown(path) for _, path in changes})
        except OSError as error:
            raise CommandFailed(
                ExitCode.USAGE, f"cannot watch files: {error}; name fewer with --watch"
            ) from error


class _Process:
    """A supervised process, from the supervisor's side."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.exited = asyncio.create_task(process.wait())

    @classmethod
    async def start(cls, arguments: Sequence[str]) -> _Process:
        """Start a process, which loads the code at once."""
        ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            command = (sys.executable, "-m", "signoff", *arguments, "--supervised-by", str(fd))
            process = await asyncio.create_subprocess_exec(*command, pass_fds=(fd,))
        return cls(process, *await asyncio.open_connection(sock=ours))

    async def loaded(self) -> bool:
        """Wait until the process has loaded the code. Return False if it could not."""
        if await self._receive():
            return True
        await self.exited
        return False

    async def go(self, port: int) -> int | None:
        """Let the process serve, and return its port; None if it could not listen."""
        self._writer.write(f"go {port}\n".encode())
        said = await self._receive()
        return int(said[1]) if said else None

    def ask_to_stop(self) -> None:
        """Ask the process to stop. A second request makes it exit at once."""
        if not self.exited.done():
            self._process.terminate()

    async def end(self) -> None:
        """Ask the process to stop, and wait until it has."""
        self.ask_to_stop()
        await self.exited
        self._writer.close()

    async def _receive(self) -> list[str]:
        try:
            return (await self._reader.readline()).decode().split()
        except ConnectionError:
            return []


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
