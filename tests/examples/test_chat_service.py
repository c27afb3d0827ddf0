"""The chat service: several processes, each of which may take messages, answers and readers, and may die."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from examples.website_summary.processes import REPOSITORY, free_port
from tests.agents.openai_server import Held, Provider, Reply, provider
from tests.chromium import ARGUMENTS, CHROMIUM
from tests.forks import Program
from tests.support import PATIENCE_SECONDS, OnThread

WISH = {"session": "s-1", "text": "please pay back o-1", "user": "bob", "id": "m-1"}


class Process:
    """A process of the service or its worker."""

    def __init__(self, folder: Path, *command: str, llm: Provider | None = None) -> None:
        kept = {name: value for name, value in os.environ.items() if name != "SIGNOFF_DEMO_MODEL"}
        environ = kept | {
            "PYTHONPATH": str(REPOSITORY),
            "SIGNOFF_STORE": f"sqlite:///{folder / 'signoff.db'}",
            **({} if llm is None else llm.environment),
        }
        with (folder / "log").open("ab") as log:
            self._process = Program(command, cwd=folder, env=environ, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


class Service(Process):
    """A process of the web service."""

    def __init__(self, folder: Path, *, llm: Provider | None = None) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(
            folder, "uvicorn", "examples.chat_service.service:service", "--port", str(port), llm=llm
        )
        self.http = httpx.Client(
            base_url=self.url, trust_env=False, verify=False, timeout=2 * PATIENCE_SECONDS
        )
        until(lambda: self.http.get("/favicon.ico").status_code == 204)

    def kill(self) -> None:
        super().kill()
        self.http.close()

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self.http.post(path, json=body)

    def events(self, session: str, after: int | None) -> list[dict[str, str]]:
        """Read events until the stream ends, as it does when all turns have."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        found: list[dict[str, str]] = []
        with self.http.stream("GET", f"/chat/{session}/events", headers=headers) as stream:
            for part in stream.read().decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in part.splitlines() if ": " in line)
                if fields.get("event") in ("turn", "live"):
                    found.append(fields)
        return found


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + 2 * PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise AssertionError("it did not come")


@contextmanager
def serving(folder: Path, *, llm: Provider | None = None) -> Iterator[Service]:
    """A process of the service, and its worker; their model is a provider's, or the script."""
    worker = Process(folder, "signoff", "worker", "examples.chat_service.assistant:app", llm=llm)
    try:
        made = Service(folder, llm=llm)
        try:
            yield made
        finally:
            made.kill()
    finally:
        worker.kill()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path) as made:
        yield made


def test_a_turn_of_a_killed_process_is_answered_in_another_without_gaps(
    tmp_path: Path, service: Service
) -> None:
    asking = Service(tmp_path)
    waiting = threading.Thread(target=lambda: _lost(asking, WISH))
    waiting.start()
    (question,) = until(lambda: service.http.get("/chat/s-1").json()["asked"])
    assert question["arguments"] == {"order_id": "o-1", "cents": 4_900}
    asking.kill()
    waiting.join()
    answer = {"session": "s-1", "question": question["id"], "decision": "approve", "user": "ana"}
    done = service.post("/respond", answer).json()
    assert (done["status"], done["output"].strip()) == ("finished", "Done: €49.00 of o-1 were refunded.")
    said = service.http.get("/chat/s-1").json()
    assert [each["by"] for each in said["said"]] == ["you", "desk", "desk"]
    assert said["asked"] == []
    again = service.post("/chat", WISH).json()
    assert (again["status"], again["turn"]) == ("finished", done["turn"])
    everything = service.events("s-1", None)
    ids = [int(each["id"]) for each in everything if each["event"] == "turn"]
    assert ids == sorted(ids)
    assert len(ids) > 8
    missed = service.events("s-1", ids[4])
    assert [int(each["id"]) for each in missed if each["event"] == "turn"] == ids[5:]


def _lost(asking: Service, wish: dict[str, Any]) -> None:
    try:
        asking.post("/chat", wish)
    except httpx.TransportError:
        return


