"""``signoff links`` and ``signoff server --public-url``."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.cli.commands import Running
from tests.cli.conftest import Here
from tests.cli.questions import ask


def test_links_are_made_listed_and_revoked(here: Here, open_shop: Path) -> None:
    question = ask(here, open_shop, "links-1", "refund", "--arg", '"o-1"')
    make = ("links", "create", question, "--user", "ana")
    made = here(*make, "--public-url", "https://x.example", "--days", "1", "--json", cwd=open_shop)
    assert made.code == 0, made.err
    assert made.json["url"] == f"https://x.example{made.json['path']}"
    assert made.json["expires_at"] - made.json["created_at"] == pytest.approx(86_400, abs=60)
    plain = here(*make, "--public-url", "https://x.example/", cwd=open_shop)
    assert plain.out.startswith("https://x.example/l/")
    heading, first, _ = here("links", "list", question, cwd=open_shop).out.splitlines()
    assert heading.split() == ["LINK", "FOR", "MADE", "BY", "STATE"]
    assert first.split()[:2] == [made.json["id"], "ana"]
    revoked = here("links", "revoke", made.json["id"], cwd=open_shop)
    assert revoked.out == f"link {made.json['id']} for ana is revoked\n"
    listed = here("links", "list", question, "--json", cwd=open_shop).json["items"]
    assert ["revoked_at" in token for token in listed] == [True, False]
    assert made.json["path"] not in here("links", "list", question, "--json", cwd=open_shop).out
    assert here("links", "revoke", "none", cwd=open_shop).code == 3
    assert here("links", "create", "none", "--user", "ana", cwd=open_shop).code == 3
    assert here(*make, "--days", "0", cwd=open_shop).code == 2


def test_a_server_goes_by_its_public_url(tmp_path: Path) -> None:
    with Running("server", "--port", "0", "--public-url", "https://x.example", cwd=tmp_path) as server:
        url = server.wait_for("listening")["url"]
        found = httpx.get(f"{url}/l/none", headers={"host": "x.example"}, trust_env=False, timeout=60)
        assert (found.status_code, "not known" in found.text) == (404, True)


def test_a_public_url_that_is_none_is_refused(here: Here, tmp_path: Path) -> None:
    refused = here("server", "--port", "0", "--public-url", "x.example", cwd=tmp_path)
    assert (refused.code, "public_url" in refused.err) == (2, True)


def test_a_server_is_reached_under_a_path(here: Here, tmp_path: Path) -> None:
    with Running("server", "--port", "0", "--root-path", "/signoff", cwd=tmp_path) as server:
        url = server.wait_for("listening")["url"]
        assert httpx.get(f"{url}/signoff/v1/me", trust_env=False, timeout=60).status_code == 200
        assert httpx.get(f"{url}/v1/me", trust_env=False, timeout=60).status_code == 200
    refused = here("server", "--port", "0", "--root-path", "/v1/x", cwd=tmp_path)
    assert (refused.code, "root_path" in refused.err) == (2, True)
