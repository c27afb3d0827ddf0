"""Answers: data parts of a message on a task that waits."""

from __future__ import annotations

from typing import Any, Final, cast

from a2a.types import Message

from signoff import (
    AlreadySettled,
    AlreadyVoted,
    AsyncClient,
    NotAllowed,
    QuestionClaimed,
    Run,
    WrongAnswer,
    codec,
)
from signoff.errors import InvalidValue, NotFound
from signoff.integrations.a2a.agent import A2AAgent, Caller
from signoff.integrations.a2a.parts import data_of

MOST_ANSWERS: Final = 20
"""Answers in a message."""

_REQUIRED: Final = frozenset({"question_id", "digest", "value"})
_ALLOWED: Final = _REQUIRED | {"note"}

HOW: Final = 'Answer with a data part {"question_id", "digest", "value"} for a question that lists them.'


async def answer(
    client: AsyncClient, agent: A2AAgent, caller: Caller, run: Run, message: Message
) -> list[str]:
    """Give the answers in a message in the name of its caller.

    Args:
        client: The client of the run.
        agent: The agent.
        caller: The caller, who answers.
        run: The task's run.
        message: The message. The same message, sent again, has no further effect.

    Returns:
        Why answers were refused. A text is no answer.

    Raises:
        InvalidValue: A part is not an answer, or there are too many. Nothing is answered.
        RequestConflict: Another message with this id answered one of the questions.
    """
    given = [_read(each, place) for place, each in enumerate(data_of(message))]
    if len(given) > MOST_ANSWERS:
        raise InvalidValue("parts", f"a message has at most {MOST_ANSWERS} answers")
    if not given:
        return [f"A text does not answer a question. {HOW}"]
    refused: list[str] = []
    for each in given:
        try:
            await _give(client, agent, caller, run, message.message_id, each)
        except NotFound:
            refused.append(f"This task has no question {each['question_id']!r}.")
        except AlreadySettled as error:
            refused.append(f"This answer came too late: {error}")
        except (WrongAnswer, NotAllowed, QuestionClaimed, AlreadyVoted, InvalidValue) as error:
            refused.append(f"The answer was refused, and the question is still open: {error}")
    return refused


async def _give(
    client: AsyncClient, agent: A2AAgent, caller: Caller, run: Run, message_id: str, given: dict[str, Any]
) -> None:
    id: str = given["question_id"]
    promise = await client.promises.get(id)
    if promise.run_id != run.id or promise.kind != "question":
        raise NotFound("question", id)
    if not agent.may_answer(caller, promise):
        who = ", ".join(promise.assignees) or "a person"
        raise NotAllowed(id, caller.user_id, f"{who} must answer it in the inbox, not through A2A")
    text = codec.encode([caller.user_id, message_id, id])
    await client.answer(
        id,
        given["value"],
        user_id=caller.user_id,
        groups=caller.groups,
        roles=caller.roles,
        note=given.get("note"),
        request_id=f"a2a-{codec.digest(text)[:40]}",
        digest=given["digest"],
    )


def _read(data: Any, place: int) -> dict[str, Any]:
    path = f"parts.{place}"
    if not isinstance(data, dict) or not (_REQUIRED <= data.keys() <= _ALLOWED):  # pyright: ignore[reportUnknownMemberType]
        raise InvalidValue(path, "an answer has question_id, digest and value, and may have a note")
    given = cast("dict[str, Any]", data)
    for name in ("question_id", "digest", *(("note",) if "note" in given else ())):
        if not isinstance(given[name], str) or not given[name]:
            raise InvalidValue(f"{path}.{name}", "it is not a text, or is empty")
    return given
