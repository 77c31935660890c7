"""Mutants of R6: a process opens, formats and closes a folder while its other groups run."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import one_patch

_ASIDE = "tests/dledger/machine/test_aside.py::"


def _mutant(name: str, module: str, old: str, new: str, test: str) -> Mutant:
    patch = one_patch(f"dledger.{module}", old, new)
    return Mutant(name, ("R6",), patch, tests=(_ASIDE + test,))


ASIDE = (
    _mutant(
        "a-start-that-is-cancelled-leaves-its-folder-open",
        "runtime.opening",
        "        if isinstance(opened := opening.result()[0], Parts):\n"
        "            opened.close(False)\n",
        "",
        "test_a_start_that_is_cancelled_leaves_its_folder_closed",
    ),
    _mutant(
        "a-thread-is-left-to-itself-by-the-second-cancellation",
        "runtime.futures",
        "    while not future.done():\n        try:\n",
        "    for _ in range(2):\n        try:\n",
        "test_a_start_that_is_cancelled_twice_leaves_its_folder_closed",
    ),
    _mutant(
        "a-format-that-is-cancelled-is-not-waited-for",
        "machine.host",
        "            await until_done(done)\n",
        "            await done\n",
        "test_a_format_that_is_cancelled_twice_is_whole_before_the_next_look",
    ),
    _mutant(
        "a-close-does-not-wait-for-a-start",
        "runtime.replicated_log",
        "        async with self._life:  # a start that is under way ends first\n",
        "        if True:\n",
        "test_a_close_that_comes_while_the_folder_is_opened_closes_it",
    ),
    _mutant(
        "a-folder-is-let-go-while-a-state-is-written-into-it",
        "machine.saving",
        "        if self._writing is None or self._writing.done():\n            return True\n",
        "        if True:\n            return True\n",
        "test_a_folder_stays_locked_while_a_state_is_written_into_it",
    ),
    _mutant(
        "a-close-that-is-cancelled-goes-no-further",
        "runtime.futures",
        "(failure,) = await asyncio.shield(self._ending)",
        "(failure,) = await self._ending",
        "test_a_close_that_is_cancelled_goes_on_and_the_next_one_waits_for_it",
    ),
)
