"""Ctrl-C at a prompt of an example ends it at once, and its question is kept for the next process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.website_summary.processes import REPOSITORY
from tests.terminal import Terminal


def example(folder: Path, name: str, argument: str) -> Terminal:
    kept = {name: value for name, value in os.environ.items() if name != "SIGNOFF_DEMO_MODEL"}
    environ = kept | {"SIGNOFF_STORE": f"sqlite:///{folder / 'signoff.db'}", "TERM": "dumb"}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), kept.get("PYTHONPATH")]))
    return Terminal([f"examples.{name}", argument], cwd=folder, env=environ)


PROMPTS = pytest.mark.parametrize(
    ("name", "argument", "prompt"),
    [
        ("approved_write", "Move", "the reason for a denial: "),
        ("document_review", "note.txt", "“TBD” stand for? "),
        ("gated_review", "note.txt", "publish, reject or change: "),
    ],
)


@PROMPTS
def test_ctrl_c_at_a_prompt_ends_an_example_at_once(
    tmp_path: Path, name: str, argument: str, prompt: str
) -> None:
    (tmp_path / "note.txt").write_text("It is on TBD, guaranteed.")
    for _ in range(2):
        with example(tmp_path, name, argument) as terminal:
            terminal.interrupt(prompt)
            assert terminal.ends() == 130
            rest = terminal.rest()
            assert "are kept" in rest
            assert "Traceback" not in rest
