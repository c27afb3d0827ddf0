"""compose.yaml and the Dockerfile refer only to existing things. (No image is built here: that needs Docker.)"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import click
import pytest

from signoff.cli.root import root
from tests.deploy.files import ROOT, compose, healthcheck, inherited, seconds, stages
from tests.postgres.installations import newest

SERVICES: dict[str, Any] = compose()["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What our command line makes of a command, without running it."""
    context = root.make_context("signoff", list(arguments))
    name, command, rest = root.resolve_command(context, list(arguments))
    assert isinstance(command, click.Command)
    return command.make_context(name, rest, parent=context).params


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_one_of_ours(name: str) -> None:
    service = SERVICES[name]
    assert json.loads(inherited(service["build"]["target"], "ENTRYPOINT") or "") == ["signoff"]
    parsed(service["command"])


@pytest.mark.parametrize("stage", ["signoff", "sample"])
def test_the_images_own_commands_are_ours_too(stage: str) -> None:
    parsed(json.loads(inherited(stage, "CMD") or ""))


def test_a_wrong_command_would_be_noticed() -> None:
    with pytest.raises(click.UsageError):
        parsed(["worker", "examples.refund.flow:app", "--graze", "20"])


@pytest.mark.parametrize("name", OURS)
def test_what_is_built_is_there(name: str) -> None:
    build = SERVICES[name]["build"]
    assert (ROOT / build["context"]).samefile(ROOT)
    assert build["target"] in stages()
    for stage in stages().values():
        for word, rest in stage.instructions:
            if word == "COPY" and not rest.startswith("--from"):
                for source in shlex.split(rest)[:-1]:
                    assert (ROOT / source).exists(), rest
                    assert _is_sent(source), f"{source} is kept out by .dockerignore"


def _is_sent(source: str) -> bool:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    return f"!{source.removeprefix('./')}" in lines


def test_the_sample_is_what_the_worker_runs() -> None:
    module = SERVICES["worker"]["command"][1].partition(":")[0].replace(".", "/")
    copied = [rest for word, rest in stages()["sample"].instructions if word == "COPY"]
    assert any(f"{module}.py".startswith(shlex.split(rest)[0]) for rest in copied)
    assert (ROOT / f"{module}.py").exists()


def test_nothing_runs_as_root_and_no_secret_is_in_an_image() -> None:
    assert inherited("signoff", "USER") == inherited("sample", "USER") == "signoff"
    text = (ROOT / "Dockerfile").read_text()
    assert not re.search(r"(?i)password|secret|token", text)
    assert [line for line in (ROOT / ".dockerignore").read_text().splitlines() if ".env" in line] == []


def test_variables_have_defaults_and_are_listed_in_the_example() -> None:
    used = set(re.findall(r"\$\{(\w+)", (ROOT / "compose.yaml").read_text()))
    listed = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert used == listed.keys()
    assert compose(listed) == compose()


def test_only_the_server_is_published_and_only_to_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"server": ["127.0.0.1:8000:8000"]}


def test_every_service_is_given_the_time_to_stop_that_it_takes() -> None:
    for name in OURS:
        grace = parsed(SERVICES[name]["command"]).get("grace")
        if grace is not None:
            assert seconds(SERVICES[name]["stop_grace_period"]) > grace


def test_nothing_starts_before_the_schema_is_there() -> None:
    done = {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["server"]["depends_on"] == SERVICES["worker"]["depends_on"] == done
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_health_is_asked_for_with_programs_that_are_there() -> None:
    program, *_ = SERVICES["postgres"]["healthcheck"]["test"][1:]
    assert (newest().bin / program).exists()
    assert (healthcheck("signoff") or [""])[0] == "python"
    assert healthcheck("sample") is None, "a worker listens nowhere"


def test_the_database_that_programs_use_is_the_one_that_is_made() -> None:
    made = SERVICES["postgres"]["environment"]
    for name in OURS:
        used = SERVICES[name]["environment"]
        assert used["PGPASSWORD"] == made["POSTGRES_PASSWORD"]
        assert used["SIGNOFF_STORE"] == (
            f"postgresql://{made['POSTGRES_USER']}@postgres:5432/{made['POSTGRES_DB']}"
        )
