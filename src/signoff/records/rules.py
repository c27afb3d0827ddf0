"""Standing approvals: rules that approve later questions in a person's name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewRule:
    """A standing approval to be created: it approves calls of one tool with given arguments, for a limited time."""

    id: str
    by: str  # its creator, without `user:`
    tool: str
    arguments: str  # JSON object: required argument values, by JSON Pointer
    expires_at: float | None  # None: it ends with its session
    question_id: str  # the question whose answer created it
    run_id: str | None = None  # if set, it approves questions of this run only
    groups: tuple[str, ...] = ()  # its creator's groups at creation
    roles: tuple[str, ...] = ()  # its creator's roles at creation
    max_uses: int | None = None
    session_id: str | None = None  # if set, it approves questions of this session's runs only


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing approval. It is in force until it expires, is revoked, or reaches ``max_uses``."""

    namespace: str
    id: str
    created_at: float
    by: str
    tool: str
    arguments: str  # JSON
    question_id: str
    expires_at: float | None = None
    run_id: str | None = None
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    max_uses: int | None = None
    uses: int = 0
    revoked_at: float | None = None
    revoked_by: str | None = None
    session_id: str | None = None

    def is_in_force(self, now: float) -> bool:
        """Whether it approves questions at this time, in unix seconds."""
        is_used_up = self.max_uses is not None and self.uses >= self.max_uses
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not is_over and not is_used_up
