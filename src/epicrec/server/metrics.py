"""Metrics: counts and times in Prometheus' text format. Labels are route templates, never ids."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """What this process has answered so far."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[str, list[int]] = {}
        self.sums: Counter[str] = Counter()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests[method, route, status] += 1
        self.seconds.setdefault(route, [0] * (len(BOUNDS) + 1))[bisect_left(BOUNDS, seconds)] += 1
        self.sums[route] += seconds  # type: ignore[assignment]

    def text(self, gauges: Iterable[tuple[str, str, float]]) -> str:
        """Everything, with further (name, help, value) gauges, as Prometheus reads it."""
        lines = ["# TYPE epicrec_requests_total counter"]
        for (method, route, status), number in sorted(self.requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"epicrec_requests_total{{{labels}}} {number}")
        lines.append("# TYPE epicrec_request_seconds histogram")
        for route, numbers in sorted(self.seconds.items()):
            total = 0
            for bound, number in zip((*BOUNDS, "+Inf"), numbers, strict=True):
                total += number
                lines.append(
                    f'epicrec_request_seconds_bucket{{route="{route}",le="{bound}"}} {total}'
                )
            lines.append(f'epicrec_request_seconds_sum{{route="{route}"}} {self.sums[route]:.6f}')
            lines.append(f'epicrec_request_seconds_count{{route="{route}"}} {total}')
        for name, about, value in gauges:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"
