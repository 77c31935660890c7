"""Another secret for an account: the old one counts as long as it is kept, on every node."""

from __future__ import annotations

from cluster.core.feature_level import LEVEL
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame

from .access_world import Ask, send
from .conftest import MakeBrokers
from .harness import RawClient, until
from .test_accounts import AGAIN, INVALID, NO_PERMISSION, SECRET, SETTINGS, asked, change
from .test_quotas import begin

NEW, NEWER = "drawn-after-the-first", "drawn-after-the-second"
NAME = "a-writer"


async def alter(client: RawClient, **fields: object) -> Frame:
    altered = change(alter=[{"accessKey": NAME, **fields}])
    return await asked(client, Code.CHANGE_ACCOUNTS, altered, "the-chief")


async def codes(client: RawClient, *secrets: str) -> list[int]:
    """With which each of the secrets is answered."""
    sends = [(secret, send("orders", o=number)) for number, secret in enumerate(secrets)]
    return [(await asked(client, 310, one, NAME, secret)).code for secret, one in sends]


async def test_both_secrets_count_until_the_old_one_is_ended(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        client = await begin(brokers)
        assert (await alter(client, secretKey=NEW, keepSecret=True)).code == 0
        assert (await alter(client, secretKey=NEW, keepSecret=True)).code == 0, "asked again"
        rows = [node.parts.state.accounts for node in brokers.running()]
        await until(lambda: all(len(row.accounts[NAME].secrets()) == 2 for row in rows))
        follower = await brokers.client(await brokers.follower())
        for one in (client, follower):
            assert await codes(one, SECRET, NEW, NEWER) == [0, 0, NO_PERMISSION]
        listed = await asked(client, Code.LIST_ACCOUNTS, Ask(), "the-chief")
        assert b'"secrets":2' in listed.body
        assert not any(secret.encode() in listed.body for secret in (SECRET, NEW))
        assert (await alter(client, previousSecretKey=None)).code == 0
        assert await codes(client, SECRET, NEW) == [NO_PERMISSION, 0]
        await until(
            lambda: all(node.parts.state.level.value == LEVEL for node in brokers.running())
        )


async def test_a_secret_that_replaces_ends_all_before_it(make_brokers: MakeBrokers) -> None:
    async with make_brokers(**SETTINGS) as brokers:
        client = await begin(brokers)
        assert (await alter(client, secretKey=NEW, keepSecret=True)).code == 0
        assert (await alter(client, secretKey=NEWER)).code == 0
        assert await codes(client, SECRET, NEW, NEWER) == [NO_PERMISSION, NO_PERMISSION, 0]
        assert (await alter(client, secretKey=NEW, keepSecret=True)).code == 0
        user = Ask({"username": NAME}, b'{"password":"drawn-by-mqadmin-here"}')
        assert (await asked(client, Code.AUTH_UPDATE_USER, user, "the-chief")).code == 0
        found = await codes(client, NEW, NEWER, "drawn-by-mqadmin-here")
        assert found == [NO_PERMISSION, NO_PERMISSION, 0]


async def test_a_secret_that_is_given_again_ends_all_before_it(make_brokers: MakeBrokers) -> None:
    """Who names one that shall count, and keeps none, means that one alone."""
    user = Ask({"username": NAME}, b'{"password":"%b"}' % NEW.encode())
    by_mqadmin = user, Code.AUTH_UPDATE_USER
    again = change(alter=[{"accessKey": NAME, "secretKey": NEW}]), Code.CHANGE_ACCOUNTS
    async with make_brokers(**SETTINGS) as brokers:
        client = await begin(brokers)
        for request, code in (by_mqadmin, again):
            assert (await alter(client, secretKey=SECRET)).code == 0
            assert (await alter(client, secretKey=NEW, keepSecret=True)).code == 0
            assert await codes(client, SECRET, NEW) == [0, 0]
            assert (await asked(client, code, request, "the-chief")).code == 0
            assert await codes(client, SECRET, NEW) == [NO_PERMISSION, 0]


async def test_what_cannot_be_kept_is_refused(make_brokers: MakeBrokers) -> None:
    async with make_brokers(**SETTINGS) as brokers:
        client = await begin(brokers)
        refused = await alter(client, secretKey=NEW, keepSecret="for now")
        assert (refused.code, "write true or false" in (refused.remark or "")) == (INVALID, True)
        refused = await alter(client, previousSecretKey="easy")
        assert (refused.code, "previousSecretKey" in (refused.remark or "")) == (INVALID, True)
        assert await codes(client, SECRET, NEW) == [0, NO_PERMISSION]


async def test_a_member_of_an_older_version_keeps_two_secrets_out_of_the_log(
    make_brokers: MakeBrokers,
) -> None:
    """It would pass the row over, and know the new secret never (R28)."""
    async with make_brokers(3, **SETTINGS) as brokers:
        client = await begin(brokers)
        for node in brokers.running():  # whichever leads
            roster = node.parts.log.driver.roster
            await until(lambda roster=roster: set(roster.levels().values()) == {LEVEL})
            older = dict.fromkeys(roster.levels(), 2)
            roster.levels = lambda older=older: older  # type: ignore[method-assign]
        answer = await alter(client, secretKey=NEW, keepSecret=True)
        assert answer.code == AGAIN
        wanted = "previous secrets of accounts need every member at feature level 3"
        assert wanted in (answer.remark or "")
        assert await codes(client, SECRET, NEW) == [0, NO_PERMISSION]
