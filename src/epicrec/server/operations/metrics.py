"""Metrics: counts and times for Prometheus. Labels are route templates, never ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

Gauge = tuple[str, str, float]
"""A name without `epicrec_`, what it means, and its value."""


class Metrics:
    """What this process has answered so far, and the present values of `gauges`."""

    def __init__(self, gauges: Callable[[], Iterable[Gauge]]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        for standard in (ProcessCollector, PlatformCollector, GCCollector):
            standard(registry=self.registry)
        self._gauges = _Gauges(gauges)
        self.registry.register(self._gauges)
        self._requests = self._counter("requests", "Answers", "method", "route", "status")
        self._seconds = Histogram(
            "epicrec_request_seconds", "How long answers took", ["route"], buckets=BOUNDS,
            registry=self.registry,
        )  # fmt: skip
        self._labelled: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self.registrations = self._counter("registrations", "Clients that registered")
        self.rows = self._counter("rows_written", "Rows of feedback that were stored")
        self.forgotten = self._counter("users_forgotten", "Users that were deleted or purged")
        self.jobs = self._counter("jobs", "Trainings and publications that ended", "task", "state")

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        at = (method, route, status)
        if at not in self._labelled:
            self._labelled[at] = self._requests.labels(*at), self._seconds.labels(route)
        count, times = self._labelled[at]
        count.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()  # the counts of all workers, and the gauges of this one
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        together.register(self._gauges)
        return generate_latest(together)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"epicrec_{name}", about, labels, registry=self.registry)


class _Gauges(Collector):
    def __init__(self, gauges: Callable[[], Iterable[Gauge]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Any]:
        for name, about, value in self._gauges():
            yield GaugeMetricFamily(f"epicrec_{name}", about, value=value)
