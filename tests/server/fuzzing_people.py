"""Loaded by schemathesis for a server behind a proxy: each request is from another user, or from none."""

from __future__ import annotations

import itertools
from typing import Any, cast

import schemathesis

from signoff.server import Role
from tests.server.fuzzing_notes import be_about_its_own, is_example, note
from tests.server.proxied import PROXY

PEOPLE = itertools.cycle([None, "", *(role.value for role in Role)])
"""Callers: none, one without roles, and one with each role."""

__all__ = ["be_about_its_own", "note"]


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    for name in (PROXY.user_header, PROXY.groups_header, PROXY.roles_header):
        case.headers.pop(name or "", None)
    role = Role.ADMIN.value if is_example(case) else next(PEOPLE)
    if is_example(case) and isinstance(case.body, dict):  # whom they name does not ask here
        said = cast("dict[str, Any]", case.body)
        case.body = {name: value for name, value in said.items() if name not in ("by", "started_by")}
    if role is not None:
        case.headers.update(
            {PROXY.user_header: "ana", str(PROXY.groups_header): "finance", str(PROXY.roles_header): role}
        )


@schemathesis.check
def nobody_gets_in(
    context: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    sent = response.request.headers
    if not case.path.startswith("/v1/"):
        return
    if PROXY.user_header not in sent:
        assert response.status_code in (401, 414, 415, 431), response.status_code
    elif not sent.get(str(PROXY.roles_header)):
        assert response.status_code in (403, 414, 415, 431), response.status_code
