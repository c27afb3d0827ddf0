"""Sign-in through an OpenID Connect provider: accepted tokens, the person's identity, and the login's lifetime."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signoff.errors import InvalidValue
from signoff.records import TokenKind
from signoff.records.paging import TokenFilter
from signoff.server import OpenIdConnect, Role, Server
from signoff.server.auth.oidc_flow import own_path
from tests.server.conftest import app_in, kind, start
from tests.server.oidc_world import World, world
from tests.server.provider import CLIENT, EC, NEXT, PUBLIC, RSA, SECRET, Browser, query_of
from tests.support import OnThread

SESSION = "__Host-signoff"
BEGUN = "__Host-signoff-login"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with OnThread(lambda: world(tmp_path_factory.mktemp("openid"))) as made:
        yield made


@pytest.fixture
def here(shared: World) -> World:
    """A world in which the provider is as at first, and old enough for its keys to be asked for anew."""
    shared.provider.reset()
    shared.clock.advance(4000)
    return shared


@pytest.fixture
def browser(here: World) -> Iterator[Browser]:
    with here.browser() as opened:
        yield opened


# Signing in


def test_a_person_signs_in_as_the_provider_says(here: World, browser: Browser) -> None:
    here.provider.claims |= {"groups": ["finance", "hr"], "roles": ["operator"]}
    asked = browser.get("/v1/runs?state=failed&workflow=a%26b")
    assert asked.status_code == 303
    assert asked.headers["location"] == "/login?next=%2Fv1%2Fruns%3Fstate%3Dfailed%26workflow%3Da%2526b"
    back = browser.sign_in(asked.headers["location"])
    assert (back.status_code, back.headers["location"]) == (303, "/v1/runs?state=failed&workflow=a%26b")
    assert browser.get(back.headers["location"]).status_code == 200
    assert browser.get("/v1/me").json() == {
        "user_id": "ana@example.com",
        "groups": ["finance", "hr"],
        "roles": ["operator", "responder"],
        "way": "login",
        "namespace": "default",
    }


def test_what_the_provider_is_asked_for_binds_the_answer_to_this_browser(
    here: World, browser: Browser
) -> None:
    asked = [query_of(browser.get("/login").headers["location"]) for _ in range(2)]
    assert asked[0]["tenant"] == "1"
    assert asked[0]["redirect_uri"] == f"{PUBLIC}/login/callback"
    assert asked[0]["scope"] == "openid email profile"
    assert asked[0]["code_challenge_method"] == "S256"
    for secret in ("state", "nonce", "code_challenge"):
        assert len(asked[0][secret]) >= 43
        assert asked[0][secret] != asked[1][secret]


def test_the_login_cookie_is_for_this_host_only_and_closed_to_scripts(here: World, browser: Browser) -> None:
    browser.sign_in()
    begun, session, dropped = browser.set_cookies
    for line in (begun, session):
        assert re.search("; HttpOnly(;|$)", line)
        assert re.search("; Path=/(;|$)", line)
        assert re.search("; SameSite=lax(;|$)", line)
        assert re.search("; Secure(;|$)", line)
        assert "domain" not in line.lower()
    assert session.startswith(f"{SESSION}=sgs_")
    assert "Max-Age=43200" in session
    assert "Max-Age=600" in begun
    assert dropped.startswith(f'{BEGUN}="";')
    assert set(browser.cookies) == {SESSION}


def test_nothing_of_what_is_secret_is_in_the_store_or_the_answers(here: World, browser: Browser) -> None:
    answers = [browser.sign_in(), browser.get("/v1/me")]
    secret = browser.cookies[SESSION]
    files = b"".join(file.read_bytes() for file in here.app.store.path.parent.glob("signoff.db*"))
    assert b"ana@example.com" in files
    assert secret.encode() not in files
    assert SECRET.encode() not in files
    assert not any(secret in answer.text or SECRET in answer.text for answer in answers)
    assert SECRET not in repr(OpenIdConnect(here.provider.url, CLIENT, PUBLIC, SECRET))


def test_a_new_login_has_a_new_secret_and_the_old_one_opens_nothing(here: World, browser: Browser) -> None:
    browser.sign_in()
    old = browser.cookies[SESSION]
    browser.sign_in()
    assert browser.cookies[SESSION] != old
    browser.cookies[SESSION] = old
    assert kind(browser.send("GET", "/v1/me")) == "NotAuthenticated"


def test_who_signs_out_is_signed_out_everywhere_that_secret_is(here: World, browser: Browser) -> None:
    browser.sign_in()
    kept = browser.cookies[SESSION]
    assert browser.send("POST", "/logout").json() == {"signed_out": True}
    assert browser.cookies == {}
    browser.cookies[SESSION] = kept
    assert kind(browser.send("GET", "/v1/me")) == "NotAuthenticated"
    page = browser.send("POST", "/logout", accept="text/html")
    assert page.status_code == 200
    assert 'href="/login"' in page.text


@pytest.mark.parametrize(
    "headers", [{"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}], ids=str
)
def test_another_site_neither_writes_with_the_cookie_nor_signs_out(
    here: World, browser: Browser, headers: dict[str, str]
) -> None:
    here.provider.claims["roles"] = ["admin"]
    browser.sign_in()
    assert browser.send("POST", "/v1/runs", {"workflow": "echo"}, **headers).status_code == 403
    assert browser.send("POST", "/logout", **headers).status_code == 403
    assert browser.get("/v1/me").status_code == 200
    assert browser.send("POST", "/v1/runs", {"workflow": "echo"}, origin=PUBLIC).status_code == 201


def test_programs_get_401_and_pages_are_redirected_to_sign_in(browser: Browser) -> None:
    for accept in ("*/*", "application/json"):
        refused = browser.send("GET", "/v1/runs", accept=accept)
        assert (refused.status_code, kind(refused)) == (401, "NotAuthenticated")
        assert refused.headers["www-authenticate"] == "Bearer"
    assert browser.send("POST", "/v1/runs", {"workflow": "echo"}, accept="text/html").status_code == 401
    assert browser.get("/v1/runs").headers["location"] == "/login?next=%2Fv1%2Fruns"


# Where it leads


@pytest.mark.parametrize(
    "next",
    [
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "https:evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "evil.example",
        "@evil.example",
        "",
        "/" + "a" * 2001,
        "/é",
        "/a\r\nSet-Cookie: x=1",
    ],
)
def test_who_signs_in_goes_to_no_other_site(next: str) -> None:
    assert own_path(next, "") == "/"
    assert own_path(next, "/signoff") == "/signoff/"


@pytest.mark.parametrize("next", ["/", "/inbox", "/v1/runs?state=failed&x=%2F%2Fe", "/a//b#c", "/q/a%20b"])
def test_who_signs_in_goes_where_they_were(next: str) -> None:
    assert own_path(next, "") == next
    assert own_path(f"/signoff{next}", "/signoff") == f"/signoff{next}"


def test_the_callback_leads_to_no_other_site(browser: Browser) -> None:
    assert browser.sign_in("/login?next=//evil.example").headers["location"] == "/"


# Whose word counts


def refused(browser: Browser, reason: str) -> None:
    """Try to sign in, and check that there is no login."""
    answer = browser.sign_in()
    assert_refused(browser, answer, reason)


def assert_refused(browser: Browser, answer: Any, reason: str, status: int = 403) -> None:
    assert answer.status_code == status, answer.text
    assert reason in answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert SESSION not in browser.cookies
    assert browser.send("GET", "/v1/me").status_code == 401


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"aud": "another"}, "aud"),
        ({"aud": ["another"]}, "aud"),
        ({"aud": None}, "aud"),
        ({"aud": [CLIENT, "another"]}, "issued to another client"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "issued to another client"),
        ({"azp": "another"}, "issued to another client"),
        ({"sub": None}, "sub"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"exp": "soon"}, "exp"),
        ({"email": None}, "no claim &#x27;email&#x27;"),
        ({"email": ""}, "no claim &#x27;email&#x27;"),
        ({"email": ["ana@example.com"]}, "no claim &#x27;email&#x27;"),
        ({"email_verified": None}, "verified"),
        ({"email_verified": False}, "verified"),
        ({"email_verified": "false"}, "verified"),
        ({"email_verified": "true"}, "verified"),
        ({"email_verified": 1}, "verified"),
        ({"email_verified": [True]}, "verified"),
        ({"email": "service:billing"}, "is a reserved name"),
        ({"email": "Role:admin"}, "is a reserved name"),
        ({"email": "signoff:timeout"}, "is a reserved name"),
        ({"email": "ana\N{RIGHT-TO-LEFT OVERRIDE}"}, "is not a valid user name"),
        ({"email": "a" * 257}, "is not a valid user name"),
        ({"groups": [1]}, "not a list of names"),
        ({"groups": {"finance": True}}, "not a list of names"),
        ({"groups": ["a\x00b"]}, "has a NUL character"),
        ({"groups": [str(number) for number in range(200)]}, "more than 200"),
        ({"_claim_names": {"groups": "src1"}}, "leaves them out"),
    ],
    ids=str,
)
def test_an_id_token_for_another_client_or_without_a_name_is_refused(
    here: World, browser: Browser, claims: dict[str, Any], reason: str
) -> None:
    here.provider.claims |= claims
    refused(browser, reason)


@pytest.mark.parametrize(
    ("offset", "valid"),
    [
        ({"exp": -59}, True),
        ({"exp": -60}, False),
        ({"exp": -86400}, False),
        ({"iat": 59}, True),
        ({"iat": 120}, False),
        ({"nbf": 59}, True),
        ({"nbf": 120}, False),
    ],
    ids=str,
)
def test_the_clocks_may_differ_by_a_minute(
    here: World, browser: Browser, offset: dict[str, int], valid: bool
) -> None:
    now = int(here.clock.now())
    here.provider.claims |= {name: now + seconds for name, seconds in offset.items()}
    assert browser.sign_in().status_code == (303 if valid else 403)


def _unsigned(token: str) -> str:
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).decode().rstrip("=")
    return f"{header}.{token.split('.')[1]}."


def _keyed(token: str) -> str:
    """Sign with the provider's public key as if it were a secret: who takes any algorithm takes that."""
    header = (
        base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "rsa-1"}).encode()).decode().rstrip("=")
    )
    signed = f"{header}.{token.split('.')[1]}"
    mac = hmac.digest(RSA.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def _other_claims(token: str) -> str:
    header, claims, signature = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    forged = base64.urlsafe_b64encode(json.dumps({**said, "email": "boss@example.com"}).encode()).decode()
    return f"{header}.{forged.rstrip('=')}.{signature}"


@pytest.mark.parametrize(
    "rewrite", [_unsigned, _keyed, _other_claims, lambda token: token[:-8], lambda _: "a.b.c", lambda _: ""]
)
def test_an_unsigned_id_token_is_refused(here: World, browser: Browser, rewrite: Any) -> None:
    here.provider.rewrite = rewrite
    refused(browser, "ID token is not valid")


@pytest.mark.parametrize(
    ("key", "header"),
    [
        (RSA, {"alg": "RS512", "kid": "rsa-1"}),
        (NEXT, {"alg": "RS256", "kid": "rsa-1"}),
        (NEXT, {"alg": "RS256", "kid": "rsa-2", "jwk": NEXT.as_dict(private=False)}),
        (NEXT, {"alg": "RS256", "kid": "rsa-2"}),
        (RSA, {"alg": "RS256"}),
    ],
    ids=["another algorithm", "another key", "a key of its own", "an unknown key", "no key named"],
)
def test_an_id_token_needs_an_agreed_algorithm_and_a_published_key(
    here: World, browser: Browser, key: Any, header: dict[str, Any]
) -> None:
    here.provider.key, here.provider.header = key, header
    refused(browser, "ID token")


@pytest.mark.parametrize(
    ("key", "header", "published"),
    [
        (RSA, {"alg": "RS256", "kid": "rsa-1"}, [RSA, EC]),
        (RSA, {"alg": "RS256"}, [RSA]),
        (EC, {"alg": "ES256", "kid": "ec-1"}, [RSA, EC]),
        (NEXT, {"alg": "PS256", "kid": "rsa-2"}, [{"kty": "PQC"}, {"kty": "RSA"}, "no key", NEXT]),
    ],
    ids=["rsa", "rsa-alone", "ec", "pss"],
)
def test_an_id_token_may_be_signed_in_each_agreed_way(
    here: World, browser: Browser, key: Any, header: dict[str, Any], published: list[Any]
) -> None:
    here.provider.key, here.provider.header, here.provider.published = key, header, published
    assert browser.sign_in().status_code == 303


def test_provider_keys_are_fetched_again_for_a_new_kid_but_not_each_time(
    here: World, browser: Browser
) -> None:
    assert browser.sign_in().status_code == 303
    browser.send("POST", "/logout")
    here.provider.key, here.provider.header = NEXT, {"alg": "RS256", "kid": "rsa-2"}
    for _ in range(3):
        refused(browser, "does not publish")
    assert here.provider.asked["keys"] == 1
    here.clock.advance(30)
    refused(browser, "does not publish")
    assert here.provider.asked["keys"] == 2
    here.provider.published = [NEXT]
    here.clock.advance(30)
    assert browser.sign_in().status_code == 303
    assert here.provider.asked["keys"] == 3


def test_a_key_that_the_provider_withdraws_counts_for_an_hour_at_most(here: World, browser: Browser) -> None:
    assert browser.sign_in().status_code == 303
    here.provider.published = [EC]
    here.clock.advance(3600)
    browser.cookies.clear()
    refused(browser, "does not publish")


# Whose answer it is


def test_an_answer_to_another_browsers_attempt_is_refused(here: World, browser: Browser) -> None:
    with here.browser() as other:
        theirs = other.to_provider()
    assert_refused(browser, browser.get(theirs), "has not started")
    browser.to_provider()
    assert_refused(browser, browser.get(theirs), "another attempt")


@pytest.mark.parametrize(
    "query", ["", "?code=x", "?state=x&code=x", "?state=&code=x", "?error=access_denied"]
)
def test_an_unrequested_callback_is_refused(browser: Browser, query: str) -> None:
    assert_refused(browser, browser.get(f"/login/callback{query}"), "not started")
    browser.to_provider()
    assert_refused(browser, browser.get(f"/login/callback{query}"), "another attempt")


@pytest.mark.parametrize(
    "damage", [lambda value: value[2:], lambda value: value[:-1] + "!", lambda _: ".", lambda _: "é"]
)
def test_what_a_browser_keeps_meanwhile_is_not_to_be_written_by_others(
    here: World, browser: Browser, damage: Any
) -> None:
    back = browser.to_provider()
    browser.cookies[BEGUN] = damage(browser.cookies[BEGUN])
    assert_refused(browser, browser.get(back), "not started")


def test_a_code_is_taken_once(here: World, browser: Browser) -> None:
    back = browser.to_provider()
    begun = browser.cookies[BEGUN]
    assert browser.get(back).status_code == 303
    browser.send("POST", "/logout")
    assert_refused(browser, browser.get(back), "has finished already")
    browser.cookies[BEGUN] = begun
    assert_refused(browser, browser.get(back), "invalid_grant")


def test_who_takes_too_long_begins_anew(here: World, browser: Browser) -> None:
    back = browser.to_provider()
    here.clock.advance(600)
    assert_refused(browser, browser.get(back), "too long")


def test_another_providers_answer_does_not_count(here: World, browser: Browser) -> None:
    here.provider.answered = {"iss": "https://evil.example"}
    refused(browser, "another provider")
    here.provider.answered = {"iss": here.provider.url}
    assert browser.sign_in().status_code == 303


def test_a_provider_that_always_says_who_answers_is_held_to_it(here: World, browser: Browser) -> None:
    here.provider.about = {"authorization_response_iss_parameter_supported": True}
    refused(browser, "another provider")


def test_a_person_who_declines_gets_a_message(here: World, browser: Browser) -> None:
    here.provider.answered = {"error": "access_denied", "code": ""}
    refused(browser, "access_denied")


def test_a_provider_may_want_the_secret_in_the_body(here: World, browser: Browser) -> None:
    here.provider.about = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert browser.sign_in().status_code == 303


# The provider is away


@pytest.mark.parametrize("door", ["openid-configuration", "keys", "token"])
def test_while_the_provider_is_away_logins_stay_and_no_new_ones_are_made(
    here: World, browser: Browser, door: str
) -> None:
    browser.sign_in()
    here.clock.advance(3600)
    here.provider.broken = {door}
    with here.browser() as other:
        begun = other.get("/login")
        answer = begun if begun.status_code != 303 else other.sign_in()
        if door != "openid-configuration":  # an old one is good enough to begin with
            assert_refused(other, answer, "try again", 503)
            assert answer.headers["retry-after"] == "1"
    assert browser.get("/v1/me").status_code == 200


def test_concurrent_sign_ins_share_one_attempt_while_the_provider_is_away(tmp_path: Path) -> None:
    with OnThread(lambda: world(tmp_path)) as here, here.browser() as browser:
        here.provider.broken = {"openid-configuration"}
        for attempts in (1, 2):
            assert [browser.get("/login").status_code for _ in range(3)] == [503] * 3
            assert here.provider.asked == {"openid-configuration": attempts}
            here.clock.advance(5)
        here.provider.broken = set()
        assert browser.get("/login").status_code == 303


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": None},
        {"token_endpoint": "ftp://evil.example"},
        {"jwks_uri": "file:///etc/passwd"},
    ],
    ids=str,
)
def test_a_provider_without_endpoints_signs_no_one_in(tmp_path: Path, about: dict[str, Any]) -> None:
    with OnThread(lambda: world(tmp_path)) as here, here.browser() as browser:
        here.provider.about = about
        answer = browser.send("GET", "/login")
        assert (answer.status_code, kind(answer)) == (503, "ProviderUnavailable")
        assert here.provider.asked == {"openid-configuration": 1}


