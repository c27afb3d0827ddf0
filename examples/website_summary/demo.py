"""``make demo``: the example on a page of its own, with every process on this machine, from start to result.

Then it shows Studio with the shop's samples, until Ctrl-C. Without a terminal it plays the person, and ends once Studio
answers. ``python -m examples.website_summary.demo [URL]`` uses another page.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, nullcontext
from email import policy
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from examples.shop.assistant import MODEL
from examples.shop.samples import start_samples
from examples.website_summary.processes import DidNotStart, Site
from signoff import AsyncClient, AsyncHandle, Entry, RunFailed, SignoffError
from signoff.records import CallKind, EntryKind

ARTICLE = Path(__file__).with_name("article.html")
EMAIL = "you@example.com"
MOST_ATTEMPTS = 3
MOST_SECONDS_ALONE = 60.0


class GaveUp(Exception):
    """Ends the demo with a one-line message."""


def main(arguments: list[str]) -> int:
    """Run the demo and return its exit code."""
    try:
        page = served_article() if not arguments else nullcontext(checked(arguments))
        with page as url, tempfile.TemporaryDirectory(prefix="signoff-demo-") as folder:
            asyncio.run(demonstrate(url, Path(folder)))
        say("Stopped; its processes and files are gone.")
    except (GaveUp, DidNotStart, SignoffError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: stopped; its processes and files are gone", file=sys.stderr)
        return 130
    return 0


async def demonstrate(url: str, folder: Path) -> None:
    """Start the processes and one run, follow it to its end, and stop everything."""
    with Site(folder) as site:
        site.start("server", "gateway", "worker")
        say(f"Page     {url}")
        say(f"Server   {site.server_url}")
        say(f"Gateway  {site.gateway_url}")
        say(f"Files    {folder}")
        order = await post(site.gateway_url + "/summarize", json={"url": url, "email": EMAIL})
        async with AsyncClient(site.server_url) as client:
            run = await client.get(order.json()["run_id"])
            say(f"Run      {run.id}\n")
            await while_all_live(site, Demo(site, run).watch())
            summary = await result_of(run)
            say(f"Accepted. The run has ended with this result:\n\n{quoted(summary)}\n")
            await show_studio(site, client)


class Demo:
    """Reports the progress of one run, and plays the person if there is no one at the terminal."""

    def __init__(self, site: Site, run: AsyncHandle) -> None:
        self._site = site
        self._run = run
        self._has_person = has_person()
        self._plays = iter(["reject", "accept"])

    async def watch(self) -> None:
        """Follow the run to its end."""
        try:
            async with (
                asyncio.timeout(None if self._has_person else MOST_SECONDS_ALONE),
                aclosing(self._run.events()) as events,
            ):
                async for entry in events:
                    await self._tell(entry)
        except TimeoutError:
            raise GaveUp(f"the run has not ended within {MOST_SECONDS_ALONE:g} s") from None

    async def _tell(self, entry: Entry) -> None:
        if entry.kind is EntryKind.ATTEMPT_FAILED:
            self._tell_failure(entry)
        if entry.kind is not EntryKind.COMPLETED or entry.error is not None:
            return
        match entry.call, entry.name:
            case CallKind.STEP, "download":
                say("Downloaded the page and kept its text.")
            case CallKind.STEP, "write_summary":
                summary = json.loads(entry.value or "{}")
                say(f"Summarised it, by {summary['made_by']}:\n\n{quoted(summary)}\n")
            case CallKind.STEP, "send_email":
                await self._ask(self._site.folder / "outbox" / f"{self._run.id}.{entry.n}.eml")
            case CallKind.PROMISE, _ if entry.value == "false":
                say("It was rejected, so there will be another one.")

    def _tell_failure(self, entry: Entry) -> None:
        problem = json.loads(entry.error or "{}").get("message", "no reason given")
        if entry.fact("attempt") >= MOST_ATTEMPTS:
            raise GaveUp(f"{entry.name} failed {MOST_ATTEMPTS} times: {problem}")
        say(f"{entry.name} failed and will be retried: {problem}")

    async def _ask(self, mail: Path) -> None:
        link = link_in(mail)
        promise_id = httpx.URL(link).params["promise_id"]
        say(f"Mailed it to {EMAIL}: {mail}")
        say("The run waits for a decision. It is a row in the database now and uses nothing else.")
        if self._has_person:
            command = f"signoff resolve {promise_id} true --url {self._site.server_url}"
            say(f"\n  Decide at  {link}\n  or with    {command}\n")
            return
        decision = next(self._plays)
        say(f"There is no terminal, so the demo plays the person, and decides: {decision}.")
        await post(self._site.gateway_url + "/confirm", data={"promise_id": promise_id, "decision": decision})


async def show_studio(site: Site, client: AsyncClient) -> None:
    """Start the shop's samples, and show them until Ctrl-C. Without a terminal, only check that Studio answers.

    Raises:
        GaveUp: Studio does not answer, or the samples open no questions.
    """
    site.start("shop")
    await while_all_live(site, start_shop(client))
    async with httpx.AsyncClient(base_url=site.server_url, timeout=10, trust_env=False) as http:
        page = await http.get("/inbox", headers={"Accept": "text/html"})
    if page.is_error or "<html" not in page.text:
        raise GaveUp(f"Studio does not answer at {site.server_url}: status {page.status_code}")
    waiting = len((await client.questions()).items)
    say(f"Studio   {site.server_url}/")
    say(f"It has that run, and those of a small shop (examples/shop). {waiting} questions wait in its inbox.")
    if MODEL is None:
        say(
            "The shop's assistant (run reply-tomas) follows a script. Set a model with SIGNOFF_DEMO_MODEL=openai:gpt-5."
        )
    if not has_person():
        say("There is no terminal, so Studio is not shown.")
        return
    stopped = stop_signals()
    say("Open it in a browser. Ctrl-C ends the demo.")
    await while_all_live(site, stopped.wait())
    say("")


async def start_shop(client: AsyncClient) -> None:
    """Start the samples. Raises GaveUp if they open no questions."""
    try:
        async with asyncio.timeout(MOST_SECONDS_ALONE):
            await start_samples(client)
    except TimeoutError:
        raise GaveUp(f"the samples opened no questions within {MOST_SECONDS_ALONE:g} s") from None


def stop_signals() -> asyncio.Event:
    """Return an event that Ctrl-C or a termination signal sets. Repeated signals do not disturb the cleanup."""
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    return stopped


def has_person() -> bool:
    """Whether there is a person at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


