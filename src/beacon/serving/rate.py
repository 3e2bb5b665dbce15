"""Limits how often one connection may ask."""

from __future__ import annotations


class RateLimit:
    """A bucket of permits that refills: who asks faster is answered later."""

    def __init__(self, per_second: float, now: float) -> None:
        """Begin with a full bucket of one second's permits.

        Args:
            per_second: permits that are added in a second.
            now: the time, in seconds.
        """
        self._per_second, self._room = per_second, max(1.0, per_second)
        self._permits, self._last = self._room, now

    def delay(self, now: float) -> float:
        """Take a permit; how many seconds the answer has to wait for it."""
        self._permits = min(self._room, self._permits + (now - self._last) * self._per_second) - 1
        self._last = now
        return max(0.0, -self._permits / self._per_second)
