"""Which kinds of fault work on this machine, and why the others do not.

Every kind that has a driver here is offered; what a machine lacks (root, loop devices, a compiler)
is a reason that says what to install or what to do. Nothing is passed over silently.
"""

from __future__ import annotations

import sys

from chaos.drivers import (
    choreographies,
    clients,
    disks,
    file_damage,
    hooks,
    links,
    loop_disk,
    members,
    netfilter,
    power,
    processes,
    shim,
    squeeze,
    toxics,
    versions,
)
from chaos.drivers.stage import Fault
from chaos.faults import ALONE, CUT_BY_SHIM, KINDS, Driver, Network, kind_of
from chaos.live import namespaces
from chaos.schedule import targets_among

FAULTS: dict[str, Fault] = {
    **processes.FAULTS,
    **squeeze.FAULTS,
    **links.FAULTS,
    **power.FAULTS,
    **disks.FAULTS,
    **file_damage.FAULTS,
    **hooks.FAULTS,
    **clients.FAULTS,
    **members.FAULTS,
    **versions.FAULTS,
    **choreographies.FAULTS,
}

#: What cannot be had without the link proxies, or adds nodes and releases that have no namespace.
_PROXIED = {Driver.LINK, Driver.MEMBERS, Driver.VERSIONS}
#: Networks with drivers of their own for some kinds.
_OWN_FAULTS: dict[Network, dict[str, Fault]] = {
    Network.NAMESPACES: netfilter.FAULTS,
    Network.TOXIPROXY: toxics.FAULTS,
    Network.TOXIPROXY_OWN: toxics.FAULTS,
}


def faults_in(network: Network) -> dict[str, Fault]:
    """Returns kind → driver that carries it out, in an arena of this network."""
    return FAULTS | _OWN_FAULTS.get(network, {})


def why_not(kind: str, network: Network = Network.PROXIES) -> str:
    """Why a kind cannot be used here; "" when it can."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    needed = kind_of(kind).driver
    proxied = needed in _PROXIED or kind in choreographies.FAULTS
    if network is not Network.PROXIES and proxied and kind not in _OWN_FAULTS[network]:
        return f"needs the link proxies: leave out --network {network.value}"
    reason = ""
    if needed is Driver.LOOP or kind in CUT_BY_SHIM:
        reason = loop_disk.why_not()
    if not reason and needed is Driver.SHIM:
        reason = shim.why_not()
    if needed is Driver.VERSIONS:
        reason = versions.why_not()
    return reason


def why_not_among(kind: str, nodes: int, network: Network) -> str:
    """Why a kind cannot be used in a cluster of this size; "" when it can."""
    found = kind_of(kind)
    if nodes == 1 and kind not in ALONE:
        return "needs a second node: --nodes 3"
    if nodes == 1 and found.driver is Driver.LINK and network is not Network.PROXIES:
        return f"needs a second node with --network {network.value}: --nodes 3"
    if not targets_among(found, nodes):
        return f"takes a node away, and of {nodes} none may miss: --nodes 3"
    return ""


def availability() -> dict[str, str]:
    """Kind → "" or the reason against it, for all of them."""
    return {kind.name: why_not(kind.name) for kind in KINDS}


def in_namespaces() -> dict[str, str]:
    """Kind → "" or the reason against it, for those that have a second driver below TCP."""
    reason = namespaces.why_not()
    return dict.fromkeys(netfilter.FAULTS, reason)
