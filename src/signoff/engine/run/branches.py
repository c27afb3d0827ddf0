"""Branches: calls with their own numbers, so that replay can do without the code that made them."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import random
import weakref
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from signoff.errors import RegistrationError
from signoff.records import CallKind, Entry, EntryKind

if TYPE_CHECKING:
    from signoff.engine.run.execution import Execution

SIZE: Final = 1000
"""The number of call numbers in a block of a branch."""

GROWN_FROM: Final = 1 << 30
"""The first call number of nested branches and of further blocks."""

GROWING: Final = "signoff.growing_branches"
"""The patch of runs whose branches grow. Before it, calls beyond a branch's numbers took the run's numbers."""

_END: Final = 1 << 31  # of call numbers, which are 32-bit in Postgres

_LEAVES_OPEN: Final = (CallKind.QUESTION, CallKind.PROMISE, CallKind.CHILD, CallKind.STEP)

current_branch: ContextVar[Branch | None] = ContextVar("signoff_branch", default=None)


class Branch:
    """A part of a run with its own call numbers.

    Code inside ``with branch.entered():``, and tasks begun there, make their calls in the branch; branches begun there
    are nested in it. If this code no longer exists at replay, ``skip`` ignores the branch's calls, and the rest of the
    run keeps its own call numbers.

    Attributes:
        recorded: The journal's entries about its calls, including nested branches, from before this process took over
            the run, in order. For a skipped branch, also later entries.
        is_skipped: Whether replay ignores its calls.

    Example::

        branch = ctx.branch()
        if branch.recorded and "plan" not in plugins:
            branch.skip()  # begun by code that no longer exists
        else:
            with branch.entered():
                await plugins["plan"](ctx)
    """

    def __init__(self, execution: Execution, id: str, blocks: list[int], recorded: list[Entry]) -> None:
        self.recorded = recorded
        self.is_skipped = False
        self.id = id  # its first call number; for a nested branch, the outer id and its index there
        self.blocks = blocks  # the first numbers of its blocks of SIZE numbers
        self.count = 0  # of calls made so far
        self.inner = 0  # nested branches begun so far
        self.futures = itertools.count(first_future_of(f"{execution.run.id}.{id}"))
        self._execution = weakref.ref(execution)  # its owner
        self._is_closed = False

    @contextmanager
    def entered(self) -> Generator[None]:
        """Make the calls of the enclosed code in this branch. Leaving it drops ``recorded``.

        Raises:
            RegistrationError: The branch is skipped.
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

    def skip(self) -> None:
        """Ignore its calls at replay: their journal entries are passed over. Calls that it left open stay open.

        A wait in its place should be in a branch, too. No other call receives the signals that it has received.

        Raises:
            RegistrationError: Its code has already made calls.
        """
        if self.count or self.inner:
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
        """Close its open questions, promises without a chosen id and child runs. It does not continue."""
        self._is_closed = True
        execution = self._execution()
        assert execution is not None
        if execution.is_replaying:
            return  # it was closed when the run came here for the first time
        for entry in self.recorded:
            is_open = entry.kind is EntryKind.OPENED and entry.n in execution.past.opened
            if is_open and entry.call in _LEAVES_OPEN:
                execution.left_open.append(entry)

    def is_of(self, numbers: Numbers) -> bool:
        """Return whether it belongs to these numbers."""
        execution = self._execution()
        return execution is not None and execution.numbers is numbers

    @property
    def is_held(self) -> bool:
        """Whether decisions about its interrupted steps may continue it."""
        return self.is_skipped and not self._is_closed

    @property
    def is_within_another(self) -> bool:
        """Whether it is nested in another branch."""
        return "." in self.id

    @property
    def is_full(self) -> bool:
        """Whether it has no numbers left."""
        return self.count == SIZE * len(self.blocks)

    @property
    def next_n(self) -> int:
        """The number of its next call, if it is not full."""
        block, place = divmod(self.count, SIZE)
        return self.blocks[block] + place

    def has_come_to(self, n: int) -> bool:
        """Return whether its code has made call ``n``."""
        for index, first_n in enumerate(self.blocks):
            if first_n <= n < first_n + SIZE:
                return SIZE * index + n - first_n < self.count
        return False


