"""``Conversation``: a session of an agent, from any process."""

from __future__ import annotations

import reprlib
from collections.abc import AsyncGenerator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Self, TypeVar, cast, overload

from pydantic_ai.messages import ModelMessagesTypeAdapter

from signoff import codec
from signoff.agents.conversations.history import PROMPT, Histories, Prompt, read_prompt
from signoff.agents.conversations.message_dedup import Taken, TakenMessages
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
from signoff.agents.conversations.session_turns import SessionTurns, WaitingTurn, fork_of
from signoff.agents.conversations.turn_events import TurnEvent, place_of
from signoff.agents.conversations.turn_rest import Rest, asked_by, rest_of
from signoff.agents.conversations.turn_workflow import TurnRequest
from signoff.agents.conversations.waiters import Waits
from signoff.agents.steps.turn_record import STEER
from signoff.client.async_client import App, AsyncClient, result_of
from signoff.client.run_ends import end_of
from signoff.errors import (
    InvalidState,
    InvalidValue,
    NotFound,
    ResumeRefused,
)
from signoff.people.links.resume_tokens import LIFETIME_SECONDS, Response
from signoff.people.questions.policies import UNSET
from signoff.people.questions.question import Question, digest_of
from signoff.records import Entry, LiveText, Promise
from signoff.records.responders import Responder
from signoff.records.start_options import check_id, check_session
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.agents")

T = TypeVar("T")


