"""The table from errors to the next step."""

from __future__ import annotations

import inspect

import pytest

from cluster import errors
from cluster.client.routing.retry_rules import Action, rule_for
from cluster.errors import ClusterError

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(
    "kind",
    [k for _, k in inspect.getmembers(errors, inspect.isclass) if issubclass(k, ClusterError)],
    ids=lambda kind: kind.__name__,
)
def test_every_error_has_a_rule(kind: type[ClusterError]) -> None:
    error = kind("x", 1) if kind is errors.UnknownResponseCode else kind("x")  # type: ignore[call-arg]
    rule = rule_for(error)
    assert (rule.action is Action.GIVE_UP) == (not error.retriable)
    assert rule.pause <= 0.05, "failover must stay well under a second"
