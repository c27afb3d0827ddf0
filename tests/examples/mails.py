"""Mails of the website summaries, as files in their outbox."""

from __future__ import annotations

from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path

from examples.website_summary.processes import Site
from tests.examples.servers import until


def outbox(site: Site, run_id: str) -> list[Path]:
    """Return the mails about a run, oldest first."""
    mails = (site.folder / "outbox").glob(f"{run_id}.*.eml")
    return sorted(mails, key=lambda mail: int(mail.stem.rpartition(".")[2]))


def mailed(site: Site, run_id: str, count: int = 1) -> Path:
    """Wait for a mail, the ``count``-th about a run, and return it."""
    return until(lambda: outbox(site, run_id)[count - 1 :])[0]


def text_in(mail: Path) -> str:
    """Return the text of a mail."""
    parsed = BytesParser(policy=policy.default).parsebytes(mail.read_bytes())
    assert isinstance(parsed, EmailMessage)
    return parsed.get_content().replace("\r\n", "\n")
