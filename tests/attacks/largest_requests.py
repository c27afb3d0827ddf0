"""The largest requests that each route accepts, on a store of ``large_rows``. A new route needs an entry here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from signoff.server.auth.roles import RIGHTS
from signoff.stores.contract.wire import CHANGES_PATH, PATH
from tests.attacks.large_rows import MIB
from tests.attacks.requests_of_all import BODIES, IDS, VALUES

Route = tuple[str, str]
Sent = dict[str, Any]

JSON: Final = {"content-type": "application/json"}
FORM: Final = {"content-type": "application/x-www-form-urlencoded"}

PAGE: Final = {"most": {"params": {"limit": "1000"}}}
"""A list, with as many items as can be asked for."""
PLAIN: Final[Mapping[str, Sent]] = {"": {}}
STREAM: Final = {"": {"headers": {"last-event-id": "0"}}}
ANY: Final = {f"any {name}": {"content": body, "headers": JSON} for name, body in BODIES.items()}
"""Bodies of JSON that the route refuses, once it has read them."""

FORMS: Final = {
    "many fields": {"content": b"&".join([b"a=b"] * (MIB // 4)), "headers": FORM},
    "one long field": {"content": b"note=" + b"%F0%9F%92%A9" * (MIB // 13), "headers": FORM},
}
_BATCHES: Final = {"any": {"content": BODIES["lists"], "headers": JSON}}
"""``test_memory`` has what workers send."""


def _with(template: bytes) -> Mapping[str, Sent]:
    """Bodies with the largest values of each kind in a place, and those that fit nowhere."""
    whole = {name: {"content": template % value, "headers": JSON} for name, value in VALUES.items()}
    return {**whole, **ANY}


def _text(template: bytes) -> Mapping[str, Sent]:
    """Bodies with the longest text in a place, and those that fit nowhere."""
    text = b'"%b\xf0\x9f\x92\xa9"' % (b"x" * (MIB - 1_000))
    return {"text": {"content": template % text, "headers": JSON}, **ANY}


LARGEST: Final[Mapping[Route, Mapping[str, Sent]]] = {
    ("POST", "/v1/runs"): _with(b'{"workflow":"w","args":[%b]}'),
    ("GET", "/v1/runs"): PAGE,
    ("GET", "/v1/runs/{run_id}"): PLAIN,
    ("GET", "/v1/runs/{run_id}/result"): PLAIN,
    ("GET", "/v1/runs/{run_id}/journal"): PAGE,
    ("GET", "/v1/runs/{run_id}/events"): STREAM,
    ("GET", "/v1/runs/{run_id}/timeline"): PLAIN,
    ("POST", "/v1/runs/{run_id}/cancel"): _text(b'{"reason":%b}'),
    ("POST", "/v1/runs/{run_id}/terminate"): _text(b'{"reason":%b}'),
    ("POST", "/v1/runs/{run_id}/suspend"): _text(b'{"reason":%b}'),
    ("POST", "/v1/runs/{run_id}/resume"): ANY,
    ("POST", "/v1/runs/{run_id}/retry"): _text(b'{"reason":%b}'),
    ("POST", "/v1/runs/{run_id}/signals"): _with(b'{"name":"n","value":%b}'),
    ("POST", "/v1/runs/{run_id}/save"): PLAIN,
    ("POST", "/v1/snapshots"): _with(b'{"snapshot":{"x":%b}}'),
    ("POST", "/v1/prune"): ANY,
    ("GET", "/v1/questions"): PAGE,
    ("POST", "/v1/questions"): {
        f"{sent} of {part}": body
        for part, template in (
            ("metadata", b'{"id":"q","text":"?","metadata":{"x":%b}}'),
            ("schema", b'{"id":"q","text":"?","input_type":"form","answer_schema":{"enum":[%b]}}'),
            ("proposal", b'{"id":"q","text":"?","proposal":%b,"proposal_schema":{}}'),
        )
        for sent, body in _with(template).items()
    },
    ("GET", "/v1/questions/events"): STREAM,
    ("GET", "/v1/questions/{question_id}"): PLAIN,
    ("GET", "/v1/questions/{question_id}/result"): PLAIN,
    ("GET", "/v1/questions/{question_id}/history"): PAGE,
    ("POST", "/v1/questions/{question_id}/answer"): _with(b'{"user_id":"ana","value":%b}'),
    ("POST", "/v1/questions/answers"): _with(
        b'{"user_id":"ana","answers":[{"question_id":"long.900","value":%b}]}'
    ),
    ("POST", "/v1/questions/{question_id}/view"): _text(b'{"user_id":%b}'),
    ("POST", "/v1/questions/{question_id}/comments"): _text(b'{"user_id":"ana","text":%b}'),
    ("POST", "/v1/questions/{question_id}/claim"): _text(b'{"user_id":%b}'),
    ("POST", "/v1/questions/{question_id}/release"): _text(b'{"user_id":%b}'),
    ("POST", "/v1/questions/{question_id}/delegate"): _text(b'{"user_id":"ana","to":[%b]}'),
    ("POST", "/v1/questions/{question_id}/cancel"): _text(b'{"reason":%b}'),
    ("POST", "/v1/questions/{question_id}/reassign"): _text(b'{"to":[%b]}'),
    ("POST", "/v1/questions/{question_id}/deadline"): ANY,
    ("GET", "/v1/rules"): PAGE,
    ("POST", "/v1/rules/{rule_id}/revoke"): ANY,
    ("POST", "/v1/questions/{question_id}/links"): _text(b'{"user_id":"ana","groups":[%b]}'),
    ("GET", "/v1/questions/{question_id}/links"): PAGE,
    ("POST", "/v1/links/{link_id}/revoke"): ANY,
    ("POST", "/v1/runs/{run_id}/resume-tokens"): ANY,
    ("POST", "/v1/resume-tokens/read"): _text(b'{"token":%b}'),
    ("POST", "/v1/resume-tokens/check"): _with(b'{"token":"t","value":%b}'),
    ("POST", "/v1/resume-tokens/answer"): _with(b'{"token":"t","user_id":"ana","value":%b}'),
    ("GET", "/v1/audit"): PAGE,
    ("GET", "/v1/audit/chain"): PAGE,
    ("GET", "/v1/audit/export"): PLAIN,
    ("GET", "/v1/deliveries"): PAGE,
    ("POST", "/v1/deliveries/{delivery_id}/redeliver"): ANY,
    ("GET", "/v1/promises"): PAGE,
    ("GET", "/v1/promises/{promise_id}"): PLAIN,
    ("POST", "/v1/promises"): _with(b'{"data":%b}'),
    ("POST", "/v1/promises/{promise_id}/resolve"): _with(b'{"value":%b}'),
    ("POST", "/v1/promises/{promise_id}/reject"): _with(b'{"value":%b}'),
    ("POST", "/v1/promises/{promise_id}/cancel"): ANY,
    ("GET", "/v1/invocations"): PAGE,
    ("GET", "/v1/invocations/{promise_id}"): PLAIN,
    ("GET", "/v1/invocations/{promise_id}/calls"): PAGE,
    ("GET", "/v1/sessions"): PAGE,
    ("GET", "/v1/sessions/{session_id}"): PLAIN,
    ("GET", "/v1/groups"): PLAIN,
    ("POST", "/v1/groups/{name}/pause"): ANY,
    ("POST", "/v1/groups/{name}/resume"): ANY,
    ("POST", "/v1/groups/{name}/limit"): ANY,
    ("GET", "/v1/schedules"): PAGE,
    ("GET", "/v1/schedules/{schedule_id}"): PLAIN,
    ("POST", "/v1/schedules"): _with(b'{"id":"s","workflow":"w","cron":"0 0 1 1 *","args":[%b]}'),
    ("POST", "/v1/schedules/{schedule_id}/pause"): ANY,
    ("POST", "/v1/schedules/{schedule_id}/resume"): ANY,
    ("POST", "/v1/schedules/{schedule_id}/delete"): {"any deep": ANY["any deep"]},
    ("GET", "/v1/workers"): PLAIN,
    ("GET", "/v1/workflows"): PAGE,
    ("GET", "/v1/set-aside"): PLAIN,
    **{
        ("GET", path): PLAIN
        for path in (
            *("/", "/inbox", "/inbox/{place}", "/runs", "/runs/{place}", "/sessions", "/sessions/{place}"),
            *("/promises", "/promises/{place}"),
            *("/schedules", "/workers", "/groups/{place}", "/rules", "/audit", "/keys", "/deliveries"),
            *(f"/.well-known/oauth-protected-resource{path}" for path in ("", "/mcp")),
            *("/start", "/start/{place}", "/assets/{asset}", "/openapi.json", "/docs", "/docs/{asset}"),
        )
    },
    ("POST", "/mcp"): _with(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"start_workflow","arguments":{"workflow":"w","args":[%b]}}}'
    ),
    ("GET", "/mcp"): PLAIN,
    ("POST", "/v1/keys"): _text(b'{"name":"n","groups":[%b]}'),
    ("GET", "/v1/keys"): PAGE,
    ("POST", "/v1/keys/{key_id}/rotate"): ANY,
    ("POST", "/v1/keys/{key_id}/revoke"): ANY,
    ("GET", "/v1/me"): PLAIN,
    ("GET", "/login"): {"": {"params": {"next": "/" + "x" * 30_000}}},
    ("GET", "/login/callback"): {"": {"params": {"code": "x" * 15_000, "state": "y" * 15_000}}},
    ("POST", "/logout"): ANY,
    ("POST", "/v1/slack/{channel}/actions"): FORMS,
    ("GET", PATH): PLAIN,
    ("POST", PATH): _BATCHES,
    ("GET", CHANGES_PATH): {"": {"params": {"namespace": "default"}}},
    ("GET", "/l/{secret}"): PLAIN,
    ("POST", "/l/{secret}"): FORMS,
    ("GET", "/c/{secret}"): PLAIN,
    ("POST", "/c/{secret}"): {**_with(b"%b"), **FORMS},
    ("GET", "/health"): PLAIN,
    ("GET", "/ready"): PLAIN,
    ("GET", "/metrics"): PLAIN,
}

MORE_IDS: Final = {**IDS, "place": ("long",), "secret": ("none",)}


def requests_of(route: Route) -> Iterator[tuple[str, str, Sent]]:
    """Yield the largest requests of a route: a name, the path and what else they are sent with."""
    for path in filled(route[1]):
        for name, sent in LARGEST[route].items():
            yield f"{route[0]} {path} {name}".strip(), path, sent


def filled(path: str) -> list[str]:
    """Return a path with the ids of rows that exist."""
    for name, ids in MORE_IDS.items():
        if f"{{{name}}}" in path:
            return [each for id in ids for each in filled(path.replace(f"{{{name}}}", id))]
    assert "{" not in path, f"{path} has a part that is not in IDS"
    return [path]


def routes_for(role: Any) -> list[Route]:
    """Return the routes that a role opens, and for None those that need no role."""
    return [
        route
        for route, rights in RIGHTS.items()
        if (rights is None if role is None else role in (rights or ()))
    ]
