"""Types of command-line arguments, and the name of the user at the terminal."""

from __future__ import annotations

import getpass
import json
import math
import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from signoff.client.async_client import KEY_VARIABLE
from signoff.codec.strict_json import read_exactly
from signoff.people.schemas.validation import shorten


class JsonValue(click.ParamType[Any]):
    """An argument that is JSON."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value  # a default
        return parse_json(value, param, ctx)


class JsonObject(JsonValue):
    """An argument that is a JSON object."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parsed = super().convert(value, param, ctx)
        if not isinstance(parsed, dict):
            self.fail(f"{value} is not a JSON object, such as '{{\"amount\": 7}}'", param, ctx)
        return parsed  # pyright: ignore[reportUnknownVariableType]


class Number(click.FloatRange):
    """An argument that is a number in a range, and not NaN or infinite."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class Moment(click.ParamType[datetime]):
    """An argument that is a date and time, in local time unless it has an offset."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value!r} is not a valid time, such as 2026-03-01T09:00 or 2026-03-01T09:00+01:00",
                param,
                ctx,
            )


def check_names(kwargs: Mapping[str, Any], reserved: frozenset[str], command: str) -> None:
    """Raise BadParameter for keyword arguments with the name of an option of the start itself."""
    if taken := sorted(kwargs.keys() & reserved):
        names = " and ".join(repr(name) for name in taken)
        raise click.BadParameter(
            f"{names} would be read as an option of the start: pass that argument by position with --arg, "
            f"or see {command} --help for the option",
            param_hint="--kwargs",
        )


def parse_json(text: str, param: click.Parameter | None = None, ctx: click.Context | None = None) -> Any:
    """Parse JSON that a user typed.

    Raises:
        BadParameter: It is not JSON. The message shows how to quote a string.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise click.BadParameter("the JSON is nested too deep", ctx=ctx, param=param) from None
    except ValueError:
        quoted = shorten(json.dumps(text, ensure_ascii=False))
        named = re.fullmatch(r"([A-Za-z_]\w*)=.*", text, re.DOTALL)
        by_name = f"; an argument by name is written --kwargs '{{\"{named[1]}\": ...}}'" if named else ""
        raise click.BadParameter(
            f"{shorten(repr(text))} is not JSON; a text is written '{quoted}'{by_name}", ctx=ctx, param=param
        ) from None
    try:
        read_exactly(text)
    except ValueError as error:  # a duplicate key is ambiguous
        raise click.BadParameter(str(error).partition(": line")[0], ctx=ctx, param=param) from None
    return value


def _refuse(name: str) -> None:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def login_name() -> str | None:
    """Return the login name of the user at the terminal; None if unknown, or if an API key identifies the actor."""
    if KEY_VARIABLE in os.environ:
        return None
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None
