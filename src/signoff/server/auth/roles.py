"""The roles that may use each route, in one table. Routes that are not in the table are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, IntEnum
from typing import Final

from starlette.routing import compile_path
from starlette.types import Scope

from signoff.people.links.answer_links import PATH as LINKS_PATH
from signoff.people.questions.callback_terms import PATH as CALLBACKS_PATH
from signoff.stores.contract.wire import CHANGES_PATH, PATH


class Role(Enum):
    """A role that grants rights on the server.

    Attributes:
        VIEWER: See everything, and change nothing.
        RESPONDER: See and answer the questions assigned to the user, and nothing else.
        OPERATOR: See everything, answer assigned questions, and manage runs, groups and schedules.
        ADMIN: All of that, and create and revoke keys.
    """

    VIEWER = "viewer"
    RESPONDER = "responder"
    OPERATOR = "operator"
    ADMIN = "admin"


class Reach(IntEnum):
    """How much of a route's data a role sees. The larger reach counts if a user has two roles."""

    ASKED = 1  # the user's own questions, and what belongs to them
    ALL = 2


Rights = Mapping[Role, Reach]

_ADMIN: Final[Rights] = {Role.ADMIN: Reach.ALL}
_WORK: Final[Rights] = {Role.OPERATOR: Reach.ALL, Role.ADMIN: Reach.ALL}
_READ: Final[Rights] = {**_WORK, Role.VIEWER: Reach.ALL}
_ASKED_READ: Final[Rights] = {**_READ, Role.RESPONDER: Reach.ASKED}
_ASKED_WORK: Final[Rights] = {**_WORK, Role.RESPONDER: Reach.ASKED}
_ANY_ROLE: Final[Rights] = dict.fromkeys(Role, Reach.ALL)
_PUBLIC: Final = None
"""The route needs no authentication: it shows nothing that is private, or it authenticates callers itself."""