class Numbers:
    """Numbers the calls of one generation of a run.

    Args:
        run_id: The run.
        first_n: Its first call number.
        grown_from: The first number for further blocks of branches.

    Attributes:
        last_n: The last number used, including those reserved for branches, but not their further blocks.
        grown_to: The first free number for further blocks of branches.
        grown: Further blocks taken since the driver last collected them, as first number and branch id.
    """

    def __init__(self, run_id: str, first_n: int, grown_from: int = GROWN_FROM) -> None:
        self.last_n = first_n - 1
        self.grown_to = grown_from
        self.grown: list[tuple[int, str]] = []
        self._first_n = first_n
        self._run_id = run_id
        self._branches: dict[str, Branch] = {}
        self._reserved: list[int] = []  # the first numbers of top-level branches
        self._owners: dict[int, str] = {}  # the branches of further blocks
        self._expected: dict[str, list[int]] = {}  # further blocks of each branch, from the journal
        # Further blocks of each branch and those nested in it.
        self._expected_within: dict[str, list[int]] = {}
        self._randoms: dict[str, random.Random] = {}

    def expect(self, entries: Iterable[Entry]) -> None:
        """Prepare for the replay of a journal."""
        for entry in entries:
            if entry.kind is EntryKind.BRANCHED:
                first_n, id = entry.fact("from"), entry.name or ""
                self._owners[first_n] = id
                self._expected.setdefault(id, []).append(first_n)
                for each in _around(id):
                    self._expected_within.setdefault(each, []).append(first_n)
                self.grown_to = max(self.grown_to, first_n + SIZE)

    @property
    def has_branches(self) -> bool:
        """Whether the run has begun a branch."""
        return bool(self._branches)

    @property
    def branch_here(self) -> Branch | None:
        """The branch of the calling code, or None."""
        branch = current_branch.get()
        return branch if branch is not None and branch.is_of(self) else None

    def next_n(self, execution: Execution) -> int:
        """Return the number of the calling code's next call.

        Args:
            execution: The execution of this run.
        """
        branch = self._branch_to_number(execution)
        return self.last_n + 1 if branch is None else branch.next_n

    def take(self, execution: Execution) -> int:
        """Use the calling code's next number.

        Args:
            execution: The execution of this run.
        """
        branch = None if current_branch.get() is None else self._branch_to_number(execution)
        if branch is None:
            self.last_n += 1
            return self.last_n
        n = branch.next_n
        branch.count += 1
        return n

    def _branch_to_number(self, execution: Execution) -> Branch | None:
        branch = self.branch_here
        if branch is None or not branch.is_full:
            return branch
        if not branch.is_within_another and not execution.is_patched(GROWING):
            return None
        expected = self._expected.get(branch.id, ())
        times = len(branch.blocks) if branch.is_within_another else len(branch.blocks) - 1
        branch.blocks.append(expected[times] if times < len(expected) else self._grow(branch))
        return branch

    def _grow(self, branch: Branch) -> int:
        first_n = self.grown_to
        if first_n + SIZE > _END:
            raise RegistrationError(
                f"run {self._run_id!r} has grown its branches a million times and cannot again: start another run"
            )
        self.grown_to += SIZE
        self._owners[first_n] = branch.id
        self.grown.append((first_n, branch.id))
        return first_n

    def branch(self, execution: Execution, recorded: Sequence[Entry]) -> Branch:
        """Begin a branch inside the calling code's branch, if any.

        Args:
            execution: The execution of this run.
            recorded: The journal's entries about calls, ordered by call number.
        """
        outer = self.branch_here
        blocks = list[int]()
        if outer is not None:
            id = f"{outer.id}.{outer.inner}"
            outer.inner += 1
        else:
            first_n = self.last_n + 1
            if first_n + SIZE > GROWN_FROM:
                raise RegistrationError(
                    f"run {self._run_id!r} has begun a million branches and cannot begin another: start another run"
                )
            id = str(first_n)
            self.last_n += SIZE
            blocks.append(first_n)
            self._reserved.append(first_n)
        found = [
            entry
            for first_n in (*blocks, *self._expected_within.get(id, ()))
            for entry in _of_block(recorded, first_n)
        ]
        branch = Branch(execution, id, blocks, sorted(found, key=lambda entry: entry.seq))
        self._branches[id] = branch
        return branch

    def has_come_to(self, n: int) -> bool:
        """Return whether the code has made call ``n``."""
        id = self._branch_id_of(n)
        if id is None:
            return n <= self.last_n
        branch = self._branches.get(id)
        return branch is not None and branch.has_come_to(n)

    def passes_over(self, entry: Entry) -> bool:
        """Return whether an entry completes a call of a skipped branch. The branch then records it."""
        branch = next((each for each in self._branches_around(_number_of(entry)) if each.is_skipped), None)
        if branch is None:
            return False
        if all(each.seq != entry.seq for each in branch.recorded):
            branch.recorded.append(entry)
        return True

    def is_held(self, n: int) -> bool:
        """Return whether call ``n`` belongs to a skipped branch and may continue."""
        return any(branch.is_held for branch in self._branches_around(n))

    def is_in_branch(self, n: int) -> bool:
        """Return whether call ``n`` belongs to a branch."""
        return self._branch_id_of(n) is not None

    def is_of(self, n: int, branch: Branch) -> bool:
        """Return whether call ``n`` belongs to a branch or to one nested in it."""
        id = self._branch_id_of(n)
        return id is not None and branch.id in _around(id)

    def _branch_id_of(self, n: int) -> str | None:
        if n >= GROWN_FROM:
            return self._owners.get(n - (n - GROWN_FROM) % SIZE)
        index = bisect.bisect_right(self._reserved, n) - 1
        if index < 0 or n >= self._reserved[index] + SIZE:
            return None
        return str(self._reserved[index])

    def _branches_around(self, n: int) -> list[Branch]:
        """Return the branches begun here that contain call ``n``, the outermost first."""
        id = self._branch_id_of(n)
        return [] if id is None else [self._branches[each] for each in _around(id) if each in self._branches]

    @property
    def random(self) -> random.Random:
        """The random number generator of the calling code, with the same numbers at every replay."""
        branch = self.branch_here
        seed = str(self._first_n) if branch is None else f"branch {branch.id}"
        found = self._randoms.get(seed)
        if found is None:
            found = self._randoms[seed] = random.Random(f"{self._run_id}:{seed}")
        return found


def _around(id: str) -> list[str]:
    """Return the ids of a branch and those around it, the outermost first."""
    return list(itertools.accumulate(id.split("."), "{}.{}".format))


def _of_block(entries: Sequence[Entry], first_n: int) -> Sequence[Entry]:
    begin = bisect.bisect_left(entries, first_n, key=_number_of)
    return entries[begin : bisect.bisect_left(entries, first_n + SIZE, lo=begin, key=_number_of)]


def first_future_of(id: str) -> int:
    """Return the first future number of a run or branch: far from the others', so that small sets keep their order."""
    digest = hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=5).digest()
    return (int.from_bytes(digest, "big") << 20) + 1


def by_number(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries about calls, ordered by call number."""
    of_calls = (entry for entry in entries if entry.n is not None and entry.kind is not EntryKind.CONTINUED)
    return sorted(of_calls, key=_number_of)


def _number_of(entry: Entry) -> int:
    assert entry.n is not None
    return entry.n
