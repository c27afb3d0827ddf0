"""The website summary on resonate-sdk 0.6.7, its processes killed where it hurts most. Each effect is counted."""

from __future__ import annotations

import asyncio
import gzip
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import httpx
import pytest

from examples.website_summary.demo import ARTICLE
from examples.website_summary.processes import REPOSITORY, Process, Site, free_port
from examples.website_summary_resonate.summarize import summarize
from signoff import Client, NotAllowed, Signoff, WrongAnswer
from signoff.records.tasks import TaskState
from tests.examples.mails import mailed, outbox, text_in
from tests.examples.servers import MailServer, WebSite, mail_server, until, web_site
from tests.forks import Program
from tests.postgres.databases import fresh_database
from tests.resonate_sdks import python_of_2024

ANA = "ana@example.com"
PAGE = ARTICLE.read_bytes()
PROGRAMS = "examples.website_summary_resonate."

get = partial(httpx.get, timeout=60)
post = partial(httpx.post, timeout=60)


class Town(Site):
    """The server, and the gateway and the workers with the SDK. They are shared by tests to save time.

    Attributes:
        web: Where pages are.
        smtp: Who takes the mails.
    """

    def __init__(self, folder: Path, web: WebSite, smtp: MailServer, store: str = "") -> None:
        self.ports = [str(free_port()) for _ in range(2)]
        super().__init__(
            folder,
            SMTP_URL=smtp.url,
            SUMMARY_LEASE_SECONDS="3",
            RESONATE_HOST="http://127.0.0.1",
            RESONATE_PORT_STORE=self.ports[0],
            RESONATE_PORT_MESSAGE_SOURCE=self.ports[1],
        )
        self.store = store or self.store
        self.web = web
        self.smtp = smtp

    def command(self, name: str) -> tuple[list[str], dict[str, str]]:
        match name:
            case "server":
                command, _ = super().command(name)
                store, messages = self.ports
                options = ["--resonate-legacy-port", store, "--resonate-legacy-messages-port", messages]
                return [*command, "--resonate-legacy", *options], {}
            case "gateway":
                return [PROGRAMS + name], {"SUMMARY_GATEWAY_PORT": str(httpx.URL(self.gateway_url).port)}
            case "inbox_worker":
                return [PROGRAMS + name], {}
            case _:
                return [PROGRAMS + "worker"], {}

    def start_process(self, command: list[str], environment: dict[str, str], log: IO[bytes]) -> Process:
        if command[0] == "signoff":
            return Program(command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log)
        variables = {key: text for key, text in environment.items() if not key.startswith("COVERAGE_")}
        interpreter = [python_of_2024(), "-m"]
        return subprocess.Popen(
            interpreter + command,
            cwd=REPOSITORY,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    def start(self, *names: str) -> None:
        """Start the server first: the SDK waits for 5 seconds before it connects again."""
        first = {"server"} & set(names)
        super().start(*first)
        super().start(*(name for name in names if name not in first))

    def settle_down(self) -> None:
        """Let a new test begin: the three processes run, and nothing is held or counted."""
        for gate in (self.web, self.smtp):
            gate.release()
        self.kill(*(self.running - {"server", "gateway", "worker"}))
        self.start(*({"server", "gateway", "worker"} - self.running))
        self.web.fetches.clear()
        self.smtp.connections = 0
        self.smtp.mails.clear()

    def said(self, verb: str, run_id: str) -> int:
        """Return how often workers began to do something for a run."""
        logs = "".join(log.read_text() for log in self.folder.glob("*worker*.log"))
        return len(
            re.findall(
                rf"^{verb} .*{re.escape(run_id.removeprefix('downloadAndSummarize-'))}", logs, re.MULTILINE
            )
        )


@pytest.fixture(scope="module")
def shared_town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with web_site() as web, mail_server() as smtp, Town(tmp_path_factory.mktemp("town"), web, smtp) as town:
        yield town


@pytest.fixture
def town(shared_town: Town) -> Town:
    shared_town.settle_down()
    return shared_town


@pytest.fixture
def url(town: Town, request: pytest.FixtureRequest) -> str:
    """The address of a page that only this test knows."""
    return town.web.put(f"/{request.node.name}", PAGE)


def request(town: Town, url: str, email: str = ANA) -> httpx.Response:
    return post(town.gateway_url + "/summarize", json={"url": url, "email": email})


def ask(town: Town, url: str, email: str = ANA) -> str:
    """Ask the gateway for a summary and return the run's id."""
    answer = request(town, url, email)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def ended(town: Town, url: str) -> httpx.Response:
    """Ask again until the run has ended, and return the answer."""

    def look() -> httpx.Response | None:
        answer = request(town, url)
        return None if answer.status_code == 202 else answer

    return until(look)


def result(town: Town, url: str) -> str:
    answer = ended(town, url)
    assert answer.status_code == 200, answer.text
    return answer.json()["summary"]


def summary_in(mail: Path) -> str:
    return text_in(mail).partition("\n\nAccept: ")[0]


def decide(mail: Path, verb: str) -> httpx.Response:
    """Follow a link in a mail."""
    return get(text_in(mail).partition(f"{verb}: ")[2].split()[0])


def until_suspended(town: Town, run_id: str) -> None:
    """Wait until no worker holds a run: it waits for its person."""

    async def wait() -> None:
        app = Signoff(town.store)
        await app.store.open()
        async with asyncio.timeout(60):
            while (await app.store.get_task(run_id)).state is not TaskState.SUSPENDED:
                await asyncio.sleep(0.02)
        await app.store.close()

    asyncio.run(wait())


def forget_summaries(town: Town) -> None:
    """Take away the files that would hide it if a finished step ran again."""
    for file in (town.folder / "summaries").glob("*.json"):
        file.unlink()


def counts(town: Town, run_id: str) -> tuple[int, int, int]:
    """Return how often the page was fetched, a summary was made, and a mail was sent."""
    return town.web.fetches.total(), town.said("summarizing", run_id), len(town.smtp.mails)


def test_a_rejected_summary_is_followed_by_another_one(town: Town, url: str) -> None:
    run_id = ask(town, url)
    assert decide(mailed(town, run_id), "Reject").status_code == 200
    second = mailed(town, run_id, 2)
    assert decide(second, "Accept").status_code == 200
    assert result(town, url) == summary_in(second) != summary_in(mailed(town, run_id))
    assert counts(town, run_id) == (1, 2, 2)


# The six failure modes


def test_an_answer_given_while_no_worker_is_up_is_kept_for_the_next(town: Town, url: str) -> None:
    run_id = ask(town, url)
    mail = mailed(town, run_id)
    until_suspended(town, run_id)
    town.kill("worker", "gateway", "server")  # and weeks pass
    forget_summaries(town)
    town.start("server", "gateway")
    assert decide(mail, "Accept").status_code == 200
    town.start("worker")
    assert result(town, url) == summary_in(mail)
    assert counts(town, run_id) == (1, 1, 1)


def test_a_killed_gateway_is_not_missed_by_the_workflow(town: Town, url: str) -> None:
    town.web.hold()
    run_id = ask(town, url)
    town.kill("gateway")
    town.web.release()
    mail = mailed(town, run_id)
    town.start("gateway")
    assert ask(town, url) == run_id
    assert decide(mail, "Accept").status_code == 200
    assert result(town, url) == summary_in(mail)
    assert counts(town, run_id) == (1, 1, 1)


def test_a_killed_server_loses_neither_a_step_nor_an_answer(town: Town, url: str) -> None:
    town.web.hold()
    run_id = ask(town, url)
    until(town.web.fetches.total)
    town.kill("server")
    town.web.release()
    town.start("server")
    mail = mailed(town, run_id)
    town.kill("server")
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(decide, mail, "Accept")
        town.start("server")
        assert answer.result().status_code == 200
    assert result(town, url) == summary_in(mail)
    assert counts(town, run_id) == (1, 1, 1)


def test_a_worker_killed_in_a_step_repeats_that_step_only(town: Town, url: str) -> None:
    town.web.hold()
    run_id = ask(town, url)
    until(town.web.fetches.total)
    town.kill("worker")
    town.web.release()
    town.smtp.hold()
    town.start("worker")
    until(lambda: town.smtp.connections)
    assert counts(town, run_id) == (2, 1, 0)
    town.kill("worker")
    forget_summaries(town)
    town.smtp.release()
    town.start("worker")
    decide(mailed(town, run_id), "Accept")
    assert summary_in(mailed(town, run_id)) == result(town, url)
    assert counts(town, run_id) == (2, 1, 1)


def test_a_page_and_a_mail_server_that_fail_are_tried_again(town: Town, url: str) -> None:
    path = httpx.URL(url).path
    page, town.web.pages[path] = town.web.pages[path], (503, {}, b"")
    town.smtp.is_broken = True
    run_id = ask(town, url)
    until(town.web.fetches.total)
    town.web.pages[path] = page
    until(lambda: town.smtp.connections)
    town.smtp.is_broken = False
    decide(mailed(town, run_id), "Accept")
    assert result(town, url) == summary_in(mailed(town, run_id))
    assert counts(town, run_id) == (2, 1, 1)
    assert town.smtp.connections == 2


def test_repeated_requests_and_answers_count_once(town: Town, url: str) -> None:
    town.start("other worker")
    with ThreadPoolExecutor() as threads:
        (run_id,) = set(threads.map(partial(ask, town), [url] * 4, [ANA, ANA, ANA, "ben@example.com"]))
        mail = mailed(town, run_id)
        answers = list(threads.map(partial(decide, mail), ["Accept", "Reject"] * 3))
    taken = {answer.url for answer in answers if answer.status_code == 200}
    refused = {answer.url for answer in answers if answer.status_code == 409}
    assert len(taken) == len(refused) == 1
    if "confirm=false" in str(taken):
        mail = mailed(town, run_id, 2)
        decide(mail, "Accept")
    assert result(town, url) == summary_in(mail)
    late = [decide(mail, "Accept"), decide(mail, "Reject")]
    assert [answer.status_code for answer in late] == [200, 409]
    assert counts(town, run_id) == (1, len(outbox(town, run_id)), len(outbox(town, run_id)))


# Pages and requests that are wrong


def test_a_page_that_cannot_be_summarised_ends_the_workflow_at_once(town: Town) -> None:
    web = town.web
    reasons = {
        web.url + "/missing": "404",
        web.put("/large", b"x" * 5_000_001): "larger than",
        web.put("/image", b"GIF89a", "image/gif"): "image/gif",
        web.put("/empty", b"<html><body></body></html>"): "no text",
        web.put("/gzip", gzip.compress(b"x" * 5_000_001)): "larger than",
        web.put("/around", b""): "redirects",
        web.put("/file", b""): "not a usable address",
        "http://no-such-host.invalid/": "does not resolve",
    }
    html = {"Content-Type": "text/html"}
    web.pages["/gzip"] = (200, {**html, "Content-Encoding": "gzip"}, web.pages["/gzip"][2])
    web.pages["/around"] = (302, {"Location": "/around"}, b"")
    web.pages["/file"] = (302, {"Location": "file:///etc/passwd"}, b"")
    for url in reasons:
        ask(town, url)
    for url, reason in reasons.items():
        answer = ended(town, url)
        assert answer.status_code == 500
        assert reason in answer.json()["error"]
    assert web.fetches.total() - web.fetches["/around"] == len(reasons) - 2


def test_odd_pages_are_summarised(town: Town) -> None:
    one_line = town.web.put("/line", b"word " * 500_000, "text/plain")
    binary = town.web.put("/binary", b"\0\xff\xfe Some words. <p>", "text/plain; charset=no-such")
    marks = town.web.put("/marks", b"!" * 1_000_000 + b"x", "text/plain")
    begins_of = {one_line: "word word", binary: "\0\ufffd\ufffd Some words.", marks: "!!!"}
    for url, begins in begins_of.items():
        mail = mailed(town, ask(town, url))
        decide(mail, "Accept")
        summary = result(town, url)
        assert summary.startswith(begins)
        assert len(summary) <= 1500


def test_a_step_that_runs_again_finds_its_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMARY_FOLDER", str(tmp_path))
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/page.txt").write_text("Longest sentence. Another sentence. Third one. Last one.")
    first, second, again = (
        summarize(SimpleNamespace(id=id), "page.txt") for id in ("run.2", "run.5", "run.2")
    )
    assert first == again != second


def test_when_all_summaries_are_rejected_the_workflow_fails(town: Town) -> None:
    url = town.web.put(
        "/short",
        "Grüße aus der Stadt. Und ein zweiter Satz.".encode("latin-1"),
        "text/plain; charset=latin-1",
    )
    run_id = ask(town, url)
    mail = mailed(town, run_id)
    assert summary_in(mail) == "Grüße aus der Stadt. Und ein zweiter Satz."
    decide(mail, "Reject")
    assert "no further summary" in ended(town, url).json()["error"]


def test_the_gateway_refuses_wrong_orders_and_answers(town: Town, url: str) -> None:
    orders = [
        [],
        {"email": ANA},
        {"url": url},
        {"url": 7, "email": ANA},
        {"url": "ftp://x.y/", "email": ANA},
        {"url": "http://[x/", "email": ANA},
        {"url": url, "email": "nobody"},
        {"url": url, "email": f"{ANA}\nBcc: ben@example.com"},
        {"url": url, "email": "a@b.c, d@e.f"},
        {"url": url, "email": "ä@b.c"},
    ]
    refused = [post(town.gateway_url + "/summarize", json=order).status_code for order in orders]
    assert refused == [400] * len(orders)
    with Client(town.server_url) as client:
        client.promises.create("of-another-program")
    run_id = ask(town, url)
    mail = mailed(town, run_id)
    promise_id = f"{run_id}.3"

    def confirm(**query: str) -> int:
        return get(town.gateway_url + "/confirm", params=query).status_code

    assert [confirm(promise_id=promise_id, confirm=value) for value in ("", "yes", "True")] == [400] * 3
    unknown = [run_id, f"{run_id}.2", f"{run_id}.99", "of-another-program", "", "../tasks", f"{promise_id}?"]
    assert [confirm(promise_id=id, confirm="true") for id in unknown] == [404] * len(unknown)
    assert decide(mail, "Accept").status_code == 200
    assert result(town, url) == summary_in(mail)


# People


def test_the_same_promise_can_be_resolved_with_signoffs_api(town: Town, url: str) -> None:
    run_id = ask(town, url)
    mail = mailed(town, run_id)
    with Client(town.server_url) as client:
        client.promises.resolve(f"{run_id}.3", "no", by="ops")  # not a yes
        assert decide(mail, "Accept").status_code == 409
        mail = mailed(town, run_id, 2)
        client.promises.resolve(f"{run_id}.6", True, by="ops")
    assert result(town, url) == summary_in(mail)


def test_the_inbox_worker_asks_in_signoffs_inbox(town: Town, url: str) -> None:
    town.kill("worker")
    town.start("inbox_worker")
    run_id = ask(town, url)
    with Client(town.server_url) as client:
        for approves in (False, True):
            (question,) = until(lambda: client.questions(user_id=ANA).items)
            link = {"promise_id": question.id, "confirm": "true"}
            assert get(town.gateway_url + "/confirm", params=link).status_code == 409
            with pytest.raises(WrongAnswer):
                client.answer(question.id, "perhaps", user_id=ANA)
            with pytest.raises(NotAllowed):
                client.answer(question.id, True, user_id="ben")
            until_suspended(town, run_id)
            town.kill("inbox_worker")
            forget_summaries(town)
            client.answer(question.id, approves, user_id=ANA)
            town.start("inbox_worker")
    assert result(town, url)
    assert counts(town, run_id) == (1, 2, 0)


def test_the_story_on_postgres(tmp_path: Path) -> None:
    with (
        fresh_database() as store,
        web_site() as web,
        mail_server() as smtp,
        Town(tmp_path, web, smtp, store) as town,
    ):
        town.start("server", "gateway", "worker")
        url = web.put("/page", PAGE)
        run_id = ask(town, url)
        decide(mailed(town, run_id), "Reject")
        mail = mailed(town, run_id, 2)
        town.kill("worker", "gateway", "server")
        town.start("server", "gateway", "worker")
        assert decide(mail, "Accept").status_code == 200
        assert result(town, url) == summary_in(mail)
        assert counts(town, run_id) == (1, 2, 2)
