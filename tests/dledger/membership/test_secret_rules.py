"""What everybody knows or can guess is no secret; no sentence about one shows it."""

from __future__ import annotations

import pytest

from cluster.broker.config import BrokerConfig
from dledger import RaftConfig
from dledger.membership.proof import secret_error

WRONG = {
    "": "has 0 characters",
    "seven77": "has 7 characters",
    "change me: the same on every node": "still the example's text",
    "CHANGEME-CHANGEME": "still the example's text",
    "please-change-me-now": "still the example's text",
    "a placeholder of mine": "still the example's text",
    "12345678": "tried first",
    "Password": "tried first",
    "ababababababab": "tried first",
}


@pytest.mark.parametrize("secret", WRONG)
def test_no_setting_takes_what_is_no_secret(secret: str) -> None:
    said = secret_error(secret)
    assert said is not None
    assert WRONG[secret] in said
    assert not secret or secret not in said
    peers = {"n0": ("127.0.0.1", 20911)}
    raft = RaftConfig(node_id="n0", peers=peers, data_dir="/nowhere", secret=secret)
    broker = BrokerConfig(node_id="n0", root="/nowhere", cluster_secret=secret)  # type: ignore[arg-type]
    for config in (raft, broker):
        with pytest.raises(ValueError, match=WRONG[secret]):
            config.validate()


def test_a_drawn_secret_is_good() -> None:
    assert secret_error("4f1d" * 16) is None
    assert secret_error("exactly8") is None