# How long


def test_a_login_lasts_for_half_a_day(here: World, browser: Browser) -> None:
    browser.sign_in()
    here.clock.advance(12 * 3600 - 1)
    assert browser.send("GET", "/v1/me").status_code == 200
    here.clock.advance(1)
    assert browser.send("GET", "/v1/me").status_code == 401


def test_who_does_nothing_for_long_is_signed_out(tmp_path: Path) -> None:
    with OnThread(lambda: world(tmp_path, idle_seconds=900.0)) as here, here.browser() as browser:
        browser.sign_in()
        for _ in range(10):
            here.clock.advance(899)
            assert browser.send("GET", "/v1/me").status_code == 200
        here.clock.advance(901)
        assert browser.send("GET", "/v1/me").status_code == 401


@pytest.mark.parametrize("secret", ["", "sgs_", "sgs_" + "A" * 43, "x" * 3000, "sgs_'; DROP TABLE tokens"])
def test_an_unknown_secret_opens_nothing(browser: Browser, secret: str) -> None:
    browser.cookies[SESSION] = secret
    assert kind(browser.send("GET", "/v1/me")) == "NotAuthenticated"


def test_a_login_of_another_namespace_does_not_count_here(
    here: World, browser: Browser, tmp_path: Path
) -> None:
    browser.sign_in()
    other = app_in(here.app.store.path.parent, clock=here.clock)
    other.store = here.app.store.within("other")
    openid = OpenIdConnect(here.provider.url, CLIENT, PUBLIC, SECRET)

    @asynccontextmanager
    async def elsewhere() -> AsyncIterator[Server]:
        async with Server(other, port=0, openid=openid) as server:
            yield server

    with OnThread(elsewhere) as server, Browser(server) as there:
        there.cookies = dict(browser.cookies)
        assert there.send("GET", "/v1/me").status_code == 401


