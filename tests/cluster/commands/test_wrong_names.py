"""Names that are not there, or are none, at every verb: what happened, and one thing to try."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from cluster.cli import dledger
from cluster.errors import ClusterError
from cluster.nameserver.server import NameServer
from tests.cluster.broker.harness import Brokers
from tests.waiting import eventually

#: Command → exit code and what is said, as a pattern; the end names one thing to try.
WRONG = {
    "topic describe nosuch": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "topic alter nosuch -q 4": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "topic delete nosuch --yes": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "topic delete nosuch": (2, "nosuch was not deleted, .*; --yes deletes it"),
    "topic create a/b": (4, "topic 'a/b' has other characters than .*; use these"),
    "topic create orders -q 0": (2, "0 is not in the range"),
    "group describe nosuch": (3, "group nosuch is not connected .*; dledger group list shows .*"),
    "group reset nosuch orders --to nowhen": (2, "nowhen"),
    "message find nosuch --key k": (3, "topic nosuch does not exist; dledger topic list shows .*"),
    "message find orders": (2, "Missing option|--key"),
    "leader move nosuch n1": (4, "know no broker name nosuch; .* dledger leader move broker-a n1"),
    "leader move broker-a n9": (4, "n9"),
    "member remove n9 --yes": (4, "no member has this name; dledger member list shows .*"),
}


async def test_wrong_names_are_answered_with_one_thing_to_try(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        brokers = Brokers(tmp_path, [new_address()], {"name_servers": (server.address,)})
        await brokers.start()

        async def say(line: str) -> tuple[int, str]:
            arguments = [*line.split(), "-a", server.address]
            found = await asyncio.to_thread(CliRunner().invoke, dledger, arguments)
            if isinstance(found.exception, ClusterError):  # printed so by `main`
                return 4, str(found.exception)
            assert found.exception is None or isinstance(found.exception, SystemExit), line
            return found.exit_code, found.output

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
