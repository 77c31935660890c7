"""The table: fault → alerts that must fire, and those that may fire beside them as a consequence.

Each rule of `cluster/settings/conf_alerts.py` has its scene; a test compares both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from chaos.alerts import client_scenes, node_scenes
from chaos.alerts.place import Place

Course = Callable[[Place], AbstractAsyncContextManager[str]]
"""Brings the fault about, says what it did, and undoes it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One fault.

    Attributes:
        fires: rules that must fire.
        beside: rules that may: the same fault is theirs, too.
        stays: rules of `fires` that do not clear when the fault has ended, and why not.
        rate: messages a second of the load beside it; 0 for none.
        equipment: names of fault kinds (chaos/faults.py) whose tools it needs.
        accounts: the cluster refuses requests that are not signed.
        quick: also part of the short version.
    """

    name: str
    course: Course
    fires: tuple[str, ...]
    beside: tuple[str, ...] = ()
    stays: Mapping[str, str] = field(default_factory=dict)
    rate: float = 50.0
    equipment: tuple[str, ...] = ()
    accounts: bool = False
    quick: bool = False


_DOWN, _MARGIN, _MOVES = "DledgerNodeDown", "DledgerNoMargin", "DledgerLeaderMoves"
_BEHIND, _REFUSED, _DISK = "DledgerReplicaBehind", "DledgerSendsRefused", "DledgerDiskFails"

SCENES = (
    Scene("node-dead", node_scenes.node_dead, (_DOWN, _MARGIN), (_BEHIND,), quick=True),
    Scene("node-paused", node_scenes.node_paused, (_DOWN, _MARGIN), (_BEHIND,)),
    Scene(
        "majority-dead",
        node_scenes.majority_dead_and_rot,
        (_DOWN, "DledgerNoLeader", "DledgerLogDamaged"),
        (_MARGIN, _REFUSED),
    ),
    Scene("cut-off", node_scenes.cut_off, (_BEHIND, _MARGIN), rate=500.0),
    Scene("leader-moves", node_scenes.leader_moves, (_MOVES,)),
    Scene(
        "disks-full",
        node_scenes.disks_full,
        (_DISK, "DledgerDiskFilling", _REFUSED),
        (_MOVES, _MARGIN, "DledgerNoLeader"),
        equipment=("power-loss",),
    ),
    Scene(
        "disk-slow",
        node_scenes.slow_disk,
        ("DledgerSyncSlow",),
        (_DISK, _MARGIN),
        equipment=("disk-slow",),
    ),
    Scene(
        "disk-hung",
        node_scenes.hung_disk,
        (_DISK,),
        ("DledgerSyncSlow", _MARGIN, _BEHIND, _DOWN),
        equipment=("disk-slow",),
    ),
    Scene("clock", node_scenes.clock_off, ("DledgerClockOff",), quick=True),
    Scene(
        "certificate-10-days",
        functools.partial(node_scenes.certificate_ends, days=10),
        ("DledgerCertificateEnds",),
        (_DOWN, _MARGIN),
    ),
    Scene(
        "certificate-1-day",
        functools.partial(node_scenes.certificate_ends, days=1),
        ("DledgerCertificateEndsSoon",),
        (_DOWN, _MARGIN),
    ),
    # The node is killed first: on a busy machine it is down for long enough to be told.
    Scene("port-taken", node_scenes.port_taken, ("DledgerClientPortTaken",), (_DOWN, _MARGIN)),
    Scene(
        "newer-record",
        node_scenes.newer_record,
        ("DledgerRecordsPassedOver",),
        stays={"DledgerRecordsPassedOver": "it is in the log, until a version that knows it runs"},
    ),
    Scene("mistake", node_scenes.mistake, ("DledgerMistakes",), quick=True),
    Scene("members-disagree", client_scenes.members_disagree, ("DledgerMembersDisagree",)),
    Scene("ids-shared", client_scenes.ids_shared, ("DledgerClientIdsShared",)),
    Scene("wrong-secret", client_scenes.wrong_secret, ("DledgerSignaturesRefused",), accounts=True),
    Scene("consumer-behind", client_scenes.consumer_behind, ("DledgerConsumerBehind",)),
    Scene(
        "tables",
        client_scenes.tables_nearly_full,
        ("DledgerDelayedNearlyFull", "DledgerTransactionsNearlyFull"),
        (_MOVES,),  # half a million sends starve a small machine
        stays={
            "DledgerDelayedNearlyFull": "the messages wait for two hours",
            "DledgerTransactionsNearlyFull": "each is rolled back after its last check",
        },
        rate=0.0,
    ),
)
BY_NAME = {scene.name: scene for scene in SCENES}
