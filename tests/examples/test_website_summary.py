"""The summary's processes, killed where it hurts most."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO

import httpx
import pytest

from examples.website_summary.demo import ARTICLE, link_in
from examples.website_summary.download import (
    BROWSERS,
    MAX_BYTES,
    NetworkResolutionError,
    PageRefused,
    fetch,
    text_of,
)
from examples.website_summary.language_model import ModelRefused
from examples.website_summary.processes import REPOSITORY, Site
from examples.website_summary.summarize import NoFurtherSummary, first_new
from signoff import Client, Entry, RunState
from signoff.records import EntryKind, PromiseState
from tests.examples.mails import mailed, outbox, text_in
from tests.examples.servers import MailServer, Model, WebSite, language_model, mail_server, until, web_site
from tests.forks import Program

ANA = "ana@example.com"
PAGE = ARTICLE.read_bytes()

get = partial(httpx.get, timeout=60)
post = partial(httpx.post, timeout=60)


class Town(Site):
    """The three processes and, owned by the test, what they talk to. They are shared by tests to save time.

    Attributes:
        web: Where pages are.
        model: What summarises them.
        smtp: Who takes the mails.
    """

    def __init__(self, folder: Path, web: WebSite, model: Model, smtp: MailServer) -> None:
        super().__init__(folder, OPENAI_BASE_URL=model.url, SUMMARY_MODEL="fake", SMTP_URL=smtp.url)
        self.web = web
        self.model = model
        self.smtp = smtp

    def start_process(self, command: list[str], environment: dict[str, str], log: IO[bytes]) -> Program:
        return Program(command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log)

    def settle_down(self) -> None:
        """Let a new test begin: all processes run, nothing is held, counted or under way."""
        for gate in (self.web, self.model, self.smtp):
            gate.release()
        self.start(*({"server", "gateway", "worker"} - self.running))
        with Client(self.server_url) as client:
            for run in client.list(states=("ready", "running", "paused")).items:
                client.cancel(run.id)
            until(lambda: not client.list(states=("ready", "running", "paused")).items)
        self.web.fetches.clear()
        self.model.requests.clear()
        self.model.replies = ["A summary."]
        self.smtp.connections = 0
        self.smtp.mails.clear()


@pytest.fixture(scope="module")
def shared_town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with (
        web_site() as web,
        language_model() as model,
        mail_server() as smtp,
        Town(tmp_path_factory.mktemp("town"), web, model, smtp) as town,
    ):
        yield town


@pytest.fixture
def town(shared_town: Town) -> Town:
    shared_town.settle_down()
    return shared_town


@pytest.fixture
def url(town: Town, request: pytest.FixtureRequest) -> str:
    """The address of a page that only this test knows."""
    return town.web.put(f"/{request.node.name}", PAGE)


def ask(town: Town, url: str, email: str = ANA) -> str:
    """Ask the gateway for a summary and return the run's id."""
    answer = post(town.gateway_url + "/summarize", json={"url": url, "email": email})
    assert answer.status_code == 202, answer.text
    return answer.json()["run_id"]


def summary_in(mail: Path) -> str:
    return text_in(mail).partition("\n\nMade by ")[0]


def decide(town: Town, mail: Path, decision: str) -> httpx.Response:
    """Press a button on the page that a mail links to."""
    link = httpx.URL(link_in(mail))
    form = {"promise_id": link.params["promise_id"], "decision": decision}
    return post(town.gateway_url + link.path, data=form)


def result(town: Town, run_id: str) -> dict[str, str]:
    with Client(town.server_url) as client:
        return client.get(run_id).result(timeout=60)


def forget_summaries(town: Town) -> None:
    """Take away the files that would hide it if a journaled step ran again."""
    for file in (town.folder / "summaries").glob("*/*.json"):
        file.unlink()


def until_paused(town: Town, run_id: str) -> None:
    with Client(town.server_url) as client:
        until(lambda: client.get(run_id).status is RunState.PAUSED)


def journal(town: Town, run_id: str) -> list[Entry]:
    with Client(town.server_url) as client:
        return list(client.get(run_id).events())


def counts(town: Town) -> tuple[int, int, int]:
    """Return how many downloads, summaries and mails there were."""
    return town.web.fetches.total(), len(town.model.requests), len(town.smtp.mails)


# The six failure modes


def test_a_worker_killed_after_the_download_does_not_download_again(town: Town, url: str) -> None:
    town.model.hold()
    run_id = ask(town, url)
    until(lambda: town.model.requests)
    town.kill("worker")
    town.model.release()
    town.start("worker")
    decide(town, mailed(town, run_id), "accept")
    assert result(town, run_id)["text"] == "A summary."
    assert town.web.fetches.total() == 1


