"""When the certificates end that a node uses, and who hears of it in time."""

from __future__ import annotations

import datetime
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.broker.admin_state import snapshot
from cluster.health.alerts import alerts
from cluster.security import certificate_ends
from cluster.security.certificate_ends import (
    SIZE_MAX,
    URGENT_SECONDS,
    WARNED_SECONDS,
    CertificateEnds,
    Found,
    first_end,
    found_in,
)
from cluster.security.certificates import Subject, all_of, make_all, renew
from tests.cluster.broker.conftest import MakeBrokers, make_brokers
from tests.cluster.broker.harness import Brokers

__all__ = ["make_brokers"]  # a fixture

DAY = 86_400
NOW = time.time()


def ends_in(folder: Path, days: int, name: str = "n0") -> Path:
    make_all(folder, [Subject(name)], days)
    return folder / f"{name}.pem"


def in_days(seconds: float, days: int) -> bool:
    """Within a tenth of a day."""
    left = seconds - NOW
    return abs(left - days * DAY) < DAY / 10


def test_a_renewed_certificate_counts_at_once(tmp_path: Path) -> None:
    used, ends = [("clients", ends_in(tmp_path, 3))], CertificateEnds()
    assert [in_days(row.seconds, 3) for row in ends.of(used)] == [True]
    renew(tmp_path, datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=30), 90)
    assert [in_days(row.seconds, 90) for row in ends.of(used)] == [True]


def test_it_is_the_end_that_openssl_sees(tmp_path: Path) -> None:
    path = ends_in(tmp_path, 3)
    (found,) = (one for one in all_of(tmp_path) if one.file == path.name)
    assert first_end(found_in(path.read_bytes()), NOW, is_chain=True) == found.ends.timestamp()


def test_the_first_authority_of_a_file_counts_and_one_that_has_ended_beside_others_does_not(
    tmp_path: Path,
) -> None:
    both = b"".join(ends_in(tmp_path, days, f"n{days}").read_bytes() for days in (3, 9))
    leaves = [one.ends.timestamp() for one in all_of(tmp_path) if one.file in ("n3.pem", "n9.pem")]
    first, later = sorted(leaves)
    found = found_in(both)
    assert first_end(found, NOW, is_chain=False) == first
    assert first_end(found, first + 1, is_chain=False) == later
    assert first_end(found, later + 20 * 365 * DAY, is_chain=False) == min(
        one.ends.timestamp() for one in all_of(tmp_path)
    ), "all have ended: it is the first one"


def test_a_nodes_own_certificate_that_has_ended_counts_beside_its_authority(tmp_path: Path) -> None:
    """`dledger tls init` writes both into the node's file, and the authority ends years later."""
    found = found_in(ends_in(tmp_path, 3).read_bytes())
    own, authority = (one.end for one in found)
    assert first_end(found, own + 1, is_chain=True) == own
    assert first_end(found, authority + 1, is_chain=True) == own
    replaced = [Found(own, False), Found(NOW - DAY, True)]
    assert first_end(replaced, NOW, is_chain=True) == own, "clients have the new authority"
    between = [Found(own, False), Found(NOW - DAY, False), Found(authority, True)]
    assert first_end(between, NOW, is_chain=True) == NOW - DAY


def test_an_authority_that_ends_beside_others_leaves_without_a_change_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(ends_in(tmp_path, days, f"n{days}").read_bytes() for days in (3, 9)))
    used, ends = [("clients-authority", both)], CertificateEnds()
    assert [in_days(row.seconds, 3) for row in ends.of(used)] == [True]
    monkeypatch.setattr(certificate_ends.time, "time", lambda: NOW + 4 * DAY)
    assert [in_days(row.seconds, 9) for row in ends.of(used)] == [True]


