"""The first step: keeps the text of a web page in a file."""

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
    """The host name does not resolve. An immediate retry would not help."""


class PageRefused(NetworkResolutionError):
    """The address does not lead to a usable page: it is gone, too large, empty, or not text."""


@dataclass(frozen=True)
class Page:
    """A server's response."""

    url: str
    content_type: str
    charset: str | None
    body: bytes

    def decoded(self) -> str | bytes:
        """Return text if the server named the encoding, else bytes."""
        try:
            return self.body.decode(self.charset, "replace") if self.charset else self.body
        except LookupError:
            return self.body


def download(ctx: Context, usable_id: str, url: str) -> str:
    """Keep the text of a web page in a file, and return the file's name. An existing file stays as it is.

    So it may run again at every replay (``durable=False``). On the machine that has the file this costs nothing; on
    another one it fetches the page again.

    Raises:
        NetworkResolutionError: The page does not exist.
        httpx.HTTPError: The page is not available now.
    """
    if not re.fullmatch(r"[\w-]{1,100}", usable_id):
        raise PageRefused(f"{usable_id!r} is not a valid file name: use letters, digits, _ and -")
    file = settings().pages / f"{usable_id}.txt"
    if not file.exists():
        write_atomically(file, text_of(fetch(url)))
    return file.name


def fetch(url: str) -> Page:
    """Get a page, within limits of size, time and redirects."""
    if httpx.URL(url).scheme not in ("http", "https"):
        raise PageRefused(f"{url} is not a web address: it must begin with http:// or https://")
    try:
        with (
            httpx.Client(follow_redirects=True, max_redirects=MAX_REDIRECTS, timeout=10) as client,
            client.stream("GET", url, headers={"Accept": ", ".join(READABLE)}) as response,
        ):
            return read(response)
    except httpx.ConnectError as error:
        if is_about_the_name(error):
            raise NetworkResolutionError(f"the host name {httpx.URL(url).host!r} does not resolve") from error
        raise
    except (httpx.TooManyRedirects, httpx.UnsupportedProtocol) as error:
        raise PageRefused(f"{url} redirects too often or to an invalid address: {error}") from error


def read(response: httpx.Response) -> Page:
    """Read a response to its end, within the limits."""
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
    """Return the text that a person would read on a page."""
    content = rendered(page) or page.decoded()
    if page.content_type == "text/plain":
        text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    else:
        import trafilatura  # the import is slow, and the process may never need it

        text = trafilatura.extract(content, url=page.url, include_comments=False) or ""
    if not text.strip():
        raise PageRefused(f"there is no text to summarise on {page.url}")
    return text


def rendered(page: Page) -> str | None:
    """Return the page's HTML after its scripts have run, if a browser is enabled and installed."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not settings().use_browser or browser is None or page.content_type == "text/plain":
        return None
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # the sandbox does not work as root
    command = [browser, "--headless", "--disable-gpu", *as_root, "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run([*command, page.url], capture_output=True, timeout=MAX_SECONDS, check=True)
    return done.stdout.decode("utf-8", "replace")


def is_about_the_name(error: BaseException | None) -> bool:
    """Whether an error comes from looking up a host name."""
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None
