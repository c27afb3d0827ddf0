"""``signoff inbox``, ``answer``, ``comment``, ``claim`` and the other commands for questions."""

from __future__ import annotations

import json
import sys
import time
import uuid
from typing import Any, cast

import click

from signoff.cli.answer_form import ask
from signoff.cli.exit_codes import CommandFailed, ExitCode, exit_code_of
from signoff.cli.formatting import ago, answered, brief, moment, one_line
from signoff.cli.output import Output
from signoff.cli.paging import page_options, print_page
from signoff.cli.signals import interruptible
from signoff.cli.target import Command, on_client
from signoff.cli.values import Number, login_name, parse_json
from signoff.client.async_client import AsyncClient
from signoff.codec.strict_json import read_object
from signoff.errors import (
    AlreadySettled,
    NotFound,
    QuestionTooNew,
    SignoffError,
    UnreadableRecord,
    WrongAnswer,
)
from signoff.people.questions.bulk_answers import GivenAnswer
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.people.questions.standing_approvals import Alike
from signoff.records import Promise, PromiseKind, PromiseState
from signoff.records.start_options import LONGEST_DELAY
from signoff.wire.records import to_problem, to_wire


def _alike(command: Command) -> Command:
    """Add the options for approving similar questions in advance."""
    for option in (
        click.option(
            "--max-uses", type=click.IntRange(1), help="With --alike: the most questions to approve."
        ),
        click.option(
            "--session",
            is_flag=True,
            help="Approve for all runs of the same session, as long as --alike says, or until it is revoked.",
        ),
        click.option("--everywhere", is_flag=True, help="With --alike: for all runs, not only this one."),
        click.option("--any-arguments", is_flag=True, help="With --alike: with any arguments."),
        click.option(
            "--same",
            multiple=True,
            metavar="POINTER",
            help="With --alike: an argument that must be the same, such as /to; repeat for more. [default: all]",
        ),
        click.option(
            "--alike",
            "alike_seconds",
            type=Number(0, LONGEST_DELAY, min_open=True),
            metavar="SECONDS",
            help="Approve all questions about the same action for SECONDS, in your name.",
        ),
    ):
        command = option(command)
    return command


def groups_and_roles(command: Command) -> Command:
    """Add the options for the groups and roles of the user."""
    command = click.option("--role", "roles", multiple=True, help="A role of the user; repeat for more.")(
        command
    )
    return click.option("--in-group", "groups", multiple=True, help="A group of the user; repeat for more.")(
        command
    )


@click.command()
@click.option("--run", "run_id", help="Only questions of this run.")
@click.option("--user", help="Only questions that this user may answer.")
@groups_and_roles
@click.option("--workflow", help="Only questions of this workflow's runs.")
@click.option("--group", help="Only questions of runs in this group.")
@click.option("--text", metavar="WORDS", help="Only questions with these words in their text, ids or tool.")
@page_options
@on_client
async def inbox(
    client: AsyncClient,
    out: Output,
    user: str | None,
    groups: tuple[str, ...],
    roles: tuple[str, ...],
    after: str | None,
    **search: Any,
) -> None:
    """List open questions, oldest first."""
    page = await client.questions(user_id=user, groups=groups, roles=roles, after=after, **search)
    while page.next and not page.items:
        page = await client.questions(user_id=user, groups=groups, roles=roles, after=page.next, **search)
    columns = ("QUESTION", "ASKED", "UNTIL", "FOR", "KIND", "TEXT")
    print_page(out, page, columns, _row, "no open questions")


def _row(promise: Promise, now: float) -> tuple[str, ...]:
    try:
        asked, state = Question.of(promise), QuestionState.of(promise, now)
    except (UnreadableRecord, QuestionTooNew) as error:
        return promise.id, ago(promise.created_at, now), "", "", "", one_line(str(error))
    until = ago(state.deadline_at, now) if state.deadline_at else ""
    claimed_by = state.progress.claimed_by
    whom = f"{claimed_by} (claimed)" if claimed_by else ", ".join(promise.assignees) or "anyone"
    return (
        promise.id,
        ago(promise.created_at, now),
        until,
        one_line(whom),
        asked.input_type,
        one_line(asked.text),
    )


