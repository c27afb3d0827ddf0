"""Modals in Slack: opens a question's form for a user, and answers the question with the submitted form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from signoff.codec.strict_json import read_object
from signoff.errors import (
    AlreadySettled,
    InvalidValue,
    NotSerializable,
    PayloadTooLarge,
    RequestConflict,
    SignoffError,
    StoreError,
    WrongAnswer,
)
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.links.html_fields import note_field
from signoff.people.links.html_values import answer_of, normal
from signoff.people.notifications.channels.channel import Undelivered
from signoff.people.notifications.channels.slack import MODAL, Answering, SlackError, SlackSender
from signoff.people.notifications.channels.slack_buttons import (
    ClickReply,
    accepted,
    configured,
    post_reply,
    too_late,
)
from signoff.people.notifications.channels.slack_inputs import (
    NoInput,
    can_edit_in_slack,
    errors_by_block,
    inputs_of,
    submitted,
)
from signoff.people.notifications.channels.slack_requests import Meant, Opening, Submission
from signoff.people.notifications.channels.slack_text import LONGEST_PART, length, plain, section
from signoff.people.notifications.notices import question_rows, shown, spelled
from signoff.people.questions.answers import answer, get_question
from signoff.people.questions.question import Question, digest_of
from signoff.people.questions.question_operations import current_state
from signoff.people.questions.question_state import QuestionState
from signoff.people.questions.redacted_answers import restored_answer
from signoff.records import Promise, PromiseState
from signoff.records.responders import Responder
from signoff.redaction import Redaction, Redactor
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.origin_stamping import origin_stamped

log = own_logger("signoff.notifications")

LONGEST_METADATA: Final = 3_000  # of a view, in characters as ``length`` counts
MOST_BLOCKS: Final = 100
LONGEST_ERROR: Final = 500
_LATE: Final = "expired_trigger_id"
_REPEATED: Final = "exchanged_trigger_id"
"""Slack's error for the second use of a trigger: the modal is open."""


@dataclass(frozen=True)
class SubmissionReply:
    """Reply to a submitted modal.

    Attributes:
        body: The response to Slack, which keeps the modal open; None: it closes.
        message: The reply to post where the message is; None: there is none.
    """

    body: dict[str, Any] | None = None
    message: ClickReply | None = None


def modal_of(
    question: Question, rows: list[tuple[str, str]], meant: Meant, *, can_edit: bool
) -> dict[str, Any]:
    """Return the modal of a question.

    Args:
        question: The question, redacted.
        rows: The question as (label, text).
        meant: What the modal carries.
        can_edit: Whether a proposal may be edited.

    Raises:
        NoInput: Slack cannot show the question whole, or has no input for one of its fields.
    """
    texts = [spelled(f"{label}: {text}" if label else text) for label, text in rows]
    inputs = inputs_of(question, can_edit=can_edit and can_edit_in_slack(question, can_edit=can_edit))
    metadata = meant.model_dump_json()
    if length(metadata) > LONGEST_METADATA:
        metadata = meant.model_copy(update={"response_url": ""}).model_dump_json()
    if (
        any(length(text) > LONGEST_PART for text in texts)
        or len(texts) + len(inputs) > MOST_BLOCKS
        or length(metadata) > LONGEST_METADATA
    ):
        raise NoInput(question.text)
    return {
        "type": "modal",
        "callback_id": MODAL,
        "title": plain("Answer"),
        "submit": plain("Send"),
        "close": plain("Cancel"),
        "private_metadata": metadata,
        "blocks": [*map(section, texts), *inputs],
    }


async def open_modal(
    store: Store,
    sender: SlackSender,
    answering: Answering,
    opening: Opening,
    redaction: Redaction,
    address: str | None = None,
) -> None:
    """Open the question's modal for the user who clicked, or reply why there is none. Changes no question.

    Args:
        store: The question's store.
        sender: The channel's sender.
        answering: The channel's answer settings.
        opening: The click.
        redaction: Hides payloads from the user.
        address: IP address of the request.
    """
    store = origin_stamped(store, opening.origin(address))
    redactor = Redactor(store, redaction)
    try:
        view = await _modal(store, answering, opening, redactor)
        await sender.call("views.open", {"trigger_id": opening.trigger_id, "view": view})
        return
    except StoreError as error:
        log.warning("a form could not be opened in Slack: %s", error)
        said = ClickReply(opening.response_url, "The form could not be opened: the server is not available.")
    except AlreadySettled as error:
        question = await redactor.shown(await get_question(store, opening.question_id))
        said = too_late(opening, question, error)
    except SignoffError as error:
        said = ClickReply(opening.response_url, shown(f"Not accepted: {error}", 1_000))
    except NoInput:
        said = ClickReply(opening.response_url, "This question can only be answered on its page.")
    except SlackError as error:
        if error.word == _REPEATED:
            return
        again = "Slack was too slow. Click again." if error.word == _LATE else error.reason
        said = ClickReply(opening.response_url, f"The form could not be opened: {again}")
    except Undelivered as failure:
        said = ClickReply(opening.response_url, f"The form could not be opened: {failure.reason}")
    await post_reply(sender, said)


