"""What pops promise: nothing leaves before its checkpoint, nothing acknowledged returns."""

from __future__ import annotations

from cluster.broker.kernel.events.leadership import Serving
from cluster.core.pop.records import Place

from .conftest import MakeBrokers
from .harness import handled, nothing_is_appended, until
from .test_pop import ack, filled, handles, pop, popped, texts


async def test_an_acknowledgement_on_its_way_is_not_overtaken(make_brokers: MakeBrokers) -> None:
    """The timer that gives a message again waits for what was proposed before it was due."""
    async with make_brokers() as brokers:
        client = await filled(brokers, 2)
        await pop(client, invisibleTime=150)
        services = (await brokers.leader()).parts
        ((address, _),) = services.state.pop.held._rows.items()
        epoch = services.pop.settling.begin([(address, 0)])
        assert texts(await popped(client)) == [b"1"]
        assert (await pop(client, pollTime=300)).code == 210
        services.pop.settling.done([(address, 0)], epoch)
        assert texts(await popped(client)) == [b"0"], "it was not logged after all"


async def test_a_queue_with_an_ordered_acknowledgement_on_its_way_stays_shut(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 2)
        await pop(client, order="true", maxMsgNums=1, invisibleTime=1)
        busy = (await brokers.leader()).parts.pop.popping.busy
        epoch = busy.begin([Place("CG", "T", 0)])
        for _ in range(3):  # it is visible again, by its time
            await brokers.next_millisecond()
        assert (await pop(client, order="true")).code == 210
        busy.done([Place("CG", "T", 0)], epoch)
        assert texts(await pop(client, order="true")) == [b"0", b"1"]


async def test_a_pop_leaves_only_when_its_checkpoint_is_in_the_log(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 3)
        assert (await client.heartbeat()).code == 0  # the group exists
        leader = await brokers.leader()
        with nothing_is_appended(leader):
            waiting = pop(client)
            await handled(client)
            assert not waiting.done()
        assert texts(await waiting) == [b"0", b"1", b"2"]


async def test_under_leader_changes_nothing_is_lost_and_nothing_acknowledged_comes_back(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        await filled(brokers, 40)
        done: set[bytes] = set()
        twice: list[bytes] = []

        async def drain(rounds: int) -> None:
            node = await brokers.follower()
            through = await brokers.client(node)
            for _ in range(rounds):
                found = await pop(through, maxMsgNums=4, invisibleTime=700, pollTime=200)
                if found.code:
                    continue
                given = [*zip(handles(found), texts(found), strict=True)]
                twice.extend(text for _, text in given if text in done)
                for handle, text in given[:3]:
                    if await ack(through, handle) == 0:
                        done.add(text)

        for _ in range(2):
            await drain(4)
            number = brokers.nodes.index(await brokers.leader())
            await brokers.stop_node(number)
            await brokers.leader()
            await drain(3)
            await brokers.start_node(number)
            await brokers.leader()

        async def all_done() -> bool:
            await drain(4)
            return len(done) == 40

        await until(all_done, "all 40 messages")
        assert not twice
        held = (await brokers.leader()).parts.state.pop.held
        assert all(not row.left for row in held._rows.values())


async def test_who_waits_is_not_served_by_a_node_that_does_not_lead_any_more(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 1)
        assert texts(await pop(client)) == [b"0"]
        waiting = pop(client, pollTime=4000)
        services = (await brokers.leader()).parts
        await until(lambda: services.pop.waits.count == 1)
        leadership = services.leadership
        serving, leadership.serving = leadership.serving, Serving.WAITING
        services.pop.waits.wake("T")
        assert services.pop.waits.count == 1
        leadership.serving = serving
        assert (await client.send(body=b"1")).code == 0
        assert texts(await waiting) == [b"1"]