@click.command()
@click.argument("question_ids", nargs=-1, required=True, metavar="QUESTION...")
@click.option("--approve/--reject", "approved", default=None, help="Approve or reject.")
@click.option("--value", metavar="JSON", help="An option, a list of options or a form; null skips.")
@click.option("--text", help="A text, or the value of an option.")
@click.option(
    "--edit",
    metavar="JSON",
    help="Approve the proposal with these fields or this value instead.",
)
@click.option("--note", help="A note to add.")
@_alike
@click.option("--user", help="The user who answers.  [default: your login name]")
@groups_and_roles
@on_client
async def answer(
    client: AsyncClient,
    out: Output,
    question_ids: tuple[str, ...],
    groups: tuple[str, ...],
    roles: tuple[str, ...],
    approved: bool | None,
    value: str | None,
    text: str | None,
    edit: str | None,
    note: str | None,
    alike_seconds: float | None,
    same: tuple[str, ...],
    any_arguments: bool,
    everywhere: bool,
    max_uses: int | None,
    session: bool,
    user: str | None,
) -> None:
    """Answer QUESTION. Without a value, a terminal prompts for it. Several questions get the same answer."""
    given = [each for each in (approved, value, text, edit) if each is not None]
    if len(given) > 1:
        raise click.UsageError("give one of --approve, --reject, --edit, --value and --text")
    who: dict[str, Any] = {"user_id": user or login_name(), "groups": groups, "roles": roles}
    said = parse_json(value) if value is not None else given[0] if given else None
    change = None if edit is None else parse_json(edit)
    question_id, *others = question_ids
    alike: Alike | None = None
    if alike_seconds is not None or session:
        alike = Alike(alike_seconds, same or None, any_arguments, everywhere, max_uses, session)
    elif same or any_arguments or everywhere or max_uses:
        raise click.UsageError(
            "--same, --any-arguments, --everywhere and --max-uses go with --alike SECONDS or --session"
        )
    if alike is not None and (others or approved is not True):
        raise click.UsageError("--alike goes with --approve, and with one question; so does --session")
    if others:
        if edit is not None or not given:
            raise click.UsageError("several questions need --approve, --reject, --value JSON or --text TEXT")
        await _answer_all(client, out, question_ids, said, note, who)
        return
    promise = await _question(client, question_id)
    if edit is not None:
        asked = Question.of(promise)
        said = _edited(promise, asked, change)
        promise = await client.answer(question_id, said, **who, note=note, digest=_digest(promise))
    elif given:
        promise = await client.answer(question_id, said, **who, note=note, alike=alike)
    else:
        promise = await _put(client, out, promise, who, note)
    if out.as_json:
        out.object(to_wire(promise))
    else:
        out.line(_outcome(promise))


async def _answer_all(
    client: AsyncClient,
    out: Output,
    question_ids: tuple[str, ...],
    said: Any,
    note: str | None,
    who: dict[str, Any],
) -> None:
    """Give several questions the same answer. Raises CommandFailed if one was refused."""
    given = [GivenAnswer(question_id, said, note) for question_id in question_ids]
    results = await client.inbox.answer_all(given, **who)
    refused = [result for result in results if isinstance(result, SignoffError)]
    if out.as_json:
        out.object({"items": [_as_json(id, each) for id, each in zip(question_ids, results, strict=True)]})
    else:
        for result in results:
            out.line(f"refused: {result}" if isinstance(result, SignoffError) else _outcome(result))
    if refused:
        raise CommandFailed(
            exit_code_of(refused[0]), f"{len(refused)} of {len(results)} answers were refused"
        )


def _as_json(question_id: str, result: Promise | SignoffError) -> dict[str, Any]:
    if isinstance(result, SignoffError):
        return {"question_id": question_id, "problem": to_problem(result)}
    return {"question_id": question_id, "question": to_wire(result)}


def _outcome(promise: Promise) -> str:
    if promise.state is not PromiseState.PENDING:
        return f"question {promise.id} is answered: {answered(promise.value)}"
    state = QuestionState.of(promise, time.time())
    votes = state.progress.votes
    approvals = sum(vote.approved for vote in votes)
    needed = state.policy.quorum.approvals if state.policy.quorum is not None else 1
    return (
        f"your vote on question {promise.id} counts: {approvals} of {needed} approvals, "
        f"{len(votes) - approvals} rejections; it stays open"
    )


