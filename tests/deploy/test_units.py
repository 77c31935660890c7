"""Units of systemd: hardened, as systemd's own checker reads them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.local.nameserver_main import arguments_of
from tests.waiting import limit

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
#: systemd-analyze: tenths, 20 is well within "OK"; a plain unit has 92.
EXPOSURE_MAX = 20
HARDENED = {
    "CapabilityBoundingSet": "",
    "MemoryDenyWriteExecute": "yes",
    "NoNewPrivileges": "yes",
    "PrivateDevices": "yes",
    "PrivateTmp": "yes",
    "ProtectHome": "yes",
    "ProtectSystem": "strict",
    "RestrictNamespaces": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "User": "dledger",
}


def options_of(unit: Path) -> dict[str, list[str]]:
    """Option → its values in order, of all sections; a line that ends in a backslash goes on."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text("utf-8").replace("\\\n", " ").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_there_is_one_for_nodes_and_one_for_name_servers() -> None:
    assert [unit.stem for unit in UNITS] == ["dledger-nameserver", "dledger"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_it_is_hardened_and_starts_again_when_it_crashed(unit: Path) -> None:
    options = options_of(unit)
    assert {name: options[name] for name in HARDENED} == {k: [v] for k, v in HARDENED.items()}
    assert options["SystemCallFilter"] == ["@system-service", "~@privileged"]
    # psutil reads /proc/meminfo, and nodes tell systemd that they are ready by a socket of AF_UNIX.
    assert "ProcSubset" not in options
    assert options["RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"]
    assert (options["Type"], options["Restart"]) == (["notify"], ["on-failure"])
    assert options["RestartPreventExitStatus"] == ["2"]


def test_the_name_server_is_started_with_options_that_it_has() -> None:
    (words,) = options_of(ROOT / "deploy/systemd/dledger-nameserver.service")["ExecStart"]
    given = words.replace("${LISTEN}", "10.0.0.20:9876")
    options = arguments_of("dledger nameserver").parse_args(shlex.split(given)[2:])
    assert (options.listen, options.open_to_network) == ("10.0.0.20:9876", True)
    (folder,) = options_of(ROOT / "deploy/systemd/dledger-nameserver.service")["StateDirectory"]
    assert options.kv_folder == Path("/var/lib", folder)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_itself_finds_no_fault(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("not here: systemd-analyze")
    program = str(Path(sys.executable).with_name("dledger"))
    here = tmp_path / unit.name
    here.write_text(unit.read_text("utf-8").replace("/opt/dledger/bin/dledger", program))
    rated = ["security", "--offline=true", f"--threshold={EXPOSURE_MAX}"]
    for words in (["verify", "--man=no"], rated):
        command = ["systemd-analyze", *words, str(here)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit(60))
        assert done.returncode == 0, done.stdout + done.stderr
