"""Faults in shared entries, kept results, restores in threads and turns: seeds find each.

python -m chaos.mutants.within NAME objects OBJECT 0..40
"""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_APPLIER, _BATCH = "dledger.machine.applier", "dledger.machine.batch"
_RESTORING, _REPLICA = "dledger.machine.restoring", "dledger.replica.replica"
_PACE = "dledger.replica.apply_pace"


def _seeded(
    subject: str, name: str, *patches: Patch, rules: tuple[str, ...] = ("R8",), seeds: int = 40
) -> Mutant:
    return Mutant(name, rules, patches, seeds=seeds, subject=subject)


SIMULATED = (
    _seeded(
        "counter",
        "shared-commands-that-are-sent-again-count-twice",
        Patch(
            "dledger.machine.sessions",
            "if not is_in_window or not known.results.keys().isdisjoint(sequences):",
            "if not is_in_window:",
        ),
    ),
    _seeded(
        "counter",
        "a-shared-entry-that-has-one-repeat-counts-it-again",
        Patch(
            _APPLIER,
            "            if verdict is _APPLY:\n                batch.add(session, [one]",
            "            if True:\n                batch.add(session, [one]",
        ),
    ),
    _seeded(
        "counter",
        "a-command-is-lost-from-the-middle-of-a-shared-entry",
        Patch(
            _APPLIER,
            "            batch.add(session, sequences, rows, time_ms)\n            return\n",
            "            half = len(rows) // 2\n"
            "            batch.add(session, sequences[:half], rows[:half], time_ms)\n"
            "            batch.number += 1\n"
            "            if rows[half + 1 :]:\n"
            "                batch.add(session, sequences[half + 1 :], rows[half + 1 :], time_ms)\n"
            "            return\n",
        ),
    ),
    _seeded(
        "counter",
        "results-of-a-shared-entry-go-to-the-wrong-commands",
        Patch(
            _APPLIER,
            "list(zip(sequences, told[begin:end], strict=True))",
            "list(zip(sequences, told[begin:end][::-1], strict=True))",
        ),
    ),
    _seeded(
        "lock",
        "results-that-are-kept-belong-to-the-wrong-commands",
        Patch(
            _APPLIER,
            "self.sessions.keep(session, sequences, kept[begin:end])",
            "self.sessions.keep(session, sequences, kept[begin:end][::-1])",
        ),
    ),
    _seeded(
        "counter",
        "results-of-a-restored-session-belong-to-the-commands-behind",
        Patch(
            "dledger.machine.sessions",
            "                session.results[sequence] = data[at : at + size]\n",
            "                session.results[sequence + 1] = data[at : at + size]\n",
        ),
    ),
    _seeded(
        "lock",
        "a-state-answers-with-the-result-of-another-command",
        Patch(
            _APPLIER,
            "        data = self.sessions.result(session, sequence)\n",
            "        data = self.sessions.result(session, sequence)\n"
            "        data = data and (self.sessions.result(session, sequence - 1) or data)\n",
        ),
        seeds=400,
    ),
    _seeded(
        "counter",
        "an-entry-at-the-end-of-a-turn-is-lost",
        Patch(
            _PACE,
            "        return taken\n\n",
            "        return taken if taken == given else Index(taken + 1)\n\n",
        ),
        rules=("S8",),
    ),
    _seeded(
        "counter",
        "an-entry-at-the-end-of-a-turn-is-applied-again",
        Patch(
            _PACE,
            "        return taken\n\n",
            "        return taken if taken == given or not count else Index(taken - 1)\n\n",
        ),
        rules=("S8",),
    ),
    _seeded(
        "kv",
        "entries-of-a-turn-that-has-no-time-left-are-lost",
        Patch("dledger.runtime.replicated_log", "return Index(first - 1)", "return last"),
        rules=("S8",),
    ),
    _seeded(
        "dictionary",
        "a-piece-of-a-turn-begins-with-the-last-entry-again",
        Patch(
            "dledger.machine.applying",
            "            at = Index(end + 1)\n",
            "            at = Index(end + (end == last))\n",
        ),
        rules=("S8",),
    ),
    _seeded(
        "lock",
        "a-follower-that-began-anew-waits-for-the-next-entry",
        Patch(
            "dledger.core.leading",
            "    if settled and reply.matched < progress.flushed and progress.mode is _REPLICATE:\n"
            "        progress.become_probe()\n",
            "",
        ),
        rules=("L3", "R4"),
        seeds=200,
    ),
    _seeded(
        "counter",
        "numbers-behind-a-shared-entry-are-one-too-high",
        Patch(
            _BATCH,
            "return max(self.number + 1, place)",
            "return max(self.number + 1 + (self.number >= place), place)",
        ),
    ),
    _seeded(
        "counter",
        "numbers-are-those-of-the-places-in-the-log",
        Patch(
            _BATCH,
            "return max(self.number + 1, place)",
            "return place",
        ),
    ),
    _seeded(
        "counter",
        "numbers-begin-anew-where-a-leaders-state-is-taken",
        Patch(_APPLIER, "        self._batch.number = head.number\n", ""),
    ),
    _seeded(
        "counter",
        "the-sessions-of-a-restored-state-are-forgotten",
        Patch(_APPLIER, "        head, self.sessions, _ = given\n", "        head, _, _ = given\n"),
    ),
    _seeded(
        "counter",
        "commands-are-shared-with-members-of-a-former-release",
        Patch(
            "dledger.machine.applying",
            "return self.commands_max if all_read else 1",
            "return self.commands_max",
        ),
        rules=("R28",),
    ),
    _seeded(
        "kv",
        "entries-are-applied-before-a-restore-has-ended",
        Patch(
            "dledger.replica.apply_pace",
            "        if self.restoring >= 0:\n",
            "        if False:\n",
        ),
        rules=("R15",),
        seeds=100,
    ),
    _seeded(
        "kv",
        "a-read-may-see-half-of-a-restored-state",
        Patch(_RESTORING, "        self.may_read.clear()\n", ""),
        rules=("R15",),
        seeds=200,
    ),
    _seeded(
        "kv",
        "a-second-state-is-begun-before-the-first-is-restored",
        Patch(_REPLICA, " or self.pace.restoring >= 0):\n", "):\n"),
        Patch(_REPLICA, " or self.pace.restoring >= 0\n", "\n"),
        rules=("R15",),
        seeds=400,
    ),
    _seeded(
        "kv",
        "what-a-restore-has-built-aside-is-not-put-in-place",
        Patch(_APPLIER, "        given.end()\n", ""),
        rules=("R15",),
    ),
    _seeded(
        "dictionary",
        "a-state-holds-commands-behind-its-place",
        Patch(
            "dledger.machine.saving",
            "            if position == file_position and first > log.first_index"
            " and first != self._met:\n"
            "                self._met = first\n"
            "                self._capture(position)\n"
            "                if self._freezing is not None:\n"
            "                    return Index(first - 1)\n"
            "            behind = file_position + log.file_size\n",
            "            behind = file_position + log.file_size\n"
            "            if log.end_position > behind:\n"
            "                self._capture(behind)\n",
        ),
        rules=("R15",),
    ),
)
