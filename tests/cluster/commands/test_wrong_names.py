"""Names that are not there, or are none, at every verb: what happened, and one thing to try."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.nameserver.server import NameServer
from tests.cluster.broker.harness import Brokers
from tests.command_line import run
from tests.waiting import eventually

#: Command → exit code and what is said, as a pattern; the end names one thing to try.
WRONG = {
    "topic describe nosuch": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "topic tail nosuch": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "topic alter nosuch -q 4": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "topic delete nosuch --yes": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "topic delete nosuch": (2, "nosuch was not deleted, .*; --yes deletes it"),
    "topic create a/b": (1, "topic 'a/b' has other characters than .*; use these"),
    "topic create orders -q 0": (2, "0 is not in the range"),
    "group describe nosuch": (3, "group nosuch is not connected .*; dledger group list shows .*"),
    "group lag nosuch": (3, "group nosuch is not connected .*; dledger group list shows .*"),
    "group clone nosuch g": (3, "group nosuch has read nothing; dledger group list shows what .*"),
    "group clone g g": (1, "g cannot go on where itself is; name another group"),
    "group delete nosuch --yes": (3, "knows the consumer group nosuch; dledger group list .*"),
    "group delete nosuch": (2, "nosuch was not deleted, .*; --yes deletes it"),
    "group reset nosuch orders --to nowhen": (2, "nowhen"),
    "message find nosuch --key k": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "message find orders": (2, "Missing option|--key"),
    "leader move nosuch n1": (4, "know no broker name nosuch; .* dledger leader move broker-a n1"),
    "leader move broker-a n9": (1, "n9"),
    "member remove n9 --yes": (1, "no member has this name; dledger member list shows .*"),
    "consume nosuch -n 1": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "consume nosuch -n 1 -g g": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "consume a/b -n 1": (2, "topic 'a/b' has other characters than .*; use these"),
    "consume orders -n 1 -g a/b": (1, "group 'a/b' has other characters than .*; use these"),
    "consume orders -n 0": (2, "0 is not in the range"),
    "consume orders -n 1 --from nowhere": (2, "nowhere"),
    "consume orders -n 1 --account nosuch.yml": (2, "nosuch.yml cannot be read .*; give one with"),
    "consume orders -n 1 --tls nosuch.pem": (2, "nosuch.pem cannot be read .*; give a PEM file"),
    "consume orders -n 1 --tls-any-host": (2, "says nothing by itself; give --tls FILE or"),
    "produce a/b": (1, "topic 'a/b' has other characters than .*; use these"),
    "produce orders --account nosuch.yml": (2, "nosuch.yml cannot be read .*; give one with"),
    "message dead nosuch": (3, "knows the group nosuch; dledger group list shows groups"),
    "group describe a/b": (1, "group 'a/b' has other characters than .*; use these"),
    "group reset g --topic nosuch --to first": (3, "topic nosuch does not exist; dledger topic"),
    "topic alter orders -q 99999": (1, "99999 queues; choose 1 to 4096"),
    "topic create orders -q 4 --durability none": (2, "'majority-on-disk', 'majority-in-memory'"),
    "member add n9 --yes": (
        4,
        "n9 has not called this node; start it on a folder .*, and try again$",
    ),
    "scrub n9": (1, "n9 is no replica of broker-a; name one of n0$"),
    "verify --broker nosuch": (4, "nosuch"),
}
#: The same of commands that get an address of their own, or none.
ELSEWHERE = {
    "topic list -a 127.0.0.1": (2, "'127.0.0.1' is no address; write host:port"),
    "topic list -a 127.0.0.1:99999": (2, "'127.0.0.1:99999' is no address; write host:port"),
    "topic list -a 127.0.0.1:x": (2, "'127.0.0.1:x' is no address; write host:port"),
    "topic list -a 127.0.0.250:1": (4, "check the address, and that a node or name server listens"),
    "consume orders -n 1 -a 127.0.0.250:1": (4, "check the address, and that a node or name"),
    "topic list -a 127.0.0.250:1 --tls system": (4, "and that TLS is spoken there; without --tls"),
    "node init TMP/n.toml --member n0=127.0.0.1 --member n0=127.0.0.2": (2, "n0 is named twice"),
    "node init TMP/n.toml --member n0=127.0.0.1:99999": (2, "99999 must be 0 to 65535"),
    "node run TMP/nosuch.toml": (2, "does not exist"),
    "nameserver --listen 127.0.0.1:99999": (2, "'127.0.0.1:99999' is no address; write host:port"),
    "inspect TMP": (2, "is no store: .*; give the folder of a stopped node"),
    "export TMP TMP/out --yes": (2, ".+; .+"),
    "backup show TMP": (3, "holds no backup .*; dledger backup run makes one"),
    "restore TMP": (3, "holds no backup .*; dledger backup run makes one"),
    "config show --set raft.heartbeat=50": (2, "did you mean raft.heartbeat_ms"),
    "config show --set raft": (2, "not of the form section.key=value; dledger config show lists"),
    "pipeline audit TMP/nosuch": (2, "does not exist"),
    "pipeline archive TMP TMP/root": (2, ".+; .+"),
    "pipeline verify TMP": (1, ".+; .+"),
    "pipeline count TMP": (2, "No such command 'count'"),
}


@pytest.mark.parametrize("line", ELSEWHERE)
def test_wrong_places_are_answered_with_one_thing_to_try(line: str, tmp_path: Path) -> None:
    code, pattern = ELSEWHERE[line]
    env = {**os.environ, "DLEDGER_HOME": str(tmp_path)}
    found = run(*line.replace("TMP", str(tmp_path)).split(), env=env)
    said = found.stdout + found.stderr
    assert "Traceback" not in said
    assert found.returncode == code, said
    assert re.search(pattern, said), said


async def test_wrong_names_are_answered_with_one_thing_to_try(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        brokers = Brokers(tmp_path, [new_address()], {"name_servers": (server.address,)})
        await brokers.start()

        async def say(line: str) -> tuple[int, str]:
            arguments = [*line.split(), "-a", server.address]
            found = await asyncio.to_thread(run, *arguments, env=dict(os.environ), stdin="x\n")
            return found.returncode, found.stdout + found.stderr

        async def is_registered() -> bool:
            return (await say("topic create orders"))[0] == 0

        try:
            await eventually(is_registered, "a topic")
            said = {line: await say(line) for line in WRONG}
        finally:
            await brokers.close()
    amiss = [
        f"{line}: {said[line]}"
        for line, (code, pattern) in WRONG.items()
        if said[line][0] != code or not re.search(pattern, said[line][1])
    ]
    assert not amiss, "\n".join(amiss)
    assert not [line for line in WRONG if "route info" in said[line][1]]
