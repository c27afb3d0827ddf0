"""``make demo``, as a newcomer and as CI run it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from examples.website_summary.demo import main
from examples.website_summary.processes import REPOSITORY
from tests.examples.servers import language_model

DEMO = [sys.executable, "-m", "examples.website_summary.demo"]


def left_over(output: str) -> tuple[list[int], bool]:
    """Return which processes of a demo still run, and whether its files are still there."""
    found = re.search(r"^Files +(\S+)$", output, re.MULTILINE)
    assert found is not None, output
    folder = found[1]
    return [pid for pid in psutil.pids() if works_in(pid, folder)], Path(folder).exists()


def works_in(pid: int, folder: str) -> bool:
    try:
        return psutil.Process(pid).environ().get("SUMMARY_FOLDER") == folder
    except psutil.Error:
        return False


def test_without_a_terminal_it_plays_the_person_and_ends_with_the_result() -> None:
    demo = subprocess.run(
        DEMO,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert (demo.returncode, demo.stderr) == (0, ""), demo.stdout + demo.stderr
    first, second, final = re.findall(r"(?:^  \| .*\n)+", demo.stdout, re.MULTILINE)
    assert first != second == final
    assert "an embedded extractive summariser" in demo.stdout
    decisions = re.findall(r"the demo plays the person, and decides: (\w+)", demo.stdout)
    assert decisions == ["reject", "accept"]
    assert re.search(r"\b[1-9]\d* questions wait in its inbox", demo.stdout)
    assert (
        "The shop's assistant (run reply-tomas) follows a script. Set a model with SIGNOFF_DEMO_MODEL="
        in demo.stdout
    )
    assert left_over(demo.stdout) == ([], False)


@contextmanager
def terminal() -> Iterator[int]:
    ours, theirs = pty.openpty()
    try:
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def test_on_a_terminal_it_waits_for_the_person_and_cleans_up_when_stopped() -> None:
    with (
        terminal() as stdin,
        language_model() as model,
        subprocess.Popen(
            DEMO,
            cwd=REPOSITORY,
            env=os.environ | {"OPENAI_BASE_URL": model.url},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as demo,
    ):
        assert demo.stdout is not None
        output = ""
        for line in demo.stdout:
            output += line
            if "signoff resolve" in line:
                break
        link = re.search(r"Decide at +(\S+)", output)
        assert link is not None, output
        assert "Is this summary good?" in httpx.get(link[1], timeout=60).text
        demo.send_signal(signal.SIGINT)
        rest, errors = demo.communicate(timeout=60)
    assert (demo.returncode, rest.strip()) == (130, ""), errors
    assert errors == "\ndemo: stopped; its processes and files are gone\n"
    assert left_over(output) == ([], False)


@pytest.mark.parametrize("stopped_by", [signal.SIGINT, signal.SIGHUP])
def test_on_a_terminal_it_shows_studio_until_stopped_and_cleans_up(
    stopped_by: signal.Signals,
) -> None:
    with (
        terminal() as stdin,
        subprocess.Popen(
            DEMO,
            cwd=REPOSITORY,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as demo,
    ):
        assert demo.stdout is not None
        output = ""
        for line in demo.stdout:
            output += line
            if (link := re.search(r"Decide at +(\S+)", line)) is not None:
                accept(link[1])
            if "Ctrl-C" in line:
                break
        studio = re.search(r"^Studio +(\S+)$", output, re.MULTILINE)
        assert studio is not None, output
        assert "<html" in httpx.get(studio[1], headers={"Accept": "text/html"}, timeout=60).text
        runs = httpx.get(f"{studio[1]}v1/runs", timeout=60).json()["items"]
        started = {run["workflow"] for run in runs}
        assert {"download_and_summarize", "refund", "campaign", "answer_customer"} <= started
        assert "Give Tomas Havel a voucher" in httpx.get(f"{studio[1]}v1/questions", timeout=60).text
        demo.send_signal(stopped_by)
        rest, errors = demo.communicate(timeout=60)
    assert (demo.returncode, errors) == (0, ""), rest
    assert rest == "\nStopped; its processes and files are gone.\n"
    assert left_over(output) == ([], False)


def accept(link: str) -> None:
    promise_id = httpx.URL(link).params["promise_id"]
    decision = {"promise_id": promise_id, "decision": "accept"}
    httpx.post(str(httpx.URL(link).copy_with(query=None)), data=decision, timeout=60).raise_for_status()


def test_a_page_that_cannot_be_had_ends_with_one_line_that_says_why() -> None:
    demo = subprocess.run(
        [*DEMO, "http://no-such-host.invalid/"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert (demo.returncode, demo.stderr) == (
        1,
        "demo: the host name 'no-such-host.invalid' does not resolve\n",
    )
    assert left_over(demo.stdout) == ([], False)


@pytest.mark.parametrize("wrong", [["nonsense"], ["ftp://x.y/"], ["http://"], ["http://x.y/", "more"]])
def test_what_is_no_web_address_is_refused_before_anything_starts(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(wrong) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("demo: ")
    assert printed.err.count("\n") == 1
