"""The API's description of itself."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from signoff.errors import (
    AccessDenied,
    InvalidValue,
    NotAuthenticated,
    PayloadTooLarge,
    StoreDamaged,
    StoreFull,
    StoreMoved,
    StoreReadOnly,
    StoreUnavailable,
    TooManyRequests,
)
from signoff.server.auth.authenticators import Ways
from signoff.server.auth.trusted_proxy import TrustedProxy
from signoff.server.http.problems import plain_body
from signoff.server.openapi.declared_responses import PROBLEM, add_problem
from signoff.server.openapi.examples import PATH_EXAMPLES, PROBLEMS
from signoff.server.openapi.record_schemas import Plain, problem_of

TAGS: Final = [
    {"name": "runs", "description": "Executions of workflows, and what happened in them"},
    {"name": "questions", "description": "What people are asked: the inbox, and answers"},
    {"name": "links", "description": "Addresses by which a person answers a question once"},
    {"name": "resume tokens", "description": "Secrets by which a turn's questions are answered once"},
    {"name": "rules", "description": "What people have approved in their name for some time"},
    {"name": "promises", "description": "What others settle: addressable durable futures"},
    {"name": "audit", "description": "What happened to questions, chained by hashes"},
    {"name": "notifications", "description": "What was sent to people, waits, or was given up"},
    {"name": "sessions", "description": "Chains of runs, of which one at most is active at a time"},
    {"name": "snapshots", "description": "Runs as data, to go on in another store"},
    {"name": "groups", "description": "Where runs are routed to, paused and limited"},
    {"name": "workers", "description": "The processes that drive runs"},
    {"name": "workflows", "description": "What workers run, and what it takes"},
    {"name": "schedules", "description": "Workflows that are started again and again"},
    {"name": "keys", "description": "What services and workers prove themselves by"},
    {"name": "login", "description": "Who sends a request"},
    {"name": "health", "description": "For orchestrators and Prometheus"},
]

_SUMMARY: Final = """Runs, questions and promises of one store. `docs/http-api.md` says more.

Refusals are `application/problem+json`. Lists are paged: `next` is the `after` of the next page."""


_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The `ETag` of a reply that is known; if it would come again, 304 comes without it",
}


class DescribedAPI(FastAPI):
    """An application whose description says what each operation gives, also what no single route knows of.

    Args:
        ways: How a request says whose it is.
        proxy: What says who people are.
        cookie: The name of the cookie of whoever has signed in; None: nobody does.
        options: What FastAPI takes.
    """

    def __init__(self, ways: Ways, proxy: TrustedProxy | None, cookie: str | None, **options: Any) -> None:
        super().__init__(
            title="Signoff",
            description=_SUMMARY,
            openapi_tags=TAGS,
            **options,
        )
        self._ways = ways
        self._schemes = _schemes(proxy, cookie)

    def openapi(self) -> dict[str, Any]:
        """Return the description."""
        if self.openapi_schema is None:
            described = super().openapi()
            names = self._names()
            for path, operations in described["paths"].items():
                for method, operation in operations.items():
                    operation["operationId"] = names[path, method]
                    self._describe(path, method, operation)
            components: dict[str, Any] = described["components"]
            for fastapis in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(fastapis, None)
            components["schemas"].update(_problem_schemas())
            components["securitySchemes"] = self._schemes
        assert self.openapi_schema is not None
        return self.openapi_schema

    def _names(self) -> dict[tuple[str, str], str]:
        """Return what operations are called: as their functions."""
        routes = (route for route in self.routes if isinstance(route, APIRoute))
        return {
            (route.path_format, method.lower()): route.name
            for route in routes
            for method in route.methods or ()
        }

    def _describe(self, path: str, method: str, operation: dict[str, Any]) -> None:
        replies = operation["responses"]
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                parameter["example"] = PATH_EXAMPLES.get(parameter["name"])
        for status in ("414", "421", "431"):
            add_problem(replies, status, InvalidValue)
        if method == "get" and "application/json" in replies.get("200", {}).get("content", {}):
            replies["200"]["headers"] = {
                "ETag": {"schema": {"type": "string"}, "description": "Of these very bytes"}
            }
            replies["304"] = {"description": "It is as you know it"}
            operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
        if method == "post":
            add_problem(replies, "403", InvalidValue)
            add_problem(replies, "413", PayloadTooLarge)
            add_problem(replies, "415", InvalidValue)
        if "requestBody" in operation:
            _add_plain(replies, "400", "There was an error parsing the body")
        if "requestBody" in operation or "parameters" in operation:
            if "application/json" in replies.get("422", {}).get("content", {}):
                del replies["422"]  # FastAPI's own
            add_problem(replies, "422", InvalidValue)
        if path.startswith("/v1/"):
            for kind in (StoreUnavailable, StoreDamaged, StoreFull, StoreMoved, StoreReadOnly):
                add_problem(replies, "503", kind)
            add_problem(replies, "401", NotAuthenticated)
            add_problem(replies, "403", AccessDenied)
            add_problem(replies, "429", TooManyRequests)
            anybody: list[dict[str, list[str]]] = [] if self._ways.required else [{}]
            operation["security"] = [*({name: []} for name in self._schemes), *anybody]
        operation["responses"] = dict(sorted(replies.items()))


def _add_plain(replies: dict[str, Any], status: str, detail: str) -> None:
    example = plain_body(int(status), detail)
    replies[status] = {
        "description": example["title"],
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Plain"}, "example": example}},
    }


def _problem_schemas() -> dict[str, Any]:
    shapes: list[Any] = [Plain, *map(problem_of, PROBLEMS)]
    mode: JsonSchemaMode = "serialization"
    _, schema = TypeAdapter.json_schemas(
        [(shape, mode, TypeAdapter(shape)) for shape in shapes], ref_template="#/components/schemas/{model}"
    )
    return schema["$defs"]


def _schemes(proxy: TrustedProxy | None, cookie: str | None) -> dict[str, dict[str, str]]:
    schemes = {"key": {"type": "http", "scheme": "bearer", "description": "The API key of a service"}}
    if cookie is not None:
        told = "Whoever has signed in at /login, in a browser"
        schemes["login"] = {"type": "apiKey", "in": "cookie", "name": cookie, "description": told}
    if proxy is not None:
        told = "Who somebody is, by the word of the proxy that signs people in. It alone may set this header."
        schemes["person"] = {"type": "apiKey", "in": "header", "name": proxy.user_header, "description": told}
    return schemes
