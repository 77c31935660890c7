"""One committed message rots on every replica: more than can be repaired. Refusing is right.

    n0 ✗   n1 ✗   n2 ✗        the same bit of the same record, while all are stopped

With one whole copy left the nodes would repair the others from it, whatever the majority says: the
chain of checksums tells which copy is whole. Without one, every node is asked for that message: it
must refuse to start, or answer with an error. To pass over it, to say that nothing is there, or to
hand out changed bytes is silence. Its files must not be readable as if nothing had been, either.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import cluster
from chaos.controls.control import Control, Shown
from chaos.drivers.stage import Stage
from chaos.history import Kind, Operation, Outcome
from chaos.live.arena import Arena
from chaos.live.client_processes import ClientProcesses
from chaos.live.queue_access import QueueAccess
from chaos.live.replicas import read_queues
from chaos.live.run import TOPIC, equipped
from chaos.live.settings import NODE_SETTINGS
from chaos.workloads import Workload
from cluster.client import Client
from cluster.client.connection.connection import Connection
from cluster.errors import ClusterError
from cluster.local import plan
from commitlog.errors import StoreDamaged
from dledger.errors import DledgerError

LOAD = Workload(
    queues=1, producers=8, keyed=0, readers=0, registers=0, groups=0, rate=200.0, asks=1.0
)
LOAD_SECONDS = 2.5
REFUSED, RIGHT, SILENT = "refused", "right", "silent"


class _AtOneNode(QueueAccess):
    """Sends requests to the node at one address, whether it leads or not."""

    def __init__(self, client: Client, broker_name: str, address: str) -> None:
        super().__init__(client, TOPIC, broker_name, Random(0), any_replica=False)
        self._address = address

    async def _connection(self) -> Connection:
        return await self._client.pool.get(self._address)


async def run(root: Path, seed: int) -> Shown:
    """Raises LauncherError, OSError."""
    arena = Arena(root / "cluster", hosts=plan.scratch_hosts(3), settings=NODE_SETTINGS)
    made = arena.cluster
    rotten = sorted(made.brokers)
    with equipped(arena, root, ("bit-rot",)):
        async with arena, cluster.connect(made.nameserver) as client:
            broker, op = await _load(arena, client, seed)
            stage = Stage(arena, made.brokers, 0.0, Random(seed))
            await stage.kill(made.brokers)
            for node in rotten:
                await asyncio.to_thread(_flip, arena, node, op.value)
            for node in made.brokers:
                await stage.start(node)
            ended = await asyncio.gather(*(stage.started_or_refused(node) for node in rotten))
            answers = {
                node: await _ask(client, broker, made.profile.member(node).client, op)
                for node in made.brokers
            }
    for node, refused in zip(rotten, ended, strict=True):
        if refused:
            answers[node] = (REFUSED, "did not start")
    unreadable = [node for node in made.brokers if not _readable(arena, node)]
    return _shown(op, rotten, answers, unreadable)


def _shown(
    op: Operation,
    rotten: list[str],
    answers: dict[str, tuple[str, str]],
    unreadable: list[str],
) -> Shown:
    told = "; ".join(f"{node} {word}: {detail}" for node, (word, detail) in answers.items())
    seen = f"{op.value} at {op.offset} rotten on {' and '.join(rotten)}; {told}"
    seen += f"; files that refuse to be read: {', '.join(unreadable) or 'none'}"
    silent = any(word == SILENT for word, _ in answers.values())
    refused = all(answers[node][0] == REFUSED for node in rotten)
    return Shown(refused and not silent and unreadable == rotten, seen)


async def _load(arena: Arena, client: Client, seed: int) -> tuple[str, Operation]:
    """Messages on every node; the broker's name, and one of them from the first half."""
    clients = ClientProcesses(arena.cluster.nameserver, TOPIC, LOAD, seed)
    await clients.start()
    await asyncio.sleep(LOAD_SECONDS)
    await clients.stop()
    await arena.settled()
    broker = next(iter((await client.admin().status()).brokers))
    acked = [
        op for op in clients.written.history if op.kind is Kind.APPEND and op.outcome is Outcome.OK
    ]
    return broker, acked[len(acked) // 3]


def _data(arena: Arena, node: str) -> Path:
    return arena.cluster.folder(node) / "data" / f"dledger-{node}"


def _flip(arena: Arena, node: str, value: str) -> None:
    """One bit in the body of the message."""
    wanted = f"{value} ".encode()
    for path in sorted((_data(arena, node) / "data").iterdir()):
        at = path.read_bytes().find(wanted)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([wanted[0] ^ 1]))
            return
    raise OSError(f"{node} does not hold {value}, which was acknowledged and replicated")


async def _ask(client: Client, broker: str, address: str, op: Operation) -> tuple[str, str]:
    try:
        messages, _ = await _AtOneNode(client, broker, address).pull(0, op.offset)
    except (ClusterError, OSError) as error:
        return REFUSED, str(error)
    except ValueError as error:
        return SILENT, f"handed out damaged bytes: {error}"
    if not messages:
        return SILENT, "said that nothing is there"
    if messages[0] != (op.offset, op.value):
        return SILENT, f"passed over it, to {messages[0]}"
    return RIGHT, "the message as it was sent"


def _readable(arena: Arena, node: str) -> bool:
    cluster_id = arena.cluster.profile.cluster_id
    try:
        read_queues(_data(arena, node), cluster_id=cluster_id, node_id=node, topics={TOPIC: "q"})
    except (StoreDamaged, DledgerError):
        return False
    return True


CONTROL = Control(
    "majority-rot",
    "the same record rots on all of three nodes",
    "refuses-to-serve",
    lambda: "",
    run,
)
