"""Callbacks in workflow code: questions that other systems answer, each at its own URL."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Generator
from dataclasses import replace
from typing import Any

from signoff.engine.run.call_inputs import inputs_text
from signoff.engine.run.calls import PromiseCall
from signoff.engine.run.execution import Execution
from signoff.engine.run.unawaited_context_calls import AroundCall
from signoff.errors import NonDeterminism, QuestionCancelled, RegistrationError, SignalTimeout
from signoff.people.questions.answers import Answer, read_answer
from signoff.people.questions.callback_terms import BY_HAND, PATH, RETURN, secret_in
from signoff.people.questions.question import Question
from signoff.records import CallKind, Entry, NewPromise, TokenKind
from signoff.stores.tokens import hash_of, new_secret
from signoff.workflow.handles import DurablePromise
from signoff.workflow.questions import inputs_of


class CallbackCall(PromiseCall):
    """A question answered by HTTP. Its URL is created once, and journaled when the question opens."""

    kind = CallKind.QUESTION
    __slots__ = ("declared", "public_url", "question", "url")

    def __init__(
        self,
        execution: Execution,
        question: Question,
        declared: Any,
        timeout_seconds: float | None,
        public_url: str | None,
    ) -> None:
        super().__init__(execution, question.text, timeout=timeout_seconds)
        self.question = question
        self.declared = declared
        self.public_url = public_url
        self.url = ""

    def begin(self) -> asyncio.Future[Any]:
        if self.future is None:
            self._take()
            self.url = self._known_url(self._execution.last_n + 1) or self._new_url()
            self.data = self.question.to_json()
        return super().begin()

    def inputs_now(self) -> str | None:
        parts = inputs_of(self.question)
        if self.timeout is not None:
            parts["timeout_seconds"] = json.dumps(self.timeout)
        return inputs_text(parts)

    def new_promise(self, now: float) -> NewPromise:
        new = super().new_promise(now)
        return replace(new, assignees=BY_HAND, callback=hash_of(secret_in(self.url)))

    def facts(self, new: NewPromise) -> dict[str, Any]:
        return {**super().facts(new), "url": self.url}

    def answered(self, entry: Entry) -> Answer:
        return read_answer(self.question, entry, self.declared)

    def cancelled(self, entry: Entry) -> Exception:
        return QuestionCancelled(self.id, entry.fact("by"), entry.fact("note"))

    def timed_out(self) -> Exception:
        return SignalTimeout(f"a callback to {self.name!r}", self.timeout or 0.0)

    def _known_url(self, n: int) -> str | None:
        opened = self._execution.past.questions.get(n)
        url = None if opened is None else opened.fact("url")
        # A question to people became a callback: its recorded opening has no URL.
        if opened is not None and url is None:
            issued = f"callback {self.name!r}"
            self._execution.refuse(NonDeterminism(self.run.id, n, f"question {self.name!r}", issued, None))
        return url

    def _new_url(self) -> str:
        if self.public_url is None:
            lacks = RegistrationError(
                f"callback {self.name!r} has no URL: configure the server's public URL with "
                "Signoff(public_url='https://signoff.example.com') or SIGNOFF_PUBLIC_URL, and retry the run"
            )
            self._execution.refuse(lacks)
            return ""
        return f"{self.public_url}{PATH}/{new_secret(TokenKind.CALLBACK)}"


class OpenCallback(DurablePromise):
    """An open callback. Awaiting it waits for its ``Answer``.

    Attributes:
        url: Its address, identical across attempts and replays. It works once, for any caller who knows it.
    """

    def __init__(self, call: CallbackCall) -> None:
        super().__init__(call)
        self.url = call.url

    @property
    def state(self) -> str:
        """The secret part of the URL, for use as the ``state`` of an OAuth authorization request."""
        return secret_in(self.url)

    @property
    def redirect_uri(self) -> str:
        """One redirect URI for all callbacks, to register with an OAuth server; ``state`` says which is meant."""
        return f"{self.url.rpartition('/')[0]}/{RETURN}"


class CallbackOpening(AroundCall, Awaitable[OpenCallback]):
    """The awaitable that ``ctx.callback()`` returns. Awaiting it opens the callback and returns it."""

    def __init__(self, call: CallbackCall) -> None:
        self._call = call
        self._opened: OpenCallback | None = None

    @property
    def label(self) -> str:
        return f"callback {self._call.name!r}"

    def __await__(self) -> Generator[Any, None, OpenCallback]:
        if self._opened is None:
            self._call.begin()
            self._opened = OpenCallback(self._call)
        return self._opened
        yield