@click.command()
@click.argument("question_id", metavar="QUESTION")
@click.option("--user", help="The user who claims it.  [default: your login name]")
@groups_and_roles
@on_client
async def claim(
    client: AsyncClient,
    out: Output,
    question_id: str,
    user: str | None,
    groups: tuple[str, ...],
    roles: tuple[str, ...],
) -> None:
    """Claim QUESTION: no other user can answer it until it is released, delegated or escalated."""
    promise = await client.inbox.claim(question_id, user_id=_user(user), groups=groups, roles=roles)
    _print(out, promise, f"is claimed by {QuestionState.of(promise, time.time()).progress.claimed_by}")


@click.command()
@click.argument("question_id", metavar="QUESTION")
@click.argument("text")
@click.option("--user", help="The user who comments.  [default: your login name]")
@groups_and_roles
@on_client
async def comment(
    client: AsyncClient,
    out: Output,
    question_id: str,
    text: str,
    user: str | None,
    groups: tuple[str, ...],
    roles: tuple[str, ...],
) -> None:
    """Comment on QUESTION, which does not change. `signoff audit list` shows comments."""
    event = await client.inbox.comment(
        question_id, text, user_id=_user(user), groups=groups, roles=roles, request_id=uuid.uuid4().hex
    )
    if out.as_json:
        out.object(to_wire(event))
    else:
        out.line(f"the comment was added to question {question_id}")


@click.command()
@click.argument("question_id", metavar="QUESTION")
@click.option("--user", help="The user who claimed it.  [default: your login name]")
@on_client
async def release(client: AsyncClient, out: Output, question_id: str, user: str | None) -> None:
    """Release QUESTION, which you have claimed, so that other users can answer it again."""
    _print(out, await client.inbox.release(question_id, user_id=_user(user)), "is released")


@click.command()
@click.argument("question_id", metavar="QUESTION")
@click.argument("to", nargs=-1, required=True, metavar="ASSIGNEE...")
@click.option("--user", help="The user who delegates it.  [default: your login name]")
@groups_and_roles
@click.option("--note", help="The reason.")
@on_client
async def delegate(
    client: AsyncClient,
    out: Output,
    question_id: str,
    to: tuple[str, ...],
    user: str | None,
    **options: Any,
) -> None:
    """Delegate QUESTION to new assignees, who replace all current ones: user:bob, group:finance, role:approver."""
    promise = await client.inbox.delegate(question_id, to, user_id=_user(user), **options)
    _print(out, promise, f"is now assigned to {', '.join(promise.assignees)}")


@click.command("cancel-question")
@click.argument("question_id", metavar="QUESTION")
@click.option("--reason", help="The reason, which the workflow receives.")
@on_client
async def cancel_question(client: AsyncClient, out: Output, question_id: str, reason: str | None) -> None:
    """Withdraw QUESTION, regardless of its assignees. Its workflow gets an error where it waits."""
    promise = await client.inbox.cancel(question_id, by=login_name(), reason=reason)
    _print(out, promise, "is cancelled")


@click.command()
@click.argument("question_id", metavar="QUESTION")
@click.argument("to", nargs=-1, required=True, metavar="ASSIGNEE...")
@click.option("--reason", help="The reason.")
@on_client
async def reassign(
    client: AsyncClient, out: Output, question_id: str, to: tuple[str, ...], reason: str | None
) -> None:
    """Reassign QUESTION, regardless of its current assignees: user:bob, group:finance, role:approver."""
    promise = await client.inbox.reassign(question_id, to, by=login_name(), reason=reason)
    _print(out, promise, f"is now assigned to {', '.join(promise.assignees)}")