# What they are


@pytest.mark.parametrize(
    ("options", "claims", "expected"),
    [
        ({"user_claim": "sub"}, {"email_verified": False}, ("248289", [], ["responder"])),
        ({"user_claim": "preferred_username"}, {"preferred_username": "ana"}, ("ana", [], ["responder"])),
        ({}, {"aud": [CLIENT]}, ("ana@example.com", [], ["responder"])),
        ({}, {"aud": [CLIENT, "x"], "azp": CLIENT}, ("ana@example.com", [], ["responder"])),
        ({"default_role": None}, {}, None),
        ({"default_role": None}, {"roles": "viewer"}, ("ana@example.com", [], ["viewer"])),
        ({"default_role": Role.VIEWER}, {"roles": [""]}, ("ana@example.com", [], ["viewer"])),
        (
            {"groups_claim": "https://acme.example/groups", "roles_claim": "realm_access.roles"},
            {"https://acme.example/groups": ["a, b"], "realm_access": {"roles": ["admin"]}},
            ("ana@example.com", ["a, b"], ["admin", "responder"]),
        ),
        (
            {"groups_claim": None, "roles_claim": None},
            {"groups": ["x"], "roles": ["admin"]},
            ("ana@example.com", [], ["responder"]),
        ),
        ({"roles_claim": "groups.deep"}, {"groups": ["x"]}, ("ana@example.com", ["x"], ["responder"])),
    ],
    ids=str,
)
def test_claims_identify_the_person(
    tmp_path: Path, options: dict[str, Any], claims: dict[str, Any], expected: Any
) -> None:
    with OnThread(lambda: world(tmp_path, **options)) as here, here.browser() as browser:
        here.provider.claims |= claims
        assert browser.sign_in().status_code == 303
        answer = browser.send("GET", "/v1/me")
        if expected is None:
            assert kind(answer) == "AccessDenied"
            return
        me = answer.json()
        assert (me["user_id"], me["groups"], me["roles"]) == expected


