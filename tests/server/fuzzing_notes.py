"""Loaded by schemathesis to record which operations were answered, and how.

Examples are about what is there for their operation alone: so none finds it changed by another one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

import schemathesis
from schemathesis.generation.meta import TestPhase

SNAPSHOT = "snapshot.json"
"""Where the snapshot of a run is that is not at the server yet."""

NOTES = Path(os.environ.get("SIGNOFF_API_NOTES", os.devnull))


def is_example(case: schemathesis.Case) -> bool:
    return case.meta is not None and case.meta.phase.name is TestPhase.EXAMPLES


@schemathesis.hook("before_call")
def be_about_its_own(
    context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]
) -> None:
    if not is_example(case):
        return
    own = case.operation.definition.raw["operationId"]
    for name in case.path_parameters:
        if name.endswith("_id"):
            case.path_parameters[name] = own
    if isinstance(case.body, dict) and "id" in case.body:
        case.body = {**cast("dict[str, Any]", case.body), "id": own}
    if isinstance(case.body, dict) and "resume_token" in case.body:
        said = cast("dict[str, Any]", case.body)
        answers = [{**each, "question_id": own} for each in said.get("answers", ())]
        case.body = {**said, "resume_token": resume_token_of(own)} | ({"answers": answers} if answers else {})
    if isinstance(case.body, dict) and "snapshot" in case.body:
        snapshot = json.loads(Path(SNAPSHOT).read_text())
        case.body = {**cast("dict[str, Any]", case.body), "snapshot": snapshot}


def resume_token_of(operation: str) -> str:
    """The resume token that an operation's examples have for themselves."""
    return "sgr_" + operation.ljust(43, "_")


@schemathesis.hook("after_call")
def note(context: schemathesis.HookContext, case: schemathesis.Case, response: schemathesis.Response) -> None:
    with NOTES.open("a") as notes:
        notes.write(f"{response.status_code} {case.operation.label}\n")
