"""Refuses a client id that belongs to another account."""

from __future__ import annotations

from collections.abc import Iterable

from cluster.broker.kernel.net.requests import Call
from cluster.core.groups import ClientRegistry
from cluster.errors import Unauthorized


def check_client_id(
    registry: ClientRegistry,
    call: Call,
    client_id: str,
    consumer_groups: Iterable[str],
    *,
    produces: bool = False,
    by_admin: bool = True,
) -> None:
    """A client id in use belongs to the account that uses it: questions and replies go there.

    Raises Unauthorized. `by_admin`: an admin may speak of others' clients.
    """
    others = registry.accounts_of(
        client_id, consumer_groups, produces=produces, channel=call.client
    )
    if others - {call.caller.key} and not (by_admin and call.caller.is_admin):
        raise Unauthorized(
            f"the client id {client_id[:255]} is in use by another account; give this client "
            "another instance name"
        )
