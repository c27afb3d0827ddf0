"""``python -m examples.refund [ORDER] [CENTS]`` refunds an order, and asks on the terminal if it needs approval."""

from __future__ import annotations

import getpass
import json
import sys
from typing import Any

from examples.refund.flow import app, refund_flow
from signoff import AlreadySettled, Client, SignoffError
from signoff.records import CallKind, EntryKind

USAGE = "usage: python -m examples.refund [ORDER] [CENTS], such as: python -m examples.refund o-1 7000"


def main(arguments: list[str]) -> int:
    """Run one refund to its end."""
    try:
        order_id, cents = read_arguments(arguments)
    except ValueError:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        with Client(app) as client, app.worker():
            print(json.dumps(refund(client, order_id, cents)))
    except KeyboardInterrupt:
        print("\nThe run is kept. The same command continues it.", file=sys.stderr)
        return 130
    except SignoffError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        app.close()
    return 0


def read_arguments(arguments: list[str]) -> tuple[str, int]:
    """Return the order and the amount in cents. Raises ValueError."""
    order_id, cents = [*arguments, "o-1", "7000"][:2] if len(arguments) != 1 else (arguments[0], "7000")
    if len(arguments) > 2 or int(cents) <= 0:
        raise ValueError
    return order_id, int(cents)


def refund(client: Client, order_id: str, cents: int) -> Any:
    """Start the order's run, or join it, and follow it to its end."""
    run = client.start(refund_flow, order_id, cents, id=f"refund-{order_id}")
    for entry in run.events():
        if entry.kind is EntryKind.COMPLETED:
            print(f"  done: {entry.name}")
        if entry.kind is EntryKind.OPENED and entry.call is CallKind.QUESTION:
            question_id = entry.fact("id")
            if any(open.id == question_id for open in client.questions(run_id=run.id).items):
                decide(client, question_id, json.loads(entry.value or "{}")["text"])
    return run.result()


def decide(client: Client, question_id: str, text: str) -> None:
    """Ask on the terminal; without a terminal, print the command that answers."""
    print(text)
    if not sys.stdin.isatty():
        print(f"To answer: signoff answer {question_id} --approve", flush=True)
        return
    while (word := input("  approve or reject? ").strip().casefold()) not in ("approve", "reject"):
        print("  Please type the whole word.")
    note = input("  a note, if you like: ").strip() or None
    try:
        client.answer(question_id, word == "approve", user_id=getpass.getuser(), note=note)
    except AlreadySettled as error:
        print(f"  Too late: {error}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
