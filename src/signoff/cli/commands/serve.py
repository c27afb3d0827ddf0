"""``signoff dev``, ``server`` and ``worker``: the long-running commands."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from signoff.app import Signoff
from signoff.cli.commands.keys import SHARED_KEY_VARIABLE, no_worker_key, server_keys
from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.identity_options import forwarding_of, identity_options, openid_of, proxy_of
from signoff.cli.load_app import load_app
from signoff.cli.mcp_options import mcp_options, mcp_settings_of
from signoff.cli.output import Output
from signoff.cli.reload import Supervision, Supervisor
from signoff.cli.resonate_options import OPEN_CLOCK, debugged, resonate_of, resonate_options
from signoff.cli.run_worker import WorkerOptions, opened, work
from signoff.cli.signals import STOP_SIGNALS, StopSignals
from signoff.cli.target import DEFAULT_STORE, Command, json_option
from signoff.cli.values import Number
from signoff.engine.steps import own_tasks
from signoff.engine.timers.retention import MOST_DAYS
from signoff.engine.worker.gc_tuning import relax_collector
from signoff.engine.worker.worker import HOT_RUNS
from signoff.errors import InvalidValue
from signoff.observability.logs import LogFormat, formatter
from signoff.people.audit.anchors.config import Anchors, anchors_of
from signoff.redaction import Redaction
from signoff.runtime.loggers import hiding_texts
from signoff.runtime.process_limits import give_large_blocks_back, raise_handle_limit

if TYPE_CHECKING:
    from signoff.people.notifications.channels.channel import Channel
    from signoff.server import Server

REDACT_VARIABLE = "SIGNOFF_REDACT"

_IDLE_THREADS_END_SECONDS = 0.5

_ADDRESS = click.argument("address", metavar="MODULE:APP")


def open_doors(url: str, location: str) -> str:
    """Return the warning of a server without authentication: what is open, and the commands to change that."""
    return (
        f"the database has no keys, so callers are not authenticated. Open to anyone who reaches {url}: runs, "
        "questions and their answers, links, schedules, Studio. Closed without a key: workers (/v1/store), keys, "
        f"the audit trail. To authenticate every caller: signoff keys create NAME --role admin --store {location}. "
        "To let workers in and leave the rest open: export SIGNOFF_WORKER_KEY=$(signoff keys create --worker) before "
        "this server and the worker start"
    )


_retain = click.option(
    "--retain-days",
    "retention_days",
    type=Number(min=0, min_open=True, max=MOST_DAYS),
    help="Delete runs this many days after their end.  [default: never]",
)

_BETWEEN_PATHS = re.compile(r",(?![^\[]*\])")  # commas outside of brackets, which contain names


def _paths(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths from the option, else from the environment."""
    named = given or _BETWEEN_PATHS.split(os.environ.get(REDACT_VARIABLE, ""))
    paths = tuple(path.strip() for path in named if given or path.strip())
    try:
        Redaction(paths)
    except InvalidValue as error:
        raise click.BadParameter(error.reason, ctx, param) from None
    return paths


_redact = click.option(
    "--redact",
    multiple=True,
    metavar="PATH",
    callback=_paths,
    help=f"A payload field to redact, such as card.number; repeat for more. [env: {REDACT_VARIABLE}, with commas]",
)

_log_format = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="SIGNOFF_LOG_FORMAT",
    show_envvar=True,
    show_default=True,
    help="Log lines for people, or one JSON object per line, on stderr.",
)


def _channels_in(file: Path | None) -> Sequence[Channel]:
    if file is None:
        return ()
    from signoff.people.notifications.channels.config_file import (
        read_channels,  # imports httpx, which is slow
    )

    return read_channels(file)


