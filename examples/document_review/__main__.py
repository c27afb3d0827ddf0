"""``python -m examples.document_review FILE`` reviews a text. It asks you where the model cannot know the answer."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path
from typing import Any

from examples.document_review.reviewer import MODEL, app
from examples.terminal import typed
from signoff import AsyncClient, Question, SignoffError, WrongAnswer
from signoff.agents import Conversation, Finished, Paused, Pending, Reply

USAGE = "usage: python -m examples.document_review FILE"


async def review(chat: Conversation, file: Path) -> dict[str, Any]:
    """Have a file reviewed, and answer the questions. The same text is reviewed once."""
    text = file.read_text()
    turn: Finished | Paused = await chat.run(text, id=f"{chat.session_id}-1")
    while isinstance(turn, Paused):
        question = turn.pending[0]
        try:
            turn = await chat.respond(question.id, Reply(await fill_in(question)), user_id="me")
        except WrongAnswer as error:
            print(error)
    return turn.output


async def fill_in(question: Pending) -> dict[str, str]:
    """Read the fields of a form from the terminal. Empty fields are left out."""
    async with AsyncClient(app) as client:
        asked = Question.from_json((await client.promises.get(question.id)).data or "null")
    print(f"\n{question.text}\n")
    answers: dict[str, str] = {}
    for name, field in asked.answer_schema["properties"].items():
        options = f" ({', '.join(field['enum'])})" if "enum" in field else ""
        said = (await typed(f"{field.get('title', name)}{options} ")).strip()
        if said:
            answers[name] = said
    return answers


async def main(arguments: list[str]) -> int:
    """Review one file."""
    if len(arguments) != 1:
        print(USAGE, file=sys.stderr)
        return 2
    if MODEL is None:
        print(
            "No model is set, so the reviewer follows a script. Set one with SIGNOFF_DEMO_MODEL=openai:gpt-5."
        )
    file = Path(arguments[0])
    try:
        session = f"review-{hashlib.sha256(file.name.encode() + file.read_bytes()).hexdigest()[:16]}"
        async with app.worker(), app.conversation("reviewer", session_id=session) as chat:
            done = await review(chat, file)
    except EOFError:
        print(
            "\nThere is no one at this terminal. The review waits: signoff inbox shows its questions.",
            file=sys.stderr,
        )
        return 1
    except (OSError, UnicodeDecodeError, SignoffError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{done['verdict']}: {done['reason']}\n\n{done['text']}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except KeyboardInterrupt:
        print("\nThe review and its questions are kept.", file=sys.stderr)
        sys.exit(130)