RIGHTS: Final[Mapping[tuple[str, str], Rights | None]] = {
    ("POST", "/v1/runs"): _WORK,
    ("GET", "/v1/runs"): _READ,
    ("GET", "/v1/runs/{run_id}"): _READ,
    ("GET", "/v1/runs/{run_id}/result"): _READ,
    ("GET", "/v1/runs/{run_id}/journal"): _READ,
    ("GET", "/v1/runs/{run_id}/events"): _READ,
    ("GET", "/v1/runs/{run_id}/timeline"): _READ,
    ("POST", "/v1/runs/{run_id}/cancel"): _WORK,
    ("POST", "/v1/runs/{run_id}/terminate"): _WORK,
    ("POST", "/v1/runs/{run_id}/suspend"): _WORK,
    ("POST", "/v1/runs/{run_id}/resume"): _WORK,
    ("POST", "/v1/runs/{run_id}/retry"): _WORK,
    ("POST", "/v1/runs/{run_id}/signals"): _WORK,
    ("POST", "/v1/runs/{run_id}/save"): _ADMIN,
    ("POST", "/v1/snapshots"): _ADMIN,
    ("POST", "/v1/prune"): _WORK,
    ("GET", "/v1/questions"): _ASKED_READ,
    ("POST", "/v1/questions"): _WORK,
    ("GET", "/v1/questions/events"): _ASKED_READ,
    ("GET", "/v1/questions/{question_id}"): _ASKED_READ,
    ("GET", "/v1/questions/{question_id}/result"): _ASKED_READ,
    ("GET", "/v1/questions/{question_id}/history"): _ASKED_READ,
    ("POST", "/v1/questions/{question_id}/answer"): _ASKED_WORK,
    ("POST", "/v1/questions/answers"): _ASKED_WORK,
    ("POST", "/v1/questions/{question_id}/view"): _ASKED_WORK,
    ("POST", "/v1/questions/{question_id}/comments"): _ASKED_WORK,
    ("POST", "/v1/questions/{question_id}/claim"): _ASKED_WORK,
    ("POST", "/v1/questions/{question_id}/release"): _ASKED_WORK,
    ("POST", "/v1/questions/{question_id}/delegate"): _ASKED_WORK,
    ("POST", "/v1/questions/{question_id}/cancel"): _WORK,
    ("POST", "/v1/questions/{question_id}/reassign"): _WORK,
    ("POST", "/v1/questions/{question_id}/deadline"): _WORK,
    ("GET", "/v1/rules"): _ASKED_READ,
    ("POST", "/v1/rules/{rule_id}/revoke"): _ASKED_WORK,
    ("POST", "/v1/questions/{question_id}/links"): _WORK,
    ("GET", "/v1/questions/{question_id}/links"): _READ,
    ("POST", "/v1/links/{link_id}/revoke"): _WORK,
    ("POST", "/v1/runs/{run_id}/resume-tokens"): _WORK,
    ("POST", "/v1/resume-tokens/read"): _ASKED_WORK,
    ("POST", "/v1/resume-tokens/check"): _ASKED_WORK,
    ("POST", "/v1/resume-tokens/answer"): _ASKED_WORK,
    ("GET", "/v1/audit"): _ASKED_READ,
    ("GET", "/v1/audit/chain"): _READ,
    ("GET", "/v1/audit/export"): _READ,
    ("GET", "/v1/deliveries"): _READ,
    ("POST", "/v1/deliveries/{delivery_id}/redeliver"): _WORK,
    ("GET", "/v1/promises"): _READ,
    ("GET", "/v1/promises/{promise_id}"): _READ,
    ("POST", "/v1/promises"): _WORK,
    ("POST", "/v1/promises/{promise_id}/resolve"): _WORK,
    ("POST", "/v1/promises/{promise_id}/reject"): _WORK,
    ("POST", "/v1/promises/{promise_id}/cancel"): _WORK,
    ("GET", "/v1/invocations"): _READ,
    ("GET", "/v1/invocations/{promise_id}"): _READ,
    ("GET", "/v1/invocations/{promise_id}/calls"): _READ,
    ("GET", "/v1/sessions"): _READ,
    ("GET", "/v1/sessions/{session_id}"): _READ,
    ("GET", "/v1/groups"): _READ,
    ("POST", "/v1/groups/{name}/pause"): _WORK,
    ("POST", "/v1/groups/{name}/resume"): _WORK,
    ("POST", "/v1/groups/{name}/limit"): _WORK,
    ("GET", "/v1/schedules"): _READ,
    ("GET", "/v1/schedules/{schedule_id}"): _READ,
    ("POST", "/v1/schedules"): _WORK,
    ("POST", "/v1/schedules/{schedule_id}/pause"): _WORK,
    ("POST", "/v1/schedules/{schedule_id}/resume"): _WORK,
    ("POST", "/v1/schedules/{schedule_id}/delete"): _WORK,
    ("GET", "/v1/workers"): _READ,
    ("GET", "/v1/workflows"): _READ,
    ("GET", "/v1/set-aside"): _WORK,
    ("GET", "/"): _ANY_ROLE,
    ("GET", "/inbox"): _ANY_ROLE,
    ("GET", "/inbox/{place}"): _ANY_ROLE,
    ("GET", "/runs"): _ANY_ROLE,
    ("GET", "/runs/{place}"): _ANY_ROLE,
    ("GET", "/promises"): _ANY_ROLE,
    ("GET", "/promises/{place}"): _ANY_ROLE,
    ("GET", "/sessions"): _ANY_ROLE,
    ("GET", "/sessions/{place}"): _ANY_ROLE,
    ("GET", "/schedules"): _ANY_ROLE,
    ("GET", "/workers"): _ANY_ROLE,
    ("GET", "/groups/{place}"): _ANY_ROLE,
    ("GET", "/rules"): _ANY_ROLE,
    ("GET", "/audit"): _ANY_ROLE,
    ("GET", "/keys"): _ANY_ROLE,
    ("GET", "/deliveries"): _ANY_ROLE,
    ("GET", "/start"): _ANY_ROLE,
    ("GET", "/start/{place}"): _ANY_ROLE,
    ("GET", "/assets/{asset}"): _PUBLIC,  # part of the published package
    ("POST", "/mcp"): _ANY_ROLE,  # each tool needs the rights of the route that it calls
    ("GET", "/mcp"): _ANY_ROLE,
    ("GET", "/openapi.json"): _ANY_ROLE,
    ("GET", "/docs"): _ANY_ROLE,
    ("GET", "/docs/{asset}"): _ANY_ROLE,
    ("POST", "/v1/keys"): _ADMIN,
    ("GET", "/v1/keys"): _ADMIN,
    ("POST", "/v1/keys/{key_id}/rotate"): _ADMIN,
    ("POST", "/v1/keys/{key_id}/revoke"): _ADMIN,
    ("GET", "/v1/me"): _ANY_ROLE,
    ("GET", "/.well-known/oauth-protected-resource"): _PUBLIC,  # names the identity provider
    ("GET", "/.well-known/oauth-protected-resource/mcp"): _PUBLIC,
    ("GET", "/login"): _PUBLIC,  # starts the sign-in
    ("GET", "/login/callback"): _PUBLIC,
    ("POST", "/logout"): _PUBLIC,
    ("POST", "/v1/slack/{channel}/actions"): _PUBLIC,  # Slack's signature
    ("GET", PATH): _PUBLIC,  # worker keys
    ("POST", PATH): _PUBLIC,
    ("GET", CHANGES_PATH): _PUBLIC,
    ("GET", f"{LINKS_PATH}/{{secret}}"): _PUBLIC,  # the secret identifies the user
    ("POST", f"{LINKS_PATH}/{{secret}}"): _PUBLIC,
    (
        "GET",
        f"{CALLBACKS_PATH}/{{secret}}",
    ): _PUBLIC,  # the secret identifies the question
    ("POST", f"{CALLBACKS_PATH}/{{secret}}"): _PUBLIC,
    ("GET", "/health"): _PUBLIC,
    ("GET", "/ready"): _PUBLIC,
    ("GET", "/metrics"): _PUBLIC,
}