@click.command("move-deadline")
@click.argument("question_id", metavar="QUESTION")
@click.argument("seconds", type=Number(0, LONGEST_DELAY, min_open=True))
@click.option("--reason", help="The reason.")
@on_client
async def move_deadline(
    client: AsyncClient, out: Output, question_id: str, seconds: float, reason: str | None
) -> None:
    """Move the deadline of QUESTION, which must have one, to SECONDS from now."""
    promise = await client.inbox.move_deadline(question_id, seconds, by=login_name(), reason=reason)
    at = QuestionState.of(promise, time.time()).deadline_at
    _print(out, promise, f"is open until {moment(at or 0.0)}")


def _user(user: str | None) -> str:
    name = user or login_name()
    if name is None:
        raise click.UsageError("name the user: --user NAME")
    return name


def _print(out: Output, promise: Promise, what: str) -> None:
    if out.as_json:
        out.object(to_wire(promise))
    else:
        out.line(f"question {promise.id} {what}")


async def _question(client: AsyncClient, question_id: str) -> Promise:
    """Return an existing question. Raises NotFound."""
    try:
        promise = await client.promises.get(question_id)
    except NotFound:
        raise NotFound("question", question_id) from None
    if promise.kind is not PromiseKind.QUESTION:
        raise CommandFailed(
            ExitCode.NOT_FOUND,
            f"{question_id!r} is a promise, not a question; settle it with: signoff resolve {question_id} JSON",
        )
    return promise


def _edited(promise: Promise, asked: Question, change: Any) -> dict[str, Any]:
    """Return the approval of a proposal with edited fields, or with another value if it is not an object."""
    if asked.proposal is None:
        raise click.UsageError(f"question {promise.id!r} has no proposal to --edit")
    proposal: object = asked.proposal
    if isinstance(proposal, dict) and isinstance(change, dict):
        change = cast("dict[str, Any]", proposal) | cast("dict[str, Any]", change)
    return {"approved": True, "edited": change}


def _digest(promise: Promise) -> str:
    """Return the digest of the original question: what is shown may be redacted."""
    return read_object(promise.data).get("digest", "")


async def _put(
    client: AsyncClient, out: Output, promise: Promise, who: dict[str, Any], note: str | None
) -> Promise:
    """Show the question, and prompt until the answer is accepted."""
    if promise.state is not PromiseState.PENDING:
        raise AlreadySettled(promise.id, promise.state, promise.settled_by, promise.settled_at)
    if out.as_json or not sys.stdin.isatty():
        raise click.UsageError(
            "give the answer: --approve, --reject, --edit JSON, --value JSON or --text TEXT"
        )
    asked = Question.of(promise)
    _show(out, promise, asked)
    while True:
        with interruptible():
            said = ask(asked)
            if note is None:
                note = click.prompt("Note", default="", show_default=False, err=True)
        try:
            return await client.answer(promise.id, said, **who, note=note or None, digest=_digest(promise))
        except WrongAnswer as wrong:
            for field, message in wrong.problems:
                out.note(f"{field}: {message}" if field else message, "red")


def _show(out: Output, promise: Promise, asked: Question) -> None:
    out.note(one_line(asked.text, 2000), "bold")
    if asked.help is not None:
        for line in asked.help.splitlines():
            out.note(f"  {one_line(line, 2000)}")
    for name, value in asked.metadata.items():
        out.note(f"  {one_line(name)}: {brief(json.dumps(value), 500)}")
    for attachment in asked.attachments:
        out.note(f"  {one_line(attachment['name'])}: {one_line(attachment['url'], 4000)}")
    if asked.action is not None:
        out.note(f"  action: {one_line(asked.action['tool'])}")
        _show_data(out, asked.action["arguments"])
    if asked.proposal is not None:
        out.note("  proposed:")
        _show_data(out, asked.proposal)
    state = QuestionState.of(promise, time.time())
    if promise.assignees:
        out.note(f"  for {one_line(', '.join(promise.assignees))}")
    if state.progress.claimed_by:
        out.note(f"  claimed by {one_line(state.progress.claimed_by)}")
    if state.deadline_at:
        out.note(f"  until {moment(state.deadline_at)}")


def _show_data(out: Output, data: Any) -> None:
    for line in json.dumps(data, ensure_ascii=False, indent=2).splitlines():
        indent = len(line) - len(line.lstrip())
        out.note(f"    {' ' * indent}{one_line(line, 2000)}")
