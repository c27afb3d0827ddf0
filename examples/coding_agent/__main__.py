"""``python -m examples.coding_agent`` asks for permission for each command, and runs what a person allows."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

from mcp import Client, StdioServerParameters

STORE = os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db")
SCRIPT = ("echo built >> build.log", "rm build.log", "echo done")
"""The commands of the agent, which follows a script instead of a model."""


async def main() -> None:
    """Ask for permission for each command of the script."""
    command = [sys.executable, "-m", "signoff", "mcp"]
    place = ["--url", url] if (url := os.environ.get("SIGNOFF_URL")) else ["--store", STORE]
    server = StdioServerParameters(command=command[0], args=[*command[1:], *place], env=dict(os.environ))
    async with Client(server, mode="legacy") as signoff:
        for number, line in enumerate(SCRIPT):
            print(f"$ {line}\n  waiting for permission: signoff inbox", flush=True)
            decision = await permission(signoff, {"command": line}, f"{os.getpid()}-{number}")
            if decision["behavior"] == "allow":
                print(run(decision["updatedInput"]["command"]), flush=True)
            else:
                print(f"  denied: {decision['message']}", flush=True)


async def permission(signoff: Client, input: dict[str, Any], call_id: str) -> dict[str, Any]:
    """Return a person's decision on a command. Whatever else comes back is not a permission."""
    call = {"tool_name": "Bash", "input": input, "tool_use_id": call_id}
    result = await signoff.call_tool("permission_prompt", call)
    text = getattr(result.content[0], "text", "") if result.content else ""
    if result.is_error:
        return {"behavior": "deny", "message": text}
    return json.loads(text)


def run(line: str) -> str:
    """Run a command and return its output."""
    done = subprocess.run(
        line, shell=True, capture_output=True, text=True, check=False
    )  # a person has allowed it
    return done.stdout.rstrip() or f"  ended with {done.returncode}"


if __name__ == "__main__":
    asyncio.run(main())
