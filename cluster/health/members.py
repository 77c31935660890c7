"""The members of each group of a cluster, asked of its leader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from cluster.errors import ClusterError
from cluster.health.alerts import Row


class Asking(Protocol):
    """The part of `cluster.client.Admin` that is needed here."""

    async def members(self, group: str, /) -> dict[str, Any]:
        """The members of a group, as its leader has them."""
        ...


class Reporting(Asking, Protocol):
    """The part of `cluster.client.Admin` that `reports` needs."""

    async def replicas(self) -> list[dict[str, Any]]:
        """A row for each replica, from its own answer."""
        ...


def groups_of(replicas: Iterable[Row]) -> list[str]:
    """The names of the groups, each once, in the order of their first replica."""
    return list(dict.fromkeys(str(row["group"]) for row in replicas))


async def members_where_led(admin: Asking, group: str) -> dict[str, Any]:
    """The members of a group, as its leader has them; empty while the group has no leader.

    Raises ClusterError of a kind that asking again cannot cure (no right, say).
    """
    try:
        return await admin.members(group)
    except ClusterError as error:
        if not error.retriable:
            raise
        return {}


async def reports(admin: Reporting) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The replicas, and group name → its members, for `alerts`. Raises ClusterError."""
    replicas = await admin.replicas()
    return replicas, {name: await members_where_led(admin, name) for name in groups_of(replicas)}
