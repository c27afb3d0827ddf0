"""``python -m examples.langgraph_refund ORDER`` asks you before it refunds an order."""

from __future__ import annotations

import asyncio
import json
import sys

from examples.langgraph_refund.agent import app, support
from examples.terminal import typed
from signoff import AsyncClient, AsyncHandle, Promise, Question, SignoffError

USAGE = "usage: python -m examples.langgraph_refund ORDER"


async def serve(order: str) -> str:
    """Refund an order, and return what the agent says. The same order is refunded once."""
    async with app.worker(), AsyncClient(app) as client:
        run = await client.start(support, f"Please refund order {order}", id=f"refund-{order}")
        while (asked := await next_question(client, run)) is not None:
            await decide(client, asked)
        return await run.result()


async def next_question(client: AsyncClient, run: AsyncHandle) -> Promise | None:
    """Wait for a question of the run; None if it ends before."""
    while not await run.done():
        for each in (await client.questions(run_id=run.id)).items:
            return each
        await asyncio.sleep(0.05)
    return None


async def decide(client: AsyncClient, asked: Promise) -> None:
    """Ask on the terminal: y approves, a number edits the amount, anything else rejects with that reason."""
    question = Question.of(asked)
    print(f"{question.text} {json.dumps(question.proposal)}")
    word = (await typed("y, another amount in cents, or why not: ")).strip()
    answer: object = word == "y"
    if word.isdecimal():
        answer = {"approved": True, "edited": {**question.proposal, "cents": int(word)}}
    try:
        await client.answer(asked.id, answer, user_id="me", note=None if answer else word or None)
    except SignoffError as error:
        print(error)


async def main(arguments: list[str]) -> int:
    """Serve one order."""
    if len(arguments) != 1:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        print(await serve(arguments[0]))
    except EOFError:
        print(
            "\nThere is no one at this terminal. The question waits: signoff inbox shows it.", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except KeyboardInterrupt:
        print("\nThe run and its question are kept.", file=sys.stderr)
        sys.exit(130)
