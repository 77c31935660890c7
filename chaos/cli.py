"""Commands of the judge, for the `dledger` command line (entry point groups `dledger.commands` and
`dledger.benches`).

Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

from cluster.commands.registry import Lazy

commands: dict[str, Lazy] = {
    "sim": Lazy("chaos.sim.command:sim", "Simulate clusters under faults; replay a seed."),
    "mutants": Lazy("chaos.mutants.command:mutants", "Is every safety rule watched by something?"),
    "demo": Lazy("chaos.demo:demo", "Kill and cut off leaders under load; count what was lost."),
}
benches: dict[str, Lazy] = {
    "failover": Lazy("chaos.bench.failover:command", "SIGKILL the leader under load, N times."),
}
