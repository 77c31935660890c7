"""A folder that the former release wrote, in tests/data/golden/former, and how it is made.

    python -m tests.integration.golden_former        writes it anew, by the release of former.py

One node with what each kind of record needs: topics, messages with keys and tags, a group's place,
a delayed message, a half message, accounts with a quota, a setting, audit entries.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import cluster
from cluster.client import ClientConfig
from cluster.client.config import Account
from tests.integration.former import COMMIT, Former, former_release
from tests.integration.nodes_by_hand import ROOT, SMALL_FLAGS, ByHand, by_hand

FOLDER = ROOT / "tests" / "data" / "golden" / "former"
ARCHIVE, EXPECTED = FOLDER / "n0.tar.xz", FOLDER / "expected.json"
HOST, NODE_HOST, NODE_FOLDER = "127.98.7.1", "@HOST@", "@FOLDER@"
CHIEF, WRITER, SECRET = "the-chief", "a-writer", "drawn-for-this-test"
TOPIC, LATER, QUEUES, COUNT, READ = "letters", "later", 2, 40, 10
DELAY_SECONDS = 60.0  # it is stopped before


def config_of(key: str) -> ClientConfig:
    return ClientConfig(account=Account(key, SECRET))


def main() -> None:
    """Make the folder, and what it holds as JSON."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        former = former_release(folder)
        with by_hand(folder) as nodes:
            expected = _fill(former, nodes, folder)
        EXPECTED.write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
        _pack(folder / "n0", folder)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")


def _fill(former: Former, nodes: ByHand, folder: Path) -> dict[str, Any]:
    secret, chief = folder / "secret", folder / "chief.yml"
    secret.write_text(SECRET)
    chief.write_text(f"accessKey: {CHIEF}\nsecretKey: {SECRET}\n")
    server, given = ["-a", f"{HOST}:9876"], ["--secret-file", str(secret)]
    admin = [*server, "--account", str(chief)]
    former.name_server(nodes, f"{HOST}:9876")
    member = ["--member", f"n0={HOST}", "--admin", f"{HOST}:8080"]
    flags = ["--name-server", f"{HOST}:9876", *SMALL_FLAGS]
    former.done("node", "init", str(nodes.file("n0")), *member, *flags)
    former.run(nodes, "n0")
    nodes.serves("n0")
    for topic in (TOPIC, LATER):
        former.done("topic", "create", topic, "-q", str(QUEUES), *server)
    former.done("account", "create", CHIEF, "--admin", *given, *server)
    rights = ["--default-topic", "PUB|SUB", "--default-group", "PUB|SUB"]
    quota = ["--max-messages", "1000"]
    former.done("account", "create", WRITER, *rights, *quota, *given, *admin)
    former.done("config", "set", "reserved_hours", "720", *admin)
    messages = asyncio.run(_send(server[1]))
    waiting = json.loads(former.done("schedule", "list", *admin, "-o", "json"))
    assert len(waiting) == 1, "its delayed message must be open"
    assert nodes.stop("n0") == 0
    return {"release": COMMIT, "messages": messages}


async def _send(nameserver: str) -> list[dict[str, Any]]:
    found = []
    async with cluster.connect(nameserver, config_of(WRITER)) as client:
        async with client.producer() as producer:
            for number in range(COUNT):
                body, key = f"message {number} ü".encode(), f"key-{number % 7}"
                queue = number % QUEUES
                receipt = await producer.send(TOPIC, body, key=key, tags="red", queue_id=queue)
                found.append(
                    {
                        "body": body.decode(),
                        "key": key,
                        "queue": queue,
                        "offset": receipt.queue_offset,
                        "id": receipt.message_id,
                    }
                )
            await producer.send_delayed(LATER, b"delayed", delay=DELAY_SECONDS)
        async with client.consumer(TOPIC, group="readers") as consumer:
            for _ in range(READ):
                message = await consumer.receive(30.0)
                assert message is not None
                consumer.ack(message)
        payer = client.transaction_producer("payers", lambda message: None)
        await payer.__aenter__()
        await payer.begin(LATER, b"open")
        payer.abandon()
    return found


def _pack(node: Path, folder: Path) -> None:
    """With one owner and time, so that only the content makes a difference."""
    file = node / "node.toml"
    text = file.read_text("utf-8").replace(str(folder), NODE_FOLDER).replace(HOST, NODE_HOST)
    file.write_text(text, "utf-8")

    def plain(one: tarfile.TarInfo) -> tarfile.TarInfo:
        one.uid = one.gid = one.mtime = 0
        one.uname = one.gname = ""
        return one

    with (
        lzma.open(ARCHIVE, "wb", preset=9) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        tar.add(node, "n0", filter=plain)


def unpack(folder: Path, host: str) -> None:
    """`folder`/n0, a node at that host."""
    with tarfile.open(ARCHIVE) as tar:
        # The first releases of 3.11 have no filters; the archive is our own.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(folder, **safe)
    file = folder / "n0" / "node.toml"
    text = file.read_text("utf-8").replace(NODE_FOLDER, str(folder)).replace(NODE_HOST, host)
    file.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
