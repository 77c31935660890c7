"""Mutants of `dledger.storage`: what must be on disk, and what damage is."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_STORAGE = "dledger.storage."
_TESTS = "tests/dledger/storage/"


def _storage(module: str, old: str, new: str) -> tuple[Patch, ...]:
    return (Patch(_STORAGE + module, old, new),)


STORAGE = (
    Mutant(
        "log-sync-does-nothing",
        ("D3", "D4"),
        _storage(
            "log_tasks",
            "        for file in self.files:\n            file.datasync()\n        self.done",
            "        self.done",
        ),
        seeds=10,
    ),
    Mutant(
        "log-sync-forgets-the-first-file",
        ("R13",),
        _storage("log_tasks", "for file in self.files:", "for file in self.files[-1:]:"),
        tests=(_TESTS + "test_file_log.py",),
        seeds=20,
    ),
    Mutant(
        "flushed-is-the-end-at-the-end-of-the-sync",
        ("D3", "R13"),
        _storage(
            "file_log",
            "            self._flushed = sync.mark\n",
            "            self._flushed = self._end_mark()\n",
        ),
        seeds=20,
    ),
    Mutant(
        "one-hard-state-slot",
        ("R7",),
        _storage(
            "hard_state",
            "self._slots.write_both(encode(self.state))",
            "self._slots.write(encode(self.state))",
        ),
        tests=(_TESTS + "test_crash.py",),
    ),
    Mutant(
        "slot-written-without-sync",
        ("D1", "D2"),
        _storage(
            "double_slot",
            "        self._file.datasync()\n        self.sequence",
            "        self.sequence",
        ),
        seeds=20,
    ),
    Mutant(
        "slot-checksum-ignored",
        ("D2",),
        _storage(
            "double_slot", "    if crc32(payload, crc32(data[:16])) != crc:\n", "    if False:\n"
        ),
        tests=(_TESTS + "test_crash.py", _TESTS + "test_random.py", _TESTS + "test_damage.py"),
    ),
    Mutant(
        "lost-hard-state-is-term-zero",
        ("D2", "R6"),
        _storage(
            "hard_state",
            "        self._state = decode(slots.payload)",
            "        self._state = decode(slots.payload or encode(HardState(Term(0), None, 1)))",
        )
        + _storage(
            "hard_state",
            "        if slots.payload is None:\n            slots.close()",
            "        if False:\n            slots.close()",
        ),
        tests=(_TESTS + "test_crash.py",),
    ),
    Mutant(
        "body-checksum-not-verified",
        ("D7",),
        _storage(
            "check", "            found_body != body_crc\n            or", "            False or"
        ),
        tests=(_TESTS + "test_damage.py",),
    ),
    Mutant(
        "chain-checksum-not-verified",
        ("D7",),
        _storage(
            "check",
            "            or found_chain\n            != crc32(pack_chain("
            "chain_crc, magic, size, index, term, position, channel, body_crc))\n",
            "",
        ),
        tests=(_TESTS + "test_damage.py", _TESTS + "test_random.py", _TESTS + "test_check.py"),
    ),
    Mutant(
        "damage-at-the-mark-is-the-end",
        ("D8", "R1"),
        _storage(
            "recovery",
            '    raise LogDamaged(\n        f"entry {mark.index} at position {mark.position} was',
            "    return cold.anchor\n    raise LogDamaged(\n"
            '        f"entry {mark.index} at position {mark.position} was',
        ),
        tests=(_TESTS + "test_damage.py",),
    ),
    Mutant(
        "no-flush-mark-is-an-empty-log",
        ("R1", "D8"),
        _storage(
            "recovery",
            "        if mark.index != NO_INDEX:\n            raise LogDamaged(f\"the log's files",
            "        if False:\n            raise LogDamaged(f\"the log's files",
        ),
        tests=(_TESTS + "test_damage.py",),
    ),
    Mutant(
        "mark-never-moves",
        ("R1",),
        _storage(
            "file_log",
            "                self._mark_due = self._clock() + MARK_DELAY_S\n",
            "                self._mark_due = None\n",
        ),
        tests=(_TESTS + "test_damage.py",),
    ),
    Mutant(
        "recovery-does-not-rewrite",
        ("R3",),
        _storage(
            "recovery",
            "        touch(data.write(piece.data, piece.start.end))\n",
            "",
        ),
        seeds=40,
        tests=(_TESTS + "test_crash.py",),
    ),
    Mutant(
        "recovery-does-not-sync",
        ("R3",),
        _storage(
            "recovery",
            "    for name in sorted(touched):\n        touched[name].datasync()\n",
            "",
        ),
        seeds=40,
        tests=(_TESTS + "test_crash.py",),
    ),
    Mutant(
        "torn-tail-is-kept",
        ("D6", "R10"),
        _storage("recovery", "    touch(data.zero_rest(state.tail.end))\n", ""),
        seeds=40,
        tests=(_TESTS + "test_crash.py", _TESTS + "test_damage.py"),
    ),
    Mutant(
        "truncation-not-physical",
        ("D6",),
        _storage(
            "file_log",
            "        for file in self._data.zero(tail.end, min(old.end, self._data.end)):\n"
            "            file.datasync()\n",
            "",
        ),
        seeds=40,
        tests=(_TESTS + "test_crash.py", _TESTS + "test_conformance.py"),
    ),
    Mutant(
        "truncation-not-synced",
        ("D6",),
        _storage(
            "file_log",
            "        for file in self._data.zero(tail.end, min(old.end, self._data.end)):\n"
            "            file.datasync()\n",
            "        self._data.zero(tail.end, min(old.end, self._data.end))\n",
        ),
        seeds=40,
        tests=(_TESTS + "test_crash.py", _TESTS + "test_random.py"),
    ),
    Mutant(
        "no-truncate-intent",
        ("R11",),
        _storage(
            "file_log",
            "        self._intent_file.write(\n",
            "        str(\n",
        ),
        tests=(_TESTS + "test_crash.py", _TESTS + "test_random.py"),
        seeds=40,
    ),
    Mutant(
        "mark-not-lowered-by-truncation",
        ("R11", "R1"),
        _storage("file_log", "        if mark.index > index:\n", "        if False:\n"),
        tests=(_TESTS + "test_crash.py", _TESTS + "test_random.py"),
        seeds=20,
    ),
    Mutant(
        "recovery-forgets-the-intent",
        ("R11",),
        _storage("recovery", "    if intent is None:\n        return\n", "    return\n"),
        tests=(_TESTS + "test_crash.py", _TESTS + "test_random.py"),
        seeds=20,
    ),
    Mutant(
        "flushed-survives-truncation",
        ("D3", "D6"),
        _storage(
            "file_log",
            "        if self._flushed.index > index:\n            self._flushed = kept\n",
            "",
        ),
        seeds=20,
        tests=(_TESTS + "test_conformance.py", _TESTS + "test_file_log.py"),
    ),
    Mutant(
        "sync-counts-although-truncated",
        ("D3", "D6"),
        _storage("file_log", "            self._sync.cancelled = True\n", "            pass\n"),
        seeds=20,
        tests=(_TESTS + "test_conformance.py", _TESTS + "test_file_log.py"),
    ),
    Mutant(
        "unlinked-file-may-come-back",
        ("R11", "R13"),
        _storage(
            "file_row",
            "self._files.sync_dir(self._folder)  # each",
            "pass  # each",
        ),
        tests=(_TESTS + "test_crash.py",),
        seeds=20,
    ),
    Mutant(
        "other-chain-at-prev-accepted",
        ("R19",),
        _storage(
            "file_log",
            "if before.chain_crc is not None and before.chain_crc != source.prev_chain_crc:",
            "if False:",
        ),
        tests=(_TESTS + "test_conformance.py", _TESTS + "test_random.py"),
    ),
    Mutant(
        "position-not-checked",
        ("S10",),
        _storage(
            "file_log",
            "        if source.size and source.position != before.end:\n",
            "        if False:\n",
        ),
        tests=(
            "tests/chaos/mutants/test_directed.py::test_a_range_for_another_position_is_not_written",
        ),
    ),
    Mutant(
        "filler-of-a-blank-not-checked",
        ("S10", "R14"),
        _storage(
            "check",
            "    if not is_zero(data[offset + BLANK_SIZE : file_end]):\n",
            "    if False:\n",
        ),
        tests=(_TESTS + "test_check.py", _TESTS + "test_damage.py", _TESTS + "test_random.py"),
    ),
    Mutant(
        "log-goes-on-after-a-failed-write",
        ("D5",),
        _storage(
            "file_log",
            "        except OSError:\n            self._failed = True\n            raise\n"
            "        self._cache.add(",
            "        except OSError:\n            raise\n        self._cache.add(",
        ),
        tests=(_TESTS + "test_damage.py",),
    ),
)