def test_a_worker_killed_between_summary_and_mail_does_not_summarise_again(town: Town, url: str) -> None:
    town.smtp.hold()
    run_id = ask(town, url)
    until(lambda: town.smtp.connections)
    town.kill("worker")
    forget_summaries(town)
    town.smtp.release()
    town.start("worker")
    until(lambda: town.smtp.mails)
    decide(town, mailed(town, run_id), "accept")
    assert result(town, run_id)["text"] == "A summary."
    assert counts(town) == (1, 1, 1)
    assert len(outbox(town, run_id)) == 1


def test_a_worker_killed_before_the_journal_does_not_summarise_again(town: Town, url: str) -> None:
    town.model.hold()
    run_id = ask(town, url)
    until(lambda: town.model.requests)
    database = sqlite3.connect(town.folder / "signoff.db", isolation_level=None)
    database.execute("BEGIN IMMEDIATE")  # no process can write to the journal now
    town.model.release()
    until(lambda: list((town.folder / "summaries").glob(f"*/{run_id}.json")))
    town.kill("worker")
    database.close()
    town.start("worker")
    decide(town, mailed(town, run_id), "accept")
    assert result(town, run_id)["text"] == "A summary."
    assert len(town.model.requests) == 1


def test_a_worker_killed_while_the_run_waits_for_the_person_is_not_missed(town: Town, url: str) -> None:
    run_id = ask(town, url)
    mail = mailed(town, run_id)
    until_paused(town, run_id)
    town.kill("worker")
    forget_summaries(town)
    town.start("worker")
    decide(town, mail, "accept")
    assert result(town, run_id)["text"] == "A summary."
    assert counts(town) == (1, 1, 1)


def test_an_answer_given_while_everything_is_down_is_kept(town: Town, url: str) -> None:
    run_id = ask(town, url)
    mail = mailed(town, run_id)
    until_paused(town, run_id)
    town.kill("worker", "gateway", "server")
    forget_summaries(town)
    town.start("gateway")
    too_early = decide(town, mail, "accept")
    assert too_early.status_code == 503
    assert town.server_url in too_early.json()["detail"]
    town.start("server")
    assert decide(town, mail, "accept").status_code == 200
    town.start("worker")
    assert result(town, run_id)["text"] == "A summary."
    assert counts(town) == (1, 1, 1)


def test_a_host_name_that_does_not_resolve_fails_at_once_without_retries(town: Town) -> None:
    run_id = ask(town, "http://no-such-host.invalid/page")
    with pytest.raises(NetworkResolutionError, match=r"no-such-host\.invalid"):
        result(town, run_id)
    assert EntryKind.ATTEMPT_FAILED not in {entry.kind for entry in journal(town, run_id)}
    shown = get(f"{town.gateway_url}/runs/{run_id}").text
    assert "There is no summary" in shown
    assert "no-such-host.invalid" in shown


def test_a_rejected_summary_is_followed_by_one_that_was_not_there_before(town: Town, url: str) -> None:
    town.model.replies = [
        "The first.",
        "the  FIRST.",
        "The second.",
        "The first.",
        "The second.",
        "The third.",
    ]
    run_id = ask(town, url)
    first = mailed(town, run_id, 1)
    town.kill("worker")
    decide(town, first, "reject")
    town.start("worker")  # which has not seen the first one
    decide(town, mailed(town, run_id, 2), "reject")
    decide(town, mailed(town, run_id, 3), "accept")
    assert result(town, run_id)["text"] == "The third."
    assert [summary_in(mail) for mail in outbox(town, run_id)] == ["The first.", "The second.", "The third."]
    first_asked, last_asked = town.model.requests[0], town.model.requests[-1]
    assert "- The first.\n- The second." in last_asked["messages"][0]["content"]
    assert last_asked["temperature"] > first_asked["temperature"]
    assert town.web.fetches.total() == 1


def test_the_same_page_asked_for_twice_is_one_run(town: Town, url: str) -> None:
    asked = [url, url + "#part", url.replace("http:", "HTTP:"), url]
    with ThreadPoolExecutor() as threads:
        ids = list(threads.map(lambda each: ask(town, each), asked))
    as_form = post(town.gateway_url + "/summarize", data={"url": url, "email": "ben@example.com"})
    assert as_form.status_code == 303
    mail = mailed(town, ids[0])
    decide(town, mail, "accept")
    result(town, ids[0])
    ids.append(ask(town, url))  # also when it has ended
    assert set(ids) == {as_form.headers["Location"].removeprefix("/runs/")}
    assert counts(town) == (1, 1, 1)
    assert f"To: {ANA}" in mail.read_text()


def test_a_summary_says_which_model_made_it(town: Town, url: str) -> None:
    run_id = ask(town, url)
    mail = mailed(town, run_id)
    assert "Made by fake at 127.0.0.1." in mail.read_text()
    assert "Made by fake at 127.0.0.1<" in get(link_in(mail)).text
    decide(town, mail, "accept")
    assert result(town, run_id) == {"text": "A summary.", "made_by": "fake at 127.0.0.1"}


