"""Call trees of programs on Resonate's SDKs, made by single requests."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.server.resonate.speaker import TARGET, Speaker


def coded(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def call(function: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The parameter of a call."""
    return {"data": coded({"func": function, "args": args, "kwargs": kwargs})}


def tags(id: str, parent: str, branch: str, **more: str) -> dict[str, str]:
    own = {"origin": id.partition(":")[0], "parent": parent, "branch": branch, **more}
    return {f"resonate:{name}": value for name, value in own.items()}


def grow(speaker: Speaker, id: str = "r") -> None:
    """The tree of an invocation that calls functions here and elsewhere, sleeps, asks, and waits for a webhook."""
    target = TARGET["resonate:target"]
    speaker.hold(
        id, param=call("order", "o-1", cents=7), tags=tags(id, id, id, target=target, scope="global")
    )
    speaker.create(f"{id}:1", tags=tags(f"{id}:1", id, id, scope="local"))
    speaker.create(f"{id}:1.1", tags=tags(f"{id}:1.1", f"{id}:1", id, scope="local"))
    remote = tags(f"{id}:2", id, f"{id}:2", target=target, scope="global")
    speaker.create(f"{id}:2", param=call("pay", 7), tags=remote)
    speaker.create(f"{id}:3", tags=tags(f"{id}:3", id, f"{id}:3", timer="true"))
    asked = {"signoff:question": '{"text": "Refund?"}'}
    speaker.create(f"{id}:4", tags={**tags(f"{id}:4", id, f"{id}:4"), **asked})
    speaker.create(f"{id}:5", tags=tags(f"{id}:5", id, f"{id}:5", external="true"))
    speaker.settle(f"{id}:1", data=coded({"ok": True}))
