"""The example's settings, read from the environment. README.md lists them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """One field for each variable."""

    folder: Path
    gateway_url: str
    server_url: str
    use_browser: bool
    openai_base_url: str
    openai_api_key: str
    model: str
    language: str
    smtp_url: str
    sender: str

    @property
    def pages(self) -> Path:
        """The folder for the pages' text."""
        return self.folder / "pages"

    @property
    def summaries(self) -> Path:
        """The folder for the summaries of each run, which are all different."""
        return self.folder / "summaries"

    @property
    def outbox(self) -> Path:
        """The folder for mails."""
        return self.folder / "outbox"


def settings() -> Settings:
    """Read the environment."""
    return Settings(
        folder=Path(os.environ.get("SUMMARY_FOLDER", "website_summary")),
        gateway_url=os.environ.get("SUMMARY_GATEWAY_URL", "http://127.0.0.1:8080").rstrip("/"),
        server_url=os.environ.get("SIGNOFF_URL", "http://127.0.0.1:8000"),
        use_browser=os.environ.get("SUMMARY_BROWSER", "") == "1",
        openai_base_url=os.environ.get("OPENAI_BASE_URL", "").rstrip("/"),
        openai_api_key=os.environ.get("OPENAI_API_KEY", ""),
        model=os.environ.get("SUMMARY_MODEL", "gpt-4o-mini"),
        language=os.environ.get("SUMMARY_LANGUAGE", "en"),
        smtp_url=os.environ.get("SMTP_URL", ""),
        sender=os.environ.get("MAIL_FROM", "summaries@localhost"),
    )
