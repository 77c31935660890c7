"""Settings of running nodes: those that a group's log holds, read and changed."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.core.live_settings import LIVE
from cluster.errors import InvalidRequest, NotFound
from cluster.protocol.codes import RequestCode

LINES = "dledger.live."


async def live_settings(instance: ClientInstance) -> dict[str, dict[str, str]]:
    """Broker name → name → text of each setting that its log holds. Raises ClusterError."""
    found = {}
    for broker in sorted(await instance.routes.registered()):
        code = RequestCode.GET_BROKER_CONFIG
        answer = await ask_leader(instance, broker, DEFAULT_TOPIC, code, {})
        pairs = (line.partition("=") for line in answer.body.decode().splitlines())
        found[broker] = {
            name.removeprefix(LINES): text for name, _, text in pairs if name.startswith(LINES)
        }
    return found


async def set_live(
    instance: ClientInstance,
    name: str,
    text: str,
    *,
    broker: str | None = None,
    done: list[str] | None = None,
) -> list[str]:
    """Set one setting on every node of each broker name, in the order of the names.

    Args:
        text: its value as in a settings file; "": each node's own counts again.
        broker: only this broker name.
        done: gets the names that did one by one, so it has them also when an error ends it.

    Returns the names that did. Raises NotFound for a broker name that is not there, InvalidRequest,
    ClusterError: names before it in the order have the new value.
    """
    if name not in LIVE or not text.isprintable():
        raise InvalidRequest(f"{name:.60} cannot be {text!r:.60} while nodes run; correct it")
    brokers: Sequence[str] = sorted(await instance.routes.registered())
    if broker is not None:
        if broker not in brokers:
            raise NotFound(f"there is no broker name {broker}; give one of {', '.join(brokers)}")
        brokers = (broker,)
    changed = [] if done is None else done
    body = f"{name}={text}\n".encode()
    for one in brokers:
        code = RequestCode.UPDATE_BROKER_CONFIG
        await ask_leader(instance, one, DEFAULT_TOPIC, code, {}, body=body)
        changed.append(one)
    return changed
