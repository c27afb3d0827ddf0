"""``signoff doctor``."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator

import click

from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.load_app import load_app
from signoff.cli.output import Output
from signoff.cli.target import PATIENCE_SECONDS, Target, default_target, json_option, place_options
from signoff.doctor.findings import Finding, Level, TookTooLong
from signoff.doctor.workload import Known
from signoff.stores.address import store_at

_STYLES = {Level.OK: "green", Level.SKIPPED: "cyan", Level.WARNING: "yellow", Level.FAILURE: "red"}


@click.command()
@click.argument("address", metavar="[MODULE:APP]", required=False)
@click.option("--key", metavar="KEY", help="A worker key for --url. [env: SIGNOFF_WORKER_KEY]")
@place_options
@json_option
def doctor(address: str | None, key: str | None, target: Target | None, out: Output) -> None:
    """Check a deployment and report problems: the store of MODULE:APP, --store, or a server.

    It changes nothing. With MODULE:APP it also checks the workflows. It exits with 1 if a check fails; warnings and
    skipped checks do not count.
    """
    findings: list[Finding] = []
    is_stuck = False
    try:
        for finding in _examination(address, key, target):
            findings.append(finding)
            if not out.as_json:
                text = f"{finding.level:<8} {finding.check:<16} {finding.message}"
                out.line(text, _STYLES[finding.level])
    except TookTooLong:
        is_stuck = True
    try:
        _conclude(findings, out)
    except CommandFailed as failed:
        if is_stuck:  # Python would wait for the thread
            out.failure(str(failed), failed.code, failed.facts)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(failed.code)
        raise


def _examination(address: str | None, key: str | None, target: Target | None) -> Iterator[Finding]:
    from signoff.doctor import deployment  # imports the HTTP client, which is slow

    key = key or os.environ.get("SIGNOFF_WORKER_KEY")
    if address is None:
        place = target or default_target()
        if place.url is not None:
            return deployment.of_server(place.url, key, "default")
        return deployment.of_store(store_at(place.store or "", patience_seconds=PATIENCE_SECONDS))
    if target and target.store and target.store != os.environ.get("SIGNOFF_STORE"):
        raise click.UsageError("give --store or MODULE:APP, not both")
    app = load_app(address)
    known = Known(app.group, lambda name: app.registry.function(name) is not None)
    url = target.url if target and target.url else deployment.server_of(app.store)
    if url is not None:
        return deployment.of_server(url, key, app.store.namespace, known)
    return deployment.of_store(app.store, known)


def _conclude(findings: list[Finding], out: Output) -> None:
    levels = Counter(finding.level for finding in findings)
    failures = levels[Level.FAILURE]
    counts = {"failures": failures, "warnings": levels[Level.WARNING], "skipped": levels[Level.SKIPPED]}
    if out.as_json:
        items = [
            {"check": finding.check, "level": finding.level.value, "message": finding.message}
            for finding in findings
        ]
        out.object({"items": items, "next": None, **counts})
    if failures:
        raise CommandFailed(ExitCode.FAILED, f"{failures} of {len(findings)} findings are failures", **counts)
