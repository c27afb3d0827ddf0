"""The second step: a summary, and another one after a rejection."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from examples.website_summary import extractive, language_model
from examples.website_summary.files import write_atomically
from examples.website_summary.settings import settings
from signoff import Context, current_step


class NoFurtherSummary(Exception):
    """All possible summaries of this page were rejected."""


@dataclass(frozen=True)
class Summary:
    """A summary and its author."""

    text: str
    made_by: str


def summarize(ctx: Context, filename: str) -> Generator[Any, Any, Summary]:
    """Summarise a page that ``download`` kept, each time differently within one run.

    It is workflow code, so that it can declare errors that retries do not help.
    """
    hopeless = (NoFurtherSummary, language_model.ModelRefused)
    return (yield ctx.lfc(write_summary, filename).options(non_retryable_exceptions=hopeless))


def write_summary(ctx: Context, filename: str) -> Summary:
    """Make a summary that this run has not had yet.

    The summaries of a run are kept in a file by the key of their step. So the step knows which ones were rejected. If
    its worker dies before the summary is in the journal, the next attempt finds it there, and calls no model again.

    Raises:
        NoFurtherSummary: There are no others.
    """
    key = current_step().idempotency_key
    file = settings().summaries / Path(filename).stem / f"{ctx.run_id}.json"
    made: dict[str, dict[str, str]] = json.loads(file.read_text()) if file.exists() else {}
    if key not in made:
        text = (settings().pages / filename).read_text()
        made[key] = asdict(first_new(text, [each["text"] for each in made.values()]))
        write_atomically(file, json.dumps(made))
    return Summary(**made[key])


def first_new(text: str, rejected: list[str]) -> Summary:
    """Return the first summary that was not rejected."""
    known = {alike(each) for each in rejected}
    for summary, made_by in proposals(text, rejected):
        if summary.strip() and alike(summary) not in known:
            return Summary(summary.strip(), made_by)
    raise NoFurtherSummary(
        f"no further summary: {len(rejected)} were rejected and no other can be made of this page"
    )


def proposals(text: str, rejected: list[str]) -> Iterator[tuple[str, str]]:
    """Yield summaries with their authors: from a language model if one is configured."""
    if settings().openai_base_url:
        return language_model.proposals(text, rejected)
    return extractive.proposals(text)


def alike(summary: str) -> str:
    """Return a normalised summary, to compare two of them as a reader would."""
    return " ".join(summary.casefold().split())
