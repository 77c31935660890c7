"""Mutants of the broker's checkpoint: one table, or a part of one, is left out of it (R15)."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_TEST = (
    "tests/cluster/core/test_tables.py"
    "::test_a_checkpoint_and_the_rest_give_what_the_whole_log_gives[0-10000]"
)
_STATE, _LEVELED = "apply", "leveled_tables"


_LEVEL_TEST = (
    "tests/cluster/core/test_feature_level.py"
    "::test_a_checkpoint_keeps_the_level_and_an_older_node_refuses_it"
)


def _without(what: str, module: str, old: str, new: str, test: str = _TEST) -> Mutant:
    patch = Patch(f"cluster.core.{module}", old, new)
    return Mutant(f"a-checkpoint-without-{what}", ("R15",), (patch,), tests=(test,))


CHECKPOINTS = (
    _without(
        "topics-that-are-not-read-write",
        "topics",
        "if self._built_in.get(row.name) != row]",
        "if self._built_in.get(row.name) != row and row.perm == 6]",
    ),
    _without(
        "the-version-of-the-topics",
        "captured_state",
        "orjson.dumps(self._version.to_json())",
        "orjson.dumps(type(self._version)().to_json())",
    ),
    _without(
        "groups-that-are-built-in-and-changed",
        "subscription_groups",
        "            if name not in BUILT_IN_GROUPS or row != new_group(name)\n",
        "            if name not in BUILT_IN_GROUPS\n",
    ),
    _without(
        "bans-of-groups",
        "subscription_groups",
        '"forbidden": self.all_forbidden(),',
        '"forbidden": {},',
    ),
    _without(
        "offsets",
        _STATE,
        '"rows": [[group, dict(topics)] for group, topics in self.offsets.groups()],',
        '"rows": [],',
    ),
    _without(
        "the-feature-level", _LEVELED, '"level": self.level.value}', '"level": 0}', _LEVEL_TEST
    ),
    _without("accounts", _LEVELED, "        if len(self.accounts):\n", "        if False:\n"),
    _without("settings", _LEVELED, "        if self.settings.values:\n", "        if False:\n"),
    _without("locks", _STATE, '"locks": self.locks.rows(),', '"locks": [],'),
    _without(
        "request-modes",
        _STATE,
        '"modes": [row.to_json() for row in self.modes.rows()],',
        '"modes": [],',
    ),
    _without(
        "old-runs-of-producers",
        "producer_rows",
        "for producer, time_ms, stream, run in table.export()",
        "for producer, time_ms, stream, run in table.export()\n"
        "        if table.next_sequence(producer, stream) == run.last + 1",
    ),
    _without(
        "owners-of-producers",
        "producer_rows",
        "    return [list(row) for row in table.export_owners()]",
        "    return []",
    ),
    _without(
        "queue-ends",
        _STATE,
        '"ends": {topic.decode(): ends for topic, ends in self._ends.items()},',
        '"ends": {},',
    ),
    _without(
        "timers",
        "delay.delayed",
        '        return base64.b64encode(b"".join(self._waiting.values())).decode()',
        '        return base64.b64encode(b"".join(\n'
        "            row for row in self._waiting.values() if _ROW.unpack(row)[1] != TIMER_LEVEL\n"
        "        )).decode()",
    ),
    _without(
        "outcomes-that-were-not-long-ago",
        "transactions.halves",
        '"recent": [[position, int(outcome)] for position, outcome in self._recent.items()],',
        '"recent": [],',
    ),
    _without(
        "checks-of-halves",
        "transactions.halves",
        '"waiting": [[position, *half] for position, half in self._waiting.items()],',
        '"waiting": [[p, *half._replace(checks=0)] for p, half in self._waiting.items()],',
    ),
    _without(
        "messages-that-clients-hold",
        "pop.held",
        "            for address, held in self._rows.items()\n        ]\n\n    def restore",
        "            for address, held in self._rows.items()\n            if 0\n        ]\n\n"
        "    def restore",
    ),
    _without(
        "how-often-ordered-messages-came",
        "pop.ordered",
        "                sorted(row.counts.items()),",
        "                [],",
    ),
    _without(
        "the-logs-start",
        _STATE,
        '"log_start": self.log_start,',
        '"log_start": 0,',
        _TEST.replace("[0-", "[1-"),  # the history of seed 0 trims nothing
    ),
    _without("the-store-time", _STATE, '"store_ms": self.store_ms,', '"store_ms": 0,'),
)
