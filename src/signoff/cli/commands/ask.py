"""``signoff ask``: a shell script asks a person, and waits for the answer or comes back for it."""

from __future__ import annotations

from typing import Any, cast

import click

from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.formatting import answered
from signoff.cli.output import Output
from signoff.cli.target import on_client
from signoff.cli.values import JsonObject, JsonValue, Number
from signoff.client.async_client import AsyncClient
from signoff.client.questions import answer_to
from signoff.errors import QuestionCancelled, SignalTimeout
from signoff.people.questions.question_schema import InputType
from signoff.people.questions.standalone_questions import QuestionTerms
from signoff.records import PromiseState
from signoff.records.start_options import LONGEST_DELAY
from signoff.wire.records import to_wire

_TYPES = ("approval", "text", "select", "multiselect", "form")


@click.command()
@click.argument("question", metavar="TEXT")
@click.option("--id", "question_id", required=True, help="The question's id. The same id and terms ask once.")
@click.option("--type", "input_type", type=click.Choice(_TYPES), default="approval", show_default=True)
@click.option(
    "--option", "options", multiple=True, help="A choice of select or multiselect; repeat for more."
)
@click.option("--schema", type=JsonObject(), help="The JSON Schema of a form.")
@click.option(
    "--assignee",
    "assignees",
    multiple=True,
    help="user:ana, group:finance, role:approver.  [default: anyone]",
)
@click.option(
    "--quorum", type=click.IntRange(1), default=1, help="How many people must approve.  [default: 1]"
)
@click.option("--requester", metavar="USER", help="The user on whose behalf it is asked, who may not answer.")
@click.option(
    "--deadline",
    type=Number(min=0, max=LONGEST_DELAY),
    metavar="SECONDS",
    help="Seconds until it closes without an answer.",
)
@click.option("--remind-every", type=Number(min=1), metavar="SECONDS", help="Seconds between reminders.")
@click.option("--skippable", is_flag=True, help="People may skip it.")
@click.option("--details", metavar="TEXT", help="A longer text beside the question.")
@click.option("--metadata", type=JsonValue(), help="Facts to show, as a JSON object.")
@click.option("--wait/--no-wait", default=True, help="Wait for the answer, or only ask.  [default: wait]")
@on_client
async def ask(
    client: AsyncClient,
    out: Output,
    question: str,
    question_id: str,
    schema: dict[str, Any] | None,
    requester: str | None,
    deadline: float | None,
    details: str | None,
    wait: bool,
    input_type: InputType,
    **given: Any,
) -> None:
    """Ask people TEXT, wait for the answer and print it.

    It exits with 1 if an approval is rejected or skipped, the deadline passes, or the question is withdrawn.

    The question belongs to no run: a script that is started again with the same id gets the answer given meanwhile.
    """
    terms = cast(
        "QuestionTerms",
        {
            **given,
            "input_type": input_type,
            "answer_type": schema,
            "requester": requester,
            "exclude_requester": requester is not None,
            "timeout_seconds": deadline,
            "help": details,
        },
    )
    handle = await client.ask(question_id, question, **terms)
    if wait:
        try:
            await handle.answer()
        except (SignalTimeout, QuestionCancelled) as error:
            raise CommandFailed(ExitCode.FAILED, str(error)) from None
    promise = await handle.read()
    is_open = promise.state is PromiseState.PENDING
    answer = None if is_open else answer_to(promise)
    if out.as_json:
        out.object(to_wire(promise))
    else:
        out.line(question_id if is_open else answered(promise.value))
    if answer is not None and input_type == "approval" and answer.approved is not True:  # None: skipped
        raise CommandFailed(ExitCode.FAILED, f"question {question_id!r} is answered: not approved")
