"""How often something may happen: a bucket of tokens that fills at a steady rate. Pure."""

from __future__ import annotations


class Rate:
    """At most `burst` at once, and `per_second` in the long run."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens, self._at = float(burst), float("-inf")

    def take(self, now: float) -> bool:
        """Count one now (seconds, any clock that does not run back); False: it is too often."""
        if now > self._at:
            filled = self._tokens + (now - self._at) * self._per_second
            self._tokens, self._at = min(float(self._burst), filled), now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
