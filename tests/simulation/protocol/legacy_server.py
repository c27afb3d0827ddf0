"""The operations of the protocol of 2024 on a server of a simulated world."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request
from starlette.routing import Match, Route

from signoff.errors import SignoffError
from signoff.server.auth.actors import UNAUTHENTICATED
from signoff.server.resonate.access import Sender
from signoff.server.resonate.call import Call
from signoff.server.resonate.legacy.app import OPERATIONS, Operation
from signoff.server.resonate.legacy.errors import LegacyRefusal
from signoff.server.resonate.legacy.requests import read_body
from signoff.server.resonate.protocol import Refusal, Reply
from signoff.server.resonate.push import Push
from signoff.server.services import Services
from signoff.testing.simulation import Process

SENDER: Final = Sender(UNAUTHENTICATED)

_ROUTES: Final = [(Route(each.path, lambda _: None, methods=[each.method]), each) for each in OPERATIONS]
_NO_PUSH: Final = Push(())


async def operate_legacy(process: Process, services: Services, body: bytes) -> bytes:
    """Perform ``{"method", "path", "key", "body"}``, as ``server/resonate/legacy/app.py`` does."""
    asked = json.loads(body)
    operation, path_params = _found(asked["method"], asked["path"])
    key = [] if asked["key"] is None else [(b"idempotency-key", asked["key"].encode())]
    http = Request({"type": "http", "method": asked["method"], "headers": key, "path_params": path_params})
    try:
        data = (
            None if operation.body is None else read_body(operation.body, json.dumps(asked["body"]).encode())
        )
        own = services.with_origin(SENDER.origin(None))
        reply = await operation.perform(Call(SENDER, own, "", _NO_PUSH), http, data)
    except LegacyRefusal as refusal:
        reply = _refused(refusal)
    except (SignoffError, Refusal) as error:
        reply = _refused(LegacyRefusal.of(error))
    except Exception as error:
        process.world.blame(f"{process.name}: {asked} raised {error!r}")
        reply = Reply(str(error), 500)
    return json.dumps({"status": reply.status, "data": reply.data}).encode()


def _found(method: str, path: str) -> tuple[Operation, dict[str, Any]]:
    for route, operation in _ROUTES:
        match, scope = route.matches({"type": "http", "method": method, "path": path})
        if match is Match.FULL:
            return operation, scope["path_params"]
    raise AssertionError(f"there is no {method} {path}")


def _refused(refusal: LegacyRefusal) -> Reply:
    return Reply({"code": refusal.code, "message": refusal.text}, refusal.code // 100)
