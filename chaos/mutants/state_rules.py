"""Mutants of states of embedded objects: written as of one moment, restored with rests, let go."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import one_patch

_FROZEN = "dledger.objects.frozen"
_LOOK, _IF_KEPT = (
    "            found: dict[K, Any] = {key: self._values.get(key, _ABSENT) for key in keys}\n",
    "            if self.kept:  # looked at last: what goes is kept before it goes\n"
    "                kept = self.kept\n",
)
_KEPT_FIRST = "            kept = self.kept.copy()\n" + _LOOK + "            if kept:\n"
_LOOK += _IF_KEPT
_DICT, _OWN = "dledger.objects.dictionary", "dledger.objects.replicated"


def _frozen(
    name: str,
    module: str,
    before: str,
    after: str,
    test: str = "test_a_state_is_that_of_its_moment",
) -> Mutant:
    tests = ("tests/dledger/objects/test_frozen.py::" + test,)
    return Mutant(name, ("R15",), one_patch(module, before, after), tests=tests)


def _let_go(name: str, module: str, before: str, after: str, test: str) -> Mutant:
    tests = ("tests/dledger/objects/test_let_go.py::" + test,)
    return Mutant(name, ("S10",), one_patch(module, before, after), tests=tests)


def _taken(name: str, module: str, before: str, after: str, test: str) -> Mutant:
    return Mutant(
        name, ("R15",), one_patch(module, before, after), tests=("tests/dledger/" + test,)
    )


STATES = (
    _frozen(
        "a-row-of-keys-changes-in-a-state-that-is-written",
        "dledger.objects.sorted_keys",
        "if id(row) in self._lent:",
        "if False:",
    ),
    _frozen(
        "a-state-that-is-written-has-the-last-value-that-went",
        _FROZEN,
        "view.kept.setdefault(key, self.values[key])",
        "view.kept[key] = self.values[key]",
    ),
    _frozen(
        "a-removed-key-goes-from-a-state-that-is-written",
        _FROZEN,
        "        if self._views:\n            self._keep(key)\n        self.keys.remove(key)\n",
        "        self.keys.remove(key)\n",
    ),
    _frozen(
        "what-was-kept-is-looked-at-before-the-values",
        _FROZEN,
        _LOOK,
        _KEPT_FIRST,
        "test_a_change_just_before_a_look_is_not_seen",
    ),
    _frozen(
        "a-state-that-was-written-keeps-values-for-ever",
        _FROZEN,
        "        self.closed = True\n",
        "",
        "test_a_state_that_ends_keeps_nothing",
    ),
    _frozen(
        "a-state-that-nobody-writes-keeps-values-for-ever",
        _FROZEN,
        "        self._views.append(weakref.ref(view))\n",
        "        self._views.append(lambda: view)  # type: ignore[arg-type]\n",
        "test_a_state_that_ends_keeps_nothing",
    ),
    _let_go(
        "what-another-holds-is-taken-apart",
        "dledger.objects.let_go",
        "    return _references(held, at) == _SOLE\n",
        "    return True\n",
        "test_what_another_holds_is_left_alone",
    ),
    _let_go(
        "a-dictionary-that-is-cleared-is-freed-on-the-event-loop",
        _DICT,
        "        self._all.clear()\n        self._sum = 0\n        return None\n",
        "        self._all, self._sum = FreezableDict(), 0\n        return None\n",
        "test_a_dictionary_is_cleared_by_a_thread",
    ),
    _let_go(
        "a-view-that-is-the-last-one-frees-all-at-once",
        _FROZEN,
        "        self._keys, self.kept = iter(()), {}\n        let_go(held)\n",
        "        self._keys, self.kept = iter(()), {}\n",
        "test_a_view_has_all_until_it_is_closed",
    ),
    _taken(
        "an-entry-is-applied-while-a-state-is-taken-in-pieces",
        "dledger.machine.saving",
        "        log = self._log\n        if self._freezing is not None:\n"
        "            return Index(first - 1)\n",
        "        log = self._log\n",
        "machine/test_freezing.py::test_entries_wait_and_the_node_goes_on",
    ),
    _taken(
        "a-command-changes-a-state-that-is-not-whole",
        _OWN,
        "        self._take_rest()\n        self.entry = entry\n",
        "        self.entry = entry\n",
        "objects/test_attributes.py::test_a_state_is_that_of_its_moment",
    ),
    _taken(
        "values-that-json-changes-are-written",
        "dledger.objects.attributes",
        "    if of_json(text) != found:\n",
        "    if False:\n",
        "objects/test_attributes.py::test_what_json_would_change_is_refused",
    ),
    Mutant(
        "a-state-is-restored-without-rests",
        ("S10",),
        one_patch(
            "dledger.machine.restoring",
            "give(self._applier.machine, state, start.index, self._rests.between)",
            "give(self._applier.machine, state, start.index)",
        ),
        tests=(
            "tests/dledger/machine/test_large_states.py::"
            "test_a_state_in_files_is_kept_sent_and_restored",
        ),
    ),
)
