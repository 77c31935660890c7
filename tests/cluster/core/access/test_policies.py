"""RocketMQ 5's policies: which of them decides, and which cannot be kept."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.core.access.accounts import Account, AccountsError, read_account
from cluster.core.access.permission import Permission
from cluster.core.access.policies import Resource, policy_row, read_policy
from cluster.core.access.policy_index import Policies

PUB, SUB = Permission.PUB, Permission.SUB
HOST = "10.0.0.7"


def row(
    resource: str, decision: str = "Allow", actions: str = "Sub", **more: Any
) -> dict[str, Any]:
    return {"resource": resource, "actions": actions.split("|"), "decision": decision, **more}


def decided(*rows: dict[str, Any], name: str = "orders", host: str = HOST) -> bool | None:
    policies = [read_policy(one) for one in rows]
    orders = {
        Policies(policies[at:] + policies[:at]).decide(Resource.TOPIC, name, SUB, host)
        for at in (0, 1)
    }
    assert len(orders) == 1, "the order of the rows says nothing"
    return orders.pop()


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([row("Topic:orders")], True),
        ([row("Topic:ord*")], True),
        ([row("Topic:*")], True),
        ([row("*")], True),
        ([row("Topic:other")], None),
        ([row("Topic:order")], None),
        ([row("Group:orders")], None),
        ([row("Topic:orders", actions="Pub")], None),
        ([row("Topic:orders", "Deny"), row("Topic:ord*")], False),
        ([row("Topic:orders"), row("Topic:ord*", "Deny")], True),
        ([row("Topic:ord*"), row("Topic:o*", "Deny")], True),
        ([row("Topic:*", "Deny"), row("*")], False),
        ([row("Topic:*"), row("*", "Deny")], True),
        ([row("Topic:orders"), row("Topic:orders", "Deny")], False),
        ([row("*"), row("Topic:orders", "Deny", type="Default")], True),
        ([row("Topic:other"), row("Topic:orders", type="Default")], True),
    ],
)
def test_the_most_exact_policy_decides(rows: list[dict[str, Any]], wanted: bool | None) -> None:
    assert decided(*rows) is wanted


@pytest.mark.parametrize(
    ("sources", "host", "wanted"),
    [
        ([], HOST, True),
        (["10.0.0.0/8"], HOST, True),
        (["10.0.0.7"], HOST, True),
        (["192.168.0.0/16"], HOST, None),
        (["192.168.0.0/16", "10.0.0.7/32"], HOST, True),
        (["::/0"], HOST, None),
        (["::1"], "::1", True),
        (["0.0.0.0/0"], "", None),
        (["0.0.0.0/0"], "no address", None),
        (["10.0.0.0/8"], f"::ffff:{HOST}", True),
        (["::ffff:10.0.0.0/104"], HOST, True),
    ],
)
def test_sources_are_asked(sources: list[str], host: str, wanted: bool | None) -> None:
    assert decided(row("Topic:orders", sourceIps=sources), host=host) is wanted


@pytest.mark.parametrize(
    "host", [HOST, f"::ffff:{HOST}", "::ffff:a00:7", "", "no address", "10.0.0.7 "]
)
@pytest.mark.parametrize("sources", [["10.0.0.0/8"], ["::ffff:10.0.0.0/104"]])
def test_what_is_denied_stays_so_however_the_address_is_written(
    host: str, sources: list[str]
) -> None:
    """And where it is not known."""
    rows = row("Topic:orders", "Deny", sourceIps=sources), row("Topic:*")
    assert decided(*rows, host=host) is False
    assert decided(*rows, host="192.168.0.1") is True


@pytest.mark.parametrize("host", [HOST, f"::ffff:{HOST}", "::1", "fe80::1%eth0", "2001:db8::1"])
@pytest.mark.parametrize("source", ["::/0", "0.0.0.0/0", "::ffff:0:0/96", "10.0.0.7/0"])
def test_a_deny_of_all_addresses_is_for_every_client(source: str, host: str) -> None:
    """How a client comes is its own choice where a node listens to both kinds."""
    rows = row("Topic:orders", "Deny", sourceIps=[source]), row("Topic:*")
    assert decided(*rows, host=host) is False


@pytest.mark.parametrize(
    ("source", "host", "wanted"),
    [
        ("::/64", HOST, False),
        ("::/64", f"::ffff:{HOST}", False),
        ("::/1", HOST, False),
        ("::/97", HOST, True),
        ("2000::/3", HOST, True),
        ("::ffff:10.0.0.0/104", "10.9.9.9", False),
        ("::ffff:10.0.0.0/104", "11.9.9.9", True),
        ("0.0.0.0/1", "::1", True),
        ("fe80::1", "fe80::1%eth0", False),
        ("fe80::1%eth0", "fe80::1%eth1", False),
        ("fe80::/10", "fe80::2%eth0", False),
        ("10.0.0.0/8", "10.0.0.7%eth0", False),
        ("10.0.0.0/8", "192.168.0.1", True),
    ],
)
def test_a_deny_of_a_network_is_for_all_who_are_in_it(
    source: str, host: str, *, wanted: bool
) -> None:
    rows = row("Topic:orders", "Deny", sourceIps=[source]), row("Topic:*")
    assert decided(*rows, host=host) is wanted


@pytest.mark.parametrize(
    ("source", "host"),
    [("::/0", HOST), ("::/64", HOST), ("0.0.0.0/0", "::1"), ("::/0", ""), ("::/0", "no address")],
)
def test_an_allow_is_for_the_kind_of_addresses_that_it_names(source: str, host: str) -> None:
    assert decided(row("Topic:orders", sourceIps=[source]), host=host) is None


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (7, "is no policy"),
        (row("Cluster:*"), "Super"),
        (row("Topic:"), "Super"),
        (row("orders"), "Super"),
        (row(""), "Super"),
        (row("Topic:a*b"), "at the end only"),
        (row("Topic:a", "Maybe"), "Allow or Deny"),
        (row("Topic:a", type="Third"), "Custom or Default"),
        (row("Topic:a", actions="All"), "Super"),
        (row("Topic:a", actions="Pub|Create"), "Super"),
        (row("Topic:a", actions="Get|List"), "write Pub or Sub"),
        (row("Topic:a") | {"actions": "Sub"}, "list of texts"),
        (row("Group:a", actions="Pub|Sub"), "from all other producers"),
        (row("*") | {"sourceIps": ["everywhere"]}, "is no address"),
        (row("Topic:a", unknown=1), "unknown key"),
        (row("Topic:%RETRY%g", "Deny"), "name Group:NAME"),
        (row("Topic:%DLQ%g*"), "name Group:NAME"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(wrong: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        read_policy(wrong)
    with pytest.raises(AccountsError, match=word):
        account(policies=[wrong])


@pytest.mark.parametrize(
    "kept",
    [
        row("Topic:orders", type="Custom"),
        row("Topic:*", "Deny", "Pub|Sub", type="Default"),
        row("*", type="Custom", sourceIps=["10.0.0.0/8", "::1/128"]),
        row("Group:a*", type="Custom"),
    ],
)
def test_a_row_that_was_read_is_written_as_it_was(kept: dict[str, Any]) -> None:
    assert policy_row(read_policy(kept)) == kept


def account(**fields: Any) -> Account:
    return read_account({"accessKey": "a-reader", "secretKey": "drawn-for-this", **fields})


def test_an_accounts_other_rights_decide_what_no_policy_says() -> None:
    policies = [row("Topic:orders", "Deny", "Sub"), row("Topic:bills")]
    one = account(policies=policies, topicPerms=["orders=PUB|SUB"], defaultTopicPerm="SUB")
    assert one.may("orders", PUB)
    assert not one.may("orders", SUB)
    assert one.may("bills", SUB)
    assert not one.may("bills", PUB)
    assert one.may("else", SUB)
    assert not account(policies=policies).may("else", SUB)


def test_no_pattern_gives_the_brokers_own_topics() -> None:
    one = account(policies=[row("*"), row("Topic:rmq_sys_*")])
    assert one.may("orders", SUB)
    assert not one.may("rmq_sys_dledger_topics", SUB)
    assert account(policies=[row("Topic:rmq_sys_dledger_topics")]).may(
        "rmq_sys_dledger_topics", SUB
    )
