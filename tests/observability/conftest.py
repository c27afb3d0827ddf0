"""Subscribers that record their events."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from signoff.observability import events as telemetry
from signoff.observability.events import Event, StoreCommitted
from signoff.observability.tracing import trace_runs
from signoff.people.questions import answer_events


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """All that is announced in a test, but not by servers and workers on other threads, which other tests share."""
    monkeypatch.setattr(
        answer_events, "READ_SECONDS", 60.0
    )  # a machine that stood still would have the run left out
    heard: list[Event] = []

    def keep(event: Event) -> None:
        if threading.current_thread() is threading.main_thread() or isinstance(event, StoreCommitted):
            heard.append(event)

    end = telemetry.subscribe(keep)
    yield heard
    end()


@pytest.fixture
def provider() -> TracerProvider:
    """Makes spans for the exporter ``exported``."""
    return TracerProvider()


@pytest.fixture
def exported(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    """All spans that end in a test."""
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    end = trace_runs(provider)
    yield exporter
    end()
    provider.shutdown()
