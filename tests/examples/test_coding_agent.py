"""The coding agent runs what a person allows, as the person changed it, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from examples.website_summary.processes import REPOSITORY
from signoff import Client, Promise, Signoff
from tests.examples.servers import until

pytest.importorskip("mcp", reason="the SDK needs packages that have no wheel for this Python")


def test_each_command_runs_only_as_a_person_allows_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"}
    program = [sys.executable, "-m", "examples.coding_agent"]
    with subprocess.Popen(program, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as agent:
        try:
            until((tmp_path / "signoff.db").exists)
            app = Signoff(f"sqlite:///{tmp_path}/signoff.db")
            with closing(app), Client(app) as client:

                def question() -> Promise:
                    return until(lambda: client.questions().items)[0]

                client.answer(question().id, True, user_id="ana")
                client.answer(question().id, False, user_id="ana", note="keep it")
                edited = {"approved": True, "edited": {"command": "echo finished"}}
                client.answer(question().id, edited, user_id="ana")
            said, _ = agent.communicate(timeout=60)
        finally:
            agent.kill()
    assert agent.returncode == 0
    assert (tmp_path / "build.log").read_text() == "built\n"
    assert "denied: keep it" in said
    assert said.rstrip().endswith("finished")
