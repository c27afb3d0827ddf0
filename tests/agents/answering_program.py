"""Answers questions of conversations: ``python -m tests.agents.answering_program FOLDER approve|deny``, then a line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from signoff import AlreadySettled
from signoff.agents import Approve, Deny
from tests.agents.chats import Chats
from tests.support import opened


async def main(folder: Path, how: str) -> None:
    """Print which of the sessions ``c0``, ``c1``, ... were answered here."""
    chats = Chats(folder)
    async with opened(chats.app) as client:
        asked = {each.run_id: each.id for each in (await client.questions()).items}
        sessions = {run.session_id: asked[run.id] for run in (await client.list()).items if run.id in asked}

        async def answer(session: str) -> bool:
            decision = Approve() if how == "approve" else Deny("not that one")
            try:
                await chats.conversation(session).respond(sessions[session], decision, user_id=how)
            except AlreadySettled:
                return False
            return True

        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        names = sorted(filter(None, sessions))
        won = await asyncio.gather(*map(answer, names))
        print(json.dumps([name for name, mine in zip(names, won, strict=True) if mine]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
