"""Every kind of fault, by name: those that a seed draws from and those that a schedule may name.

The catalogue (chaos/faults.py) names the kinds that a plan chooses from; a seed draws finer ones,
because it also draws how a fault is done.
"""

from __future__ import annotations

from chaos.sim.kinds import clients, disks, links, processes, roles, weather
from chaos.sim.kinds.stage import Injector

#: What a seed draws from.
RANDOM_KINDS: dict[str, Injector] = {
    **processes.INJECTORS,
    **disks.INJECTORS,
    **links.INJECTORS,
    **roles.INJECTORS,
}

#: Kinds of the catalogue that the simulator has, done to each machine that was chosen.
CATALOGUE: dict[str, Injector] = {
    "kill": processes.kill,
    "stop": processes.stop,
    "crash-loop": processes.crash_loop,
    "pause": processes.pause,
    "cpu": processes.stutter,
    "power-loss": processes.power_loss,
    "power-all": processes.power_loss,
    "power-partial": processes.power_partial,
    "torn-tail": processes.torn_tail,
    "disk-full": disks.disk_full,
    "file-limit": disks.file_limit,
    "io-error": disks.io_fails,
    "disk-slow": disks.disk_lags,
    "fsync-lies": disks.fsync_lies,
    "bit-rot": disks.bit_rot,
    "rollback": disks.rollback,
    "wipe": roles.member_wipe,
    "partition": links.isolate,
    "one-way": links.one_way,
    "ring": links.ring,
    "flap": links.flap,
    "clog": links.clog,
    "latency": weather.latency,
    "bandwidth": weather.bandwidth,
    "reset": links.reset,
    "loss": weather.loss,
    "corrupt": weather.corrupt,
    "replay": clients.replay,
    "clock": processes.clock,
    "membership": roles.member_change,
    "transfer": roles.transfer,
    "client": clients.vanish,
    "failpoint": processes.failpoint,
    "snapshot-cut": processes.snapshot_cut,
}

#: Of these the group must be one that changes.
CHANGES_MEMBERS = frozenset({"wipe", "membership"})

#: What the catalogue calls that which a seed draws; kinds without a row have one name.
CATALOGUE_NAMES = {
    "kill-all": "kill",
    "disk-hang": "disk-slow",
    "read-error": "io-error",
    "isolate-leader": "partition",
    "edge-cut": "ring",
    "old-leader-returns": "clog",
    "figure-8": "leader-flap-figure-8",
    "member-add": "membership",
    "member-remove": "membership",
    "member-wipe": "wipe",
    "member-loses-file": "bit-rot",
}
