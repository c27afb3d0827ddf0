"""Creates the FastAPI application of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from signoff.app import Signoff
from signoff.engine.timers.retention import Retention
from signoff.engine.timers.timers import TimerService
from signoff.observability.metrics import collecting
from signoff.people.audit.anchors.anchoring import Anchoring
from signoff.people.audit.anchors.config import Anchors
from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.outbox import Dispatcher
from signoff.people.questions.periodic_jobs import PERIODIC_JOBS
from signoff.redaction import Redaction
from signoff.runtime.loggers import hiding_texts, own_logger
from signoff.server.auth.access_tokens import AccessTokens, metadata_url
from signoff.server.auth.authenticators import Authenticator, Authenticators
from signoff.server.auth.callback_secrets import CallbackSecrets
from signoff.server.auth.client_address import Forwarding
from signoff.server.auth.key_file import WorkerKeys
from signoff.server.auth.keyring import Keyring
from signoff.server.auth.middleware import AuthMiddleware
from signoff.server.auth.oidc_flow import OidcFlow
from signoff.server.auth.oidc_settings import OpenIdConnect
from signoff.server.auth.trusted_proxy import TrustedProxy
from signoff.server.feeds.commit_feed import Feeds
from signoff.server.feeds.inbox_feed import Inboxes
from signoff.server.http.cors import check_origins, cross_origin_options
from signoff.server.http.etags import ETags
from signoff.server.http.host_check import HostCheck
from signoff.server.http.path_ids import EncodedPaths
from signoff.server.http.problems import add_handlers
from signoff.server.http.request_bodies import BodyLimit
from signoff.server.http.response_headers import SafeHeaders
from signoff.server.http.root_path import RootPath, below_root, checked_root_path
from signoff.server.limits.headers import HeaderLimit
from signoff.server.limits.requests import RequestLimit
from signoff.server.limits.streams import Streams
from signoff.server.limits.wrong_secrets import WrongSecretLimit
from signoff.server.mcp.settings import McpSettings
from signoff.server.openapi.document import DescribedAPI
from signoff.server.pages.link_refusals import LinkRefusals
from signoff.server.process.prometheus import Held, Scrape
from signoff.server.redacted_service import backend_of
from signoff.server.routes import (
    api_docs,
    audit,
    callbacks,
    deliveries,
    failed_items,
    groups,
    health,
    invocations,
    keys,
    links,
    login,
    mcp,
    metrics,
    promises,
    questions,
    resume_tokens,
    rules,
    run_events,
    runs,
    schedules,
    sessions,
    slack,
    snapshots,
    standalone_questions,
    store_operations,
    studio,
    workers,
    workflows,
)
from signoff.server.routes import prune as pruning_routes
from signoff.server.services import Services
from signoff.server.store_api.remote_clients import RemoteClients
from signoff.stores.contract.store import Store
from signoff.stores.contract.wire import PATH
from signoff.version import __version__
from signoff.wire.public_url import checked_public_url

log = own_logger("signoff.server")


_MCP = McpSettings()
WORKER_LEASE_SECONDS = 90.0
"""Longer than the lease of local workers, so that a remote worker keeps its runs through a one-minute outage."""


def create_server_app(
    app_or_store: Signoff | Store,
    *,
    allowed_hosts: Iterable[str] = (),
    worker_keys: WorkerKeys | None = None,
    proxy: TrustedProxy | None = None,
    openid: OpenIdConnect | None = None,
    forwarding: Forwarding | None = None,
    require_auth: bool = False,
    allowed_origins: Iterable[str] = (),
    public_url: str | None = None,
    worker_lease_seconds: float | None = WORKER_LEASE_SECONDS,
    retention_days: float | None = None,
    channels: Sequence[Channel] = (),
    anchors: Anchors | None = None,
    redact: Iterable[str] = (),
    root_path: str | None = None,
    mcp_settings: McpSettings | None = _MCP,
) -> FastAPI:
    """Return the HTTP API of a store as an ASGI application.

    Its lifespan opens the store and fires deadlines. The caller owns the store: it stays open.

    Args:
        app_or_store: A store, or an app; runs are then started in the app's group.
        allowed_hosts: Names that clients reach the server by, besides localhost, 127.0.0.1 and [::1].
        worker_keys: The keys of remote workers, besides stored keys. A remote worker needs a key.
        proxy: The trusted proxy that names users in headers. An ASGI server other than ``Server`` must not replace the
            peer's address by one from a header.
        openid: The identity provider that signs users in with their browsers.
        forwarding: Names the header that carries a client's address, for the audit trail and the limit on wrong
            secrets. None: the connection's address counts.
        require_auth: Whether every request must be authenticated. It must be with ``proxy`` or ``openid``, and as soon
            as the database has a key of a service or a worker, in any namespace. Otherwise the API is for a laptop:
            callers name themselves, and only ``/v1/store``, keys and the audit trail need a key.
        allowed_origins: Other sites whose pages may read and write here, such as ``https://app.example.com``; behind a
            proxy they act as the user who views them.
        public_url: The public URL of the server, such as ``https://signoff.example.com``: links in
            messages and answer links start with it. Its host is allowed. None: the app's own; without one, links start
            with the URL that their creator uses for the server.
        worker_lease_seconds: How long a claim or a heartbeat of a remote worker holds a run. After that long without a
            heartbeat, other workers may claim its runs. None: the store's lease.
        retention_days: How long ended runs are kept; None: permanently.
        channels: The notification channels for the store's namespace. They are closed with the app.
        anchors: The anchors for checkpoints of the audit trails of all namespaces. They are closed with the app.
        redact: Paths of payload fields to redact in everything that leaves the server, such as ``card.number``; see
            docs/redaction.md. The store, workers and workflows hold the original values.
        root_path: The path prefix of the server, such as ``/signoff``, behind a proxy that serves other applications
            as well. None: the path of ``public_url``.
        mcp_settings: What callers may do through the MCP server at ``/mcp``, besides their rights; None: it is off.

    Raises:
        InvalidValue: The days are not above 0, or an origin, a path, the root path or the URL is not valid.
    """
    app = app_or_store if isinstance(app_or_store, Signoff) else Signoff(app_or_store)
    forms, hooks = (slack.router.prefix, links.FORMS), (callbacks.OPEN,)
    store, group, function = app.store, app.group, app.registry.function
    redaction = Redaction(redact, function)

    login_path = None if openid is None else login.PATH
    hosts = (*allowed_hosts, *([] if openid is None else [openid.host]))
    origins = check_origins(allowed_origins)
    oidc_flow = None if openid is None else OidcFlow(store, openid)
    wrong_secrets = WrongSecretLimit(store.clock.now, forwarding)
    people: list[Authenticator] = [
        *([] if oidc_flow is None else [AccessTokens(oidc_flow, wrong_secrets), oidc_flow.logins]),
        *([] if proxy is None else [proxy]),
    ]
    keyring = Keyring(store, WorkerKeys() if worker_keys is None else worker_keys, wrong_secrets)
    authenticators = Authenticators(
        [keyring, *people], required=require_auth or bool(people), has_keys=keyring.has_key
    )
    public_url = public_url or app.public_url
    if public_url is not None:
        public_url, host = checked_public_url(public_url)
        hosts = (*hosts, host)
    root = checked_root_path(root_path, public_url)
    public_url = below_root(public_url, root)
    channels = [
        replace(each, public_url=below_root(each.public_url, root) or public_url) for each in channels
    ]
    retention = None if retention_days is None else Retention(store, retention_days)

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncGenerator[None, None]:
        await store.open()
        backend = backend_of(store, redaction)
        dispatcher = Dispatcher(store, channels, redaction=redaction)
        inboxes = Inboxes(store, redaction)
        periodic_jobs = (*PERIODIC_JOBS, inboxes.look, *([dispatcher.serve] if channels else []))
        store.hold_leases()
        lease_seconds = min(store.lease_seconds, worker_lease_seconds or store.lease_seconds)
        service = TimerService(store, periodic_jobs=periodic_jobs, lease_seconds=lease_seconds)
        timers = asyncio.create_task(service.run(), name="signoff timers")
        timers.add_done_callback(_timers_ended)
        pruning = (
            None if retention is None else asyncio.create_task(retention.run(), name="signoff retention")
        )
        anchoring = None if not anchors else Anchoring(store, anchors.anchors, origin=anchors.origin)
        anchored = None if anchoring is None else asyncio.create_task(anchoring.run(), name="signoff anchors")
        feeds = Feeds(store)
        remote_clients, streams = RemoteClients(), Streams()
        scrape = Scrape(
            store,
            lambda: not timers.done() and service.trouble is None,
            anchoring,
            lambda: Held({str(kind): n for kind, n in streams.by_kind.items()}, remote_clients.kept_bytes),
        )
        await authenticators.look()
        services = Services(
            store,
            backend,
            group,
            timers,
            function,
            keyring,
            authenticators,
            oidc_flow,
            forwarding,
            public_url,
            worker_lease_seconds,
            feeds,
            inboxes,
            scrape,
            redaction,
            wrong_secrets,
            {channel.name: channel for channel in channels},
            timer_service=service,
            remote_clients=remote_clients,
            streams=streams,
            mcp_settings=mcp_settings,
        )
        api.state.services = services
        try:
            with collecting(), hiding_texts(not redaction.is_empty):
                yield
        finally:
            await services.readiness.close()
            await services.mcp.close()
            await services.remote_clients.close()
            await scrape.close()
            feeds.close()
            tasks = {each for each in (timers, pruning, anchored) if each is not None}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await services.close()
            await dispatcher.close()
            if anchoring is not None:
                await anchoring.close()
            await backend.close()
            if oidc_flow is not None:
                await oidc_flow.close()

    api = DescribedAPI(
        authenticators,
        proxy,
        None if oidc_flow is None else oidc_flow.logins.cookie_name,
        version=__version__,
        lifespan=lifespan,
        middleware=[
            *([Middleware(RootPath, root_path=root)] if root else []),
            Middleware(SafeHeaders),
            Middleware(LinkRefusals),
            Middleware(HeaderLimit),
            Middleware(
                HostCheck,
                allowed_hosts=hosts,
                forms=forms,
                hooks=hooks,
                allowed_origins=origins,
            ),
            *([Middleware(CORSMiddleware, **cross_origin_options(origins))] if origins else []),
            Middleware(EncodedPaths),
            Middleware(
                AuthMiddleware,
                authenticators=authenticators,
                clock=store.clock,
                login_path=login_path,
                metadata_url=None if openid is None else metadata_url(openid),
                allowed_origins=origins,
                forms=(*forms, *hooks),
            ),
            Middleware(RequestLimit),
            Middleware(BodyLimit, unread=(PATH,), long=(snapshots.LOAD,)),
            Middleware(ETags),
            Middleware(CallbackSecrets),
        ],
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_handlers(api)
    for noun in (
        runs,
        run_events,
        questions,
        standalone_questions,
        links,
        resume_tokens,
        callbacks,
        promises,
        invocations,
        rules,
        audit,
        deliveries,
        slack,
        groups,
        workers,
        workflows,
        pruning_routes,
        failed_items,
        schedules,
        sessions,
        snapshots,
        store_operations,
        keys,
        login,
        mcp,
        health,
        metrics,
        api_docs,
        studio,
    ):
        api.router.routes.extend(noun.router.routes)  # include_router would rebuild each route for each app
    return api


def _timers_ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("deadlines no longer fire: the timers stopped with an error", exc_info=error)
