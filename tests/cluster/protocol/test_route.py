"""A broker name's nodes, as routes name them."""

from __future__ import annotations

from cluster.protocol.route import BrokerData


def test_nodes_are_in_the_order_of_numbers_each_once() -> None:
    addresses = {
        0: "10.0.0.10:10911",
        1: "10.0.0.9:10921",
        2: "10.0.0.9:9911",
        3: "10.0.0.10:10911",
        4: "[fe80::1]:10911",
        5: "b10:10911",
        6: "b9:10911",
    }
    assert BrokerData("broker-a", "C", addresses).nodes == [
        "10.0.0.9:9911",
        "10.0.0.9:10921",
        "10.0.0.10:10911",
        "[fe80::1]:10911",
        "b9:10911",
        "b10:10911",
    ]
