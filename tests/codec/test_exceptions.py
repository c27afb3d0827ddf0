"""Errors have the same type and text live and on replay; recording them never fails and runs no code."""

from __future__ import annotations

import asyncio
import enum
import json
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.error import URLError
from uuid import UUID

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from signoff import codec
from signoff.codec.set_order import kind_of
from signoff.errors import InvalidValue, PromiseRejected, SignalTimeout, StepFailed, StepTimeout, WrongAnswer


class Reason(enum.Enum):
    LIMIT = "limit"


class Order(BaseModel):
    id: UUID
    at: date


class Late(BaseModel):
    at: datetime


class Forgetful(BaseModel):
    kept: int
    forgotten: int = Field(0, exclude=True)


class Positive(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    cents: int

    @field_validator("cents")
    @classmethod
    def check(cls, value: int) -> int:
        if value == 13:
            raise PydanticCustomError("unlucky", "{value} is {unlucky", {"value": value})
        if value < 0:
            raise ValueError("negative")
        return value


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


@dataclass(frozen=True)
class Card:
    number: str


class CustomInit(Exception):
    def __init__(self, order_id: int, *, reason: str) -> None:
        super().__init__(f"order {order_id}: {reason}")
        self.order_id = order_id
        self.reason = reason


class CustomStr(Exception):
    def __init__(self, code: int, when: datetime) -> None:
        self.code = code
        self.when = when

    def __str__(self) -> str:
        return f"code {self.code} at {self.when}"


class NoSuper(Exception):
    def __init__(self, one: str, *, two: str = "2") -> None:
        self.two = two


class Slotted(ValueError):
    __slots__ = ("__private", "code", "unset")

    def __init__(self, code: int) -> None:
        super().__init__("slotted")
        self.code = code
        self.__private = code + 1

    def __str__(self) -> str:
        return f"{self.code} {self.__private}"


class DiskError(OSError):
    def __init__(self, path: str) -> None:
        super().__init__(28, "No space left", path)
        self.free = 0


class TwoBases(KeyError, ValueError):
    pass


class DecodeFailed(UnicodeDecodeError):
    def __init__(self, data: bytes) -> None:
        super().__init__("utf-8", data, 0, 1, "bad")


class NewWithArguments(Exception):
    def __new__(cls, code: int) -> NewWithArguments:
        return super().__new__(cls, code, "from new")

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass
class DataError(Exception):
    code: int
    why: str


class Failures(ExceptionGroup[Exception]):
    pass


class Rich(Exception):
    pass


class HasClient(Exception):
    def __init__(self, message: str, client: object) -> None:
        super().__init__(message)
        self.client = client
        self.status = 503


class Outer:
    class Inner(Exception):
        pass


RICH = (
    None,
    1.5,
    "\ud800",
    b"\xff",
    (1, (2, [3])),
    {"a": {1, 2}, "b": (Decimal("1.10"),)},
    UUID(int=7),
    datetime(2024, 5, 6, tzinfo=UTC),
    Reason.LIMIT,
    Order(id=UUID(int=1), at=date(2024, 5, 6)),
    Card("4000"),
    Path("a/b"),
    ValueError("inner", (1, 2)),
)


def raised(code: str) -> BaseException:
    try:
        exec(code, {"json": json, "Order": Order, "Decimal": Decimal, "Positive": Positive})
    except BaseException as error:
        return error
    raise AssertionError


def invalid_model() -> Exception:
    return raised("Order.model_validate({'id': 1})")  # type: ignore[return-value]


def invalid_json() -> Exception:
    return raised("Order.model_validate_json('{\"id\": [1]}')")  # type: ignore[return-value]


def invalid_object() -> Exception:
    return raised("Order.model_validate({'id': object()})")  # type: ignore[return-value]


SAME: dict[str, Exception] = {
    "validation": invalid_model(),
    "validation of JSON": invalid_json(),
    "validation with an error": raised("Positive(cents=-1)"),  # type: ignore[dict-item]
    "validation of its own kind": raised("Positive(cents=13)"),  # type: ignore[dict-item]
    "validation without inputs": raised("Positive.model_validate({'cents': 'x'})"),  # type: ignore[dict-item]
    "frozen dataclass": FrozenError(7),
    "class as an argument": TypeError(Order),
    "decimal": raised("Decimal('x')"),  # type: ignore[dict-item]
    "deque": Rich(deque([1, (2,)], 3)),
    "plain": ValueError("x"),
    "without arguments": RuntimeError(),
    "several arguments": ValueError("x", 1, None, [1, {"a": 2}]),
    "key error": KeyError("missing key"),
    "tuple key": KeyError((1, 2)),
    "custom init": CustomInit(7, reason="late"),
    "custom str": CustomStr(7, datetime(2024, 5, 6, tzinfo=UTC)),
    "no call to super": NoSuper("1", two="II"),
    "slots": Slotted(3),
    "file not found": raised("open('/nowhere/at/all')"),  # type: ignore[dict-item]
    "os error with two files": OSError(18, "Cross-device", "a", None, "b"),
    "os error with a path": FileNotFoundError(2, "No such file", Path("a/b")),
    "os error with an undecodable name": FileNotFoundError(2, "No such file", "caf\udce9"),
    "os error with text": OSError("just text"),
    "os error of its own": DiskError("/data"),
    "connection reset": ConnectionResetError(104, "reset"),
    "timeout": TimeoutError("slow"),
    "two bases": TwoBases("x"),
    "unicode decode": raised("b'\\xff'.decode()"),  # type: ignore[dict-item]
    "unicode encode": raised("'\\ud800'.encode()"),  # type: ignore[dict-item]
    "unicode of its own": DecodeFailed(b"\xff"),
    "syntax": raised("compile('1 +', 'f.py', 'exec')"),  # type: ignore[dict-item]
    "import": raised("import nowhere.at_all"),  # type: ignore[dict-item]
    "attribute": raised("''.nothing"),  # type: ignore[dict-item]
    "name": raised("nothing"),  # type: ignore[dict-item]
    "json": raised("json.loads('{')"),  # type: ignore[dict-item]
    "zero division": raised("1 / 0"),  # type: ignore[dict-item]
    "stop": StopIteration(3),
    "called process": subprocess.CalledProcessError(2, ["ls", "-l"], b"out", b"err"),
    "url": URLError(OSError(2, "Name or service not known")),
    "http": httpx.ConnectError("no route"),
    "new with arguments": NewWithArguments(5),
    "dataclass": DataError(1, "because"),
    "rich arguments": Rich(*RICH),
    "nested class": Outer.Inner("x"),
    "group": ExceptionGroup("two", [ValueError("a"), ExceptionGroup("one", [CustomInit(1, reason="r")])]),
    "group of its own": Failures("one", [KeyError("k")]),
    "unicode": ValueError("é ü 漢 🙂"),
    "broken text": ValueError("\udfff"),
    "ours": SignalTimeout("answer", 3.5),
    "ours with a problem list": WrongAnswer("q", [("amount", "too much")]),
    "ours with two bases": StepTimeout("charge", 2.0),
    "ours with any value": PromiseRejected("p", {"why": [1]}),
    "step failed": StepFailed("a.B", "no"),
}


def state(error: BaseException) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if name != "__notes__"}


