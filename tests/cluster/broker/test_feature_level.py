"""A group of mixed versions: the older node stops at the mark with its reason, the others go on."""

from __future__ import annotations

from cluster.core.feature_level import UpgradeNeeded
from cluster.core.internal_topics import LevelRaised

from .conftest import MakeBrokers
from .harness import until


async def test_an_older_node_of_a_group_ends_and_names_the_remedy(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        older = next(node for node in brokers.running() if node is not leader)
        for node in brokers.running():
            node.parts.state.level.known = 0 if node is older else 1
        answers: list[Exception | None] = []
        leader.parts.writer.write(LevelRaised(1), answers.append)
        await until(lambda: answers == [None], "the mark")
        error = await older.failed()
        assert isinstance(error, UpgradeNeeded)
        assert "upgrade this node" in str(error)
        client = await brokers.client(leader)
        assert (await client.send("orders")).code == 0
        assert older.parts.state.topics.get("orders") is None
        assert brokers.mistakes, "the reason is in the node's log"
        brokers.mistakes.clear()
