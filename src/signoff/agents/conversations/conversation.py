"""``Conversation``: a session of an agent, usable from any process."""

from __future__ import annotations

import reprlib
from collections.abc import AsyncGenerator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Self, TypeVar, cast, overload

from pydantic_ai.messages import ModelMessagesTypeAdapter

from signoff import codec
from signoff.agents.conversations.forks import begin_fork
from signoff.agents.conversations.history import PROMPT, Histories, Prompt, read_prompt
from signoff.agents.conversations.message_deduplication import Taken, TakenMessages
from signoff.agents.conversations.outcomes import (
    QUEUED,
    Finished,
    Outcome,
    Paused,
    Pending,
    result_parts,
)
from signoff.agents.conversations.replies import Decision, Said, said, said_in_words
from signoff.agents.conversations.request_ids import KeptRequests
from signoff.agents.conversations.resumed_answers import answers_to, question_of, turn_of
from signoff.agents.conversations.session_turns import SessionTurns, WaitingTurn
from signoff.agents.conversations.turn_events import TurnEvent, place_of
from signoff.agents.conversations.turn_watcher import StoppedTurn, open_questions_of, wait_until_stopped
from signoff.agents.conversations.turn_workflow import TurnRequest
from signoff.agents.conversations.waiters import Waiters
from signoff.agents.steps.turn_record import STEER
from signoff.client.async_client import App, AsyncClient, result_of
from signoff.client.run_ends import end_of
from signoff.errors import InvalidState, InvalidValue, NotFound, ResumeRefused
from signoff.people.links.resume_tokens import LIFETIME_SECONDS, Response
from signoff.people.questions.policies import UNSET
from signoff.people.questions.question import Question, digest_of
from signoff.records import Entry, LiveText, Promise
from signoff.records.responders import Responder
from signoff.records.start_options import check_session
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.agents")

T = TypeVar("T")