@pytest.mark.parametrize("case", SAME)
def test_an_error_comes_back_as_its_type_and_says_the_same(case: str) -> None:
    error = SAME[case]
    text, live = codec.round_trip_error(error)
    for again in (live, codec.decode_error(text)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert repr(again.args) == repr(error.args)
        assert repr(state(again)) == repr(state(error))
    assert json.loads(text)["message"] == str(error).encode("utf-8", "backslashreplace").decode()


@pytest.mark.parametrize("case", SAME)
def test_a_rebuilt_error_can_be_recorded_again(case: str) -> None:
    once = codec.decode_error(codec.encode_error(SAME[case]))
    twice = codec.decode_error(codec.encode_error(once))
    assert (type(twice), str(twice)) == (type(once), str(once))


def test_typed_arguments_and_attributes_keep_their_types() -> None:
    error = Rich(*RICH)
    error.parts = RICH  # type: ignore[attr-defined]
    again = codec.decode_error(codec.encode_error(error))
    assert again.args[:-1] == RICH[:-1]
    assert again.parts[:-1] == RICH[:-1]  # type: ignore[attr-defined]
    assert [kind_of(each) for each in again.args] == [kind_of(each) for each in RICH]


def test_the_record_decides_the_type_not_the_printed_arguments() -> None:
    record = json.loads(codec.encode_error(KeyError({"a", "b"})))
    again = codec.decode_error(json.dumps(record | {"message": "{'b', 'a'}"}))
    assert type(again) is KeyError
    late = Late(at=datetime(2024, 5, 6, tzinfo=UTC))
    again = codec.decode_error(codec.encode_error(KeyError(late)))
    assert type(again) is KeyError
    assert again.args == (late,)


def test_what_builtin_errors_carry_comes_back() -> None:
    missing = codec.decode_error(codec.encode_error(SAME["file not found"]))
    assert isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.filename) == (2, "/nowhere/at/all")
    unread = codec.decode_error(codec.encode_error(SAME["unicode decode"]))
    assert isinstance(unread, UnicodeDecodeError)
    assert (unread.object, unread.start, unread.reason) == (b"\xff", 0, "invalid start byte")
    absent = codec.decode_error(codec.encode_error(SAME["import"]))
    assert isinstance(absent, ImportError)
    assert absent.name == "nowhere"
    slotted = codec.decode_error(codec.encode_error(SAME["slots"]))
    assert isinstance(slotted, Slotted)
    assert not hasattr(slotted, "unset")