def test_four_eyes_hold_for_who_is_signed_in(here: World, browser: Browser) -> None:
    here.provider.claims["roles"] = ["operator"]
    browser.sign_in()
    run = {"workflow": "sign", "id": "four", "args": [[], True]}
    assert browser.send("POST", "/v1/runs", {**run, "started_by": "bob"}).status_code == 403
    assert browser.send("POST", "/v1/runs", run).json()["started_by"] == "ana@example.com"


def test_logins_are_kept_as_tokens_with_their_end(here: World, browser: Browser, tmp_path: Path) -> None:
    with OnThread(lambda: world(tmp_path)) as own, own.browser() as there:
        there.sign_in()

        async def tokens() -> Any:
            return (await own.app.store.list_tokens(TokenFilter(TokenKind.LOGIN))).items

        [token] = asyncio.run(tokens())
        assert (token.subject, token.expires_at - token.created_at) == ("user:ana@example.com", 43200)


# How it is set up


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://login.example.com"},
        {"issuer": "login.example.com"},
        {"issuer": "https://u:p@login.example.com"},
        {"issuer": "https://login.example.com?x=1"},
        {"public_url": "http://signoff.example"},
        {"client_id": ""},
        {"client_secret": ""},
        {"algorithms": []},
        {"algorithms": ["none"]},
        {"algorithms": ["RS256", "HS256"]},
        {"idle_seconds": 1.0},
        {"idle_seconds": 90000.0},
        {"lifetime_seconds": float("nan")},
    ],
    ids=str,
)
def test_what_would_not_be_safe_is_refused_before_it_starts(wrong: dict[str, Any]) -> None:
    good = OpenIdConnect("https://login.example.com", CLIENT, PUBLIC, SECRET)
    with pytest.raises(InvalidValue) as refusal:
        replace(good, **wrong)
    assert "u:p" not in str(refusal.value)


def test_by_http_the_cookie_is_for_this_machine_and_has_no_prefix(tmp_path: Path) -> None:
    with (
        OnThread(lambda: world(tmp_path, public_url="http://localhost:8000")) as here,
        here.browser() as browser,
    ):
        begun = browser.send("GET", "/login", host="localhost:8000")
        assert begun.headers["set-cookie"].startswith("signoff-login=")
        assert "Secure" not in begun.headers["set-cookie"]


def test_without_a_provider_there_is_no_way_to_sign_in(http: Any) -> None:
    for method, path in (("GET", "/login"), ("GET", "/login/callback"), ("POST", "/logout")):
        assert http.request(method, path).status_code == 404
    assert http.get("/v1/me").json()["user_id"] is None
    assert start(http, "echo", "open-server", 1)["id"] == "open-server"