@pytest.mark.parametrize("wrong", ["no certificate", "a folder", "gone", "too large"])
def test_the_certificates_read_before_are_told_while_their_file_is_wrong(
    tmp_path: Path, wrong: str
) -> None:
    pem = ends_in(tmp_path, 3)
    used, ends = [("clients", pem)], CertificateEnds()
    before = ends.of(used)
    assert before
    content = pem.read_bytes()
    pem.unlink()
    if wrong == "a folder":
        pem.mkdir()
    elif wrong != "gone":
        pem.write_bytes(b"none" if wrong == "no certificate" else content + b" " * SIZE_MAX)
    assert ends.of(used) == before, "the port has them in force"


def test_a_certificate_that_only_openssl_takes_has_no_row(tmp_path: Path) -> None:
    """A wrong number of a version, for one: its parser raises what is no ValueError."""
    pem = ends_in(tmp_path, 3)
    der = ssl.PEM_cert_to_DER_cert(pem.read_text().partition("-----END")[0] + ssl.PEM_FOOTER + "\n")
    version = b"\xa0\x03\x02\x01"
    assert version in der
    pem.write_text(ssl.DER_cert_to_PEM_cert(der.replace(version + b"\x02", version + b"\x07", 1)))
    ssl.create_default_context().load_verify_locations(pem)
    assert CertificateEnds().of([("clients", pem)]) == []


@pytest.mark.parametrize("content", [b"", b"no certificate", None])
def test_a_file_that_cannot_be_read_has_no_row(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "n0.pem"
    if content is not None:
        path.write_bytes(content)
    assert CertificateEnds().of([("clients", path)]) == []


def told(days: float) -> list[dict[str, str]]:
    row = {
        "group": "g", "node": "n0", "role": "leader", "term": 1, "up": True, "disk": "good",
        "certificate_ends_at": int(time.time() + days * DAY),
        "certificate_ends_first": "n0.pem (peers)",
    }  # fmt: skip
    return [one for one in alerts([row], {"g": {}}) if one["id"] == "certificate-ends"]


def test_an_end_is_told_two_weeks_ahead_and_is_urgent_from_two_days_on() -> None:
    assert (WARNED_SECONDS, URGENT_SECONDS) == (14 * DAY, 2 * DAY)
    assert told(14.1) == []
    (warned,) = told(13.9)
    assert (warned["level"], warned["subject"]) == ("warning", "n0")
    assert "n0.pem (peers)" in warned["message"]
    assert told(1.9)[0]["level"] == "critical"
    assert "has ended" in told(-1)[0]["message"]


async def certificates(brokers: Brokers) -> list[dict[str, Any]]:
    node = await brokers.leader()
    found: list[dict[str, Any]] = snapshot(node.parts, node.address)["certificates"]
    return found


async def test_a_node_tells_the_ends_of_the_files_that_it_uses(
    make_brokers: MakeBrokers, tmp_path: Path
) -> None:
    pem = ends_in(tmp_path / "tls", 3)
    files = {"tls_certificate": str(pem), "tls_key": str(pem.with_suffix(".key"))}
    both = {"tls_client_authority": str(tmp_path / "tls" / "authority.pem"), **files}
    async with make_brokers(
        raft={"tls_mode": "disabled"}, tls_mode="permissive", **both
    ) as brokers:
        rows = await certificates(brokers)
        assert [(row["use"], row["file"]) for row in rows] == [
            ("clients", "n0.pem"),
            ("clients-authority", "authority.pem"),
        ]
        assert in_days(rows[0]["seconds"], 3)
        client = await brokers.client(await brokers.leader())
        said = (await client.ask(28)).body.decode()
        assert f'"dledger.certificate_ends_at":"{int(rows[0]["seconds"])}"' in said
        assert '"dledger.certificate_ends_first":"n0.pem (clients)"' in said


async def test_files_that_are_set_and_not_used_are_not_told(
    make_brokers: MakeBrokers, tmp_path: Path
) -> None:
    pem = ends_in(tmp_path / "tls", 3)
    files = {"tls_certificate": str(pem), "tls_key": str(pem.with_suffix(".key"))}
    async with make_brokers(**files) as brokers:
        assert await certificates(brokers) == []