class Conversation:
    """A session of a registered agent. It has no state in this process: any number of processes may use it.

    Args:
        client: The client for its runs. The conversation does not close it.
        agent: The name that the agent is registered under.
        session_id: The session.
        token_seconds: The lifetime of resume tokens, in seconds.

    Example::

        chat = app.conversation("support", session_id="conv-42")
        turn = await chat.run("delete temp files", context={"tenant": "t1"})
        while isinstance(turn, Paused):
            turn = await chat.respond(turn.pending[0].id, Approve(), user_id="ana")
        print(turn.output)
    """

    def __init__(
        self, client: AsyncClient, agent: str, *, session_id: str, token_seconds: float = LIFETIME_SECONDS
    ) -> None:
        self._client = client
        self.agent = agent
        self.session_id = cast("str", check_session(session_id))
        self._token_seconds = token_seconds
        self._histories = Histories(client, agent)
        self._turns = SessionTurns(client, agent, self.session_id)
        self._messages = TakenMessages(client, agent, self.session_id)
        self._requests = KeptRequests(client, agent, self.session_id)
        self._waiters = Waiters(session_id)
        self._is_open = False
        self._app: App | None = None
        self._listeners = 0

    @classmethod
    def on(cls, app: App, agent: str, *, session_id: str) -> Self:
        """Return a session of an agent, with its own client; see ``Signoff.conversation``."""
        chat = cls(AsyncClient(app), agent, session_id=session_id)
        chat._app = app
        return chat

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.detach()

    # Turns

    async def run(
        self,
        prompt: Prompt,
        *,
        context: Any = None,
        id: str | None = None,
        user_id: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Outcome:
        """Send a message, and wait until the turn has its answer or waits for people.

        If an earlier turn waits for people, the agent's ``on_message`` decides. The new turn is queued behind it (the
        outcome is ``Paused`` with reason ``queued``), or the earlier turn is cancelled, or the message answers its
        question.

        Args:
            prompt: The message.
            context: The tools' ``ctx.deps``, or the input of ``Durable(deps=...)``; JSON.
            id: A chosen id of the turn's run, or of the answer. A message sent twice with one id counts once.
            user_id: The sender.
            timeout_seconds: The turn's own deadline, counted from its start.

        Raises:
            InvalidValue: The prompt is invalid. Nothing is stored.
            NotSerializable, PayloadTooLarge: The prompt or the context cannot be stored.
            IdConflict: The id belongs to another turn or run, or to another message.
            NotAllowed, WrongAnswer, AlreadySettled: The message is an answer, and was refused. Sent again with its id,
                it answers no other question.
            RunCancelled: The turn was aborted.
            Detached: ``detach`` was called meanwhile.
            Exception: The turn's error; ``RunFailed`` if its class is not imported here.
        """
        sent = await self.send(
            prompt, context=context, id=id, user_id=user_id, timeout_seconds=timeout_seconds
        )
        return await self.wait(sent)

    async def send(
        self,
        prompt: Prompt,
        *,
        context: Any = None,
        id: str | None = None,
        user_id: str | None = None,
        timeout_seconds: float | None = None,
    ) -> str:
        """Send a message as ``run`` does, and return its turn's run without waiting for an outcome."""
        request: TurnRequest = {"prompt": PROMPT.dump_python(read_prompt(prompt), mode="json")}
        if context is not None:
            request["context"] = context
        await self._open()
        if id is not None and await self._turns.is_taken(id):
            await self._client.start(
                self.agent, request, id=id, session_id=self.session_id
            )  # the same turn, or a refusal
            return id
        waiting = await self._turns.waiting()
        if isinstance(prompt, str) and (taken := await self._taken(id, waiting)) is not None:
            await self._answer_in_words(taken, prompt, user_id)
            return taken.run_id
        if waiting is not None and waiting.on_message == "cancel":
            await self._client.cancel(waiting.run.id, reason="a new message came", by=user_id)
        handle = await self._client.start(
            self.agent,
            request,
            id=id,
            session_id=self.session_id,
            started_by=None if user_id is None else _user(user_id),
            timeout_seconds=timeout_seconds,
        )
        return handle.id

    async def wait(self, run_id: str | None = None) -> Outcome:
        """Wait until a turn, by default the last one, has its answer or waits for people.

        Raises:
            NotFound: There is no such turn.
        """
        await self._open()
        run = await self._turns.last() if run_id is None else await self._turns.get(run_id)
        return await self._outcome(await self._waited(run.id, wait_until_stopped(self._client, run.id)))

    async def resume(
        self,
        token: str,
        user_input: object = UNSET,
        *,
        context: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        request_id: str | None = None,
    ) -> Outcome:
        """Answer a turn's questions with its resume token, and wait for the next outcome.

        Args:
            token: ``Paused.resume_token``.
            user_input: For one question a decision, or a plain value: for an approval ``True``, ``False``,
                ``"approved"`` or ``"denied"``. For several questions ``{question_id: answer}``. If omitted, the answer
                is that an ``external_event`` has happened; if that was settled elsewhere, the turn continues.
            context: The turn's new context; None keeps it. It counts only if the answer does.
            user_id: The person who answers.
            groups: Their groups.
            roles: Their roles.
            request_id: Makes a repetition with this token and input by the same person a success without effect. The id
                identifies this request in the whole conversation.

        Raises:
            InvalidValue: The token is not a string, or belongs to another agent's turn; or the request id is invalid.
            RequestConflict: The request id was used for another request of the conversation.
            ResumeRefused: The token is wrong, used, expired or foreign, or one of its open questions has no answer.
                Nothing is changed.
            WrongAnswer, NotAllowed, AlreadySettled: The answer is refused. The token stays valid.
            NotSerializable, PayloadTooLarge: The context cannot be stored.
        """
        if not isinstance(cast("object", token), str):
            raise InvalidValue(
                "token", f"expected the resume_token of a Paused, not a {type(token).__name__}"
            )
        await self._open()
        backend, responder = self._client.backend, Responder.of(user_id, groups, roles)
        target = codec.digest(codec.encode(token))
        kept, said_here = None, (user_input if user_input is not UNSET else None)
        if request_id is not None:
            kept = await self._requests.find(request_id, "resume", target, said_here)
            if kept is not None and kept.done_with is not None:
                if kept.is_of_another(responder.user):
                    raise ResumeRefused("used", by=kept.done_by)
                return await self.wait(kept.run_id)
        resumption = await backend.find_resumption(self.session_id, token)
        run = await turn_of(self._client, self.agent, resumption)
        if request_id is not None and kept is None:
            kept = await self._requests.keep(request_id, "resume", target, run.id, said_here)
        given = await answers_to(self._client, resumption, user_input)
        if not given:
            return await self.wait(run.id)
        responses: dict[str, Response] = {}
        for id, each in given.items():
            promise = await question_of(self._client, id)
            meant = said(id, Question.of(promise), each)
            responses[id] = Response(meant.value, meant.note, meant.alike)
        await backend.resume(self.session_id, token, responses, responder, context)
        if kept is not None:
            await self._requests.finish(kept, said_here, responder.user)
        return await self.wait(run.id)

    async def respond(
        self,
        question_id: str,
        decision: Decision,
        *,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        request_id: str | None = None,
    ) -> Outcome:
        """Answer one question of the session, and wait for its turn's next outcome.

        Args:
            question_id: The question, of a turn or of one of its sub-agents.
            decision: ``Approve()``, ``Deny(reason)``, ``Edit(arguments)`` or ``Reply(value)``.
            user_id: The person who answers.
            groups: Their groups.
            roles: Their roles.
            request_id: Makes a repetition of this answer a success without effect. The id identifies this answer in the
                whole conversation, including sub-agents.

        Raises:
            NotFound: The session has no such question.
            WrongAnswer, NotAllowed, AlreadySettled, RequestConflict: The answer is refused.
        """
        turn = await self.answer(
            question_id, decision, user_id=user_id, groups=groups, roles=roles, request_id=request_id
        )
        return await self.wait(turn)

    async def answer(
        self,
        question_id: str,
        decision: Decision,
        *,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        request_id: str | None = None,
        digest: str | None = None,
    ) -> str:
        """Answer one question as ``respond`` does, and return its turn's run without waiting for an outcome.

        Args:
            digest: The digest of the question that the person saw. If the question has another one, the answer is
                refused (``WrongAnswer``).
        """
        await self._open()
        question = await question_of(self._client, question_id)
        turn = await self._turns.that_asked(question)
        meant = said(question_id, Question.of(question), decision)
        if request_id is not None:
            await self._requests.find(request_id, "respond", question_id, None)
            await self._requests.keep(request_id, "respond", question_id, turn.id, None)
        await self._answer(question, meant, user_id, groups, roles, request_id, digest)
        return turn.id

    async def steer(self, text: str, *, user_id: str | None = None, request_id: str | None = None) -> str:
        """Send a message to the running turn: the model reads it with its next request.

        Args:
            text: The message.
            user_id: The sender.
            request_id: Makes a repetition a success without effect, also in a later turn. The id identifies this
                request in the whole conversation.

        Returns:
            The turn's run.

        Raises:
            InvalidValue: The message is not a string, or the request id is invalid. Nothing is sent.
            InvalidState: No turn runs; use ``run``.
            RequestConflict: The request id was used for another request of the conversation.
        """
        if not isinstance(cast("object", text), str):
            raise InvalidValue("text", f"expected a string, not {reprlib.repr(text)}")
        await self._open()
        kept = None if request_id is None else await self._requests.find(request_id, "steer", "", text)
        if kept is not None and kept.done_with is not None:
            return kept.run_id
        run = await self._turns.active() if kept is None else await self._turns.get(kept.run_id)
        if run is None:
            raise InvalidState(self.session_id, "idle", "steer")
        if request_id is not None and kept is None:
            kept = await self._requests.keep(request_id, "steer", "", run.id, text)
        await self._client.signal(
            kept.run_id if kept else run.id, STEER, text, by=user_id, request_id=request_id
        )
        if kept is not None:
            await self._requests.finish(kept, text)
        return kept.run_id if kept else run.id

    async def abort(self, reason: str | None = None, *, user_id: str | None = None) -> None:
        """Close the running or waiting turn: its open calls are denied, and it makes no more model requests.

        Turns queued behind it continue. Without such a turn nothing happens. It returns when a worker has closed the
        turn.

        Raises:
            Detached: ``detach`` was called meanwhile; the turn is closed all the same.
        """
        await self._open()
        run = await self._turns.active()
        if run is None:
            return
        await self._client.cancel(run.id, reason=reason, by=user_id)
        await self._waited(run.id, end_of(self._client.backend, run.id))

    async def detach(self) -> None:
        """Stop waiting here: calls that wait raise ``Detached``. The runs stay as they are."""
        await self._waiters.end()

    async def fork(self, session_id: str, *, at: str | None = None) -> Conversation:
        """Begin another session with the history of this one, up to a turn that has ended.

        Args:
            session_id: The new session.
            at: The turn's run; by default the last ended one, or the turn that this session was forked from.

        Raises:
            NotFound: There is no such turn here.
            InvalidState: It has not ended.
            InvalidValue: The new session has runs already.
            IdConflict: It was begun as a fork at another turn.
        """
        await self._open()
        run = await self._turns.get(at) if at is not None else await self._turns.last_ended_or_begun_with()
        client = self._client if self._app is None else AsyncClient(self._app)
        forked = Conversation(client, self.agent, session_id=session_id, token_seconds=self._token_seconds)
        forked._app = self._app
        await begin_fork(self._client, self.agent, run, session_id)
        return forked

    # Reading

    async def messages(self) -> Sequence[Any]:
        """Return the history of the ended turns, as the next turn gets it."""
        await self._open()
        try:
            last = await self._turns.last_ended_or_begun_with()
        except NotFound:
            return []
        return await self._histories.up_to(last.id)

    async def pending(self) -> Sequence[Pending]:
        """Return the open questions of the running or waiting turn."""
        await self._open()
        run = await self._turns.active()
        if run is None:
            return []
        _, questions = await open_questions_of(self._client.backend, run)
        return [Pending.of(each) for each in questions]

    @overload
    def events(self, after: int = 0, *, live: Literal[False] = False) -> AsyncGenerator[TurnEvent]: ...
    @overload
    def events(self, after: int = 0, *, live: Literal[True]) -> AsyncGenerator[TurnEvent | LiveText]: ...
    async def events(self, after: int = 0, *, live: bool = False) -> AsyncGenerator[Any]:
        """Iterate over the events of the session's turns, live, until all of them have ended.

        Args:
            after: The ``id`` of the last known event; 0: from the beginning.
            live: Whether to include live output of steps as ``LiveText``, which has no ``id``. Models publish their
                output with ``Durable(stream=True)``.
        """
        await self._open()
        position, seq = place_of(after)
        while (run := await self._turns.at_or_after(position)) is not None:
            assert run.position is not None
            known = seq if run.position == position else -1
            async with self._listening():
                backend = self._client.backend
                events = (backend.follow_live if live else backend.follow)(run.id, after=known)
                async for event in events:
                    if isinstance(event, Entry):
                        event = TurnEvent.of(run, event)
                    yield event
            position, seq = run.position + 1, -1

    # Internals

    async def _open(self) -> None:
        if not self._is_open:
            await self._client.backend.open()
            self._is_open = True

    @asynccontextmanager
    async def _listening(self) -> AsyncGenerator[None]:
        """Listen on the store while a call waits: a service has a conversation for each request."""
        self._listeners += 1
        try:
            yield
        finally:
            self._listeners -= 1
            if self._listeners == 0 and self._app is not None:
                await self._client.close()

    async def _waited(self, run_id: str, coming: Coroutine[Any, Any, T]) -> T:
        async with self._listening():
            return await self._waiters.begin(self._client.backend, run_id, coming)

    async def _outcome(self, stopped: StoppedTurn) -> Outcome:
        run = stopped.run
        if run.state.is_final:
            result_of(run)  # raises its error
            parts = result_parts(run.result)
            messages = parts.get("messages")
            if messages is None:
                everything = await self._histories.up_to(run.id)
                added = [message for message in everything if message.run_id == run.id]
            else:
                added = ModelMessagesTypeAdapter.validate_python(messages)
            return Finished(parts.get("output"), added, parts.get("usage", {}), run.id)
        pending = [Pending.of(question) for question in stopped.questions]
        token = await self._client.backend.create_resumption(
            self.session_id, run.id, stopped.questions, lifetime_seconds=self._token_seconds
        )
        reason = pending[0].reason if stopped.asking.id == run.id else QUEUED
        return Paused(reason, pending[0].payload, pending, token, run.id)

    async def _taken(self, id: str | None, waiting: WaitingTurn | None) -> Taken | None:
        """Return the question that a message answers, if it counts as an answer.

        The id is looked up after the waiting turn: a faster caller recorded it before the question was closed.
        """
        if id is not None and (known := await self._messages.find(id)) is not None:
            return known
        if waiting is None or waiting.on_message != "answer" or len(waiting.questions) != 1:
            return None
        (question,) = waiting.questions
        if id is None:
            return Taken(question.id, waiting.run.id)
        return await self._messages.keep(id, question.id, waiting.run.id)

    async def _answer_in_words(self, taken: Taken, text: str, user_id: str | None) -> None:
        if taken.is_done:
            return
        question = await self._client.promises.get(taken.question_id)
        meant = said_in_words(question.id, Question.of(question), text)
        await self._answer(question, meant, user_id, request_id=taken.key)
        await self._messages.finish(taken)

    async def _answer(
        self,
        question: Promise,
        meant: Said,
        user_id: str | None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        request_id: str | None = None,
        digest: str | None = None,
    ) -> None:
        await self._client.answer(
            question.id,
            meant.value,
            user_id=user_id,
            groups=groups,
            roles=roles,
            note=meant.note,
            request_id=request_id,
            digest=digest or digest_of(question),
            alike=meant.alike,
        )


def _user(user_id: str) -> str:
    return user_id if user_id.startswith("user:") else f"user:{user_id}"
