"""What `dledger status` says below its table."""

from __future__ import annotations

from cluster.commands.status import relays, troubles


def test_a_node_says_what_ails_it_in_its_own_words() -> None:
    rows = [
        {"node": "n0", "failed": "", "disk": "good", "disk_detail": ""},
        {"node": "n1", "failed": "", "disk": "stalled", "disk_detail": "a log sync is not back"},
        {"node": "n2", "failed": "no space", "disk": "full", "disk_detail": "no file was made"},
        {"node": "n3", "up": False, "role": "unreachable"},
    ]
    assert list(troubles(rows)) == [
        "n1: its disk is stalled: a log sync is not back",
        "n2 has failed: no space",
    ]


def test_relays_are_told_for_each_group_that_has_any() -> None:
    rows = [
        {"node": "n0", "group": "a", "relay_port": 10915, "sends_through_relays": 1_000},
        {"node": "n1", "group": "a", "relay_port": 10915, "sends_through_relays": 234},
        {"node": "n2", "group": "a", "up": False, "role": "unreachable"},
        {"node": "n0", "group": "b", "relay_port": 0, "sends_through_relays": 0},
    ]
    assert list(relays(rows)) == ["a: relays at n0, n1, with 1,234 sends so far"]
    quiet = [row | {"sends_through_relays": 0} for row in rows]
    assert list(relays(quiet)) == ["a: relays at n0, n1"]
    told = [row | {"notifications": 1_500} for row in rows]
    assert list(relays(told)) == [
        "a: relays at n0, n1, with 1,234 sends and 3,000 notifications so far"
    ]
