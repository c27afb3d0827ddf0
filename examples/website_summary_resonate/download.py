"""The first step: keeps the text of a web page in a file."""

# pyright: basic, reportMissingImports=false

import re
import socket
import time
from email.message import Message
from html.parser import HTMLParser

import requests

from examples.website_summary.files import write_atomically
from examples.website_summary.settings import settings

MAX_BYTES = 5_000_000
MAX_REDIRECTS = 5
MAX_SECONDS = 30.0
READABLE = ("text/html", "application/xhtml+xml", "text/plain")
WORTH_ANOTHER_TRY = (408, 425, 429)


class NetworkResolutionError(Exception):
    """The host name does not resolve. An immediate retry would not help."""


class PageRefused(Exception):
    """The address does not lead to a usable page: it is gone, too large, empty, or not text."""


def download(ctx, usable_id, url):
    """Keep the text of a web page in a file, and return the file's name. An existing file stays as it is."""
    if not re.fullmatch(r"\w[\w.-]{0,99}", usable_id):
        raise PageRefused(f"{usable_id!r} is not a valid file name: use letters, digits, _, . and -")
    file = settings().pages / f"{usable_id}.txt"
    if not file.exists():
        print(f"downloading {url}", flush=True)
        write_atomically(file, fetch(url))
    return file.name


def fetch(url):
    """Return the text of a page.

    Raises:
        NetworkResolutionError: There is no such host.
        PageRefused: There is no such page, or no text on it.
        requests.RequestException: The page is not available now.
    """
    try:
        with requests.Session() as session:
            session.max_redirects = MAX_REDIRECTS
            with session.get(
                url, headers={"Accept": ", ".join(READABLE)}, stream=True, timeout=10
            ) as response:
                return text_in(response)
    except (requests.TooManyRedirects, ValueError) as error:  # InvalidURL, InvalidSchema and the like
        raise PageRefused(f"{url} is not a usable address: {error}") from error
    except requests.ConnectionError as error:
        if is_about_the_name(error):
            raise NetworkResolutionError(f"the host name in {url} does not resolve") from error
        raise


def text_in(response):
    """Return the text of a response, within limits of size and time."""
    if 400 <= response.status_code < 500 and response.status_code not in WORTH_ANOTHER_TRY:
        raise PageRefused(f"{response.url} answered {response.status_code} {response.reason}")
    response.raise_for_status()
    header = Message()
    header["Content-Type"] = response.headers.get("Content-Type", "text/html")
    if header.get_content_type() not in READABLE:
        raise PageRefused(f"{response.url} is {header.get_content_type()}, which has no text to summarise")
    give_up_at = time.monotonic() + MAX_SECONDS
    body = bytearray()
    while chunk := response.raw.read1(65_536, decode_content=True):  # at once, however slowly a page comes
        body += chunk
        if len(body) > MAX_BYTES:
            raise PageRefused(f"{response.url} is larger than {MAX_BYTES:,} bytes")
        if time.monotonic() > give_up_at:
            raise requests.Timeout(f"{response.url} took longer than {MAX_SECONDS:g} s")
    text = decoded(bytes(body), header.get_content_charset())
    if header.get_content_type() != "text/plain":
        text = Paragraphs.of(text)
    if not text.strip():
        raise PageRefused(f"there is no text to summarise on {response.url}")
    return text


def decoded(body, charset):
    """Return text. An unknown encoding is read as UTF-8."""
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


class Paragraphs(HTMLParser):
    """Collects the text of the elements that hold sentences, one line each."""

    KEPT = ("p", "li", "blockquote", "dd", "td", "h1", "h2", "h3")
    LEFT_OUT = ("script", "style", "template", "nav", "aside", "footer", "form", "head")

    def __init__(self):
        super().__init__()
        self._lines = []
        self._open = []

    @classmethod
    def of(cls, html):
        """Return a page's text."""
        parser = cls()
        parser.feed(html)
        parser.close()
        lines = (" ".join(line.split()) for line in parser._lines)
        return "\n".join(filter(None, lines))

    def handle_starttag(self, tag, attrs):
        if tag in self.LEFT_OUT:
            self._open.append(tag)
        if tag in self.KEPT:
            self._lines.append("")

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass
        if tag in self.KEPT:
            self._lines.append("")

    def handle_data(self, data):
        if self._lines and not self._open:
            self._lines[-1] += data


def is_about_the_name(error):
    """Whether an error comes from looking up a host name."""
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None
