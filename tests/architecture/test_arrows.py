"""Imports that import-linter's contracts do not cover."""

from __future__ import annotations

import sys

import pytest

from .source_tree import PACKAGES, inside, sources

# Values only: nothing here reads a clock, a file, a socket or chance.
PURE = {
    *("__future__", "abc", "bisect", "collections", "dataclasses", "enum", "functools", "heapq"),
    *("itertools", "math", "operator", "struct", "types", "typing", "zlib"),
}
# Formats also need text: JSON headers, hex, addresses, hashes; still no clock, file or socket.
FORMATS = PURE | {"binascii", "hashlib", "hmac", "base64", "ipaddress", "json", "orjson", "re"}
FORMATS |= {"shlex"}  # commands as texts


def top(module: str) -> str:
    return module.partition(".")[0]


@pytest.mark.parametrize("package", ["commitlog", "dledger"])
def test_below_cluster_there_is_only_the_standard_library(package: str) -> None:
    wrong = [
        f"{source.path} imports {module}"
        for source in inside(package)
        for module in source.imports()
        if top(module) not in sys.stdlib_module_names | set(PACKAGES)
        and not (source.path == "commitlog/records/accel.py" and top(module) == "numpy")
        and not (source.path == "commitlog/records/checksum.py" and top(module) == "zlib_ng")
        and not (package == "dledger" and top(module) == "uvloop")
        and not (source.path == "dledger/machine/state_machine.py" and top(module) == "orjson")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("package", "own"),
    [
        ("dledger.core", ("dledger.core",)),
        (
            "cluster.core",
            (
                "cluster.core",
                "cluster.protocol",
                "commitlog",
                "dledger.core",
                "dledger.errors",  # values
                "dledger.producers",
            ),
        ),
    ],
)
def test_pure_packages_import_values_only(package: str, own: tuple[str, ...]) -> None:
    allowed = PURE if package == "dledger.core" else FORMATS
    wrong = [
        f"{source.path} imports {module}"
        for source in inside(package)
        for module in source.imports()
        if top(module) not in allowed and not module.startswith(own)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_protocol_is_bytes_and_values() -> None:
    wrong = [
        f"{source.path} imports {module}"
        for source in inside("cluster.protocol")
        for module in source.imports()
        if top(module) in {"asyncio", "socket", "threading", "time", "random", "os", "aiohttp"}
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("cluster.client", ("cluster.broker", "cluster.nameserver", "cluster.local", "dledger.")),
        ("cluster.nameserver", ("cluster.broker", "cluster.local", "cluster.cli")),
        ("cluster.broker", ("cluster.local", "cluster.cli", "cluster.bench")),
        *(
            (f"dledger.{folder}", ("dledger.runtime", "dledger.replica.replica"))
            for folder in (
                "log",
                "durable",
                "repair",
                "snapshots",
                "wire",
                "membership",
                "producers",
            )
        ),
        ("chaos.sim", ("asyncio", "cluster.broker", "cluster.client", "cluster.local")),
    ],
)
def test_arrows_inside_the_layers(package: str, forbidden: tuple[str, ...]) -> None:
    wrong = [
        f"{source.path} imports {module}"
        for source in inside(package)
        for module in source.imports()
        if module.startswith(forbidden)
    ]
    assert not wrong, "\n".join(wrong)


def test_aiohttp_stays_in_the_admin_server() -> None:
    users = {s.path for s in sources() for m in s.imports() if top(m) == "aiohttp"}
    # The last one is an HTTP server as well, of the chaos suite, and on no message's path.
    assert users <= {
        "cluster/broker/admin/admin_http.py",
        "cluster/broker/admin/http_log.py",
        "cluster/console/http.py",
        "chaos/toxiproxy/server.py",
        "chaos/alerts/prometheus.py",  # asks a Prometheus
    }


def test_only_commitlog_files_maps_and_syncs() -> None:
    """One place to look for durability bugs, and one to replace in the simulator (rule R12)."""
    wrong = [
        f"{source.path} uses {word}"
        for source in [*inside("commitlog"), *inside("dledger"), *inside("cluster.broker")]
        if source.path != "commitlog/files/system.py"
        for word in ("os.fsync", "os.fdatasync", "mmap.mmap", "os.pwrite")
        # A map of nothing (-1) is memory, not a file.
        if f"{word}(" in source.text.replace("mmap.mmap(-1", "")
    ]
    assert not wrong, "\n".join(wrong)
