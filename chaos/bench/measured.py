"""Commands of the modules here that only measure, as `dledger bench` makes them of its own."""

from __future__ import annotations

from chaos.cli import SUMMARIES
from cluster.commands.bench import bench_command

join, recovery, soak, topics = (
    bench_command(name, SUMMARIES[name], "chaos.bench")
    for name in ("join", "recovery", "soak", "topics")
)
