"""``signoff.ask``: one call that asks a person, in a workflow and outside of one."""

from __future__ import annotations

import os
from typing import Any, Final

from typing_extensions import Unpack

from signoff.app import Signoff
from signoff.client.async_client import KEY_VARIABLE, AsyncClient
from signoff.errors import InvalidValue
from signoff.people.questions.answers import Answer
from signoff.people.questions.standalone_questions import QuestionTerms
from signoff.workflow.current_context import context_here

_URL: Final = "SIGNOFF_URL"
_STORE: Final = "SIGNOFF_STORE"


async def ask(
    question: str,
    /,
    *,
    id: str | None = None,
    client: AsyncClient | None = None,
    timeout: float | None = None,
    **terms: Unpack[QuestionTerms],
) -> Answer:
    """Ask a person a question and wait for the answer, wherever the code runs.

    In workflow code this is ``Context.wait_for_user``: the run pauses, and the question belongs to it. Anywhere else
    the question belongs to no run. It is durable, so a program that restarts calls this again with the same ``id`` and
    gets the answer that was given meanwhile.

    Args:
        question: The question's text.
        id: The question's id, which the program must choose. In workflow code the run and the call identify the
            question, and the id is not used.
        client: The client to ask with, outside of workflow code. By default one for the server at ``SIGNOFF_URL`` (with
            the key ``SIGNOFF_KEY``), or for the database at ``SIGNOFF_STORE``.
        timeout: The most seconds to wait here, outside of workflow code. The question stays open. Its own deadline is
            ``timeout_seconds``.
        terms: The other arguments of ``Context.wait_for_user``.

    Returns:
        The answer, checked against the question's form.

    Raises:
        InvalidValue: There is no id, no client, or a term is not valid.
        RegistrationError: The terms contradict each other.
        IdConflict: The id belongs to a question with other terms.
        TimeoutError: There was no answer within ``timeout``.
        SignalTimeout: The question's own deadline has passed.
        QuestionCancelled: It was withdrawn.

    Example::

        answer = await signoff.ask("Delete 3 TB of logs?", id="cleanup-2026-11", assignees=["group:ops"])
        if answer.approved:
            delete_logs()
    """
    context = context_here()
    if context is not None:
        given: dict[str, Any] = {**terms}
        return await context.wait_for_user(question, **given)
    if id is None:
        raise InvalidValue(
            "id", "outside of a workflow, choose one: a program that restarts finds its question by it"
        )
    if client is not None:
        return await (await client.ask(id, question, **terms)).answer(timeout)
    url, store = os.environ.get(_URL), os.environ.get(_STORE)
    if bool(url) is bool(store):
        problem = (
            f"{_URL} and {_STORE} are both set; unset one" if url else f"pass one, or set {_URL} or {_STORE}"
        )
        raise InvalidValue("client", problem)
    async with AsyncClient(
        url or Signoff(store or ""), key=os.environ.get(KEY_VARIABLE) if url else None
    ) as own:
        return await (await own.ask(id, question, **terms)).answer(timeout)
