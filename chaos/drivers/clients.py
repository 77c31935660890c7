"""Kind 34: clients that vanish without a goodbye, stand still, come and go, ask again too soon."""

from __future__ import annotations

import asyncio
import contextlib
import time

import cluster
from chaos.drivers.stage import Clients, Fault, Stage
from cluster.client import Client
from cluster.errors import ClusterError, ConnectionLost
from cluster.protocol.codes import RequestCode

BETWEEN_SECONDS = 0.3
AT_ONCE = 5
BETWEEN_VISITS_SECONDS = 0.05
VISIT_SECONDS_MAX = 2.0
EFFECT_SECONDS_MAX = 5.0
PATIENCE_SECONDS = 0.0  # the request leaves in this turn of the loop, which reads no answer
STORM_PAUSE_SECONDS = 0.002  # the machine is shared with the nodes


async def client(stage: Stage) -> str:
    """One of the four."""
    assert stage.clients is not None, "a run has clients"
    how = stage.random.choice(("vanish", "pause", "churn", "storm"))
    stage.notes["how"] = how
    if how == "vanish":
        return await vanish(stage, stage.clients)
    if how == "pause":
        return await pause(stage, stage.clients)
    return await (churn(stage) if how == "churn" else storm(stage))


async def vanish(stage: Stage, clients: Clients) -> str:
    """Clients end in the middle of their work, one after the other, for the planned time; others
    take their places."""
    gone = []
    for _ in range(max(1, int(stage.seconds / BETWEEN_SECONDS))):
        gone.append(clients.vanish(stage.random.getrandbits(16)))
        await asyncio.sleep(BETWEEN_SECONDS)
    return f"ended {', '.join(gone)}"


async def pause(stage: Stage, clients: Clients) -> str:
    """One client stands still with its connections open: producers, and a consumer that lags."""
    paused = clients.pause(stage.random.getrandbits(16))
    try:
        await stage.hold()
        # What waits for a leader begins nothing; that it does not is no merit of this fault.
        await stage.until(lambda: paused.held_back() > 0, EFFECT_SECONDS_MAX)
        held_back = paused.held_back()
    finally:
        paused.resume()
    return f"{paused.name} stood still before {held_back} operations" if held_back else ""


async def churn(stage: Stage) -> str:
    """Clients beside the workload's connect to the leader, ask and go, some at once, many times."""
    end = time.monotonic() + stage.seconds
    came = 0
    while (now := time.monotonic()) < end or (not came and now < end + EFFECT_SECONDS_MAX):
        came += sum(await asyncio.gather(*(_visit(stage) for _ in range(AT_ONCE))))
        await asyncio.sleep(BETWEEN_VISITS_SECONDS)
    return f"{came} clients came and went" if came else ""


async def storm(stage: Stage) -> str:
    """Clients give up before the answer can come and send the same request again at once. The
    broker works in vain for them, and must still serve the clients that wait.
    """
    end = time.monotonic() + stage.seconds
    given_up = sum(await asyncio.gather(*(_storms(stage, end) for _ in range(AT_ONCE))))
    return f"{given_up} requests were given up and asked again" if given_up else ""


async def _storms(stage: Stage, end: float) -> int:
    """How often one of them gave up; one that was late to connect gives up once at least."""
    given_up = 0

    def goes_on() -> bool:
        now = time.monotonic()
        return now < end or (not given_up and now < end + EFFECT_SECONDS_MAX)

    while goes_on():
        with contextlib.suppress(ClusterError, TimeoutError):
            async with (
                asyncio.timeout(max(0.0, end - time.monotonic()) + VISIT_SECONDS_MAX),
                cluster.connect(stage.arena.cluster.nameserver) as impatient,
            ):
                broker = next(iter((await impatient.admin().status()).brokers))
                while goes_on():
                    given_up += await _gives_up(impatient, broker)
                    await asyncio.sleep(STORM_PAUSE_SECONDS)
        await asyncio.sleep(BETWEEN_VISITS_SECONDS)
    return given_up


async def _gives_up(impatient: Client, broker: str) -> bool:
    """True if the request was given up before its answer came. Raises ClusterError if there is no
    leader."""
    connection = await impatient.leaders.connection(broker)
    try:
        await connection.call(RequestCode.GET_BROKER_RUNTIME_INFO, time_limit=PATIENCE_SECONDS)
    except ConnectionLost:
        return connection.is_open
    return False


async def _visit(stage: Stage) -> bool:
    """Whether it was answered; during other faults it may not be."""
    with contextlib.suppress(ClusterError, TimeoutError):
        async with (
            asyncio.timeout(VISIT_SECONDS_MAX),
            cluster.connect(stage.arena.cluster.nameserver) as visitor,
        ):
            brokers = (await visitor.admin().status()).brokers
            for broker in brokers:
                await visitor.admin().members(broker)
            return bool(brokers)
    return False


FAULTS: dict[str, Fault] = {"client": client}
