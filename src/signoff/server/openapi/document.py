"""The OpenAPI document of the API."""

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
from signoff.records.timeline import TimelineChange
from signoff.server.auth.authenticators import Authenticators
from signoff.server.auth.trusted_proxy import TrustedProxy
from signoff.server.http.problems import plain_body
from signoff.server.openapi.declared_responses import PROBLEM, add_problem
from signoff.server.openapi.examples import PATH_EXAMPLES, PROBLEMS
from signoff.server.openapi.record_schemas import Plain, problem_of, shape_of

TAGS: Final = [
    {"name": "runs", "description": "Workflow executions, and their journals"},
    {"name": "questions", "description": "Questions for people: the inbox, and answers"},
    {"name": "links", "description": "Single-use addresses for answering a question"},
    {"name": "resume tokens", "description": "Single-use secrets for answering a turn's questions"},
    {"name": "rules", "description": "Standing approvals, given for a limited time"},
    {"name": "promises", "description": "Addressable durable futures, settled from outside"},
    {
        "name": "invocations",
        "description": "Promises that workers of Resonate's SDKs execute, and their calls",
    },
    {"name": "audit", "description": "The audit trail of questions, chained by hashes"},
    {"name": "notifications", "description": "Messages to people: sent, waiting or given up"},
    {"name": "sessions", "description": "Chains of runs, at most one of them active at a time"},
    {"name": "snapshots", "description": "Runs as data, to continue in another store"},
    {"name": "groups", "description": "Groups, which route, pause and limit runs"},
    {"name": "workers", "description": "The processes that execute runs"},
    {"name": "workflows", "description": "The workflows that workers serve, and their parameters"},
    {"name": "schedules", "description": "Workflows that are started repeatedly"},
    {"name": "keys", "description": "The keys of services and workers"},
    {"name": "login", "description": "Sign-in, and the current user"},
    {"name": "health", "description": "For orchestrators and Prometheus"},
]

_SUMMARY: Final = """Runs, questions and promises of one store. `docs/http-api.md` says more.

Refusals are `application/problem+json`. Lists are paged: `next` is the `after` of the next page."""


_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The `ETag` of a known response; if it has not changed, the reply is 304 without a body",
}


class DescribedAPI(FastAPI):
    """FastAPI application whose OpenAPI document also has the responses that middleware adds to routes.

    Args:
        authenticators: The server's authenticators.
        proxy: The trusted proxy, if there is one.
        cookie: The name of the login cookie; None without an identity provider.
        options: Further arguments of FastAPI.
    """

    def __init__(
        self, authenticators: Authenticators, proxy: TrustedProxy | None, cookie: str | None, **options: Any
    ) -> None:
        super().__init__(
            title="Signoff",
            description=_SUMMARY,
            openapi_tags=TAGS,
            **options,
        )
        self._authenticators = authenticators
        self._schemes = _schemes(proxy, cookie)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
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
            components["schemas"].update(_further_schemas())
            components["securitySchemes"] = self._schemes
        assert self.openapi_schema is not None
        return self.openapi_schema

    def _names(self) -> dict[tuple[str, str], str]:
        """Return operation ids by path and method: the names of the routes' functions."""
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
                "ETag": {"schema": {"type": "string"}, "description": "A hash of the body"}
            }
            replies["304"] = {"description": "Not changed since the given ETag"}
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
            unauthenticated: list[dict[str, list[str]]] = [] if self._authenticators.required else [{}]
            operation["security"] = [*({name: []} for name in self._schemes), *unauthenticated]
        operation["responses"] = dict(sorted(replies.items()))


def _add_plain(replies: dict[str, Any], status: str, detail: str) -> None:
    example = plain_body(int(status), detail)
    replies[status] = {
        "description": example["title"],
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Plain"}, "example": example}},
    }


def _further_schemas() -> dict[str, Any]:
    """Return the schemas of problems, and of records that only event streams carry."""
    shapes: list[Any] = [Plain, *map(problem_of, PROBLEMS), shape_of(TimelineChange)]
    mode: JsonSchemaMode = "serialization"
    _, schema = TypeAdapter.json_schemas(
        [(shape, mode, TypeAdapter(shape)) for shape in shapes], ref_template="#/components/schemas/{model}"
    )
    return schema["$defs"]


def _schemes(proxy: TrustedProxy | None, cookie: str | None) -> dict[str, dict[str, str]]:
    schemes = {"key": {"type": "http", "scheme": "bearer", "description": "The API key of a service"}}
    if cookie is not None:
        text = "The login of a user who signed in at /login with a browser"
        schemes["login"] = {"type": "apiKey", "in": "cookie", "name": cookie, "description": text}
    if proxy is not None:
        text = "The user, as the trusted proxy names them. Only the proxy may set this header."
        schemes["person"] = {"type": "apiKey", "in": "header", "name": proxy.user_header, "description": text}
    return schemes
