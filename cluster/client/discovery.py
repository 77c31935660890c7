"""Makes a `Client` for an address, or for the local cluster that was started last."""

from __future__ import annotations

import json
import os
import re

from cluster.client.client import Client
from cluster.client.config import ClientConfig, ClientConfigError
from cluster.home import home_folder
from commitlog.address import is_address

ENVIRONMENT_ADDRESS = "NAMESRV_ADDR"
"""Where RocketMQ's own tools find the name servers: "host:port;host:port"."""


def connect(address: str | None = None, config: ClientConfig | None = None) -> Client:
    """A client of the cluster that has its name servers, or any of its nodes, at `address`.

    Call it with a running event loop; the client dials when it first needs a connection.

    Args:
        address: "host:port", several joined by ";" or ",". None: $NAMESRV_ADDR, else the last
            local cluster (`dledger up`).

    Raises:
        ClientConfigError: the address is not "host:port", or none is given and none is known.
    """
    return Client(resolve(address), config or ClientConfig())


def resolve(address: str | None) -> list[str]:
    """The addresses to ask for routes. Raises ClientConfigError."""
    text = address or os.environ.get(ENVIRONMENT_ADDRESS) or _local_cluster()
    places = [place.strip() for place in re.split("[;,]", text) if place.strip()]
    for place in places:
        if not is_address(place):
            raise ClientConfigError(f"{place!r} is no address; write host:port")
    if not places:
        raise ClientConfigError(
            "no name server is known; give an address like 127.0.0.1:9876, or start a cluster "
            "here with `dledger up`"
        )
    return places


def _local_cluster() -> str:
    """Name servers of the cluster that `dledger up` started last; "" if there is none."""
    path = home_folder() / "local" / "ports.json"
    try:
        members = json.loads(path.read_text(encoding="utf-8"))
        return ";".join(
            str(ports["client"]) for name, ports in members.items() if name.startswith("ns")
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
