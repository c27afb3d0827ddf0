"""``signoff server`` behind a proxy: its options, none of which is ignored silently."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.cli.commands import Running
from tests.cli.conftest import Here

SERVER = ("server", "--port", "0")


def status(url: str, path: str = "/v1/runs", **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.get(url + path, headers=named, trust_env=False, timeout=60).status_code


def test_a_server_takes_the_word_of_its_proxy(tmp_path: Path) -> None:
    options = ("--user-header", "X-User", "--groups-header", "X-Groups", "--roles-header", "X-Roles")
    with Running(*SERVER, *options, cwd=tmp_path) as server:
        url = server.wait_for("listening")["url"]
        assert status(url) == 401
        assert status(url, x_user="ana") == 403
        assert status(url, "/v1/questions", x_user="ana") == 200
        assert status(url, "/v1/questions?assignee=group:finance", x_user="ana", x_groups="finance") == 200
        assert status(url, "/v1/questions?assignee=group:finance", x_user="ana") == 403
        assert status(url, x_user="ana", x_roles="viewer") == 200


def test_the_environment_says_the_same(tmp_path: Path) -> None:
    variables = {
        "SIGNOFF_USER_HEADER": "X-User",
        "SIGNOFF_TRUST_PROXY": "10.0.0.0/8 127.0.0.1",
        "SIGNOFF_DEFAULT_ROLE": "viewer",
    }
    with Running(*SERVER, cwd=tmp_path, **variables) as server:
        url = server.wait_for("listening")["url"]
        assert (status(url), status(url, x_user="ana")) == (401, 200)
    variables["SIGNOFF_TRUST_PROXY"] = "10.0.0.0/8"
    variables["FORWARDED_ALLOW_IPS"] = "*"
    with Running(*SERVER, cwd=tmp_path, **variables) as server:
        url = server.wait_for("listening")["url"]
        assert status(url, x_user="ana", x_forwarded_for="10.0.0.1") == 401


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (["--groups-header", "X-Groups"], {}),
        (["--roles-header", "X-Roles"], {}),
        (["--trust-proxy", "10.0.0.0/8"], {}),
        (["--address-header", "X Forwarded"], {}),
        (["--address-header", "X-Real-IP", "--trust-proxy", "proxy"], {}),
        (["--default-role", "viewer"], {}),
        ([], {"SIGNOFF_USER_HEADER": ""}),
        ([], {"SIGNOFF_ROLES_HEADER": "X-Roles"}),
        (["--user-header", ""], {}),
        (["--user-header", "X_User"], {}),
        (["--user-header", "X-User", "--default-role", "root"], {}),
        (["--user-header", "X-User", "--trust-proxy", "proxy"], {}),
    ],
    ids=str,
)
def test_options_that_would_leave_it_open_are_a_wrong_use(
    here: Here, tmp_path: Path, options: list[str], variables: dict[str, str]
) -> None:
    assert here(*SERVER, *options, cwd=tmp_path, **variables).code == 2
    assert not (tmp_path / "signoff.db").exists()


@pytest.mark.parametrize("way", ["options", "environment"])
def test_a_server_trusts_the_configured_address_header(tmp_path: Path, way: str) -> None:
    options = ("--address-header", "X-Forwarded-For", "--trust-proxy", "127.0.0.1")
    variables = {"SIGNOFF_ADDRESS_HEADER": "X-Forwarded-For", "SIGNOFF_TRUST_PROXY": "127.0.0.1"}
    said = (options, {}) if way == "options" else ((), variables)
    with Running(*SERVER, *said[0], cwd=tmp_path, **said[1]) as server:
        url = server.wait_for("listening")["url"]
        with httpx.Client(
            base_url=url, headers={"x-forwarded-for": "203.0.113.7"}, trust_env=False, timeout=60
        ) as http:
            assert http.post("/v1/promises", json={"id": "p"}).status_code == 201
            settled = http.post("/v1/promises/p/resolve", json={}).json()
    assert settled["origin"] == {"way": "open", "address": "203.0.113.7"}
