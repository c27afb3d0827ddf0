"""``python -m examples.gated_review FILE`` reviews a text, and asks you only if the gate has findings."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path
from typing import Any

from examples.gated_review.review import Document, app, flow
from examples.terminal import typed
from signoff import SignoffError, WrongAnswer
from signoff.flows import Execution, Interrupt

USAGE = "usage: python -m examples.gated_review FILE"


async def review(file: Path) -> dict[str, Any]:
    """Review a file, and return the result. The same text is reviewed once."""
    text = file.read_text()
    id = f"review-{hashlib.sha256(f'{file.name}{text}'.encode()).hexdigest()[:16]}"
    async with app.worker():
        execution = await flow.start(Document(name=file.name, text=text), id=id)
        while not (await execution.status()).is_final:
            for interrupt in (await execution.get_pending_interrupts(wait_seconds=1)).values():
                await answer(execution, interrupt)
        return await execution.result()


async def answer(execution: Execution, interrupt: Interrupt) -> None:
    """Ask on the terminal until the verdict is valid."""
    print(f"\n{interrupt.question}")
    for found in interrupt.payload["findings"]:
        print(f"- {found}")
    word = (await typed("publish, reject or change: ")).strip()
    said: dict[str, str] = {"verdict": word}
    if word == "change":
        said["text"] = await typed("The text: ")
    try:
        await execution.continue_with(interrupt.id, said, user_id="me")
    except WrongAnswer as error:
        print(error)


async def main(arguments: list[str]) -> int:
    """Review one file."""
    if len(arguments) != 1:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        done = await review(Path(arguments[0]))
    except EOFError:
        print(
            "\nThere is no one at this terminal. The review waits: signoff inbox shows it.", file=sys.stderr
        )
        return 1
    except (OSError, UnicodeDecodeError, SignoffError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"published by {done['by']}" if done["published"] else f"rejected by {done['by']}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except KeyboardInterrupt:
        print("\nThe review and its question are kept.", file=sys.stderr)
        sys.exit(130)
