"""``python -m examples.openai_agents_refund [WISH]`` helps a customer, and asks you before it pays."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from examples.openai_agents_refund.support import MODEL, app, support
from examples.terminal import typed
from signoff import AlreadySettled, AsyncClient, SignoffError


async def decide(client: AsyncClient, run_id: str) -> None:
    """Show each open question of the run, and answer it from the terminal. An unclear answer is a denial."""
    while True:
        for question in (await client.questions(run_id=run_id)).items:
            asked: dict[str, Any] = json.loads(question.data or "{}")
            print(f"\n{asked['text']}, with")
            print(json.dumps(asked.get("proposal"), indent=2))
            reply = (await typed("[a]pprove, or type the reason for a denial: ")).strip()
            is_approved = reply in ("a", "approve")
            try:
                note = None if is_approved else reply or "not now"
                await client.answer(question.id, {"approved": is_approved}, user_id="me", note=note)
            except AlreadySettled as error:
                print(error)
        await asyncio.sleep(0.2)


async def main(arguments: list[str]) -> int:
    """Run the agent once; the same command later continues the same run."""
    if MODEL is None:
        print("No model is set, so the agent follows a script. Set one with SIGNOFF_DEMO_MODEL=gpt-5.")
    wish = arguments[0] if arguments else "My kettle o-1 arrived broken."
    async with AsyncClient(app) as client, app.worker():
        run = await client.start(support, wish, id="support-o-1")
        deciding = asyncio.create_task(decide(client, run.id))
        ending = asyncio.create_task(run.result())
        await asyncio.wait([deciding, ending], return_when=asyncio.FIRST_COMPLETED)
        for each in (deciding, ending):
            each.cancel()
        try:
            await (ending if ending.done() else deciding)
        except EOFError:
            print("\nThere is no one at this terminal. The run is kept: signoff inbox shows its question.")
            return 1
        except SignoffError as error:
            print(error, file=sys.stderr)
            return 1
        print(await ending)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except KeyboardInterrupt:
        print("\nThe run and its question are kept.", file=sys.stderr)
        sys.exit(130)