NEVER_OPEN: Final = ("/v1/audit", "/v1/keys")
"""Paths that need a key even where everything else is open. ``/v1/store`` checks its keys itself."""

_NO_ROLE: Final[Rights] = {}

_ROWS: Final = [(method, compile_path(path)[0], rights) for (method, path), rights in RIGHTS.items()]


def rights_on(method: str, path: str) -> Rights | None:
    """Return the rights on a route: None if it needs no authentication, empty if it is not in the table.

    Args:
        method: The method, such as ``GET``; ``HEAD`` counts as ``GET``.
        path: The path as it was sent, percent-encoded.
    """
    asked = "GET" if method == "HEAD" else method
    found: dict[str, Rights | None] = {}
    for row_method, pattern, rights in _ROWS:
        if pattern.match(path):
            found.setdefault(row_method, rights)  # routes are matched in this order, too
    if asked not in found and None in found.values():
        return None  # a public path with another method: the router answers 405
    return found.get(asked, _NO_ROLE)


def never_open(path: str) -> bool:
    """Whether a path needs an authenticated caller even where the database has no keys."""
    return any(path == closed or path.startswith(f"{closed}/") for closed in NEVER_OPEN)


def methods_on(path: str) -> list[str]:
    """Return the methods of a path, given as it was sent."""
    return sorted({method for method, pattern, _ in _ROWS if pattern.match(path)})


def path_of(scope: Scope) -> str:
    """Return the path that routes are matched by: without the root path."""
    path, root = scope["path"], scope.get("root_path", "")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def reach_of(roles: Collection[str], rights: Rights) -> Reach | None:
    """Return the reach of a user with these roles; None if they have no access."""
    return max((reach for role, reach in rights.items() if role.value in roles), default=None)
