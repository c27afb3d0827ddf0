"""Branches: calls that are numbered among themselves, so that a replay can do without the code that made them."""

from __future__ import annotations

import hashlib
import itertools
import random
import weakref
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from signoff.errors import RegistrationError
from signoff.records import CallKind, Entry, EntryKind

if TYPE_CHECKING:
    from signoff.engine.execution import Execution

SIZE: Final = 1000
"""How many calls a branch has numbers for."""

_LEAVES_OPEN: Final = (CallKind.QUESTION, CallKind.PROMISE, CallKind.CHILD, CallKind.STEP)

current_branch: ContextVar[Branch | None] = ContextVar("signoff_branch", default=None)


class Branch:
    """A part of a run whose calls are numbered among themselves.

    Code that runs in ``with branch.entered():``, and tasks begun there, make their calls in it. So a replay on which
    that code is gone can ``skip`` it, and the rest of the run still finds its own calls under their numbers. Of more
    than 1,000 calls those beyond are numbered as if they were the run's, and cannot be skipped.

    Attributes:
        recorded: What the journal had of its calls when this process took the run up, in order; of a branch that is
            skipped also what they have come to since.
        is_skipped: Whether the replay does without its calls.

    Example::

        branch = ctx.branch()
        if branch.recorded and "plan" not in plugins:
            branch.skip()  # begun by code that is not here
        else:
            with branch.entered():
                await plugins["plan"](ctx)
    """

    def __init__(self, execution: Execution, first_n: int, recorded: list[Entry]) -> None:
        self.recorded = recorded
        self.is_skipped = False
        self.first_n = first_n
        self.last_n = first_n - 1
        self.futures = itertools.count(first_future_of(f"{execution.run.id}.{first_n}"))
        self._execution = weakref.ref(execution)  # which has it
        self._is_closed = False

    @contextmanager
    def entered(self) -> Generator[None]:
        """Have the calls made here made in it. When this is left, what was recorded is let go of.

        Raises:
            RegistrationError: It is skipped.
        """
        if self.is_skipped:
            raise RegistrationError(
                "branch.entered(): it is skipped, so no code can go on in it; begin another branch"
            )
        token = current_branch.set(self)
        try:
            yield
        finally:
            current_branch.reset(token)
            self.recorded = []

    def __contains__(self, n: int) -> bool:
        return self.first_n <= n < self.first_n + SIZE

    def skip(self) -> None:
        """Replay without its calls: what the journal has of them is passed over. What it left open stays open.

        What waits in its place is to do so in a branch, too. Nobody else gets the signals that it has received.

        Raises:
            RegistrationError: Its code has made calls already.
        """
        if self.last_n >= self.first_n:
            raise RegistrationError(
                "branch.skip(): its code has made calls already; skip it before it is entered"
            )
        self.is_skipped = True
        execution = self._execution()
        assert execution is not None  # its code runs here
        for entry in self.recorded:
            execution.past.calls.pop(entry.n or 0, None)
        execution.pass_over_signals(self)

    def close(self) -> None:
        """Close what it left open: questions, promises without an id of their own, child runs. It goes on no more."""
        self._is_closed = True
        execution = self._execution()
        assert execution is not None
        if execution.is_replaying:
            return  # it was closed when the run came here first
        for entry in self.recorded:
            is_open = entry.kind is EntryKind.OPENED and entry.n in execution.past.opened
            if is_open and entry.call in _LEAVES_OPEN:
                execution.left_open.append(entry)

    def is_of(self, numbers: Numbers) -> bool:
        """Whether these numbers have it."""
        execution = self._execution()
        return execution is not None and execution.numbers is numbers

    @property
    def is_held(self) -> bool:
        """Whether it may go on with what people say of its interrupted steps."""
        return self.is_skipped and not self._is_closed

    @property
    def is_full(self) -> bool:
        """Whether it has no numbers left."""
        return self.last_n + 1 not in self


class Numbers:
    """Numbers the calls of a generation of a run.

    Args:
        run_id: The run.
        first_n: Where its numbers begin.

    Attributes:
        last_n: The last number that was given away, those of branches included.
    """

    def __init__(self, run_id: str, first_n: int) -> None:
        self.last_n = first_n - 1
        self._first_n = first_n
        self._run_id = run_id
        self._branches: list[Branch] = []
        self._randoms: dict[str, random.Random] = {}

    @property
    def branch_here(self) -> Branch | None:
        """The branch in which code runs here; None: it runs in none."""
        branch = current_branch.get()
        return branch if branch is not None and branch.is_of(self) else None

    @property
    def next_n(self) -> int:
        """The number of the next call of the code that runs here."""
        return self._here.last_n + 1

    def take(self) -> int:
        """Give the next number away."""
        numbers = self._here
        numbers.last_n += 1
        return numbers.last_n

    @property
    def _here(self) -> Branch | Numbers:
        branch = self.branch_here
        return self if branch is None or branch.is_full else branch

    def branch(self, execution: Execution, recorded: Mapping[int, Sequence[Entry]]) -> Branch:
        """Begin a branch.

        Args:
            execution: Whose numbers these are.
            recorded: What the journal has of calls, by number.
        """
        first_n = self.last_n + 1
        self.last_n += SIZE
        found = [entry for n in range(first_n, first_n + SIZE) for entry in recorded.get(n, ())]
        branch = Branch(execution, first_n, sorted(found, key=lambda entry: entry.seq))
        self._branches.append(branch)
        return branch

    def has_come_to(self, n: int) -> bool:
        """Whether the code has made a call ``n``."""
        return n <= (self._branch_with(n) or self).last_n

    def passes_over(self, entry: Entry) -> bool:
        """Whether what a call came to is one of a branch that is skipped, which notes it."""
        branch = self._branch_with(_number_of(entry))
        if branch is None or not branch.is_skipped:
            return False
        if all(each.seq != entry.seq for each in branch.recorded):
            branch.recorded.append(entry)
        return True

    def is_held(self, n: int) -> bool:
        """Whether a call ``n`` is one of a branch that is skipped, and may go on."""
        branch = self._branch_with(n)
        return branch is not None and branch.is_held

    def is_in_branch(self, n: int) -> bool:
        """Whether a call ``n`` is one of a branch."""
        return self._branch_with(n) is not None

    def _branch_with(self, n: int) -> Branch | None:
        return next((each for each in self._branches if n in each), None)

    @property
    def random(self) -> random.Random:
        """The source of random numbers of the code that runs here, the same at every replay."""
        branch = self.branch_here
        seed = str(self._first_n) if branch is None else f"branch {branch.first_n}"
        found = self._randoms.get(seed)
        if found is None:
            found = self._randoms[seed] = random.Random(f"{self._run_id}:{seed}")
        return found


def first_future_of(id: str) -> int:
    """Return where the futures of a run or branch are numbered from: far from others', and small sets are in order."""
    digest = hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=5).digest()
    return (int.from_bytes(digest, "big") << 20) + 1


def by_number(entries: Iterable[Entry]) -> dict[int, list[Entry]]:
    """Return what a journal has of calls, by number."""
    of_calls = (entry for entry in entries if entry.n is not None and entry.kind is not EntryKind.CONTINUED)
    in_order = sorted(of_calls, key=_number_of)
    return {n: list(group) for n, group in itertools.groupby(in_order, key=_number_of)}


def _number_of(entry: Entry) -> int:
    assert entry.n is not None
    return entry.n