async def _modal(store: Store, answering: Answering, opening: Opening, redactor: Redactor) -> dict[str, Any]:
    responder = await configured(store, answering, opening)
    question = await get_question(store, opening.question_id)
    async with RefusalRecorder(store, question, responder.user_id, "open", request_id=opening.request_id):
        state = await _open_state(store, question, responder)
        if digest_of(state.question) != opening.digest:
            raise WrongAnswer(
                question.id, [("digest", "the question is not the one you saw; look at it again")]
            )
    seen = await redactor.shown(state.question)
    meant = Meant(id=question.id, digest=opening.digest, response_url=opening.response_url)
    rows = question_rows(read_object(seen.data))
    return modal_of(Question.of(seen), rows, meant, can_edit=state.policy.quorum is None)


async def _open_state(store: Store, question: Promise, responder: Responder) -> QuestionState:
    """Return the state of a question that the responder may answer. Raises AlreadySettled and NotAllowed."""
    state = await current_state(store, question)
    question = state.question
    if question.state is not PromiseState.PENDING:
        raise AlreadySettled(question.id, question.state.value, question.settled_by, question.settled_at)
    state.check_responder(responder)
    return state


async def answer_submission(
    store: Store,
    answering: Answering,
    submission: Submission,
    redaction: Redaction,
    address: str | None = None,
) -> SubmissionReply:
    """Answer the question as the user who submitted a modal. A refusal is recorded like any other.

    Args:
        store: The question's store.
        answering: The channel's answer settings.
        submission: The submitted modal.
        redaction: Hides payloads from the user.
        address: IP address of the request.

    Raises:
        StoreError: The store is not available. Slack keeps the modal open.
    """
    store = origin_stamped(store, submission.origin(address))
    redactor = Redactor(store, redaction)
    try:
        return await _answered(store, answering, submission, redactor)
    except StoreError:
        raise
    except AlreadySettled as error:
        question = await redactor.shown(await get_question(store, submission.question_id))
        late = too_late(submission, question, error)
        return SubmissionReply(_message(late.text), late)
    except RequestConflict:
        return SubmissionReply(_message("You have sent another answer with this form. Nothing was changed."))
    except SignoffError as error:
        return SubmissionReply(_message(f"Not accepted: {error}"))


async def _answered(
    store: Store, answering: Answering, submission: Submission, redactor: Redactor
) -> SubmissionReply:
    responder = await configured(store, answering, submission)
    promise = await get_question(store, submission.question_id)
    seen = await redactor.shown(promise)
    question = Question.of(seen)
    try:
        settled, approved = await _settled(store, submission, redactor, promise, question, responder)
    except WrongAnswer as error:
        if any(field == "digest" for field, _ in error.problems):
            raise
        problems = error.problems
    except InvalidValue as error:
        problems = [(".".join(note_field().path) if error.path == "note" else error.path, error.reason)]
    except (NotSerializable, PayloadTooLarge) as error:
        problems = [("", str(error))]
    else:
        reply = accepted(submission, await redactor.shown(settled), responder, approved=approved)
        return SubmissionReply(message=reply)
    errors = errors_by_block(question, problems, list(submission.entered.values))
    said = {block: shown(message, LONGEST_ERROR) for block, message in errors.items()}
    return SubmissionReply({"response_action": "errors", "errors": said})


async def _settled(
    store: Store,
    submission: Submission,
    redactor: Redactor,
    promise: Promise,
    question: Question,
    responder: Responder,
) -> tuple[Promise, bool | None]:
    """Return the question after the answer, and the decision if it is one."""
    state = QuestionState.of(promise, store.clock.now())
    can_edit = can_edit_in_slack(question, can_edit=state.policy.quorum is None)
    filled = submitted(question, submission.entered)
    value, wrong = answer_of(question, filled, can_edit=can_edit)
    request_id = submission.request_id
    if wrong:
        async with RefusalRecorder(store, promise, responder.user_id, request_id=request_id):
            await _open_state(store, promise, responder)
            raise WrongAnswer(promise.id, wrong)
    note = normal("".join(filled.get("note", ()))).strip() or None
    async with restored_answer(redactor, store, promise, value, responder) as meant:
        settled = await answer(
            store,
            promise.id,
            meant,
            user_id=responder.user_id,
            groups=responder.groups,
            roles=responder.roles,
            note=note,
            request_id=request_id,
            digest=submission.digest,
        )
    if question.input_type != "approval" or value is None:
        return settled, None
    return settled, cast("dict[str, Any]", value)["approved"] is True


def _message(text: str) -> dict[str, Any]:
    """Return the response that replaces a modal's form with a message."""
    view = {
        "type": "modal",
        "title": plain("Answer"),
        "close": plain("Close"),
        "blocks": [section(shown(text, 1_000))],
    }
    return {"response_action": "update", "view": view}
