"""Worker keys in the store: made, rotated and revoked while the server runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from signoff import AsyncClient, Client
from signoff.errors import AccessDenied, InvalidValue, NotAuthenticated
from signoff.records import NewRun
from signoff.server import OpenIdConnect, Role, create_server_app
from signoff.server.auth.key_file import WorkerKeys, key_of, new_worker_key
from signoff.stores.contract.store import Store
from signoff.stores.contract.wire import CHANGES_PATH, PATH
from signoff.stores.remote.store import RemoteStore
from tests.server.conftest import app_in, kind
from tests.server.keyed import Keyed, keyed
from tests.server.proxied import PROXY, through
from tests.support import OnThread, in_asyncio

FILED, FILED_KEY = new_worker_key("default")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder = tmp_path_factory.mktemp("worker-keys")
    with OnThread(lambda: keyed(folder, worker_keys=WorkerKeys([FILED_KEY]))) as made:
        yield made


async def reached(here: Keyed, key: str | None, namespace: str = "default") -> Store:
    """Open a remote store, and do something with it. Raises AccessDenied."""
    store = RemoteStore(here.server.url, key=key, namespace=namespace)
    try:
        await store.open()
        await store.list_workers()
        await store.claim("w", "gpu", ["echo"], 1)
        return store
    finally:
        await store.close()


@in_asyncio
async def test_a_key_made_while_the_server_runs_opens_what_it_names(here: Keyed) -> None:
    secret, token = await asyncio.to_thread(here.worker_key, "gpu", namespace="acme", groups=["gpu"])
    await reached(here, secret, "acme")
    with pytest.raises(AccessDenied, match="namespace 'default'"):
        await reached(here, secret)
    cpu, _ = await asyncio.to_thread(here.worker_key, "cpu", namespace="acme", groups=["cpu"])
    with pytest.raises(AccessDenied, match="groups cpu"):
        await reached(here, cpu, "acme")
    assert (await here.app.store.within("acme").get_token(token.id)).used_at == here.clock.now()


@in_asyncio
async def test_keys_of_the_file_and_of_the_store_work_side_by_side(here: Keyed) -> None:
    secret, _ = await asyncio.to_thread(here.worker_key)
    await reached(here, secret)
    await reached(here, FILED)
    with pytest.raises(AccessDenied, match="needs a worker key"):
        await reached(here, None)


@pytest.mark.parametrize("how", ["revoked", "expired"])
@in_asyncio
async def test_a_key_that_has_ended_opens_nothing(here: Keyed, how: str) -> None:
    secret, token = await asyncio.to_thread(here.worker_key, lifetime_seconds=60.0)
    await reached(here, secret)
    if how == "revoked":
        await here.app.store.revoke_token(token.id)
    else:
        here.clock.advance(60)
    with pytest.raises(AccessDenied, match="expired or revoked"):
        await reached(here, secret)


@in_asyncio
async def test_a_services_key_is_no_workers(here: Keyed) -> None:
    secret, _ = await asyncio.to_thread(here.key, "admin", Role.ADMIN)
    with pytest.raises(AccessDenied, match="is unknown"):
        await reached(here, secret)


@in_asyncio
async def test_a_listening_worker_whose_key_is_revoked_gets_no_more(here: Keyed) -> None:
    secret, token = await asyncio.to_thread(here.worker_key)
    async with (
        httpx.AsyncClient(base_url=here.server.url, trust_env=False, verify=False, timeout=60) as http,
        http.stream(
            "GET",
            CHANGES_PATH,
            params={"namespace": "default"},
            headers={"authorization": f"Bearer {secret}"},
        ) as stream,
    ):
        chunks = stream.aiter_bytes()
        assert b"gap" in await anext(chunks)
        await here.app.store.revoke_token(token.id)
        here.clock.advance(60)
        await here.app.store.create_run(NewRun("late", "echo", "nobody", '{"args": []}'))
        assert [chunk async for chunk in chunks] in ([], [b""])


def test_a_server_serves_no_worker_without_a_key(tmp_path: Path) -> None:
    def greet(here: Keyed, key: str | None = None) -> int:
        with here.http(key) as http:
            return http.get(PATH, params={"namespace": "default"}).status_code

    with OnThread(lambda: keyed(tmp_path, require_auth=False)) as here:
        assert greet(here) == 403
        assert [greet(here, "sgw_unknown") for _ in range(21)] == [403] * 20 + [429]
        here.clock.advance(60)
        secret, token = here.worker_key()
        assert greet(here) == 403
        assert greet(here, secret) == 200
    with OnThread(lambda: keyed(tmp_path, require_auth=False)) as here:
        assert greet(here) == 403
        assert greet(here, secret) == 200
        with here.http() as anybody:
            assert anybody.get("/v1/runs").status_code == 401
        here.revoke(token)
        assert greet(here, secret) == 403
    with OnThread(lambda: keyed(tmp_path, require_auth=False)) as here, here.http() as anybody:
        assert anybody.get("/v1/runs").status_code == 200, "the database has no open key any more"


SHARED_SECRET = "sgw_shared_" + "s" * 43
SHARED = key_of(SHARED_SECRET, "default", "here")


def test_a_shared_worker_key_opens_the_store_and_closes_no_other_route(tmp_path: Path) -> None:
    own = WorkerKeys(own=SHARED)
    with (
        OnThread(lambda: keyed(tmp_path, require_auth=False, worker_keys=own)) as here,
        here.http(SHARED_SECRET) as worker,
        here.http() as anybody,
    ):
        assert worker.get(PATH, params={"namespace": "default"}).status_code == 200
        assert worker.get(PATH, params={"namespace": "acme"}).status_code == 403
        assert anybody.get(PATH, params={"namespace": "default"}).status_code == 403
        assert anybody.get("/v1/runs").status_code == 200


def test_a_shared_key_in_the_database_has_only_the_rights_stored_there(tmp_path: Path) -> None:
    """Else a key for one group, in the environment of the shell that starts the server, would open all of them."""
    with OnThread(lambda: keyed(tmp_path)) as here:
        secret, token = here.worker_key(groups=["gpu"])
    own = WorkerKeys(own=key_of(secret, "default", "here"))
    runs = {"id": 1, "namespace": "default", "do": "list_runs", "arguments": {"which": {}}}
    batch = {"client": "c", "floor": 0, "operations": [runs]}
    with OnThread(lambda: keyed(tmp_path, worker_keys=own)) as here, here.http(secret) as worker:
        refused = worker.post(PATH, json=batch).json()["problem"]
        assert refused["type"] == "urn:signoff:AccessDenied"
        here.revoke(token)
        assert worker.post(PATH, json=batch).status_code == 403
        here.forget_ended_keys()
        assert worker.post(PATH, json=batch).status_code == 403, "also when retention has deleted it"


def test_a_key_for_some_groups_that_nothing_knows_opens_nothing(tmp_path: Path) -> None:
    secret, _ = new_worker_key("default", ["gpu"])
    own = WorkerKeys(own=key_of(secret, "default", "here"))
    with OnThread(lambda: keyed(tmp_path, worker_keys=own)) as here, here.http(secret) as worker:
        assert worker.get(PATH, params={"namespace": "default"}).status_code == 403


def test_two_keys_in_one_request_are_none(here: Keyed) -> None:
    secret, _ = here.key()
    twice = [("authorization", f"Bearer {secret}"), ("authorization", f"Bearer {secret}")]
    with here.http() as http:
        assert kind(http.get("/v1/me", headers=twice)) == "NotAuthenticated"
        worker, _ = here.worker_key()
        twice = [("authorization", f"Bearer {worker}"), ("authorization", f"Bearer {FILED}")]
        assert http.get(PATH, params={"namespace": "default"}, headers=twice).status_code == 403


# Clients


@in_asyncio
async def test_clients_take_a_key_or_that_of_the_environment(
    here: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = await asyncio.to_thread(here.key, "deploy", Role.OPERATOR)

    async def starter(**options: str) -> str | None:
        async with AsyncClient(here.server.url, **options) as client:
            handle = await client.start("echo", 1)
            return (await client.backend.get_run(handle.id)).started_by

    assert await starter(key=secret + "\n") == "service:deploy"
    with pytest.raises(NotAuthenticated):
        await starter()
    monkeypatch.setenv("SIGNOFF_KEY", secret)
    assert await starter() == "service:deploy"
    with pytest.raises(NotAuthenticated):
        await starter(key="sgk_other")


def test_the_blocking_client_takes_a_key_and_reveals_it_nowhere(here: Keyed) -> None:
    secret, _ = here.key("deploy", Role.OPERATOR)
    with Client(here.server.url, key=secret) as client:
        assert client.start("echo", 1).result() == 1
        assert secret not in repr(vars(client)) + repr(client)
    with pytest.raises(InvalidValue, match="spaces") as refused:
        Client(here.server.url, key="sgk_a b")
    assert "sgk_" not in str(refused.value)


def test_without_the_extra_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "signoff.server.auth.oidc_provider", None)
    openid = OpenIdConnect("https://login.example.com", "signoff", "https://signoff.example")
    with pytest.raises(InvalidValue, match=r"signoff\[oidc\]"):
        create_server_app(app_in(tmp_path), openid=openid)


def test_a_browser_behind_a_proxy_and_a_provider_may_come_either_way(tmp_path: Path) -> None:
    openid = OpenIdConnect("https://login.example.com", "signoff", "https://signoff.example")
    with OnThread(lambda: keyed(tmp_path, openid=openid, proxy=PROXY)) as here:
        with through(here.server, "ana") as http:
            assert http.get("/v1/me").json()["way"] == "proxy"
        with through(here.server) as http:
            assert http.get("/v1/me").status_code == 401
            assert http.get("/v1/me", headers={"accept": "text/html"}).status_code == 303
