"""Faults seeded in the ready objects and below them: seeds of an object find each.

python -m chaos.mutants.within NAME objects OBJECT 0..40
"""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

#: An object's violation is seen within so many seeds.
SEEDS = 40


def _of(subject: str, name: str, *patches: Patch, rules: tuple[str, ...] = ("R8",)) -> Mutant:
    return Mutant(name, rules, patches, seeds=SEEDS, subject=subject)


_KV, _LOCK, _DICT = (f"dledger.objects.{name}" for name in ("kv_machine", "lock", "dictionary"))

OBJECTS = (
    _of(
        "counter",
        "a-command-that-is-sent-twice-counts-twice",
        Patch("dledger.machine.sessions", "if sequence in known.results:", "if False:"),
    ),
    _of(
        "counter",
        "a-snapshot-forgets-the-sessions",
        Patch(
            "dledger.machine.given",
            "        sessions.load(head.sessions)\n",
            "",
        ),
    ),
    _of(
        "dictionary",
        "a-session-that-is-restored-has-forgotten-its-results",
        Patch(
            "dledger.machine.sessions",
            "                session.results[sequence] = data[at : at + size]\n",
            "",
        ),
    ),
    _of(
        "counter",
        "a-linearizable-read-asks-nobody",
        Patch(
            "dledger.replica.freshness",
            "return staleness > 0.0 and now - self.proved_at <= staleness",
            "return True",
        ),
        rules=("S9",),
    ),
    _of(
        "dictionary",
        "a-restored-dictionary-keeps-its-old-keys",
        Patch(
            _DICT,
            "        self._all.clear()\n        self._sum = 0\n        for pairs",
            "        for pairs",
        ),
    ),
    _of(
        "dictionary",
        "a-state-changes-while-it-is-written",
        Patch(
            "dledger.objects.frozen",
            "                view.kept.setdefault(key, self.values[key])\n",
            "                pass\n",
        ),
        rules=("R15",),
    ),
    _of(
        "lock",
        "the-next-holder-has-the-token-of-the-last",
        Patch(_LOCK, "token = entry.index if held is None", "token = 1 if held is None"),
    ),
    _of(
        "lock",
        "a-lock-stays-with-a-holder-whose-lease-is-over",
        Patch(_LOCK, "held.until_ms <= now", "held.until_ms + 1000 <= now"),
    ),
    _of(
        "lock",
        "a-lock-is-renewed-and-released-by-anybody",
        Patch(_LOCK, "if held is None or held.owner != owner:", "if held is None:"),
    ),
    _of(
        "lock",
        "the-logs-time-begins-anew-with-a-restored-state",
        Patch(
            "dledger.machine.applier",
            "        self.applied, self._time_ms = head.index, head.time_ms\n",
            "        self.applied = head.index\n",
        ),
    ),
    _of(
        "kv",
        "keys-outlive-the-lease-that-holds-them",
        Patch(_KV, "and end <= now_ms:", "and end + 1000 <= now_ms:"),
    ),
    _of(
        "kv",
        "a-lease-is-lost-with-a-restored-state",
        Patch(
            _KV,
            "{number: _Lease(*lease) for number, lease in found}",
            "{number: _Lease(lease[0], 1 << 60) for number, lease in found}",
        ),
    ),
    _of(
        "kv",
        "a-watch-skips-a-revision",
        Patch(
            _KV,
            "at = bisect_right(self._history, after, key",
            "at = bisect_right(self._history, after + 1, key",
        ),
    ),
    _of(
        "kv",
        "a-watch-goes-on-behind-what-is-gone",
        Patch(_KV, "        if after < self.compacted:\n", "        if False:\n"),
    ),
    _of(
        "kv",
        "compare-and-set-ignores-the-revision",
        Patch(
            _KV,
            "return _RELATIONS[relation](0 if item is None",
            "return True or _RELATIONS[relation](0 if item is None",
        ),
    ),
    _of(
        "kv",
        "a-range-misses-its-last-key",
        Patch(_KV, "end or None, limit)", "end or None, limit)[: None if end else -1]"),
    ),
    _of(
        "kv",
        "a-restored-store-keeps-its-old-history",
        Patch(
            _KV,
            "        other._fill(state)\n",
            "        other._history, other._history_sum = [*self._history], self._history_sum\n"
            "        other._fill(state)\n",
        ),
    ),
)
