"""The same ``except`` clauses catch an error live and at replay, whatever the process has imported."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import requests

from signoff import codec
from signoff.errors import InvalidValue, StepFailed
from tests.halves import sample

LIBRARY = """
class LibError(OSError):
    def __init__(self, *, code, why):
        super().__init__(f"{code}: {why}")
        self.code = code
    def __str__(self):
        return f"<{self.code}>"
    limit = 10
    @property
    def is_small(self):
        return self.code < self.limit
    def said(self):
        return f"{self!s} {super().__str__()}"
class Timeout(LibError, TimeoutError): pass
class Slow(Timeout, ValueError): __slots__ = ("seconds",)
class Alone(Exception): pass
class Registered(KeyError):
    made = []
    def __init_subclass__(cls, **options):
        raise RuntimeError("asked for a subclass")
def slow():
    error = Slow(code=7, why="slow")
    error.seconds = 3
    return error
"""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("lazy_library")
    monkeypatch.setitem(sys.modules, "lazy_library", module)
    exec(LIBRARY, module.__dict__)
    return module


def elsewhere(text: str) -> Exception:
    """Rebuild an error as a process does that has not imported the library."""
    sys.modules.pop("lazy_library", None)
    return codec.decode_error(text)


def test_a_stand_in_keeps_name_bases_attributes_and_message(library: Any) -> None:
    error = library.slow()
    again: Any = elsewhere(codec.encode_error(error))
    assert type(again).__name__ == "Slow"
    assert type(again).__module__ == "lazy_library"
    assert all(isinstance(again, base) for base in (TimeoutError, ValueError, OSError))
    assert not isinstance(again, StepFailed)  # as live
    assert (str(again), again.code, again.seconds) == (str(error), 7, 3)
    assert again.args == error.args


def test_equal_stand_ins_share_one_class_until_the_real_one_is_imported(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = codec.encode_error(library.slow())
    once, twice = elsewhere(text), elsewhere(text)
    assert type(once) is type(twice)
    again = codec.encode_error(once)
    assert type(elsewhere(again)) is type(once)
    monkeypatch.setitem(sys.modules, "lazy_library", library)
    assert type(codec.decode_error(again)) is library.Slow


def test_an_error_is_an_instance_of_its_class_once_code_imports_that(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: Any = elsewhere(codec.encode_error(library.slow()))
    assert not isinstance(again, library.LibError)
    with pytest.raises(AttributeError, match="lazy_library is not imported: import it where the workflow is"):
        _ = again.is_small
    monkeypatch.setitem(sys.modules, "lazy_library", library)  # as an import in an except block does
    assert isinstance(again, library.LibError)
    assert not isinstance(again, library.Alone)
    assert (again.is_small, again.limit, again.said()) == (True, 10, "<7> 7: slow")
    with pytest.raises(AttributeError, match=r"'Slow' object has no attribute 'nothing'"):
        _ = again.nothing
    assert type(codec.decode_error(codec.encode_error(again))) is library.Slow


def test_a_class_with_no_base_but_exception_has_its_name(library: Any) -> None:
    again = elsewhere(codec.encode_error(library.Alone("x")))
    assert (type(again).__name__, type(again).__bases__, str(again)) == ("Alone", (Exception,), "x")


def test_no_code_of_a_base_is_run(library: Any) -> None:
    record = json.loads(codec.encode_error(KeyError("k")))
    record |= {
        "type": "not.there:Sub",
        "bases": ["lazy_library:Registered", "builtins:KeyError"],
        "found": True,
    }
    again = codec.decode_error(json.dumps(record))
    assert type(again).__bases__ == (KeyError,)


def test_what_no_process_finds_is_a_step_failed_with_its_bases() -> None:
    class Local(ConnectionError):
        pass

    for _ in range(2):
        again: Any = codec.decode_error(codec.encode_error(Local(111, "refused")))
        assert isinstance(again, StepFailed)
        assert isinstance(again, ConnectionError)
        assert (again.errno, again.message) == (111, str(Local(111, "refused")))
        assert again.type_name.endswith("Local")


def test_a_class_of_code_that_is_run_by_exec_is_caught_by_its_bases() -> None:
    made: dict[str, Any] = {}
    exec("class Late(TimeoutError): pass", made)  # its module is said to be builtins
    assert made["Late"].__module__ == "builtins"
    for _ in range(2):
        again: Any = codec.decode_error(codec.encode_error(made["Late"]("x")))
        assert isinstance(again, StepFailed)
        assert isinstance(again, TimeoutError)
        assert (again.type_name, again.message) == ("Late", "x")
    assert type(codec.decode_error(codec.encode_error(again))) is type(again)


def test_a_class_that_a_library_makes_as_it_goes_is_caught_by_its_base() -> None:
    made = type("NoSuchKey", (requests.HTTPError,), {"__module__": "botocore.errorfactory"})("gone")
    again = codec.decode_error(codec.encode_error(made))
    assert isinstance(again, requests.HTTPError)
    assert type(again).__name__ == "NoSuchKey"


def test_members_of_a_group_and_causes_have_stand_ins(library: Any) -> None:
    group = ExceptionGroup("both", [library.slow(), KeyError("k")])
    group.__cause__ = library.Alone("why")
    again = elsewhere(codec.encode_error(group))
    assert isinstance(again, ExceptionGroup)
    slow: Any = again.split(TimeoutError)[0]  # pyright: ignore[reportUnknownMemberType]
    assert len(slow.exceptions) == 1
    assert type(again.__cause__).__name__ == "Alone"


@pytest.mark.parametrize("bases", [["os:system"], ["builtins:SystemExit"], ["builtins:str"], [3], None])
def test_a_record_cannot_choose_other_bases(bases: Any) -> None:
    record = json.loads(codec.encode_error(ValueError("x")))
    text = json.dumps(record | {"type": "not.there:X", "bases": bases, "found": True})
    try:
        assert type(codec.decode_error(text)) is StepFailed
    except InvalidValue:
        assert bases in ([3], None)


SCRIPT = """
import asyncio, sys
from signoff import codec
class Declined(Exception): pass
class Kind(__import__("enum").Enum): A = "a"
class Outer:
    class Inner(ValueError): pass
