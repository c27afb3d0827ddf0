"""Checks of a Postgres server and of Signoff's schema in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import psycopg

from signoff.doctor.findings import Check, Verdict, clock, failure, latency, ok, warning
from signoff.doctor.workload import LATE_SECONDS, time
from signoff.stores.postgres import inspection
from signoff.stores.postgres.inspection import Connection
from signoff.stores.postgres.schema import translate

OLDEST: Final = 15
TESTED: Final = "15, 16 and 18"
SLOW_COMMIT_SECONDS: Final = 0.05
HEARD_WITHIN_SECONDS: Final = 2.0
COMMITS: Final = 7
CROWDED: Final = 0.8
DEAD_ROWS: Final = 100_000


@dataclass(frozen=True)
class Server:
    """An open connection, and the address at which a worker listens for notifications."""

    db: Connection
    location: str
    listen_conninfo: str | None


def version(server: Server) -> Iterable[Verdict]:
    settings = inspection.settings(server.db)
    major = int(settings["server_version_num"]) // 10_000
    if major < OLDEST:
        yield failure(f"Postgres {major} is not supported; upgrade it: {TESTED} are tested")
    else:
        yield ok(f"Postgres {settings['server_version']}")


def read_only(server: Server) -> Iterable[Verdict]:
    if inspection.is_standby(server.db):
        yield failure(
            "this server is a standby and accepts no writes; connect to the primary, or give several hosts and "
            "?target_session_attrs=read-write"
        )
    elif inspection.settings(server.db)["default_transaction_read_only"] == "on":
        yield failure("default_transaction_read_only is on for this role or database; turn it off")
    else:
        yield ok("it accepts writes")


def durability(server: Server) -> Iterable[Verdict]:
    settings = inspection.settings(server.db)
    risks = {
        "fsync": "a crash of the machine can destroy the whole database",
        "synchronous_commit": "a crash of the server loses the last acknowledged commits",
        "full_page_writes": "a power cut can leave torn pages, unless the file system prevents them",
    }
    off = [name for name in risks if settings[name] == "off"]
    for name in off:
        judge = warning if name == "full_page_writes" else failure
        yield judge(f"{name} is off: {risks[name]}; turn it on")
    if not off:
        yield ok("fsync, synchronous_commit and full_page_writes are on")


def commits(server: Server) -> Iterable[Verdict]:
    try:
        taken = inspection.commit_seconds(server.db, COMMITS)
    except psycopg.Error as error:
        yield failure(f"nothing can be committed: {translate(error, server.location)}")
        return
    yield latency(taken, "a commit", SLOW_COMMIT_SECONDS, "each step waits for one: look at disk and network")


def clocks(server: Server) -> Iterable[Verdict]:
    yield clock(*inspection.clock_difference(server.db), whose="the database's")


def connections(server: Server) -> Iterable[Verdict]:
    settings = inspection.settings(server.db)
    reserved = ("superuser_reserved_connections", "reserved_connections")
    limit = int(settings["max_connections"]) - sum(int(settings.get(name, 0)) for name in reserved)
    used = inspection.connections(server.db)
    text = f"{used} of {limit} connections are in use; each server or worker needs up to 5"
    crowded = used >= limit * CROWDED
    yield warning(f"{text}: raise max_connections, or use a pooler") if crowded else ok(text)


def notifications(server: Server) -> Iterable[Verdict]:
    if server.listen_conninfo is None:
        yield ok(
            "LISTEN is disabled (listen_address is empty): changes are noticed within a second, by polling"
        )
    elif inspection.hears_notifications(server.db, server.listen_conninfo, HEARD_WITHIN_SECONDS):
        yield ok("NOTIFY arrives")
    else:
        yield warning(
            f"a NOTIFY did not arrive within {HEARD_WITHIN_SECONDS:g} s, so answers are noticed up to a second late: "
            f"is there a pooler in transaction mode? Set listen_address of PostgresStore (docs/postgres.md, PgBouncer)"
        )


def vacuum(server: Server) -> Iterable[Verdict]:
    if inspection.settings(server.db)["autovacuum"] == "off":
        yield warning("autovacuum is off: tables grow and become slow; turn it on")
    found = inspection.tables(server.db)
    littered = [table for table in found if table.dead > max(DEAD_ROWS, table.live)]
    for table in littered:
        yield warning(
            f"signoff.{table.name} has about {table.dead:,} dead and {table.live:,} live rows: autovacuum does not "
            f"keep up; make it more aggressive, and look for transactions that stay open"
        )
    if not littered:
        yield ok(f"no table has more than {DEAD_ROWS:,} dead rows, or more dead than live ones")


def indexes(server: Server) -> Iterable[Verdict]:
    found = inspection.indexes(server.db)
    for name in found.missing:
        yield failure(f"index signoff.{name} is missing: create it as in schema/postgres/*.sql")
    for name in found.invalid:
        yield failure(f"index signoff.{name} is not valid: REINDEX INDEX CONCURRENTLY signoff.{name}")
    if not found.missing and not found.invalid:
        yield ok("all exist and are valid")


SERVER_CHECKS: Mapping[str, Check[Server]] = {
    "server version": version,
    "writes": read_only,
    "durability": durability,
    "commits": commits,
    "clock": clocks,
    "connections": connections,
    "notifications": notifications,
}


def overdue(server: Server) -> Iterable[Verdict]:
    return time(inspection.late(server.db, LATE_SECONDS))


SCHEMA_CHECKS: Mapping[str, Check[Server]] = {"indexes": indexes, "dead rows": vacuum, "time": overdue}