def test_members_of_a_group_are_rebuilt_and_can_be_split() -> None:
    again = codec.decode_error(codec.encode_error(SAME["group"]))
    assert isinstance(again, ExceptionGroup)
    matched, rest = again.split(CustomInit)
    assert matched is not None
    assert rest is not None
    assert [str(each) for each in rest.exceptions] == ["a"]


def test_causes_and_notes_come_back() -> None:
    error = ValueError("outer")
    error.__cause__ = CustomInit(1, reason="inner")
    error.__cause__.__cause__ = KeyError("root")
    error.add_note("seen twice")
    again = codec.decode_error(codec.encode_error(error))
    assert again.__notes__ == ["seen twice"]
    assert type(again.__cause__) is CustomInit
    assert repr(again.__cause__.__cause__) == "KeyError('root')"


def fail_far_away() -> None:
    raise CustomInit(1, reason="far")


def test_the_original_traceback_is_printed_with_the_rebuilt_error() -> None:
    try:
        try:
            fail_far_away()
        except CustomInit as error:
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        again = codec.decode_error(codec.encode_error(error))
    printed = "".join(traceback.format_exception(again))
    assert "in fail_far_away" in printed
    assert printed.index("in fail_far_away") < printed.rindex("RuntimeError: outer")
    assert type(again.__cause__) is CustomInit


def test_a_rebuilt_error_raised_again_still_shows_its_first_failure() -> None:
    error: BaseException
    try:
        fail_far_away()
    except CustomInit as first:
        error = first
    for _ in range(3):
        error = codec.decode_error(codec.encode_error(error))
        assert json.loads(codec.encode_error(error))["cause"] is None
    assert "in fail_far_away" in "".join(traceback.format_exception(error))


def local_class() -> Exception:
    class Local(Exception):
        pass

    return Local("x")


class Hidden(Exception):
    """Cannot say anything without its client."""

    def __init__(self, client: object) -> None:
        super().__init__()
        self.client = client

    def __new__(cls, client: object) -> Hidden:
        return super().__new__(cls)

    def __str__(self) -> str:
        return f"failed on {type(self.client).__name__}"


@pytest.mark.parametrize(
    ("error", "type_name"),
    [
        (local_class(), "tests.codec.test_exceptions.local_class.<locals>.Local"),
        (KeyboardInterrupt("stop"), "KeyboardInterrupt"),
        (asyncio.CancelledError("gone"), "asyncio.exceptions.CancelledError"),
        (BaseExceptionGroup("base", [SystemExit(1)]), "BaseExceptionGroup"),
        (type("Forged", (Exception,), {"__module__": "json", "__qualname__": "loads"})("x"), "json.loads"),
        (type("Lost", (Exception,), {"__module__": "not.there"})("x"), "not.there.Lost"),
    ],
)
def test_what_cannot_be_rebuilt_is_a_step_failed_that_says_the_same(
    error: BaseException, type_name: str
) -> None:
    again = codec.decode_error(codec.encode_error(error))
    assert type(again) is StepFailed
    assert (again.type_name, again.message) == (type_name, str(error))


@pytest.mark.parametrize(
    ("error", "kind", "path"),
    [
        (Hidden(object()), Hidden, "tests.codec.test_exceptions.Hidden"),
        (ValueError("x", object()), ValueError, "ValueError"),
        (FileNotFoundError(object(), "gone"), OSError, "FileNotFoundError"),
        (invalid_object(), ValueError, "pydantic_core._pydantic_core.ValidationError"),
    ],
)
def test_what_is_left_of_an_error_is_caught_as_the_error(error: Exception, kind: type, path: str) -> None:
    again: Any = error
    for _ in range(3):
        again = codec.decode_error(codec.encode_error(again))
        assert isinstance(again, StepFailed)
        assert isinstance(again, kind)
        assert (again.type_name, again.message, str(again)) == (path, str(error), str(error))