def record(): print("\\n".join(codec.encode_error(e) for e in (Declined(Kind.A), Outer.Inner("x"))))
def check(lines):
    first, second = (codec.decode_error(line) for line in lines)
    assert type(first) is Declined and first.args == (Kind.A,), first
    assert type(second) is Outer.Inner
    print("same")
if __name__ == "__main__": record() if sys.argv[1:] == ["record"] else check(sys.stdin.read().splitlines())
"""


@pytest.mark.parametrize("by_module", sample([False, True]))
def test_a_class_of_a_script_is_the_same_where_its_module_is_imported(
    tmp_path: Path, by_module: bool
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "orders.py").write_text(SCRIPT)
    script = ["-m", "package.orders"] if by_module else ["package/orders.py"]
    name = "package.orders" if by_module else "orders"
    imports = "import sys; sys.path.insert(0, 'package'); import importlib; m = importlib.import_module(sys.argv[1]);"

    def python(*arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    recorded = python(*script, "record")
    imported = f"{imports} m.check(sys.stdin.read().splitlines())"
    assert python("-c", imported, name, text=recorded) == "same\n"
    recorded = python("-c", f"{imports} m.record()", "package.orders" if by_module else name)
    assert python(*script, "check", text=recorded) == "same\n"


# What errors carry


REQUEST = httpx.Request("GET", "http://example.com", headers={"authorization": "Bearer secret"})


def http_error() -> Exception:
    with pytest.raises(httpx.HTTPStatusError) as raised:
        httpx.Response(404, request=REQUEST, text="secret").raise_for_status()
    return raised.value


def requests_error() -> Exception:
    response = requests.Response()
    response.status_code, response.reason, response.url = 404, "Not Found", "http://example.com/?key=secret"
    return requests.HTTPError("404 Not Found", response=response)


def openai_error() -> Exception:
    response = httpx.Response(404, request=REQUEST, headers={"x-request-id": "r"})
    return openai.NotFoundError("no model", response=response, body={"code": "model"})


@pytest.mark.parametrize("make", [http_error, requests_error, openai_error])
def test_of_a_response_its_status_is_kept_and_the_rest_is_named(make: Any) -> None:
    error = make()
    text = codec.encode_error(error)
    for _ in range(2):
        again: Any = codec.decode_error(text)
        assert type(again) is type(error)
        assert again.response.status_code == 404
        with pytest.raises(AttributeError, match=r"'text' of a \w+\.\S*Response in an error was not kept"):
            _ = again.response.text
        assert getattr(again.response, "text", None) is None
        (note,) = again.__notes__
        assert "response" in note
        text = codec.encode_error(again)
    assert "secret" not in json.dumps(json.loads(text)["attributes"])


def test_what_nothing_is_left_of_is_named() -> None:
    error = ValueError("x")
    error.client = object()  # type: ignore[attr-defined]
    again = codec.decode_error(codec.encode_error(error))
    assert not hasattr(again, "client")
    assert "client" in again.__notes__[0]


class Code(enum.Enum):
    """As of grpc: values that are no scalars."""

    UNAVAILABLE = (14, "unavailable")


class RpcError(Exception):
    def __init__(self, code: Code) -> None:
        self._code = code

    def __str__(self) -> str:
        return f"failed: {self._code.value[1]}"


def test_a_member_of_an_enum_is_kept_by_name() -> None:
    again: Any = codec.decode_error(codec.encode_error(RpcError(Code.UNAVAILABLE)))
    assert (type(again), str(again)) == (RpcError, "failed: unavailable")
    assert again._code is Code.UNAVAILABLE
