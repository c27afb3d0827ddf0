"""``signoff keys`` and SIGNOFF_KEY. Servers are real processes, and so are commands that send to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from signoff.cli.root import root
from signoff.records import Token
from signoff.stores.sqlite.store import SqliteStore
from tests.cli.commands import Running, signoff
from tests.cli.conftest import Here

SERVER = ("server", "--port", "0")
ISSUER, CLIENT = ("--oidc-issuer",), ("--oidc-client-id", "signoff")


@pytest.fixture
def folder(tmp_path: Path, here: Here) -> Path:
    """A folder with an empty database."""
    assert here("migrate", "--store", "sqlite:///signoff.db", cwd=tmp_path).code == 0
    return tmp_path


def made(here: Here, folder: Path, *options: str) -> dict[str, Any]:
    return here("keys", "create", *options, "--json", cwd=folder).json


def test_a_service_works_with_its_key_until_it_is_revoked(here: Here, folder: Path) -> None:
    key = made(here, folder, "deploy", "--role", "operator", "--group", "deploy")
    with Running(*SERVER, cwd=folder) as server:
        url = server.wait_for("listening")["url"]
        assert signoff("runs", "--url", url, cwd=folder).code == 4
        known = {"SIGNOFF_KEY": key["key"], "SIGNOFF_URL": url}
        assert signoff("start", "add", "--arg", "1", "--group", "deploy", cwd=folder, **known).code == 0
        assert signoff("start", "add", "--arg", "1", cwd=folder, **known).code == 4
        [run] = signoff("runs", "--json", cwd=folder, **known).json["items"]
        assert run["started_by"] == "service:deploy"
        assert signoff("cancel", run["id"], cwd=folder, **known).code == 0
        assert here("keys", "revoke", key["id"], cwd=folder).code == 0
        refused = signoff("runs", cwd=folder, **known)
        assert refused.code == 4
        assert "expired or revoked" in refused.err
        assert key["key"] not in refused.err


def test_keys_are_listed_and_rotated_without_their_secrets(here: Here, folder: Path) -> None:
    key = made(here, folder, "billing", "--role", "viewer", "--act-as", "--days", "30")
    worker = made(here, folder, "gpu-1", "--worker", "--group", "gpu")
    new = here("keys", "rotate", key["id"], "--grace-days", "0", "--json", cwd=folder).json
    listed = here("keys", "list", cwd=folder).out
    for line, words in zip(
        listed.splitlines()[1:],
        (
            [key["id"], "service", "billing", "viewer,act-as", "all", "never", "expired"],
            [new["id"], "service", "billing", "viewer,act-as", "all", "never", "open"],
            [worker["id"], "worker", "gpu-1", "-", "gpu", "never", "open"],
        ),
        strict=True,
    ):
        assert line.split() == words
    assert not any(secret in listed for secret in (key["key"], new["key"], worker["key"]))
    assert len(here("keys", "list", "--json", cwd=folder).json["items"]) == 3
    assert here("keys", "list", "--namespace", "other", "--json", cwd=folder).json["items"] == []


def test_a_key_for_people_is_one_line_that_is_the_key(here: Here, folder: Path) -> None:
    printed = here("keys", "create", "deploy", "--role", "viewer", cwd=folder)
    assert printed.out.startswith("sgk_")
    assert len(printed.out.splitlines()) == 1
    assert "now needs a key" in printed.err


def test_a_worker_works_with_a_key_of_the_database_until_it_is_revoked(here: Here, folder: Path) -> None:
    key = made(here, folder, "w", "--worker")
    with Running(*SERVER, cwd=folder) as server:
        url = server.wait_for("listening")["url"]
        doctor = ("doctor", "--url", url)
        assert here(*doctor, "--key", key["key"], cwd=folder).code == 0
        assert here("keys", "revoke", key["id"], cwd=folder).code == 0
        assert here(*doctor, "--key", key["key"], cwd=folder).code != 0


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["x"],
        ["x", "--role", "root"],
        ["x", "--role", "viewer", "--worker"],
        ["x", "--worker", "--act-as"],
        ["--worker", "--days", "1"],
        ["x", "--role", "viewer", "--days", "0"],
        [" x", "--role", "viewer"],
    ],
    ids=" ".join,
)
def test_a_key_that_makes_no_sense_is_not_made(here: Here, folder: Path, options: list[str]) -> None:
    assert here("keys", "create", *options, cwd=folder).code == 2
    assert here("keys", "list", "--json", cwd=folder).json["items"] == []


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path, here: Here) -> None:
    assert here("keys", "create", "x", "--role", "viewer", cwd=tmp_path).code == 5
    assert here("keys", "revoke", "none", cwd=tmp_path).code == 5
    assert not list(tmp_path.iterdir())


def test_a_key_that_is_not_there_is_not_found(here: Here, folder: Path) -> None:
    assert here("keys", "revoke", "none", cwd=folder).code == 3
    assert here("keys", "rotate", "none", cwd=folder).code == 3


def test_a_server_that_is_to_ask_asks_from_the_start(here: Here, folder: Path) -> None:
    with Running(*SERVER, "--require-auth", cwd=folder) as server:
        url = server.wait_for("listening")["url"]
        assert here("runs", "--url", url, cwd=folder).code == 4
        with_wrong = here("runs", "--url", url, cwd=folder, SIGNOFF_KEY="sgk_wrong key")
        assert with_wrong.code == 2
        assert "sgk_" not in with_wrong.err


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (["--oidc-issuer", "https://login.example.com"], {}),
        (["--oidc-issuer", "https://login.example.com", "--oidc-client-id", "signoff"], {}),
        (["--oidc-client-id", "signoff"], {}),
        (["--oidc-user-claim", "sub"], {}),
        ([], {"SIGNOFF_OIDC_CLIENT_ID": "signoff"}),
        (
            [
                "--oidc-issuer",
                "http://login.example.com",
                "--oidc-client-id",
                "s",
                "--public-url",
                "https://s.example",
            ],
            {},
        ),
        (
            [
                "--oidc-issuer",
                "https://login.example.com",
                "--oidc-client-id",
                "s",
                "--public-url",
                "http://s.example",
            ],
            {},
        ),
        (["--oidc-client-secret-file", "none"], {}),
    ],
    ids=str,
)
def test_a_provider_that_is_half_set_up_is_not_started_with(
    here: Here, folder: Path, options: list[str], variables: dict[str, str]
) -> None:
    refused = here(*SERVER, *options, cwd=folder, **variables)
    assert refused.code == 2, refused.err


def test_a_server_sends_people_to_its_provider(here: Here, folder: Path) -> None:
    (folder / "secret").write_text("s3cret\n")
    variables = {
        "SIGNOFF_OIDC_ISSUER": "http://127.0.0.1:9",  # without a server
        "SIGNOFF_OIDC_CLIENT_ID": "signoff",
        "SIGNOFF_OIDC_CLIENT_SECRET_FILE": "secret",
        "SIGNOFF_PUBLIC_URL": "http://localhost:8000",
    }
    with Running(*SERVER, cwd=folder, **variables) as server:
        url = server.wait_for("listening")["url"]
        page = httpx.get(f"{url}/v1/runs", headers={"accept": "text/html"}, trust_env=False, timeout=60)
        assert (page.status_code, page.headers["location"]) == (303, "/login?next=%2Fv1%2Fruns")
        away = httpx.get(f"{url}/login", trust_env=False, timeout=60)
        assert (away.status_code, away.json()["type"]) == (503, "urn:signoff:ProviderUnavailable")
        assert "s3cret" not in away.text


def test_no_plain_key_is_in_the_database(here: Here, folder: Path) -> None:
    key = made(here, folder, "deploy", "--role", "viewer")
    store = SqliteStore(folder / "signoff.db")

    async def kept() -> Token:
        await store.open()
        try:
            return await store.get_token(key["id"])
        finally:
            await store.close()

    token = asyncio.run(kept())
    assert key["key"] not in repr(token)
    assert token.hash not in repr(token)


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield " ".join((*names, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)


def test_no_command_takes_an_api_key_or_a_password_as_an_argument() -> None:
    """An argument is in ``ps`` and in the shell's history. A worker key may be one; the environment is better."""
    found = dict(commands(root))
    assert len(found) > 50
    options = {
        (name, option)
        for name, command in found.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if {"key", "keys", "secret", "password", "token"} & set(option.strip("-").split("-"))
    }
    files = {("server", "--worker-key-file"), ("server", "--oidc-client-secret-file")}
    assert options == {("worker", "--key"), ("doctor", "--key")} | files
