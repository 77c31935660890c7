"""When the producer of a half message is asked, how often, and when its own word comes too late.

    stored ──► timeout, or the producer's own quiet time if that is longer ──► first check (39)
           ──► every interval ──► … checks_max ──► the half goes to TRANS_CHECK_MAX_TIME_TOPIC

docs/spec/store.md 7.3. Times are those of the log: RocketMQ takes the producer's clock, which may
be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from commitlog.records import property_names as names
from commitlog.records.properties import find_property

_IMMUNITY: Final = names.CHECK_IMMUNITY_SECONDS.encode()
_DIGITS_MAX: Final = 9  # of seconds: 30 years


class Half(NamedTuple):
    """One half message. `offset` in the half queue, times in ms.

    `immunity_ms`: the quiet time its producer asked for, 0 for none. `checks`: times somebody was
    asked; `asked_ms`: when last, 0 for never. `ops`: op records that are older than the half.
    """

    offset: int
    stored_ms: int
    immunity_ms: int = 0
    checks: int = 0
    asked_ms: int = 0
    ops: int = 0


@dataclass(frozen=True, slots=True)
class CheckRule:
    """RocketMQ's transactionTimeOut, transactionCheckInterval, transactionCheckMax, and the age at
    which a half is given up in any case (fileReservedTime).
    """

    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    checks_max: int = 15
    age_ms_max: int = 72 * 3600 * 1000

    def quiet_ms(self, half: Half) -> int:
        """How long its producer is left alone, and may speak of its own accord."""
        return max(half.immunity_ms, self.timeout_ms)

    def due_ms(self, half: Half) -> int:
        """When the next check, or the discard, is due."""
        if half.checks:
            return half.asked_ms + self.interval_ms
        return half.stored_ms + self.quiet_ms(half)

    def is_given_up(self, half: Half, now_ms: int) -> bool:
        """A half that is due: is it discarded instead of asked for?"""
        return half.checks >= self.checks_max or now_ms - half.stored_ms > self.age_ms_max

    def is_too_late(self, half: Half, now_ms: int) -> bool:
        """True if an outcome that was not asked for is refused: where the producer set the time."""
        return half.immunity_ms > 0 and now_ms - half.stored_ms > self.quiet_ms(half)


DEFAULT_CHECK_RULE: Final = CheckRule()


def immunity_ms(properties: bytes) -> int:
    """CHECK_IMMUNITY_TIME_IN_SECONDS of a half message; 0 when it is missing or not readable."""
    value = find_property(properties, _IMMUNITY)
    if value is None or not value.isdigit() or len(value) > _DIGITS_MAX:
        return 0
    return int(value) * 1000