def test_words_come_as_they_are_said(tmp_path: Path) -> None:
    held = Held("Which order is it about?", threading.Event())
    said = {"session": "s-2", "text": "hello", "user": "bob"}
    with (
        OnThread(lambda: provider(held)) as llm,
        serving(tmp_path, llm=llm) as service,
        ThreadPoolExecutor() as threads,
    ):
        answer = threads.submit(service.post, "/chat", said)
        until(lambda: llm.requests)
        heard = _heard(service, held.go)
        assert answer.result().json()["output"] == held.said
        assert heard == "Which order is it"
        kinds = {each["event"] for each in service.events("s-2", None)}
        assert kinds == {"turn"}  # what was said live is gone once it is in the journal


def _heard(service: Service, go: threading.Event) -> str:
    """Read what is said live until all turns have ended; what is held back is let go once the rest was heard."""
    heard, event = "", ""
    with service.http.stream("GET", "/chat/s-2/events") as stream:
        for line in stream.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                event = value
            elif field == "data" and event == "live" and not go.is_set():
                heard += json.loads(value)["text"]
                if heard == "Which order is it":
                    go.set()
    return heard


def test_a_model_behind_http_says_what_is_done_and_reads_what_became_of_it(tmp_path: Path) -> None:
    wanted: list[Reply] = [
        [("look_up", {"order_id": "o-1"})],
        [("refund", {"order_id": "o-1", "cents": 900})],
    ]
    with (
        OnThread(lambda: provider(*wanted, "That was it.")) as llm,
        serving(tmp_path, llm=llm) as service,
    ):
        (question,) = service.post("/chat", WISH).json()["asked"]
        assert question["arguments"] == {"order_id": "o-1", "cents": 900}
        answer = {"session": "s-1", "question": question["id"], "decision": "approve", "user": "ana"}
        assert service.post("/respond", answer).json()["output"] == "That was it."
        assert [each["stream"] for each in llm.requests] == [True] * 3
        assert "€9.00 of o-1 were refunded" in json.dumps(llm.requests[-1]["messages"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"decision": "banana"}, 422),
        ({"decision": "edit", "value": {"order_id": "o-1", "cents": "all"}}, 422),
        ({"question": "nothing"}, 404),
        ({"session": "s-9"}, 404),
    ],
    ids=["no decision", "wrong arguments", "no question", "another session"],
)
def test_a_wrong_answer_is_refused_and_the_turn_still_waits(
    service: Service, wrong: dict[str, Any], status: int
) -> None:
    paused = service.post("/chat", WISH).json()
    assert (paused["status"], paused["reason"]) == ("paused", "approval_required")
    (question,) = paused["asked"]
    answer = {"session": "s-1", "question": question["id"], "decision": "approve", "user": "ana"}
    assert service.post("/respond", answer | wrong).status_code == status
    assert service.http.get("/chat/s-1").json()["asked"] == [question]
    token = {"session": "s-1", "token": paused["resume_token"], "answer": "denied"}
    assert service.post("/resume", {**token, "answer": "banana"}).status_code == 422
    assert "cannot be refunded" in service.post("/resume", token).json()["output"]
    assert service.post("/resume", token).status_code == 403
    assert service.post("/respond", answer).status_code == 409


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; .ci/packages installs it")
def test_the_page_says_asks_and_shows_what_became_of_it(service: Service) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme="dark")
        trouble: list[str] = []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(f"{service.url}/#phone")
        page.get_by_label("Message").fill("please pay back o-2")
        page.get_by_role("button", name="Send").click()
        card = page.get_by_role("region", name="Questions")
        expect(card).to_contain_text("Refund €120.00 for order o-2?")
        other = browser.new_page()
        other.goto(f"{service.url}/#phone")
        other.get_by_role("button", name="Approve").click()
        lines = page.get_by_role("list", name="Conversation")
        expect(lines).to_contain_text("Done: €120.00 of o-2 were refunded.")
        expect(card.get_by_role("article")).to_have_count(0)
        expect(lines.get_by_role("listitem")).to_have_text(
            [
                "please pay back o-2",
                "Let me ask whether that can be refunded. ",
                "Done: €120.00 of o-2 were refunded. ",
            ]
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert trouble == []
        browser.close()
