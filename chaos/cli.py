"""Commands of the judge, for the `dledger` command line (entry point groups `dledger.commands` and
`dledger.benches`).

Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

from cluster.commands.registry import Lazy

commands: dict[str, Lazy] = {
    "sim": Lazy("chaos.sim.command:sim", "Simulate clusters under faults; replay a seed."),
    "mutants": Lazy("chaos.mutants.command:mutants", "Is every safety rule watched by something?"),
    "mutants-drawn": Lazy(
        "chaos.mutants.sampled.command:mutants_sampled", "Are changes drawn at random noticed?"
    ),
    "chaos": Lazy("chaos.live.command:chaos", "Break real processes by a schedule; judge, list."),
    "demo": Lazy(
        "chaos.demo.command:demo", "Kill and cut off leaders under load; count what was lost."
    ),
}
#: Measurements of whole clusters that take minutes.
SUMMARIES = {
    "join": "A fresh node gets a large log: MB/s, and what producers notice.",
    "recovery": "Seconds until killed nodes serve again, with a large log.",
    "soak": "Memory and CPU of the nodes, idle and under steady load.",
    "topics": "Very many topics: how fast they are made and what they cost a node.",
}
benches: dict[str, Lazy] = {
    "failover": Lazy("chaos.bench.failover:command", "SIGKILL the leader under load, N times."),
    "missing-node": Lazy(
        "chaos.bench.missing_node:command", "Throughput while one of three nodes is away."
    ),
    "members": Lazy(
        "chaos.bench.members:command", "3, 5 and 3 nodes again under load, with kills."
    ),
    **{name: Lazy(f"chaos.bench.measured:{name}", text) for name, text in SUMMARIES.items()},
}
