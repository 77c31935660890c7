"""`dledger account` against a real node in this process, rightly used and wrongly."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from cluster.broker.access.accounts.requests import read_change
from cluster.cli import dledger
from cluster.client.admin.account_admin import import_steps
from cluster.commands import accounts
from cluster.commands.errors import FAILED, USAGE, exit_code_of, is_expected, sentence_of
from cluster.errors import ServiceNotAvailable
from cluster.nameserver.server import NameServer
from cluster.protocol.frames import Frame
from tests.cluster.broker.harness import Brokers
from tests.waiting import eventually

from .test_against_nodes import run

SECRET = "drawn-for-this-test-alone"
FILE = f"""
globalWhiteRemoteAddresses: [10.9.9.9]
accounts:
- accessKey: imported
  secretKey: {SECRET}
  defaultTopicPerm: SUB
- accessKey: other-chief
  secretKey: {SECRET}
  admin: true
"""


@asynccontextmanager
async def one_node(folder: Path, new_address: Callable[[], str]) -> AsyncIterator[list[str]]:
    """A node that is registered; the options by which a command reaches it."""
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        brokers = Brokers(folder, [new_address()], {"name_servers": (server.address,)})
        await brokers.start()
        try:

            async def registered() -> bool:
                return (await run("account", "list", "-a", server.address)).exit_code == 0

            await eventually(registered, "the node is at its name server")
            yield ["-a", server.address]
        finally:
            await brokers.close()


async def said(wanted: int, *arguments: str) -> str:
    """What a command that ends with that code tells."""
    code, told = told_by(await run(*arguments))
    assert code == wanted, (arguments, told)
    return told


def told_by(found: Result) -> tuple[int, str]:
    """The exit code of the program, and all that it tells (cluster/cli.py)."""
    error = found.exception
    if not isinstance(error, Exception) or not is_expected(error):
        return found.exit_code, found.output
    return exit_code_of(error), found.output + sentence_of(error)


async def test_accounts_are_made_altered_listed_imported_and_deleted(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with one_node(tmp_path / "nodes", new_address) as address:
        chief = tmp_path / "chief.yml"
        as_chief = [*address, "--account", str(chief)]
        told = await said(
            0, "account", "create", "the-chief", "--admin", *address, "--save", str(chief)
        )
        assert chief.stat().st_mode & 0o777 == 0o600
        secret = chief.read_text().split()[-1]
        assert secret not in told
        assert "AccessKey" in await said(1, "account", "list", *address), "an account is wanted"

        rights = ("--topic", "orders=PUB|SUB", "--group", "billing=SUB", "-o", "json")
        (row,) = json.loads(await said(0, "account", "create", "a-writer", *rights, *as_chief))
        assert (row["topics"], row["groups"]) == (["orders=PUB|SUB"], ["billing=SUB"])
        quota = ("--max-messages", "100", "--max-bytes", "5000", "-o", "json")
        await said(0, "account", "alter", "a-writer", *quota, *as_chief)
        await said(0, "account", "alter", "a-writer", "--max-bytes", "0", *as_chief)
        rows = json.loads(await said(0, "account", "list", "-o", "json", *as_chief))
        (row_now,) = [found for found in rows if found["account"] == "a-writer"]
        assert (row_now["max_messages"], row_now["max_bytes"]) == (100, None)
        assert row_now["topics"] == ["orders=PUB|SUB"], "all else stays"
        writer = tmp_path / "writer.yml"
        writer.write_text(f"accessKey: a-writer\nsecretKey: {row['secret']}\n")
        as_writer = [*address, "--account", str(writer)]
        for verb in (["list"], ["delete", "the-chief", "--yes"], ["alter", "a-writer", "--admin"]):
            assert "admin accounts" in await said(1, "account", *verb, *as_writer)

        new = ["account", "alter", "a-writer", "--new-secret", "-o", "json"]
        (told_new,) = json.loads(await said(0, *new, "--keep-old", *as_chief))
        assert told_new["changed"] == ["secretKey"]
        assert len({told_new["secret"], row["secret"]}) == 2
        listed = json.loads(await said(0, "account", "list", "-o", "json", *as_chief))
        assert {one["account"]: one["secrets"] for one in listed}["a-writer"] == 2
        assert "admin accounts" in await said(1, "account", "list", *as_writer), "it counts still"
        await said(0, "account", "alter", "a-writer", "--end-old", *as_chief)
        assert "signature" in await said(1, "account", "list", *as_writer)
        writer.write_text(f"accessKey: a-writer\nsecretKey: {told_new['secret']}\n")

        told = await said(0, "account", "alter", "a-writer", "--disable", *as_chief)
        assert "status" in told
        assert "disabled" in await said(1, "account", "list", *as_writer)
        file = tmp_path / "plain_acl.yml"
        file.write_text(FILE)
        told = await said(0, "account", "import", str(file), "--dry-run", *as_chief)
        assert "imported" in told
        assert "imported" not in await said(0, "account", "list", *as_chief)
        told = await said(0, "account", "import", str(file), *as_chief)
        assert "globalWhiteRemoteAddresses" in told
        listed = await said(0, "account", "list", "-o", "json", *as_chief)
        assert SECRET not in listed
        found = {row["account"]: row for row in json.loads(listed)}
        assert sorted(found) == ["a-writer", "imported", "other-chief", "the-chief"]
        assert found["imported"]["default_topic"] == "SUB"
        assert found["a-writer"]["status"] == "disable"

        asked = await said(USAGE, "account", "delete", "the-chief", *as_chief)
        assert "was not deleted" in asked
        assert "--yes" in asked
        assert await said(0, "account", "list", "-o", "json", *as_chief) == listed
        await said(0, "account", "delete", "the-chief", "--yes", *as_chief)
        assert "there is no account" in await said(1, "account", "list", *as_chief)


async def test_wrong_uses_say_what_to_do_and_change_nothing(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with one_node(tmp_path / "nodes", new_address) as address:
        chief = tmp_path / "chief.yml"
        as_chief = [*address, "--account", str(chief)]
        told = await said(1, "account", "create", "a-writer", *address)
        assert "admin" in told, "the first one"
        await said(0, "account", "create", "the-chief", "--admin", *address, "--save", str(chief))
        before = await said(0, "account", "list", "-o", "json", *as_chief)
        for code, words, verb in (
            (1, "no administrator would be left", ["delete", "the-chief", "--yes"]),
            (1, "no administrator would be left", ["alter", "the-chief", "--no-admin"]),
            (1, "no administrator would be left", ["alter", "the-chief", "--disable"]),
            (1, "account alter", ["create", "the-chief", "--admin"]),
            (1, "accessKey has 5 characters", ["create", "short"]),
            (1, "'WRITE' is no permission", ["create", "a-writer", "--topic", "orders=WRITE"]),
            (1, "account list", ["delete", "nobody-here", "--yes"]),
            (1, "account list", ["alter", "nobody-here", "--admin"]),
        ):
            told = await said(code, "account", *verb, *as_chief)
            assert words in " ".join(told.split()), (verb, told)
        assert await said(0, "account", "list", "-o", "json", *as_chief) == before


@pytest.mark.parametrize(
    ("verb", "wanted", "words"),
    [
        (["alter", "the-chief"], USAGE, "--help"),
        (["alter", "the-chief", "--admin", "--save", "new.yml"], USAGE, "--new-secret"),
        (["alter", "the-chief", "--keep-old"], USAGE, "--keep-old needs"),
        (["alter", "the-chief", "--new-secret", "--keep-old", "--end-old"], USAGE, "exclude"),
        (["create", "the-chief", "--secret-file", "empty"], USAGE, "first line"),
        (["create", "the-chief", "--save", "empty"], FAILED, "another"),
        (["import", "no.yml"], USAGE, "no.yml is no accounts file"),
        (["import", "twice.yml"], USAGE, "is there twice"),
        (["create", "the-chief", "--default-topic", "WRITE"], USAGE, "PUB|SUB"),
    ],
)
def test_what_is_wrong_by_itself_is_said_without_a_cluster(
    verb: list[str], wanted: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("no.yml").write_text("accounts: 7\n")
    row = f"- {{accessKey: imported, secretKey: {SECRET}}}\n"
    Path("twice.yml").write_text(f"accounts:\n{row}{row}")
    found = CliRunner().invoke(dledger, ["account", *verb, "-a", "127.0.0.1:1"])
    code, told = told_by(found)
    assert code == wanted, told
    assert words in " ".join(told.split())
    assert not Path("new.yml").exists()


async def test_more_accounts_than_one_change_holds_are_imported_in_steps(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    rows = [{"accessKey": f"user-{number:04}", "secretKey": SECRET} for number in range(1_001)]
    chief = {"accessKey": "the-chief", "secretKey": SECRET, "admin": True}
    file, account = tmp_path / "plain_acl.yml", tmp_path / "chief.yml"
    file.write_text(json.dumps({"accounts": [*rows, chief]}))
    account.write_text(f"accessKey: the-chief\nsecretKey: {SECRET}\n")
    async with one_node(tmp_path / "nodes", new_address) as address:
        as_chief = [*address, "--account", str(account)]
        await said(0, "account", "import", str(file), *as_chief)
        told = await said(0, "account", "list", "-o", "json", *as_chief)
        assert len(json.loads(told)) == 1_002


def test_each_step_of_an_import_fits_into_one_change() -> None:
    chief = {"accessKey": "the-chief", "secretKey": SECRET, "admin": True}
    many = [f"t{number}=PUB" for number in range(6_000)]
    for row, count in (
        ({}, 2_500),
        ({"takeOverProducers": ["p" * 60_000]}, 80),
        ({"topicPerms": many}, 10),
        ({"topicPerms": ["," * 6_000 + "=PUB"]}, 10),
    ):
        rows = [{"accessKey": f"u-{n:04}", "secretKey": SECRET, **row} for n in range(count)]
        steps = import_steps([*rows, chief])
        assert steps[0][0] is chief
        assert sorted(map(id, chain(*steps))) == sorted(map(id, [*rows, chief]))
        assert len(steps) > 1
        for step in steps:
            body = {"create": [], "alter": [], "put": step, "delete": []}
            assert read_change(Frame(31018, 1, {}, orjson.dumps(body))).put == step


async def test_a_drawn_secret_is_told_when_a_later_broker_name_fails(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names before it have the secret, and no later answer tells it."""

    async def half(*_: object, done: list[str], **__: object) -> None:
        done.append("broker-a")
        raise ServiceNotAvailable("broker-b has no leader; ask again")

    monkeypatch.setattr(accounts, "change_accounts", half)
    monkeypatch.setattr(accounts, "random_secret", lambda: SECRET)
    async with one_node(tmp_path / "nodes", new_address) as address:
        told = await said(4, "account", "create", "a-writer", *address)
        assert SECRET in told
        assert "counts on broker-a; put it into a file" in told
        assert "broker-b has no leader" in told
        assert SECRET in await said(4, "account", "alter", "a-writer", "--new-secret", *address)
        (tmp_path / "secret").write_text(SECRET)
        with_file = ("--secret-file", str(tmp_path / "secret"))
        told = await said(4, "account", "create", "a-writer", *with_file, *address)
        assert SECRET not in told, "the file has it"
