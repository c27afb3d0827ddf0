"""Checks the arguments of a start or a schedule against the parameters that workers announced for the workflow."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from signoff import codec
from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.formatting import one_line
from signoff.client.async_client import AsyncClient
from signoff.errors import SignoffError
from signoff.people.schemas.validation import listed, problems
from signoff.records.paging import WorkflowFilter

_AT_ONCE = 100


async def check_arguments(
    client: AsyncClient, workflow: str, group: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise CommandFailed if no announced version of a workflow accepts these arguments."""
    wrong = await _wrong_arguments(client, workflow, group, args, kwargs)
    if wrong is not None:
        advice = f"see: signoff workflows --json --name {shlex.quote(workflow)}"
        raise CommandFailed(
            ExitCode.USAGE, f"{workflow!r} does not take these arguments: {one_line(wrong, 500)}; {advice}"
        )


async def _wrong_arguments(
    client: AsyncClient, workflow: str, group: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str | None:
    """Return the reason why no announced version of a workflow accepts these arguments.

    Returns:
        The reason; None if a version accepts them, or the parameters are unknown.
    """
    try:
        known = await client.backend.list_workflows(
            WorkflowFilter(name=workflow, group=group), limit=_AT_ONCE
        )
    except SignoffError:  # such as a key that may start runs but not list workflows
        return None
    current = [each.parameters for each in known.items if each.is_current]
    if not current or None in current:
        return None
    found = [_problem(json.loads(parameters or "{}"), args, kwargs) for parameters in current]
    return None if None in found else found[0]


def _problem(taken: dict[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    names = [name for name in taken["properties"] if name != taken.get(codec.REST)]
    given: dict[str, Any] = dict(zip(names, args, strict=False))
    rest = list(args[len(names) :])
    if rest and codec.REST not in taken:
        return f"it takes {len(names)} arguments{_names(names)}, but {len(args)} are given"
    if rest:
        given[taken[codec.REST]] = rest
    for name in kwargs:
        if name in given:
            return f"{name!r} is given by position and by name"
        if name not in taken["properties"] and taken.get("additionalProperties") is False:
            return f"it has no parameter {name!r}{_names(names)}"
    missing = [name for name in taken["required"] if name not in given and name not in kwargs]
    if missing:
        return f"{' and '.join(map(repr, missing))} must be given"
    wrong = problems(taken, {**given, **kwargs})
    return listed(wrong, "arguments") if wrong else None


def _names(names: Iterable[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
