"""`dledger chaos …`: live runs, the catalogue of faults, judging a history again.

Exit codes (docs/spec/chaos.md 7): 0 valid, 1 invalid, 2 unknown, 254 wrong usage, 255 the harness
failed. A command is imported when it is called: all of them together take a second.
"""

from __future__ import annotations

import click

from chaos.tools.exit_codes import JudgingGroup
from cluster.commands.registry import Lazy

COMMANDS = {
    "alerts": Lazy(
        "chaos.alerts.command:alerts",
        "Bring about each fault that an alert rule names; does a real Prometheus fire it?",
    ),
    "baseline": Lazy(
        "chaos.baseline.command:baseline",
        "The same faults against dledger and pysyncobj, which has known faults that must be found.",
    ),
    "check": Lazy(
        "chaos.replay.check:check",
        "Judge a run's folder again: history, logs, elections, availability, faults.",
    ),
    "controls": Lazy(
        "chaos.controls.command:controls",
        "Break dledger on purpose beyond its promises: each control must be found out.",
    ),
    "counts": Lazy(
        "chaos.counts.command:counts",
        "Add up what `sim --counts` and `chaos run --counts` have finished.",
    ),
    "faults": Lazy(
        "chaos.live.faults_command:show_faults",
        "Every kind of fault: does it work on this machine, and why not.",
    ),
    "mutants": Lazy(
        "chaos.mutants.command:mutants",
        "Take each safety rule out of the code; its seeds and its tests must notice.",
    ),
    "porcupine": Lazy(
        "chaos.judges.command:porcupine",
        "Let porcupine judge a run's appends and reads, with and without final logs (needs Go).",
    ),
    "rejoins": Lazy(
        "chaos.sim.rejoins:rejoins",
        "Cut off one node after the other in the simulator; exit code 1 when that disturbs others.",
    ),
    "replay": Lazy(
        "chaos.replay.command:replay",
        "Run the faults of a run's folder again, simulated or on real processes.",
    ),
    "report": Lazy(
        "chaos.report.command:report", "Write the folder's report.html anew, from its files alone."
    ),
    "run": Lazy(
        "chaos.live.run_command:run",
        "Real processes under a workload, with faults; one word at the end.",
    ),
    "serve": Lazy(
        "chaos.report.serve:serve", "Show the run folders in RUNS in a browser, until Ctrl-C."
    ),
    "shrink": Lazy(
        "chaos.replay.command:shrink",
        "Leave out faults of a failing simulated run until none can be spared.",
    ),
    "shrunk": Lazy(
        "chaos.replay.table:shrunk",
        "Shrink failures of every mutant that seeds notice; needs a checkout.",
    ),
    "sim": Lazy(
        "chaos.sim.command:sim",
        "Simulate clusters under faults: the shipping code, virtual time, one seed a run.",
    ),
}


@click.group(cls=JudgingGroup, lazy=COMMANDS)
def chaos() -> None:
    """Inject faults into a running cluster and judge whether it lost data."""