def test_notes_and_causes_of_a_frozen_error_come_back() -> None:
    error = FrozenError(7)
    object.__setattr__(error, "__notes__", ["note"])
    object.__setattr__(error, "__cause__", KeyError("k"))
    again = codec.decode_error(codec.encode_error(error))
    assert (again.__notes__, repr(again.__cause__)) == (["note"], "KeyError('k')")


def test_attributes_that_cannot_be_kept_are_named_and_lose_only_themselves() -> None:
    text = codec.encode_error(HasClient("unavailable", client=object()))
    assert json.loads(text)["dropped"] == ["attributes.client"]
    again = codec.decode_error(text)
    assert type(again) is HasClient
    assert (str(again), again.status, hasattr(again, "client")) == ("unavailable", 503, False)


@pytest.mark.parametrize(
    "argument", [object(), Forgetful(kept=1, forgotten=2), {1: 2}, [float("nan")], print]
)
def test_arguments_that_cannot_be_kept_are_named(argument: object) -> None:
    assert json.loads(codec.encode_error(ValueError("x", argument)))["dropped"] == ["args[1]"]


def test_data_that_looks_like_a_marked_type_is_dropped() -> None:
    text = codec.encode_error(HOSTILE["a type mark in data"])
    assert json.loads(text)["dropped"] == ["attributes.it"]
    assert type(codec.decode_error(text)) is ValueError


def test_the_object_of_an_attribute_error_is_not_recorded() -> None:
    assert json.loads(codec.encode_error(SAME["attribute"]))["attributes"] == {"name": "nothing"}


class Explosive:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        raise RuntimeError("hash")


