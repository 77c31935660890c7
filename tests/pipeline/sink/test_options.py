"""Options of the sink: each has a test; what is wrong is said before anything runs."""

from __future__ import annotations

import pytest

from pipeline.options import OptionError
from pipeline.sink.options import STAGING, check_columns, sink_options

SERVERS = {"bootstrap.servers": "127.0.0.1:9876"}


@pytest.mark.parametrize("name", ["bootstrap.servers", "servers", "nameServer"])
def test_servers_have_three_names(name: str) -> None:
    assert sink_options({name: "127.0.0.1:9876;127.0.0.2:9876"}).servers.count(":") == 2


def test_defaults() -> None:
    found = sink_options(SERVERS)
    assert found.is_exactly_once
    assert (found.topic, found.seconds_max) == ("", 120.0)
    assert (found.staging, found.app, found.version) == (STAGING, "", -1)
    assert not found.take_over


def test_every_option_is_taken() -> None:
    more = {"topic": "t", "delivery": "At-Least-Once", "deliveryTimeoutMs": "1500"}
    more |= {"stagingTopic": "s", "txnAppId": "nightly", "txnVersion": "17", "takeOver": "True"}
    own = {"checkpointLocation": "/c", "queryName": "q", "path": "p", "client.requestTimeout": "9"}
    found = sink_options({**SERVERS, **more, **own})
    assert (found.topic, found.is_exactly_once, found.seconds_max) == ("t", False, 1.5)
    assert (found.staging, found.app, found.version) == ("s", "nightly", 17)
    assert found.take_over
    assert found.client.request_timeout == 9.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "bootstrap.servers"),
        ({"servers": "nonsense"}, "host:port"),
        ({**SERVERS, "servers": "127.0.0.1:1"}, "given twice"),
        ({**SERVERS, "colour": "red"}, "unknown option 'colour'"),
        ({**SERVERS, "delivery": "at-most-once"}, "exactly-once"),
        ({**SERVERS, "deliveryTimeoutMs": "soon"}, "milliseconds"),
        ({**SERVERS, "takeOver": "account-a"}, "true or false"),
        ({**SERVERS, "txnAppId": "nightly"}, "go together"),
        ({**SERVERS, "txnVersion": "1"}, "go together"),
        ({**SERVERS, "txnAppId": "nightly", "txnVersion": "1.5"}, "a whole number"),
        ({**SERVERS, "txnAppId": "nightly", "txnVersion": "9" * 10}, "from 0 to 2147483647"),
        ({**SERVERS, "client.colour": "red"}, "client.colour"),
        ({**SERVERS, "client.requestTimeout": "soon"}, "client.request"),
        ({**SERVERS, "client.requestTimeout": "0.1"}, "stall_timeout"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        sink_options(given)


@pytest.mark.parametrize(
    ("names", "topic", "said"),
    [
        (["key"], "t", "no column value"),
        (["value"], "", "no topic"),
        (["value", "colour"], "t", "column 'colour'"),
    ],
)
def test_frames_that_cannot_be_written(names: list[str], topic: str, said: str) -> None:
    options = sink_options({**SERVERS, "topic": topic})
    with pytest.raises(OptionError, match=said):
        check_columns(names, options)
    check_columns(["value", "topic"], options)
