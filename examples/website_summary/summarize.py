"""The second step: a summary, and after a rejection another one."""

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
    """Every summary that can be made of this page was rejected."""


@dataclass(frozen=True)
class Summary:
    """A summary, and what made it."""

    text: str
    made_by: str


def summarize(ctx: Context, filename: str) -> Generator[Any, Any, Summary]:
    """Summarise a page that ``download`` kept; never twice the same in one run.

    It is workflow code, so that it can say what there is no use in trying again.
    """
    hopeless = (NoFurtherSummary, language_model.ModelRefused)
    return (yield ctx.lfc(write_summary, filename).options(non_retryable_exceptions=hopeless))


def write_summary(ctx: Context, filename: str) -> Summary:
    """Make a summary that this run has not had yet.

    The summaries of a run are kept in a file by the key of their step. So the step knows which ones were
    rejected, and if its worker dies before the journal has the summary, the next attempt finds it and pays no
    model again.

    Raises:
        NoFurtherSummary: There is none left.
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
    """Return the first summary that is not one of the rejected ones."""
    known = {alike(each) for each in rejected}
    for summary, made_by in proposals(text, rejected):
        if summary.strip() and alike(summary) not in known:
            return Summary(summary.strip(), made_by)
    raise NoFurtherSummary(
        f"no further summary: {len(rejected)} were rejected and no other can be made of this page"
    )


def proposals(text: str, rejected: list[str]) -> Iterator[tuple[str, str]]:
    """Yield summaries and what made them: by a language model if one is configured."""
    if settings().openai_base_url:
        return language_model.proposals(text, rejected)
    return extractive.proposals(text)


def alike(summary: str) -> str:
    """Return what two summaries share that a reader would call the same."""
    return " ".join(summary.casefold().split())
