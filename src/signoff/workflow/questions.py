"""Questions to people in workflow code."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from signoff.engine.run.call_inputs import folded, inputs_text, value_text
from signoff.engine.run.calls import PromiseCall
from signoff.engine.run.execution import Execution
from signoff.errors import QuestionCancelled, RegistrationError, SignalTimeout
from signoff.people.questions.answers import Answer, read_answer
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.policies import Policy, check_deadline, check_in_time
from signoff.people.questions.question import Question
from signoff.people.questions.standalone_questions import opened
from signoff.records import CallKind, Entry, NewPromise
from signoff.records.start_options import check_seconds


def inputs_of(question: Question) -> dict[str, str]:
    """Return the inputs that replay compares of a question, as JSON texts by name.

    The question's text is compared as the call's name.
    """
    parts = question.compared
    # An agent's conversation and its current options are informative only.
    if is_of_agent(question):
        parts["metadata"] = {name: each for name, each in question.metadata.items() if name != "conversation"}
        parts.pop("options", None)
    texts = {name: value_text(part) for name, part in parts.items() if part}
    return {name: text for name, text in texts.items() if text is not None}


def is_of_agent(question: Question) -> bool:
    """Return whether the question is about an agent's tool call.

    Such a question may have other assignees or another policy at replay: they follow the current code.
    """
    return "tool_call_id" in question.metadata and "agent" in question.metadata


class QuestionCall(PromiseCall):
    """A question to a person. Awaiting it returns an ``Answer``."""

    kind = CallKind.QUESTION
    __slots__ = ("_rules", "closes_after", "declared", "hours", "policy", "question")

    def __init__(
        self,
        execution: Execution,
        question: Question,
        policy: Policy,
        timeout_seconds: float | None,
        declared: Any,
        hours: BusinessHours | None = None,
    ) -> None:
        super().__init__(execution, question.text, timeout=timeout_seconds)
        self.question = question
        self.policy = policy
        self._rules = policy.to_json()  # as declared: business hours make them depend on the time of the call
        self.declared = declared
        self.hours = hours
        self.closes_after: float | None = timeout_seconds

    def begin(self) -> asyncio.Future[Answer]:
        if self.future is None and self._execution.last_n + 1 not in self._execution.past.opened:
            if self.hours is not None:
                now, timeout = self._execution.loop.time(), self.timeout
                self.policy = self.policy.in_hours(self.hours, now, timeout)
                self.closes_after = None if timeout is None else self.hours.after(now, timeout) - now
            self.data = self.question.to_json(self.policy)
        return super().begin()

    def inputs_now(self) -> str | None:
        parts = inputs_of(self.question)
        policy = self.policy
        if is_of_agent(self.question):
            return inputs_text(parts)
        if policy.assignees:
            parts["assignees"] = folded(json.dumps(policy.assignees))
        if self._rules != "{}":
            parts["policy"] = folded(self._rules)
        if self.timeout is not None:
            parts["timeout_seconds"] = json.dumps(self.timeout)
        return inputs_text(parts)

    def new_promise(self, now: float) -> NewPromise:
        new = super().new_promise(now)
        if self.closes_after is not None:
            new = replace(new, due_at=now + self.closes_after)
        return opened(new, self.question, self.policy, now)

    def answered(self, entry: Entry) -> Answer:
        return read_answer(self.question, entry, self.declared)

    def cancelled(self, entry: Entry) -> Exception:
        return QuestionCancelled(self.id, entry.fact("by"), entry.fact("note"))

    def timed_out(self) -> Exception:
        return SignalTimeout(f"an answer to {self.name!r}", self.timeout or 0.0)

    def options(self, *, timeout_seconds: float) -> QuestionCall:
        """Set the question's deadline before it is asked.

        Args:
            timeout_seconds: Seconds until the question times out.

        Raises:
            RegistrationError: The question is already open.
        """
        if self.future is not None:
            raise RegistrationError(f"question {self.name!r} is already open: set options before the await")
        seconds = check_seconds("timeout_seconds", timeout_seconds)
        check_in_time(self.name, self.policy.escalations, seconds)
        self.timeout = self.closes_after = seconds
        if self.policy.deadline is not None:
            self.policy = replace(self.policy, deadline=check_deadline(timeout_seconds))
            self._rules = self.policy.to_json()
        return self