class ExplosiveDict(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("items")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("iter")


class BrokenStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__


class BrokenProperties(Exception):
    @property
    def code(self) -> int:
        raise RuntimeError("code")

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError("args")


class BrokenEverything(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class BrokenMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__qualname__", "__name__"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


class BrokenClass(Exception, metaclass=BrokenMeta):
    pass


class StrGivesNumber(Exception):
    def __str__(self) -> Any:
        return 3  # noqa: PLE0307 - that it is no text is the point


def cyclic_cause() -> Exception:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def deep_cause() -> Exception:
    error = ValueError("root")
    for depth in range(5_000):
        outer = ValueError(str(depth))
        outer.__cause__ = error
        error = outer
    return error


def deep_group() -> Exception:
    error: Any = ValueError("root")
    for depth in range(500):
        error = ExceptionGroup(str(depth), [error])
    return error


def endless_list() -> list[Any]:
    value: list[Any] = []
    for _ in range(70):
        value = [value, value]
    return value


def itself() -> Exception:
    error = ValueError("x")
    error.me = error  # type: ignore[attr-defined]
    return error


def with_attributes(**attributes: object) -> Exception:
    error = ValueError("x")
    error.__dict__.update(attributes)
    return error


def with_odd_names() -> Exception:
    error = ValueError("x")
    error.__dict__.update({"\ud800": 1, "a b": 2, "$type": 3, "__class__": 4})
    return error


HOSTILE: dict[str, BaseException] = {
    "broken str": BrokenStr("x"),
    "broken properties": BrokenProperties("x"),
    "broken everything": BrokenEverything("x"),
    "broken class": BrokenClass("x"),
    "str gives a number": StrGivesNumber("x"),
    "explosive argument": ValueError(Explosive()),
    "explosive attribute": with_attributes(it=Explosive(), list=[Explosive()]),
    "explosive dict": ValueError(ExplosiveDict(a=1)),
    "odd names": with_odd_names(),
    "a type mark in data": with_attributes(it={"$type": "os:system", "value": "true"}),
    "cyclic cause": cyclic_cause(),
    "deep cause": deep_cause(),
    "deep group": deep_group(),
    "endless attribute": with_attributes(it=endless_list()),
    "itself": itself(),
    "large message": ValueError("x" * 3_000_000),
    "large attribute": with_attributes(body="x" * 3_000_000, status=500),
    "large notes": with_attributes(__notes__=["x" * 3_000_000]),
    "notes that are none": with_attributes(__notes__=3),
    "large number": ValueError(10**5000),
    "surrogates": KeyError("\ud800"),
    "not a number": ValueError(float("nan")),
    "exit": SystemExit(Explosive()),
    "interrupt": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError(),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_recording_an_error_never_fails(case: str) -> None:
    text, live = codec.round_trip_error(HOSTILE[case])
    record = json.loads(text)
    assert {"type", "message", "args", "attributes", "traceback", "cause", "notes"} <= record.keys()
    assert len(text.encode()) <= codec.MAX_BYTES
    again = codec.decode_error(text)
    assert type(again) is type(live)
    assert isinstance(again, Exception)


def test_an_error_with_a_large_attribute_keeps_its_type_and_the_others() -> None:
    again = codec.decode_error(codec.encode_error(HOSTILE["large attribute"]))
    assert type(again) is ValueError
    assert str(again) == "x"
    assert vars(again).keys() == {"status", "__notes__"}
    [note] = again.__notes__
    assert note.startswith("not kept of this error, because it is too large or not plain data: body;")


@pytest.mark.parametrize("case", ["deep cause", "cyclic cause", "itself"])
def test_an_endless_error_is_truncated_and_keeps_its_type(case: str) -> None:
    again = codec.decode_error(codec.encode_error(HOSTILE[case]))
    assert type(again) is ValueError
    assert str(again) == str(HOSTILE[case])


def test_an_error_with_too_large_arguments_becomes_a_short_step_failed() -> None:
    again = codec.decode_error(codec.encode_error(HOSTILE["large message"]))
    assert isinstance(again, StepFailed)
    assert 1_000 < len(again.message) < 100_000
    assert not hasattr(again, "__notes__"), "it has no attributes that were lost"


def test_an_error_that_cannot_say_anything_keeps_its_type() -> None:
    assert type(codec.decode_error(codec.encode_error(HOSTILE["broken str"]))) is BrokenStr


@settings(deadline=None)
@given(message=st.text(), args=st.lists(st.none() | st.integers() | st.text() | st.binary() | st.uuids()))
def test_any_message_and_arguments_come_back(message: str, args: list[Any]) -> None:
    error = RuntimeError(message, *args)
    again = codec.decode_error(codec.encode_error(error))
    assert type(again) is RuntimeError
    assert again.args == error.args


def test_rebuilding_calls_no_init_and_no_new_of_the_class() -> None:
    text = codec.encode_error(NewWithArguments(5)), codec.encode_error(CustomInit(1, reason="r"))
    calls: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for kind in (NewWithArguments, CustomInit):
            patch.setattr(kind, "__init__", lambda *_, **__: calls.append("init"))
        patch.setattr(NewWithArguments, "__new__", lambda *_, **__: calls.append("new"))
        assert [type(codec.decode_error(each)) for each in text] == [NewWithArguments, CustomInit]
    assert calls == []


def test_rebuilding_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\nclass Error(Exception): pass\n")
    (tmp_path / "lazy.py").write_text("def __getattr__(name):\n    import trap\n    return trap.Error\n")
    record = json.loads(codec.encode_error(ValueError("x")))
    texts = [
        json.dumps(record | {"type": "trap:Error"}),
        json.dumps(record | {"type": "lazy:Error"}),
        json.dumps(record | {"args": [{"$type": "trap:Card", "value": {"number": "1"}}]}),
    ]
    code = (
        "import json, sys, lazy\nfrom signoff import codec\n"
        "before = set(sys.modules)\n"
        "kinds = [type(codec.decode_error(text)).__name__ for text in json.load(sys.stdin)]\n"
        "print(kinds, sorted(name for name in set(sys.modules) - before if 'trap' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(texts),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['StepFailed', 'StepFailed', 'StepFailed'] []\n", done.stderr


@pytest.mark.parametrize(
    "name",
    ["os:system", "builtins:eval", "subprocess:Popen", "builtins:SystemExit", "pydantic.types:ImportString"],
)
def test_a_record_makes_nothing_but_exceptions_and_data(name: str) -> None:
    record = json.loads(codec.encode_error(ValueError("x")))
    assert type(codec.decode_error(json.dumps(record | {"type": name}))) is StepFailed
    argument = {"$type": name, "value": "os.getcwd"}
    assert type(codec.decode_error(json.dumps(record | {"args": [argument]}))) is StepFailed


@pytest.mark.parametrize("text", ["", "[]", "{}", '"x"', "null", '{"type": 3}'])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="not a recorded error"):
        codec.decode_error(text)


class Empty(Exception):
    def __len__(self) -> int:
        return 0


class Falsy(Exception):
    def __bool__(self) -> bool:
        raise RuntimeError("nobody may ask")


@pytest.mark.parametrize("kind", [Empty, Falsy])
def test_an_error_that_says_it_is_false_is_rebuilt(kind: type[Exception]) -> None:
    error = ValueError("for")
    error.__cause__ = kind("nothing in it")
    rebuilt = codec.round_trip_error(error)[1]
    assert type(rebuilt.__cause__) is kind
    assert type(codec.round_trip_error(kind("nothing in it"))[1]) is kind
