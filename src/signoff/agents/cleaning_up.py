"""Which instructions of a function belong to cleaning up although no exception is handled yet, or any more."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, Final, cast

_ENDS: Final = frozenset({"RERAISE", "RAISE_VARARGS", "RETURN_VALUE", "RETURN_CONST"})

_JUMPS: Final = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})

_ON_THE_WAY: Final = _JUMPS | {
    "CALL_INTRINSIC_2",
    "COPY",
    "LIST_APPEND",
    "LOAD_CONST",
    "NOP",
    "POP_EXCEPT",
    "POP_TOP",
    "PREP_RERAISE_STAR",
    "PUSH_EXC_INFO",
    "RERAISE",
    "SWAP",
}
"""Instructions between handlers that raise nothing new: which handler they are in the reach of says nothing."""

_OF_EXITS: Final = frozenset(
    {"CALL", "GET_AWAITABLE", "END_SEND", "LOAD_CONST", "POP_TOP", "PRECALL", "PUSH_NULL", "SWAP"}
)
"""Instructions that call ``__exit__`` where nothing was raised."""

_RESUMING: Final = frozenset({"NOP", "RESUME", "SEND", "YIELD_VALUE"})
"""Instructions that only hand on what an awaited coroutine is sent, which is left first; and NOP, which does nothing,
and which handlers do not reach: to raise there would leave out those around it.
"""


@lru_cache(maxsize=512)
def instructions_of_clean_up(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions.

    These are where a handler begins, what hands on an exception that nothing here handles, what hands on to an awaited
    coroutine, and the copies of ``finally`` blocks and of the exits of ``with`` that run when a handler is left by
    ``return``, ``break`` or ``continue``.
    """
    function = _Function(code)
    return frozenset({*function.handing_on(), *function.resuming(), *function.copies()})


class _Function:
    def __init__(self, code: CodeType) -> None:
        bytecode = dis.Bytecode(code)
        self._instructions = list(bytecode)
        self._index = {each.offset: index for index, each in enumerate(self._instructions)}
        # not in the stubs, but an attribute since exceptions have a table
        entries = cast("list[Any]", getattr(bytecode, "exception_entries", []))
        self._handlers = {
            offset: int(entry.target)
            for entry in entries
            for offset in range(entry.start, entry.end, 2)
            if offset in self._index
        }
        self._depths = {int(entry.target): int(entry.depth) for entry in entries}

    def handing_on(self) -> Iterator[int]:
        """Where handlers begin, and whole handlers that are not the program's."""
        for target in set(self._handlers.values()):
            for instruction in self._instructions[self._index[target] :]:
                yield instruction.offset
                if instruction.opname in ("PUSH_EXC_INFO", "CLEANUP_THROW", "END_ASYNC_FOR", "RERAISE"):
                    break

    def resuming(self) -> Iterator[int]:
        """What hands on to an awaited coroutine."""
        for instruction in self._instructions:
            if instruction.opname in _RESUMING or (
                instruction.opname == "JUMP_BACKWARD_NO_INTERRUPT" and self._at(instruction.argval) == "SEND"
            ):
                yield instruction.offset

    def copies(self) -> Iterator[int]:
        """Copies of ``finally`` blocks, known by where they stand in the source, and exits of ``with``."""
        blocks: set[tuple[str, object]] = set()
        exits: set[object] = set()
        for target in set(self._handlers.values()):
            if self._at(target) != "PUSH_EXC_INFO":
                continue
            handler = list(self._handler(target))
            if self._is_except(handler):
                continue
            blocks |= {(each.opname, each.positions) for each, _ in handler}
            exits |= {each.positions for each, _ in handler if each.opname == "WITH_EXCEPT_START"}
        for each in self._instructions:
            if (each.opname, each.positions) in blocks or (
                each.positions in exits and each.opname in _OF_EXITS
            ):
                yield each.offset

    def _at(self, offset: int) -> str:
        return self._instructions[self._index[offset]].opname

    def _is_inside(self, handler: int, outer: int) -> bool:
        return self._at(handler) == "PUSH_EXC_INFO" and self._depths[handler] > self._depths[outer]

    @staticmethod
    def _is_except(handler: list[tuple[dis.Instruction, int]]) -> bool:
        first = handler[1][0].opname
        return first == "POP_TOP" or any(
            depth == 1 and each.opname in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH") for each, depth in handler
        )

    def _handler(self, start: int) -> Iterator[tuple[dis.Instruction, int]]:
        """What a handler runs until it is left, each with how many handlers it is in."""
        seen: set[tuple[int, int]] = set()
        todo = [(start, 0)]
        while todo:
            offset, depth = todo.pop()
            if (offset, depth) in seen:
                continue
            seen.add((offset, depth))
            index = self._index[offset]
            instruction = self._instructions[index]
            depth += {"PUSH_EXC_INFO": 1, "POP_EXCEPT": -1}.get(instruction.opname, 0)
            if not 0 < depth <= len(self._depths):
                continue
            yield instruction, depth
            handler = self._handlers.get(offset)
            if (
                instruction.opname not in _ON_THE_WAY
                and handler is not None
                and self._is_inside(handler, start)
            ):
                todo.append((handler, depth))
            if instruction.opcode in dis.hasjrel:
                todo.append((int(instruction.argval), depth))
            if instruction.opname not in _ENDS and instruction.opname not in _JUMPS:
                todo.append((self._instructions[index + 1].offset, depth))
