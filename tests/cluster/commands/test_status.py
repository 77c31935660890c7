"""What `dledger status` says below its table."""

from __future__ import annotations

from cluster.commands.status import troubles


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