async def while_all_live(site: Site, work: Any) -> None:
    """Do some work while all processes live. Raises DidNotStart once one has ended."""
    task = asyncio.create_task(work)
    try:
        while not task.done():
            site.check()
            await asyncio.wait([task], timeout=0.5)
        await task
    finally:
        task.cancel()


async def post(url: str, **body: Any) -> httpx.Response:
    """Post to the gateway. Raises GaveUp if it refuses."""
    async with httpx.AsyncClient(timeout=10, trust_env=False) as http:
        answer = await http.post(url, **body)
    if answer.is_error:
        raise GaveUp(answer.json()["detail"])
    return answer


async def result_of(run: AsyncHandle) -> dict[str, str]:
    """Return the accepted summary. Raises GaveUp with the reason if there is none."""
    try:
        return await run.result()
    except RunFailed as error:
        raise GaveUp(error.message) from None
    except Exception as error:
        raise GaveUp(str(error)) from error


def checked(arguments: list[str]) -> str:
    """Return the given address. Raises GaveUp if it is not valid."""
    url = arguments[0]
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise GaveUp(f"{url!r} is not a web address: {error}") from None
    if len(arguments) > 1 or parsed.scheme not in ("http", "https") or not parsed.host:
        raise GaveUp(f"{' '.join(arguments)!r} is not a web address, such as https://example.com/")
    return url


@contextmanager
def served_article() -> Iterator[str]:
    """Serve the demo's own page. Yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(ARTICLE.read_bytes())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/waiting.html"
        finally:
            server.shutdown()
            thread.join()


def link_in(mail: Path) -> str:
    """Return the decision link in a mail."""
    text = BytesParser(policy=policy.default).parsebytes(mail.read_bytes()).get_content()
    return next(line for line in text.splitlines() if line.startswith("http"))


def quoted(summary: dict[str, str]) -> str:
    """Return a summary as an indented paragraph."""
    return textwrap.fill(summary["text"], 96, initial_indent="  | ", subsequent_indent="  | ")


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


if __name__ == "__main__":
    # SIGTERM and SIGHUP also clean up.
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
