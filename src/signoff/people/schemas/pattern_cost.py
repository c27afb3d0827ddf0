"""The cost of regular expressions, estimated without compiling them: their memory, and the time of a comparison."""

from __future__ import annotations

import re
from typing import Final

LONGEST_COMPARED: Final = 10_000
"""Maximum length of a text that is compared with a pattern, unless its ``maxLength`` is larger."""

_MOST_STATES: Final = 10**9
_REPEATED: Final = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")

_CHARACTER: Final = r"(?:\\[dDsSwW]|\\[pP]\{\w+\}|\\\W|\[\^?\]?(?:[^\]\[\\]|\\.)*+\]|[^\\\[\](){}|*+?^$])"
_FIXED: Final = rf"(?:{_CHARACTER}(?!\{{\d+,)(?:\{{\d+\}})?+)*+"
_ONE_REPEATED: Final = re.compile(
    rf"\^{_FIXED}(?:{_CHARACTER}\{{\d+,\d*\}})?+(?P<after>{_FIXED})\$?", re.DOTALL
)
_LONGEST_SEQUENCE: Final = 1_000

_PROPERTY: Final = 200
"""The states of a class such as ``\\p{L}``: it has thousands of ranges, each of up to four bytes."""

_COMPLEMENT: Final = 8
"""The states of ``\\S``, ``\\D`` and ``\\W``, and of non-ASCII characters."""

_ANYTHING: Final = 4
"""The states of a dot or a negated class: characters of one to four bytes."""


def may_go_back(pattern: object) -> bool:
    """Whether a pattern has look-around or back-references, so that it can take more than linear time."""
    return isinstance(pattern, str) and (
        "(?" in pattern or any(f"\\{digit}" in pattern for digit in "123456789k")
    )


def steps_of(pattern: str, length: int) -> int:
    """Return the cost of comparing a pattern with a text, in plain comparisons of about 15 nanoseconds.

    Where many states are open at once, each takes 5 to 8 nanoseconds a character. A pattern that may go back does so
    up to 10,000 times, each time over the rest of the text.
    """
    steps = length * (20 + open_size(pattern)) // 2
    return steps + (300 * length * (400 + length) // 400 if may_go_back(pattern) else 0)


def open_size(pattern: str) -> int:
    """Return the approximate number of positions of a regular expression that are active at once.

    That is all of them, except where one character of an anchored sequence is repeated, as in ``^.{0,10000}$``: there
    the position in the text determines the number of repetitions.
    """
    sequence = _ONE_REPEATED.fullmatch(pattern) if len(pattern) <= _LONGEST_SEQUENCE else None
    return pattern_size(pattern) if sequence is None else 2 + pattern_size(sequence["after"])


def pattern_states(pattern: str) -> int:
    """Return the approximate number of states of a compiled pattern, each about 300 bytes of memory."""
    return _expanded(pattern, is_weighed=True)


def pattern_size(pattern: str) -> int:
    """Return the approximate number of positions of a regular expression, with its repetitions expanded."""
    return _expanded(pattern, is_weighed=False)


def _expanded(pattern: str, *, is_weighed: bool) -> int:
    open_groups, atoms = [0], 0  # size of each open group before its last atom, and of that atom
    position = 0
    while position < len(pattern):
        char = pattern[position]
        repeated = _REPEATED.match(pattern, position)
        if repeated is not None:
            most = int(repeated[2] or repeated[1])
            atoms *= max(1, min(most, _MOST_STATES))
            position = repeated.end()
            continue
        if char == "(":
            open_groups[-1] += atoms
            open_groups.append(0)
            atoms = 0
        elif char == ")" and len(open_groups) > 1:
            atoms += open_groups.pop() + 1
        elif char not in "*+?":
            open_groups[-1] += atoms
            begin = position
            if char == "\\":
                position = _end_of_escape(pattern, position)
            elif char == "[":
                position = _end_of_class(pattern, position)
            atoms = _weight(pattern[begin : position + 1]) if is_weighed else 1
        atoms = min(atoms, _MOST_STATES)
        position += 1
    return sum(open_groups) + atoms


def _weight(atom: str) -> int:
    """Return the states of one character or class."""
    if "\\p" in atom or "\\P" in atom:
        return _PROPERTY
    if "\\S" in atom or "\\D" in atom or "\\W" in atom or not atom.isascii():
        return _COMPLEMENT
    return _ANYTHING if atom == "." or atom.startswith("[^") else 1


def _end_of_escape(pattern: str, begin: int) -> int:
    """Return the end of an escape such as ``\\d`` or ``\\p{Letter}``."""
    if pattern[begin + 1 : begin + 2] in ("p", "P", "x", "u") and pattern[begin + 2 : begin + 3] == "{":
        end = pattern.find("}", begin)
        return len(pattern) if end < 0 else end
    return begin + 1


def _end_of_class(pattern: str, begin: int) -> int:
    """Return the end of a bracketed character class."""
    position = begin + 1
    while position < len(pattern) and (pattern[position] != "]" or position == begin + 1):
        position += 2 if pattern[position] == "\\" else 1
    return position
