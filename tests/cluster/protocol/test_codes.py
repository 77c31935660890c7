"""Codes and exceptions map one to one, and every exception says what a caller may do."""

from __future__ import annotations

import inspect

import pytest

from cluster import errors
from cluster.errors import ClusterError, NotDone, NotLeader, Outcome, OutcomeUnknown
from cluster.protocol.codes import (
    CODE_BY_EXCEPTION,
    EXCEPTION_BY_CODE,
    STOCK_CODE,
    VERSION_OWN,
    RequestCode,
    ResponseCode,
    code_for,
    exception_for,
)

TREE = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ClusterError)
]


def test_one_class_per_code_and_one_code_per_class() -> None:
    assert len(CODE_BY_EXCEPTION) == len(EXCEPTION_BY_CODE)
    for code, kind in EXCEPTION_BY_CODE.items():
        assert CODE_BY_EXCEPTION[kind] == code
        error = exception_for(code, "why", {})
        assert type(error) is kind
        assert code_for(error, VERSION_OWN) == code
        assert error.happened == "why"
        assert str(error) == f"why; {kind.advice}", "a bare remark gets the advice of its class"


def test_every_failing_response_code_has_a_class() -> None:
    results = {0, 10, 11, 12, 19, 20, 21, 207, 208, 209, 210}
    assert {int(code) for code in ResponseCode} - results == set(EXCEPTION_BY_CODE)


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_certain_or_unknown(kind: type[ClusterError]) -> None:
    if issubclass(kind, NotDone):
        assert kind.outcome is Outcome.NOT_DONE
    if issubclass(kind, OutcomeUnknown):
        assert kind.outcome is Outcome.UNKNOWN
    assert isinstance(kind.retriable, bool)
    assert kind.__name__ in (errors.__doc__ or ""), "the tree in the module's text names it"


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_foreign_clients_see_stock_codes_only(kind: type[ClusterError]) -> None:
    code = code_for(kind, 479)
    assert code < 31000
    assert code_for(kind, VERSION_OWN) == code or STOCK_CODE[code_for(kind, VERSION_OWN)] == code


def test_what_every_client_retries() -> None:
    for kind in (NotLeader, errors.ServiceNotAvailable, errors.SequenceGap, OutcomeUnknown):
        assert code_for(kind, 409) == ResponseCode.SERVICE_NOT_AVAILABLE


def test_the_leader_is_named() -> None:
    error = exception_for(ResponseCode.NOT_LEADER, None, {"leader": "127.0.0.12:10911"})
    assert isinstance(error, NotLeader)
    assert error.leader == "127.0.0.12:10911"


def test_an_unknown_code_is_an_unknown_outcome() -> None:
    error = exception_for(4711, "odd", {})
    assert isinstance(error, errors.UnknownResponseCode)
    assert error.code == 4711
    assert error.outcome is Outcome.UNKNOWN


def test_codes_fit_every_codec() -> None:
    pops = {code for code in RequestCode if code >= 200_000}  # RocketMQ's, in JSON headers only
    assert all(0 <= code < 32768 for code in {*RequestCode, *ResponseCode} - pops)
    own = [code for code in [*RequestCode, *ResponseCode] if 31000 <= code < 200_000]
    assert all(31000 <= code <= 31999 for code in own)
