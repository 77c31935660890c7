"""What the judge adds to `dledger`, by name only: each module is imported when it is called.

A new command is one line here: name → Lazy("module:click command", "line in the help").
"""

from __future__ import annotations

from cluster.commands.registry import Lazy

commands: dict[str, Lazy] = {
    "demo": Lazy("chaos.demo:demo", "Kill and cut off leaders under load; count what was lost."),
    "sim": Lazy("chaos.sim.command:sim", "Run seeded simulations of whole clusters."),
}