# The gateway


def test_only_a_valid_decision_from_this_site_settles_and_only_once(town: Town, url: str) -> None:
    town.model.replies = ["<script>alert(1)</script> & co."]
    run_id = ask(town, url)
    mail = mailed(town, run_id)
    link = link_in(mail)
    promise_id = httpx.URL(link).params["promise_id"]
    confirm = town.gateway_url + "/confirm"
    shown = get(link).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co." in shown
    assert "<script>" not in shown
    yes = {"promise_id": promise_id, "decision": "accept"}
    refused = [
        post(confirm, data={"promise_id": promise_id}),
        post(confirm, data=yes | {"decision": "yes"}),
        post(confirm, data=yes, headers={"Origin": "http://elsewhere.example"}),
        post(confirm, data=yes, headers={"Host": "rebound.example"}),
        post(confirm, data=yes | {"promise_id": "summary-nothing.3"}),
    ]
    assert [each.status_code for each in refused] == [422, 422, 403, 400, 404]
    with Client(town.server_url) as client:
        client.promises.create("of-somebody-else")
        other = post(confirm, data=yes | {"promise_id": "of-somebody-else"})
        assert other.status_code == 404
        assert client.promises.get("of-somebody-else").state is PromiseState.PENDING
        assert client.promises.get(promise_id).state is PromiseState.PENDING
    assert decide(town, mail, "accept").status_code == 200
    assert decide(town, mail, "reject").status_code == 409
    assert result(town, run_id)["text"] == town.model.replies[0]
    assert "already been decided about" in get(link).text
    assert "&lt;script&gt;" in get(f"{town.gateway_url}/runs/{run_id}").text


def test_the_gateway_says_what_is_wrong_with_an_order(town: Town) -> None:
    orders = [{"url": "ftp://x.y/", "email": ANA}, {"url": "http://x.y/", "email": "nobody"}, {"email": ANA}]
    for order, field in zip(orders, ("url", "email", "url"), strict=True):
        answer = post(town.gateway_url + "/summarize", json=order)
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith(field + ": ")


# The functions


@pytest.fixture
def web() -> Iterator[WebSite]:
    with web_site() as site:
        yield site


@pytest.fixture
def model() -> Iterator[Model]:
    with language_model() as model:
        yield model


def test_what_is_no_page_is_refused_with_the_reason(web: WebSite) -> None:
    web.put("/large", b"x" * (MAX_BYTES + 1))
    web.put("/image", b"GIF89a", "image/gif")
    web.put("/empty", b"<html><body></body></html>")
    web.pages["/around"] = (302, {"Location": "/around"}, b"")
    web.pages["/file"] = (302, {"Location": "file:///etc/passwd"}, b"")
    reasons = {
        "/missing": "404",
        "/large": "larger than",
        "/image": "image/gif",
        "/empty": "no text",
        "/around": "redirects",
        "/file": "redirects too often or to an invalid address",
    }
    for path, reason in reasons.items():
        with pytest.raises(PageRefused, match=reason):
            text_of(fetch(web.url + path))
    with pytest.raises(PageRefused, match="http"):
        fetch("file:///etc/passwd")
    with pytest.raises(NetworkResolutionError):
        fetch("http://no-such-host.invalid/")


def test_a_server_that_is_down_for_now_is_worth_another_try(web: WebSite) -> None:
    web.pages["/busy"] = (503, {}, b"")
    with pytest.raises(httpx.HTTPStatusError):
        fetch(web.url + "/busy")


def test_the_text_is_what_a_person_reads_in_the_charset_the_server_names(web: WebSite) -> None:
    article = text_of(fetch(web.put("/page", PAGE)))
    assert article.startswith("The program that was asked to wait")
    assert "Archive" not in article
    assert (
        text_of(fetch(web.put("/plain", "Grüße".encode("latin-1"), "text/plain; charset=latin-1"))) == "Grüße"
    )


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no browser is installed")
def test_a_browser_finds_the_text_that_scripts_write(web: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMARY_BROWSER", "1")
    script = "document.body.innerHTML = '<article><p>A script wrote this sentence.</p></article>'"
    page = web.put("/page", f"<html><body><script>{script}</script></body></html>".encode())
    assert text_of(fetch(page)) == "A script wrote this sentence."


def test_a_page_that_has_no_other_summary_says_so(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    text = "Signoff waits for people and holds nothing while it waits."
    only = first_new(text, [])
    with pytest.raises(NoFurtherSummary, match="1 were rejected"):
        first_new(text, [only.text.upper()])
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    with pytest.raises(NoFurtherSummary):
        first_new(text, ["A summary."])
    model.refuses_with = 401
    with pytest.raises(ModelRefused, match="401"):
        first_new(text, [])
