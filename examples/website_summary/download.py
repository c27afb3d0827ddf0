"""The first step: the text of a web page, in a file."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from email.message import Message

import httpx

from examples.website_summary.files import write_atomically
from examples.website_summary.settings import settings
from signoff import Context

MAX_BYTES = 5_000_000
MAX_REDIRECTS = 5
MAX_SECONDS = 30.0
READABLE = ("text/html", "application/xhtml+xml", "text/plain")
BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
WORTH_ANOTHER_TRY = (408, 425, 429)


class NetworkResolutionError(Exception):
    """The address leads nowhere: its name does not resolve. Trying again at once would not help."""


class PageRefused(NetworkResolutionError):
    """The address leads to something that is no page for us: gone, too large, not text, or empty."""


@dataclass(frozen=True)
class Page:
    """What a server sent."""

    url: str
    content_type: str
    charset: str | None
    body: bytes

    def decoded(self) -> str | bytes:
        """Return text if the server said how to read the bytes, else the bytes."""
        try:
            return self.body.decode(self.charset, "replace") if self.charset else self.body
        except LookupError:
            return self.body


def download(ctx: Context, usable_id: str, url: str) -> str:
    """Keep the text of a web page in a file and return the file's name. A page that is there stays as it is.

    So it may run again at every replay (``durable=False``): on the machine that has the file this costs nothing, on
    another one it brings the file.

    Raises:
        NetworkResolutionError: There is no such page.
        httpx.HTTPError: It could not be had now.
    """
    if not re.fullmatch(r"[\w-]{1,100}", usable_id):
        raise PageRefused(f"{usable_id!r} cannot be the name of a file: use letters, digits, _ and -")
    file = settings().pages / f"{usable_id}.txt"
    if not file.exists():
        write_atomically(file, text_of(fetch(url)))
    return file.name


def fetch(url: str) -> Page:
    """Get a page, within limits of size, time and redirects."""
    if httpx.URL(url).scheme not in ("http", "https"):
        raise PageRefused(f"{url} is not a web address: it has to begin with http:// or https://")
    try:
        with (
            httpx.Client(follow_redirects=True, max_redirects=MAX_REDIRECTS, timeout=10) as client,
            client.stream("GET", url, headers={"Accept": ", ".join(READABLE)}) as response,
        ):
            return read(response)
    except httpx.ConnectError as error:
        if is_about_the_name(error):
            raise NetworkResolutionError(f"no address is known for {httpx.URL(url).host!r}") from error
        raise
    except (httpx.TooManyRedirects, httpx.UnsupportedProtocol) as error:
        raise PageRefused(f"{url} leads astray: {error}") from error


def read(response: httpx.Response) -> Page:
    """Read an answer to its end, unless there is a reason not to."""
    status = response.status_code
    if response.is_client_error and status not in WORTH_ANOTHER_TRY:
        raise PageRefused(f"{response.url} answered {status} {response.reason_phrase}")
    response.raise_for_status()
    header = Message()
    header["Content-Type"] = response.headers.get("Content-Type", "text/html")
    if header.get_content_type() not in READABLE:
        raise PageRefused(f"{response.url} is {header.get_content_type()}, which has no text to summarise")
    give_up_at = time.monotonic() + MAX_SECONDS
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MAX_BYTES:
            raise PageRefused(f"{response.url} is larger than {MAX_BYTES:,} bytes")
        if time.monotonic() > give_up_at:
            raise httpx.ReadTimeout(f"{response.url} took longer than {MAX_SECONDS:g} s")
    return Page(str(response.url), header.get_content_type(), header.get_content_charset(), bytes(body))


def text_of(page: Page) -> str:
    """Return what a person would read on a page."""
    content = rendered(page) or page.decoded()
    if page.content_type == "text/plain":
        text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    else:
        import trafilatura  # takes a while to import, and the process may never need it

        text = trafilatura.extract(content, url=page.url, include_comments=False) or ""
    if not text.strip():
        raise PageRefused(f"there is no text to summarise on {page.url}")
    return text


def rendered(page: Page) -> str | None:
    """Return the page's HTML after its scripts have run, if there is to be a browser and there is one."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not settings().use_browser or browser is None or page.content_type == "text/plain":
        return None
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # as root there is no sandbox to be had
    command = [browser, "--headless", "--disable-gpu", *as_root, "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run([*command, page.url], capture_output=True, timeout=MAX_SECONDS, check=True)
    return done.stdout.decode("utf-8", "replace")


def is_about_the_name(error: BaseException | None) -> bool:
    """Whether an error comes from looking up a host name."""
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None
