"""The answers that a caller gives with a resume token, by question."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from signoff.agents.conversations.outcomes import said_of_event
from signoff.client.async_client import AsyncClient
from signoff.errors import InvalidValue, NotFound, ResumeRefused
from signoff.people.links.resume_tokens import Resumption
from signoff.people.questions.policies import UNSET
from signoff.people.questions.question import Question
from signoff.records import Promise, PromiseState, Run


async def question_of(client: AsyncClient, id: str) -> Promise:
    """Return a question. Raises NotFound."""
    try:
        return await client.promises.get(id)
    except NotFound:
        raise NotFound("question", id) from None


async def turn_of(client: AsyncClient, agent: str, resumption: Resumption) -> Run:
    """Return the turn that a token belongs to. Raises InvalidValue if it is another agent's."""
    run = await client.backend.get_run(resumption.run_id)
    if run.workflow != agent:
        raise InvalidValue(
            "token", f"it is for a turn of agent {run.workflow!r}, not of {agent!r}; resume it there"
        )
    return run


async def answers_to(client: AsyncClient, resumption: Resumption, user_input: object) -> Mapping[str, object]:
    """Return the answer to each question of a token; empty: there is nothing left to answer.

    Args:
        client: The client of the session.
        resumption: The token's record.
        user_input: One answer, or an answer by question; UNSET: the token's external events have happened.

    Raises:
        ResumeRefused: The input does not answer the token's open questions, or they are all settled.
    """
    if user_input is UNSET:
        return await _events(client, resumption)
    try:
        return _by_question(user_input, resumption.questions)
    except ResumeRefused:
        asked = [await question_of(client, id) for id in resumption.questions]
        if all(each.state is not PromiseState.PENDING for each in asked):
            raise ResumeRefused("used") from None
        raise


async def _events(client: AsyncClient, resumption: Resumption) -> Mapping[str, object]:
    asked = [await question_of(client, id) for id in resumption.questions]
    pending = [each for each in asked if each.state is PromiseState.PENDING]
    given = {each.id: said_of_event(Question.of(each)) for each in pending}
    if others := [id for id, value in given.items() if value is UNSET]:
        raise ResumeRefused("missing", others)
    return given


def _by_question(given: object, questions: Collection[str]) -> Mapping[str, object]:
    by_id: Mapping[str, object] = cast("Any", given) if isinstance(given, Mapping) else {}
    unknown = [str(id) for id in by_id if id not in questions]
    if by_id and not unknown:
        return by_id
    if len(questions) == 1:
        return dict.fromkeys(questions, cast("object", given))
    raise ResumeRefused("question", unknown) if unknown else ResumeRefused("several", tuple(questions))