class Conversation:
    """A session of a registered agent. Nothing of it is in this process: any number of processes may have it.

    Args:
        client: Where its runs are. One that is given is not closed with the conversation.
        agent: Under which name the agent is registered.
        session_id: The session.
        token_seconds: How long resume tokens are good.

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
        self._waits = Waits(session_id)
        self._is_open = False
        self._app: App | None = None
        self._listeners = 0

    @classmethod
    def on(cls, app: App, agent: str, *, session_id: str) -> Self:
        """Return a session of an agent, with a client of its own; see ``Signoff.conversation``."""
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
        """Say something, and wait until the turn has its answer or waits for people.

        While an earlier turn waits for people, the agent is set up to queue this one behind it (what comes back then is
        ``Paused`` with reason ``queued``), to cancel it, or to take what is said as the answer to its question.

        Args:
            prompt: What is said.
            context: What the agent's tools get as ``ctx.deps``, or what they are made of; JSON.
            id: A chosen id for the turn's run, or for the answer that it is taken as; saying it twice with one id says
                it once.
            user_id: Who says it.
            timeout_seconds: The turn's own deadline, counted from its start.

        Raises:
            InvalidValue: What is said is no prompt. Nothing is stored.
            NotSerializable, PayloadTooLarge: The prompt or the context cannot be stored.
            IdConflict: The id is that of another turn or run, or something else was said with it.
            NotAllowed, WrongAnswer, AlreadySettled: It is taken as an answer, which does not count. Said again with its
                id it answers no other question.
            RunCancelled: The turn was aborted.
            Detached: ``detach`` was called meanwhile.
            Exception: What the turn failed with; if its class is not imported here, ``RunFailed``.
        """
        request: TurnRequest = {"prompt": PROMPT.dump_python(read_prompt(prompt), mode="json")}
        if context is not None:
            request["context"] = context
        await self._open()
        if id is not None and await self._turns.is_taken(id):
            await self._client.start(
                self.agent, request, id=id, session_id=self.session_id
            )  # as it was, or refused
            return await self.wait(id)
        waiting = await self._turns.waiting()
        if isinstance(prompt, str) and (taken := await self._taken(id, waiting)) is not None:
            await self._answer_in_words(taken, prompt, user_id)
            return await self.wait(taken.run_id)
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
        return await self.wait(handle.id)

    async def wait(self, run_id: str | None = None) -> Outcome:
        """Wait until a turn, by default the last one, has its answer or waits for people.

        Raises:
            NotFound: There is no such turn.
        """
        await self._open()
        run = await self._turns.last() if run_id is None else await self._turns.get(run_id)
        return await self._outcome(await self._waited(run.id, rest_of(self._client, run.id)))

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
        """Answer what a turn waits for by its resume token, and wait for what comes next.

        Args:
            token: ``Paused.resume_token``.
            user_input: For one question a decision, or a plain value: for an approval ``True``, ``False``,
                ``"approved"`` or ``"denied"``. For several ``{question_id: answer}``. Left out: nothing is answered but
                that an ``external_event`` has happened; if it was settled elsewhere, the turn just goes on.
            context: What the turn's context is from this answer on; None leaves it. It counts only if the answer does.
            user_id: Who answers.
            groups: The groups they are in.
            roles: The roles they have.
            request_id: Makes a repetition with this token and input by the same person a success without effect. The id
                stands for this request in the whole conversation.

        Raises:
            InvalidValue: The token is not a string, or belongs to another agent's turn; or the request id is invalid.
            RequestConflict: The request id was used for another request of the conversation.
            ResumeRefused: The token is wrong, used, expired or foreign, or something that it is for and that is open
                has no answer. Nothing is changed.
            WrongAnswer, NotAllowed, AlreadySettled: The answer is not taken. The token is as good as before.
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
        """Answer one question of the session, and wait for what comes next of its turn.

        Args:
            question_id: The question, of a turn or of one of its sub-agents.
            decision: ``Approve()``, ``Deny(reason)``, ``Edit(arguments)`` or ``Reply(value)``.
            user_id: Who answers.
            groups: The groups they are in.
            roles: The roles they have.
            request_id: Makes a repetition of this very answer a success without effect. The id stands for this answer
                in the whole conversation, sub-agents included.

        Raises:
            NotFound: The session has no such question.
            WrongAnswer, NotAllowed, AlreadySettled, RequestConflict: The answer is not taken.
        """
        await self._open()
        question = await question_of(self._client, question_id)
        turn = await self._turns.that_asked(question)
        meant = said(question_id, Question.of(question), decision)
        if request_id is not None:
            await self._requests.find(request_id, "respond", question_id, None)
            await self._requests.keep(request_id, "respond", question_id, turn.id, None)
        await self._answer(question, meant, user_id, groups, roles, request_id)
        return await self.wait(turn.id)

    async def steer(self, text: str, *, user_id: str | None = None, request_id: str | None = None) -> str:
        """Say something to the turn that runs: the model reads it with its next request.

        Args:
            text: What is said.
            user_id: Who says it.
            request_id: Makes a repetition a success without effect, also in a later turn. The id stands for this
                request in the whole conversation.

        Returns:
            The turn's run.

        Raises:
            InvalidValue: The message is not a string, or the request id is invalid. Nothing is sent.
            InvalidState: No turn runs; say it with ``run``.
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
        """Close the turn that runs or waits: its open calls are denied, and no model is asked any more.

        Turns queued behind it go on. Without such a turn nothing happens. It returns when a worker has closed the turn.

        Raises:
            Detached: Nobody waits here any more; it is closed all the same.
        """
        await self._open()
        run = await self._turns.active()
        if run is None:
            return
        await self._client.cancel(run.id, reason=reason, by=user_id)
        await self._waited(run.id, end_of(self._client.backend, run.id))

    async def detach(self) -> None:
        """Stop waiting here: calls that wait raise ``Detached``. The runs stay as they are."""
        await self._waits.end()

    async def fork(self, session_id: str, *, at: str | None = None) -> Conversation:
        """Begin another session with what was said in this one, up to a turn that has ended.

        Args:
            session_id: The new session.
            at: The turn's run; by default the last one that has ended, or what this session itself begins with.

        Raises:
            NotFound: There is no such turn here.
            InvalidState: It has not ended.
            InvalidValue: The new session has runs already.
            IdConflict: It was begun as a fork at another turn.
        """
        await self._open()
        run = await self._turns.get(at) if at is not None else await self._turns.last_ended_or_begun_with()
        if not run.state.is_final:
            raise InvalidState(run.id, run.state.value, "fork")
        client = self._client if self._app is None else AsyncClient(self._app)
        forked = Conversation(client, self.agent, session_id=session_id, token_seconds=self._token_seconds)
        forked._app = self._app
        id = check_id(fork_of(session_id))
        try:
            session = await self._client.sessions.get(session_id)
        except NotFound:
            pass
        else:
            if session.last_position > 0 and not await self._is_run_of(session.id, id):
                raise InvalidValue(
                    "session_id", f"session {session_id!r} has runs already; fork into a new one"
                )
        await self._client.start(self.agent, {"fork": run.id}, id=id, session_id=session_id)
        return forked

    async def _is_run_of(self, session_id: str, run_id: str) -> bool:
        try:
            return (await self._client.backend.get_run(run_id)).session_id == session_id
        except NotFound:
            return False

    # Looking

    async def messages(self) -> Sequence[Any]:
        """Return the history of the turns that have ended, as the next turn gets it."""
        await self._open()
        try:
            last = await self._turns.last_ended_or_begun_with()
        except NotFound:
            return []
        return await self._histories.up_to(last.id)

    async def pending(self) -> Sequence[Pending]:
        """Return the open questions of the turn that runs or waits."""
        await self._open()
        run = await self._turns.active()
        if run is None:
            return []
        _, questions = await asked_by(self._client.backend, run)
        return [Pending.of(each) for each in questions]

    @overload
    def events(self, after: int = 0, *, live: Literal[False] = False) -> AsyncGenerator[TurnEvent]: ...
    @overload
    def events(self, after: int = 0, *, live: Literal[True]) -> AsyncGenerator[TurnEvent | LiveText]: ...
    async def events(self, after: int = 0, *, live: bool = False) -> AsyncGenerator[Any]:
        """Iterate over what happens in the session's turns, live, until all of them have ended.

        Args:
            after: The ``id`` of the last event that is known; 0: from the beginning.
            live: Whether what steps say while they run comes in between, as ``LiveText``, which has no ``id``. Models
                say what they have so far with ``Durable(stream=True)``.
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

    # Inside

    async def _open(self) -> None:
        if not self._is_open:
            await self._client.backend.open()
            self._is_open = True

    @asynccontextmanager
    async def _listening(self) -> AsyncGenerator[None]:
        """Listen on the store as long as somebody waits: a service has a conversation for each request."""
        self._listeners += 1
        try:
            yield
        finally:
            self._listeners -= 1
            if self._listeners == 0 and self._app is not None:
                await self._client.close()

    async def _waited(self, run_id: str, coming: Coroutine[Any, Any, T]) -> T:
        async with self._listening():
            return await self._waits.begin(self._client.backend, run_id, coming)

    async def _outcome(self, rest: Rest) -> Outcome:
        run = rest.run
        if run.state.is_final:
            result_of(run)  # raises what it failed with
            parts = result_parts(run.result)
            messages = parts.get("messages")
            if messages is None:
                everything = await self._histories.up_to(run.id)
                added = [message for message in everything if message.run_id == run.id]
            else:
                added = ModelMessagesTypeAdapter.validate_python(messages)
            return Finished(parts.get("output"), added, parts.get("usage", {}), run.id)
        pending = [Pending.of(question) for question in rest.questions]
        token = await self._client.backend.create_resumption(
            self.session_id, run.id, rest.questions, lifetime_seconds=self._token_seconds
        )
        reason = pending[0].reason if rest.asking.id == run.id else QUEUED
        return Paused(reason, pending[0].payload, pending, token, run.id)

    async def _taken(self, id: str | None, waiting: WaitingTurn | None) -> Taken | None:
        """Return what a message answers, if it is taken as an answer.

        Where its id has answered is looked up last: who was faster has noted that before the question was closed.
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
    ) -> None:
        await self._client.answer(
            question.id,
            meant.value,
            user_id=user_id,
            groups=groups,
            roles=roles,
            note=meant.note,
            request_id=request_id,
            digest=digest_of(question),
            alike=meant.alike,
        )


def _user(user_id: str) -> str:
    return user_id if user_id.startswith("user:") else f"user:{user_id}"
