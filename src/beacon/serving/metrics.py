"""Counters of the server, as Prometheus reads them."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque

QUANTILES = (0.5, 0.9, 0.99)
WINDOW = 2_048  # newest requests that quantiles are of
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64)


class ServerMetrics:
    """Counts requests, errors, batches and times; safe to use from several threads."""

    def __init__(self) -> None:
        self.connections = 0  # open now
        self.in_flight = 0  # requests that wait for their answer now
        self._started = time.time()
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._seconds = {"request": 0.0, "inference": 0.0}
        self._latest: dict[str, deque[float]] = {name: deque(maxlen=WINDOW) for name in self._seconds}
        self._batches: Counter[int] = Counter()
        self._batch_sum = 0

    def count_connection(self) -> None:
        """A connection was opened."""
        with self._lock:
            self._counts["connections"] += 1

    def count_request(self, seconds: float) -> None:
        """A request was answered with actions, so long after it came."""
        self._time("request", seconds)

    def count_error(self, reason: str) -> None:
        """A request or connection was refused or failed."""
        with self._lock:
            self._errors[reason] += 1

    def count_batch(self, requests: int, seconds: float) -> None:
        """So many requests were computed together, in so long."""
        self._time("inference", seconds)
        with self._lock:
            self._batch_sum += requests
            for bound in BATCH_BOUNDS:
                if requests <= bound:
                    self._batches[bound] += 1

    def text(self) -> str:
        """Everything in Prometheus' text format."""
        with self._lock:
            lines = [
                "# HELP beacon_uptime_seconds Since the server started.",
                "# TYPE beacon_uptime_seconds gauge",
                f"beacon_uptime_seconds {time.time() - self._started:.3f}",
                "# HELP beacon_connections Connections that are open.",
                "# TYPE beacon_connections gauge",
                f"beacon_connections {self.connections}",
                "# HELP beacon_requests_in_flight Requests that wait for their answer.",
                "# TYPE beacon_requests_in_flight gauge",
                f"beacon_requests_in_flight {self.in_flight}",
                "# HELP beacon_connections_total Connections that were opened.",
                "# TYPE beacon_connections_total counter",
                f"beacon_connections_total {self._counts['connections']}",
                "# HELP beacon_errors_total Requests and connections that were refused or failed.",
                "# TYPE beacon_errors_total counter",
                *(f'beacon_errors_total{{reason="{r}"}} {n}' for r, n in sorted(self._errors.items())),
                *self._summary("request", "From the arrival of a request to its answer."),
                *self._summary("inference", "Of computing one batch."),
                "# HELP beacon_batch_size Requests that were computed together.",
                "# TYPE beacon_batch_size histogram",
                *(
                    f'beacon_batch_size_bucket{{le="{bound}"}} {self._batches[bound]}'
                    for bound in BATCH_BOUNDS
                ),
                f'beacon_batch_size_bucket{{le="+Inf"}} {self._counts["inference"]}',
                f"beacon_batch_size_sum {self._batch_sum}",
                f"beacon_batch_size_count {self._counts['inference']}",
            ]
        return "\n".join(lines) + "\n"

    def _time(self, name: str, seconds: float) -> None:
        with self._lock:
            self._counts[name] += 1
            self._seconds[name] += seconds
            self._latest[name].append(seconds)

    def _summary(self, name: str, text: str) -> list[str]:
        full = f"beacon_{name}_seconds"
        values = sorted(self._latest[name])
        quantiles = [
            f'{full}{{quantile="{q}"}} {values[min(int(q * len(values)), len(values) - 1)]:.6f}'
            for q in QUANTILES
            if values
        ]
        return [
            f"# HELP {full} {text}",
            f"# TYPE {full} summary",
            *quantiles,
            f"{full}_sum {self._seconds[name]:.6f}",
            f"{full}_count {self._counts[name]}",
        ]