def _serving_options(command: Command) -> Command:
    for option in (
        click.option(
            "--channels",
            "channels_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A TOML file with notification channels: e-mail, Slack, webhooks ...",
        ),
        click.option(
            "--public-url",
            metavar="URL",
            envvar="SIGNOFF_PUBLIC_URL",
            show_envvar=True,
            help="Its public URL, such as https://signoff.example.com: for links and sign-in.",
        ),
        click.option(
            "--root-path",
            metavar="PATH",
            envvar="SIGNOFF_ROOT_PATH",
            show_envvar=True,
            help="The path prefix behind a proxy, such as /signoff.  [default: that of --public-url]",
        ),
        click.option(
            "--allow-origin",
            "allowed_origins",
            multiple=True,
            metavar="ORIGIN",
            help="Another site whose pages may use it, such as https://app.example.com; repeat for more.",
        ),
        click.option(
            "--allow-host", "allowed_hosts", multiple=True, help="A host name of the server; repeat for more."
        ),
        click.option(
            "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: a free one."
        ),
        click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
    ):
        command = option(command)
    return command


def _working_options(command: Command) -> Command:
    seconds = Number(min=0)
    count = click.IntRange(min=1)
    for option in (
        click.option(
            "--grace", type=seconds, default=30.0, show_default=True, help="Seconds for steps to finish."
        ),
        click.option(
            "--hot-runs",
            type=click.IntRange(min=0),
            default=HOT_RUNS,
            show_default=True,
            help="Paused runs in memory, about 16 KiB each; an agent's turn counts for 12 to 30.",
        ),
        click.option("--threads", type=count, default=32, show_default=True, help="Plain steps at once."),
        click.option("--concurrency", type=count, default=1000, show_default=True, help="Runs held at once."),
        click.option("--group", help="The group to poll.  [default: the app's]"),
    ):
        command = option(command)
    return command


@click.command()
@_ADDRESS
@click.option(
    "--url",
    metavar="URL",
    help="Work through this signoff server instead of the app's own store. [env: SIGNOFF_URL]",
)
@click.option(
    "--key",
    metavar="KEY",
    help="A worker key for --url; better in the environment, which `ps` does not show. [env: SIGNOFF_WORKER_KEY]",
)
@_working_options
@click.option(
    "--build",
    help="The build of its code, such as a commit; `signoff workers` shows it. [env: SIGNOFF_BUILD]",
)
@_retain
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve /metrics, /health and /ready on this port; 0: a free one.  [default: none]",
)
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, help="The address for --metrics-port."
)
@_log_format
@json_option
def worker(
    address: str,
    url: str | None,
    key: str | None,
    group: str | None,
    concurrency: int,
    threads: int,
    hot_runs: int,
    grace: float,
    build: str | None,
    retention_days: float | None,
    metrics_port: int | None,
    metrics_host: str,
    log_format: LogFormat,
    out: Output,
) -> int | None:
    """Run the workflows of MODULE:APP.

    SIGTERM and SIGINT let running steps finish; a second signal exits at once.
    """
    app = load_app(address)
    url = url or os.environ.get("SIGNOFF_URL")
    if url:
        from signoff.stores.remote.store import RemoteStore

        key = key or os.environ.get(SHARED_KEY_VARIABLE)
        app.store = RemoteStore(url, key=key, namespace=app.store.namespace)
        if not key:
            raise CommandFailed(ExitCode.CONFLICT, no_worker_key(url))
    elif key:
        raise click.UsageError("--key is for a server; give its --url, too")
    options = WorkerOptions(
        group, concurrency, threads, hot_runs, grace, build, retention_days, metrics_host, metrics_port
    )

    anchors = Anchors() if url else anchors_of()  # behind a server, the server sends the checkpoints

    async def run(stop: StopSignals) -> None:
        with hiding_texts(bool(os.environ.get(REDACT_VARIABLE))):
            await work(app, options, stop, out, anchors)

    return _run(app, run, log_format)


