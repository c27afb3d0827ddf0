"""A server of a simulated world: it speaks the durable promise protocol, fires deadlines, and starts runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from signoff.engine.timers.timers import TimerService
from signoff.errors import SignoffError
from signoff.people.questions.periodic_jobs import PERIODIC_JOBS
from signoff.server.auth.actors import UNAUTHENTICATED
from signoff.server.resonate import poll
from signoff.server.resonate.access import Sender
from signoff.server.resonate.call import Call
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.messages import Messages
from signoff.server.resonate.operations import OPERATIONS
from signoff.server.resonate.protocol import Refusal, read_request, refuse, respond
from signoff.server.resonate.push import Push
from signoff.server.resonate.requests import read_data
from signoff.server.resonate.schedules import ScheduledPromises
from signoff.server.resonate.signoff_groups import SignoffGroups
from signoff.server.services import Services
from signoff.service.service import LocalBackend
from signoff.testing.simulation import Process
from signoff.testing.simulation.process import Main
from tests.simulation.protocol.network import Network, Server

MESSAGES = Messages("http://simulated")
SENDER = Sender(UNAUTHENTICATED)


def server_of(network: Network) -> Main:
    """Return the code of a server process: what ``signoff server --resonate`` runs, without sockets."""

    async def main(process: Process) -> None:
        store = process.store
        async with asyncio.TaskGroup() as jobs:
            service = TimerService(store, periodic_jobs=PERIODIC_JOBS)
            timers = jobs.create_task(service.run())
            jobs.create_task(SignoffGroups(store).serve())
            jobs.create_task(ScheduledPromises(store).serve())
            services = _services(process, timers, service)
            deliveries = Deliveries(MESSAGES.to_wire, Push(()), passes_on=True)
            delivery = deliveries.of(store)

            async def handle(body: bytes) -> bytes:
                return await _operate(process, services, deliveries, body)

            def events(group: str, pid: str) -> AsyncGenerator[bytes, None]:
                return poll.events(services, delivery, (group, pid), MESSAGES.event_of, _is_still)

            try:
                async with asyncio.TaskGroup() as work:
                    network.open(Server(process, handle, events, work))
                    try:
                        await asyncio.Event().wait()
                    finally:
                        network.close(process)
            finally:
                await deliveries.close()

    return main


async def _operate(process: Process, services: Services, deliveries: Deliveries, body: bytes) -> bytes:
    """Perform the operation of an envelope, as ``server/resonate/app.py`` does."""
    request = read_request(body)
    kind, id = request.kind, request.correlation_id
    try:
        operation = OPERATIONS[kind]
        data = read_data(operation.data, request.data)
        call = Call(SENDER, services.with_origin(SENDER.origin(None)), id, deliveries.push)
        response = respond(kind, id, await operation.perform(call, data))
    except (Refusal, SignoffError) as error:
        response = refuse(kind, id, error)
    except Exception as error:
        process.world.blame(f"{process.name}: {kind} of {request.data} raised {error!r}")
        response = refuse(kind, id, Refusal(500, str(error)))
    return bytes(response.body)


def _services(process: Process, timers: asyncio.Task[None], service: TimerService) -> Services:
    """Return the services of a server without people who sign in, keys or pages."""
    absent = cast("Any", None)
    return Services(
        process.store,
        LocalBackend(process.store),
        "default",
        timers,
        lambda _: None,
        keyring=absent,
        authenticators=absent,
        login=None,
        forwarding=None,
        public_url=None,
        worker_lease_seconds=None,
        feeds=absent,
        inboxes=absent,
        scrape=absent,
        redaction=absent,
        wrong_secrets=absent,
        timer_service=service,
    )


async def _is_still() -> bool:
    return True
