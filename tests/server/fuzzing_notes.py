"""What schemathesis loads to write down which operations were answered, and how.

Examples are about what is there for their operation alone: so none finds it changed by another one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import schemathesis
from schemathesis.generation.meta import TestPhase

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


@schemathesis.hook("after_call")
def note(context: schemathesis.HookContext, case: schemathesis.Case, response: schemathesis.Response) -> None:
    with NOTES.open("a") as notes:
        notes.write(f"{response.status_code} {case.operation.label}\n")
