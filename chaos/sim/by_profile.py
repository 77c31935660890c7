"""A run's profile changes the settings that its seed draws, and the duties of its machines."""

from __future__ import annotations

import dataclasses
from random import Random

from chaos.sim import swarm
from chaos.sim.clocks import that_try_leases
from chaos.sim.course import Course
from chaos.sim.disk_duty import DiskDuty
from chaos.sim.host_beats import with_pauses
from chaos.sim.network import CALM
from chaos.sim.node import SimNode
from chaos.sim.profile import Profile
from chaos.sim.random_nemesis import KINDS
from chaos.sim.repair_duty import SELDOM, SETTINGS, RepairDuty
from chaos.sim.swarm import SwarmOptions


def options_of(random: Random, nodes: int, profile: Profile, course: Course) -> SwarmOptions:
    """Draw the settings of a run."""
    drawn = swarm.draw(random, nodes, KINDS)
    options = that_try_leases(drawn) if profile.lease_reads else drawn
    options = with_pauses(options) if profile.quiescence else options
    return dataclasses.replace(options, network=CALM) if course.calm else options


def add_duties(nodes: list[SimNode], profile: Profile) -> None:
    """Give machines the work beside their replicas."""
    for node in nodes:
        if profile.sick_disks:
            node.duties.append(DiskDuty(node))
        if profile.repair:
            settings = SELDOM if profile.sick_disks else SETTINGS
            node.duties.append(RepairDuty(node, settings))