@click.command()
@click.argument("address", metavar="[MODULE:APP]", required=False)
@click.option(
    "--store", metavar="URL", help=f"The database. [env: SIGNOFF_STORE]  [default: {DEFAULT_STORE}]"
)
@_serving_options
@click.option(
    "--worker-key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The key file for remote workers, as `signoff keys create` prints it; besides SIGNOFF_WORKER_KEYS and _KEY.",
)
@click.option(
    "--worker-lease",
    type=Number(min=10),  # workers extend their leases every 3 s
    default=90.0,
    show_default=True,
    help="Seconds without a heartbeat after which other workers take over the runs of a remote worker.",
)
@click.option(
    "--drain",
    "drain_seconds",
    type=Number(min=0),
    default=0.0,
    show_default=True,
    help="Seconds to keep serving after SIGTERM, with 503 at /ready, so that load balancers stop sending.",
)
@resonate_options
@click.option(
    "--mcp/--no-mcp", "serves_mcp", default=True, show_default=True, help="Serve MCP at /mcp, for agents."
)
@mcp_options
@identity_options
@_redact
@_retain
@_log_format
@json_option
def server(
    address: str | None,
    store: str | None,
    worker_key_file: Path | None,
    worker_lease: float,
    log_format: LogFormat,
    drain_seconds: float,
    channels_file: Path | None,
    user_header: str | None,
    groups_header: str | None,
    roles_header: str | None,
    addresses: tuple[str, ...],
    address_header: str | None,
    default_role: str | None,
    oidc_issuer: str | None,
    oidc_client_id: str | None,
    oidc_client_secret_file: Path | None,
    oidc_user_claim: str | None,
    oidc_groups_claim: str | None,
    oidc_roles_claim: str | None,
    public_url: str | None,
    require_auth: bool,
    redact: tuple[str, ...],
    serves_mcp: bool,
    mcp_answers: tuple[str, ...],
    mcp_answer_calls: bool,
    out: Output,
    **serving: Any,
) -> int | None:
    """Serve the HTTP API of a store, or of the store of MODULE:APP, to people, programs and remote workers."""
    if address and store:
        raise click.UsageError("give --store or MODULE:APP, not both")
    proxy = proxy_of(user_header, groups_header, roles_header, addresses, address_header, default_role)
    forwarding = forwarding_of(address_header, addresses)
    claims = {
        "user_claim": oidc_user_claim,
        "groups_claim": oidc_groups_claim,
        "roles_claim": oidc_roles_claim,
    }
    openid = openid_of(oidc_issuer, oidc_client_id, oidc_client_secret_file, public_url, default_role, claims)
    if default_role and proxy is None and openid is None:
        raise click.UsageError(
            "--default-role is for people who are signed in: --user-header or --oidc-issuer"
        )
    is_debugged = serving["resonate_debug"]
    resonate = resonate_of(serving)
    anchors = anchors_of()
    mcp_settings = mcp_settings_of(mcp_answers, mcp_answer_calls) if serves_mcp else None
    if is_debugged and address:
        raise click.UsageError(
            "--resonate-debug sets the clock of the database: give --store, not MODULE:APP"
        )
    location = store or os.environ.get("SIGNOFF_STORE") or DEFAULT_STORE
    app = load_app(address) if address else Signoff(debugged(location) if is_debugged else location)

    async def run(stop: StopSignals) -> None:
        if not await opened(app, stop):
            return
        options = {
            "worker_keys": server_keys(worker_key_file, app.store.namespace),
            "proxy": proxy,
            "forwarding": forwarding,
            "openid": openid,
            "require_auth": require_auth,
            "public_url": public_url,
            "worker_lease_seconds": worker_lease,
            "channels": _channels_in(channels_file),
            "anchors": anchors,
            "redact": redact,
            "mcp_settings": mcp_settings,
            **resonate,
            **serving,
        }
        async with _listening(app, out, **options) as server:
            if is_debugged:
                out.note(OPEN_CLOCK)
            await stop.asked()
            out.event("stopping", "stopping")
            await server.drain(stop.urged(seconds=drain_seconds))

    return _run(app, run, log_format)


