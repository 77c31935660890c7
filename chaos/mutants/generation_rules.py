"""Mutants of generations: a folder that was put back from a backup (runtime/generations.py)."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_MET = "tests/dledger/membership/test_generation.py::"
_AGAIN = "tests/dledger/machine/test_host_again.py::"
_KEPT = "tests/dledger/membership/test_generations.py::"


def _mutant(name: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, ("R6", "S7"), (Patch(f"dledger.{module}", old, new),), tests=tests)


GENERATIONS = (
    _mutant(
        "an-older-copy-is-heard",
        "membership.handshake",
        "    sentence = witness.judge(peer.node_id, told.met)\n    if sentence is not None:",
        "    sentence = witness.judge(peer.node_id, told.met)\n    if sentence is None:",
        _MET + "test_a_dialler_that_is_older_says_nothing_more[None]",
        _MET + "test_an_acceptor_that_is_older_hears_nothing[None]",
    ),
    _mutant(
        "what-was-met-is-told-after-it-is-remembered",
        "membership.handshake",
        "            told = frame_for(self.witness, sender.node_id, sender.incarnation)\n",
        "            told = frame_for(self.witness, sender.node_id, 0)\n",
        _MET + "test_a_dialler_that_is_older_says_nothing_more[None]",
    ),
    _mutant(
        "a-later-generation-is-believed-by-its-token",
        "membership.generations",
        "        if met.number > self.current.number:\n            return True\n",
        "",
        _KEPT + "test_what_peers_met_is_in_the_folder_that_they_met_it_of",
    ),
    _mutant(
        "a-generation-is-believed-by-its-number",
        "membership.generations",
        "self._starts[row][1] != met.token",
        "False",
        _KEPT + "test_a_copy_is_older_whenever_it_was_made",
    ),
    _mutant(
        "generations-that-were-met-are-forgotten-by-a-start",
        "membership.generations",
        "            NodeId(peer): (int(incarnation), Generation(int(number), int(token)))\n",
        "            NodeId(peer): (0, Generation(int(number), int(token)))\n",
        _KEPT + "test_what_was_met_is_remembered_across_starts_by_life",
    ),
    _mutant(
        "a-late-word-takes-a-generation-back",
        "membership.generations",
        "        if generation.number <= self.met(peer, incarnation).number:\n            return\n",
        "",
        _KEPT + "test_what_was_met_is_remembered_across_starts_by_life",
    ),
    _mutant(
        "a-handshake-outlives-its-group",
        "runtime.peer_port",
        "            if inbound.group == group:\n",
        "            if False:\n",
        _AGAIN + "test_a_handshake_with_its_first_run_is_over",
    ),
    _mutant(
        "a-write-of-generations-is-not-withdrawn",
        "runtime.renewal",
        "            self._writing[1].withdrawn = True\n",
        "            pass\n",
        _AGAIN + "test_a_write_that_waits_for_a_thread_is_withdrawn",
    ),
)
