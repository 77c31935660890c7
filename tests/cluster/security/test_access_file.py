"""The accounts file: read again when it changes, and a bad one never locks anybody out."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from cluster.core.access.accounts import AccountsError
from cluster.security.access_file import FILE_BYTES_MAX, Access

GOOD = """
accounts:
- accessKey: orders
  secretKey: orders-12345678
  topicPerms:
  - orders=PUB|SUB
"""


def _write(path: Path, text: str, at: int) -> None:
    path.write_text(text)
    os.utime(path, ns=(at, at))


def test_a_change_is_seen_and_a_mistake_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "plain_acl.yml"
    _write(path, GOOD, 1)
    access = Access(path)
    assert access.accounts.by_key["orders"].secret_key == "orders-12345678"
    assert not access.look_again()
    _write(path, GOOD.replace("12345678", "87654321"), 2)
    assert access.look_again()
    assert access.accounts.by_key["orders"].secret_key == "orders-87654321"
    with caplog.at_level(logging.ERROR):
        _write(path, "accounts: [", 3)
        assert not access.look_again()
        path.unlink()
        assert not access.look_again()
    assert "stay in force" in caplog.text
    assert access.accounts.by_key["orders"].secret_key == "orders-87654321"


@pytest.mark.parametrize(
    "text", ["accounts: [", "", "\x80", "accounts: 7", "- a", "!!python/object:x {}"]
)
def test_a_file_that_cannot_be_understood_stops_the_start(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(AccountsError):
        Access(path)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("seven77", "secretKey has 7 characters"),
        ("'12345678'", "secretKey is one that is tried first"),
        ("change-me", "secretKey is still the example's text"),
    ],
)
def test_what_everybody_can_guess_is_no_secret(tmp_path: Path, secret: str, said: str) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(GOOD.replace("orders-12345678", secret))
    with pytest.raises(AccountsError, match=f"account 'orders': {said}") as found:
        Access(path)
    assert secret.strip("'") not in str(found.value)


def test_an_endless_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(AccountsError, match="more than"):
        Access(path)