@click.command()
@_ADDRESS
@_serving_options
@_working_options
@click.option(
    "--watch",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A folder or file to watch; repeat for more.  [default: the working directory]",
)
@_redact
@_log_format
@click.option(
    "--supervised-by", type=int, hidden=True, help="The socket of the process that reloads this one."
)
@json_option
def dev(
    address: str,
    port: int,
    channels_file: Path | None,
    group: str | None,
    concurrency: int,
    threads: int,
    hot_runs: int,
    grace: float,
    watch: tuple[Path, ...],
    redact: tuple[str, ...],
    log_format: LogFormat,
    supervised_by: int | None,
    out: Output,
    **serving: Any,
) -> int | None:
    """Run MODULE:APP while you write it: server and worker in one process, replaced when a Python file changes.

    The port stays the same. If new code cannot be loaded, the error is shown and the previous version keeps running.
    """
    if supervised_by is None:
        files = () if channels_file is None else (channels_file,)
        return asyncio.run(Supervisor(sys.argv[1:], port, watch or (Path.cwd(),), files, out).run())
    supervision = Supervision(supervised_by)
    app, channels, anchors = load_app(address), _channels_in(channels_file), anchors_of()
    port = supervision.wait_for_turn()
    options = WorkerOptions(group, concurrency, threads, hot_runs, grace)

    async def run(stop: StopSignals) -> None:
        supervision.on_end(stop.ask)
        options_of_server = {
            "port": port,
            "worker_keys": server_keys(None, app.store.namespace),
            "channels": channels,
            "anchors": anchors,
            "redact": redact,
            **serving,
        }
        async with _listening(app, out, **options_of_server) as listening:
            supervision.listening(listening.port)
            app.registry.public_url = serving["public_url"] or app.public_url or listening.url
            await work(app, options, stop, out)

    return _run(app, run, log_format, [signal.SIGTERM])


@asynccontextmanager
async def _listening(app: Signoff, out: Output, **options: Any) -> AsyncGenerator[Server]:
    """Serve the API within the block, and report its URL."""
    from signoff.server import Server

    try:
        async with Server(app, **options) as server:
            text = f"listening on {server.url}, store {app.store.location}"
            facts = {"url": server.url, "port": server.port, "store": app.store.location}
            if server.resonate_url is not None:
                text = f"{text}, durable promise protocol on {server.resonate_url}"
                facts["resonate_url"] = server.resonate_url
            if server.resonate_legacy is not None:
                legacy = server.resonate_legacy
                text = f"{text}, protocol of resonate-sdk 0.6.7 on {legacy.url} and {legacy.messages_url}"
                facts |= {"resonate_legacy_url": legacy.url, "resonate_messages_url": legacy.messages_url}
            out.event("listening", text, **facts, authenticates=server.asks)
            if not server.asks:
                out.note(open_doors(server.url, app.store.location))
            yield server
    except OSError as error:
        raise CommandFailed(ExitCode.UNAVAILABLE, error.strerror or str(error)) from error


def _run(
    app: Signoff,
    serve: Callable[[StopSignals], Awaitable[None]],
    log_format: LogFormat,
    signals: Sequence[signal.Signals] = STOP_SIGNALS,
) -> int:
    """Run until asked to stop, and return the exit code."""
    _log(log_format)
    _trace()
    raise_handle_limit()
    give_large_blocks_back()

    async def until_asked() -> None:
        with StopSignals(signals) as stop:
            try:
                await serve(stop)
            finally:
                await app.store.close()
            if stop.is_urged:
                _leave(ExitCode.INTERRUPTED)
        if _steps_still_run():
            _leave(ExitCode.OK)

    relax_collector()
    own_tasks.run(until_asked())
    return ExitCode.OK


def _log(log_format: LogFormat) -> None:
    """Log to stderr, unless the app has set up logging itself."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(log_format))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("signoff").setLevel(logging.INFO)


def _trace() -> None:
    """Record spans if the app, or ``opentelemetry-instrument``, has set up OpenTelemetry."""
    if "opentelemetry.trace" in sys.modules:
        from signoff.observability.tracing import trace_if_set_up

        trace_if_set_up()


def _steps_still_run() -> bool:
    """Whether a thread is still busy with an abandoned step, for which Python would wait at exit."""
    give_up_at = time.monotonic() + _IDLE_THREADS_END_SECONDS
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("signoff step")]
    for thread in threads:
        thread.join(max(0.0, give_up_at - time.monotonic()))
    return any(thread.is_alive() for thread in threads)


def _leave(code: ExitCode) -> NoReturn:
    """End the process without waiting for its threads. The store is closed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
