"""A server of a simulated world: it speaks the durable promise protocol, fires deadlines, and starts runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

from signoff.engine.timers.timers import TimerService
from signoff.errors import SignoffError
from signoff.people.questions.periodic_jobs import PERIODIC_JOBS
from signoff.records.tasks import TaskMessage
from signoff.server.resonate import poll
from signoff.server.resonate.call import Call
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.delivery import Delivery
from signoff.server.resonate.legacy import messages as legacy_messages
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
from tests.simulation.protocol import posts
from tests.simulation.protocol.function_workers import function_groups
from tests.simulation.protocol.legacy_server import SENDER, operate_legacy
from tests.simulation.protocol.network import LEGACY, TODAY, Events, Network, Server
from tests.simulation.protocol.programs import LEGACY_GROUP
from tests.simulation.protocol.scene import Scene

MESSAGES = Messages("http://simulated")


def server_of(network: Network, scene: Scene) -> Main:
    """Return the code of a server process: what ``signoff server --resonate`` runs, without sockets.

    What nobody in the scene needs does not run: it would only take time.
    """

    async def main(process: Process) -> None:
        store = process.store
        async with asyncio.TaskGroup() as jobs:
            service = TimerService(store, periodic_jobs=PERIODIC_JOBS)
            timers = jobs.create_task(service.run())
            jobs.create_task(SignoffGroups(store).serve())
            jobs.create_task(ScheduledPromises(store).serve())
            services = _services(process, timers, service)
            push = Push(posts.ALLOWED, posts.Transport(network, process))
            today = Deliveries(MESSAGES.to_wire, push, passes_on=True)
            legacy = Deliveries(legacy_messages.to_wire, Push(()), passes_on=False)
            if scene.calls_back:
                jobs.create_task(function_groups(process, today, legacy).serve())

            def handle(body: bytes) -> Awaitable[bytes]:
                return _operate(process, services, today, body)

            def handle_legacy(body: bytes) -> Awaitable[bytes]:
                return operate_legacy(process, services, body)

            ports = {TODAY: (handle, _events(services, today.of(store), MESSAGES.event_of))}
            if LEGACY_GROUP in scene.groups:
                events = _events(services, legacy.of(store), legacy_messages.event_of)
                ports[LEGACY] = (handle_legacy, events)
            try:
                async with asyncio.TaskGroup() as work:
                    network.open(Server(process, ports, work))
                    try:
                        await asyncio.Event().wait()
                    finally:
                        network.close(process)
            finally:
                await asyncio.gather(today.close(), legacy.close())

    return main


def _events(services: Services, delivery: Delivery, event_of: Callable[[TaskMessage], bytes]) -> Events:
    def events(group: str, pid: str) -> AsyncGenerator[bytes, None]:
        return poll.events(services, delivery, (group, pid), event_of, _is_still)

    return events


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
