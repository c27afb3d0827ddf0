"""``python -m examples.approved_write [WISH]`` writes a plan into the current folder, if you approve it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from examples.approved_write.planner import MODEL, app
from examples.terminal import typed
from signoff import SignoffError
from signoff.agents import Approve, Conversation, Deny, Edit, Finished, Paused, Pending

USAGE = "usage: python -m examples.approved_write [WISH], such as: python -m examples.approved_write 'Move the office'"


async def plan(chat: Conversation, wish: str, folder: Path) -> str:
    """Send the wish, and decide about the turn's questions until it has finished."""
    turn: Finished | Paused = await chat.run(wish, context={"folder": str(folder)})
    while isinstance(turn, Paused):
        question = turn.pending[0]
        await chat.respond(question.id, await decide(question), user_id="me")
        turn = await chat.wait(turn.run_id)  # the answer may have belonged to an earlier turn
    return str(turn.output)


async def decide(question: Pending) -> Approve | Deny | Edit:
    """Show the exact call, and read a decision from the terminal. An unclear answer is a denial."""
    print(f"\n{question.text}, with")
    print(json.dumps(question.arguments, indent=2))
    answer = (await typed("[a]pprove, [e]dit the text, or type the reason for a denial: ")).strip()
    if answer in ("a", "approve"):
        return Approve()
    if answer in ("e", "edit"):
        return Edit({**(question.arguments or {}), "text": await typed("Text: ") + "\n"})
    return Deny(answer or "not now")


async def main(arguments: list[str]) -> int:
    """Run one turn of the conversation about the current folder."""
    if len(arguments) > 1:
        print(USAGE, file=sys.stderr)
        return 2
    if MODEL is None:
        print(
            "No model is set, so the planner follows a script. Set one with SIGNOFF_DEMO_MODEL=openai:gpt-5."
        )
    folder = Path.cwd()
    session = os.environ.get("SIGNOFF_SESSION", f"plan-{folder.name}")
    async with app.worker(), app.conversation("planner", session_id=session) as chat:
        try:
            print(await plan(chat, arguments[0] if arguments else "Move the office", folder))
        except EOFError:
            print(
                "\nThere is no one at this terminal. The turn is kept: signoff inbox shows its questions.",
                file=sys.stderr,
            )
            return 1
        except SignoffError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except KeyboardInterrupt:
        print("\nThe turn and its question are kept.", file=sys.stderr)
        sys.exit(130)
