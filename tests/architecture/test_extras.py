"""What each part of the distribution needs, and that a missing part is named in the error."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions

import pytest

from cluster.extras import COMMANDS_OF_EXTRAS, EXTRA_OF, SERVER_PARTS, MissingExtra, missing_extra
from tests.waiting import limit

from .source_tree import ROOT, sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

MODULE_OF = {
    "pyyaml": "yaml",
    "dledger-chaos": "chaos",
    "dledger-client": "cluster",
    "dledger-server": "cluster",
    "dledger-pipeline": "pipeline",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}
#: In a fresh process: no module of these names can be imported; then the code runs.
BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in {blocked!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
{code}
"""
EMBEDDED = (ROOT / "tests/architecture/embedded.py").read_text(encoding="utf-8")


def _run(code: str, blocked: Iterable[str] = EXTRA_OF) -> subprocess.CompletedProcess[str]:
    names = {*blocked, "uvloop", "zlib_ng"}
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(blocked=names, code=code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limit(60),
    )


def _modules(extra: str) -> set[str]:
    """Top-level modules that an extra brings, with those of extras that it includes."""
    found = set()
    for requirement in EXTRAS[extra]:
        match = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", requirement)
        assert match is not None
        if match[1] == "dledger":
            found |= {module for name in match[2].split(",") for module in _modules(name)}
        else:
            found.add(MODULE_OF.get(match[1], match[1].replace("-", "_")))
    return found


def test_the_distribution_alone_needs_the_standard_library_only() -> None:
    (store,) = PROJECT["dependencies"]
    assert store.startswith("dledger-commitlog==")
    done = _run(EMBEDDED)
    assert (done.returncode, done.stdout) == (0, "stored\n"), done.stderr


@pytest.mark.parametrize("package", ["commitlog", "dledger"])
def test_no_module_of_the_log_or_the_store_needs_an_extra(package: str) -> None:
    names = [s.name for s in sources() if s.name.partition(".")[0] == package]
    done = _run(f"import importlib\nfor name in {names!r}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


def test_each_module_that_is_imported_belongs_to_an_extra() -> None:
    known = sys.stdlib_module_names | {"commitlog", "dledger", "cluster", "chaos", "pipeline"}
    optional = {"uvloop", "zlib_ng", "pytest"}  # with a twin, or for tests in a checkout
    imported = {name.partition(".")[0] for s in sources() for name in s.imports()}
    assert imported - known - optional <= set(EXTRA_OF)


@pytest.mark.parametrize("module", EXTRA_OF)
def test_the_extra_that_an_error_names_brings_the_module(module: str) -> None:
    assert module in _modules(EXTRA_OF[module])


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"fast"}))
def test_a_module_that_an_extra_brings_is_known(extra: str) -> None:
    assert _modules(extra) - {"cluster", "uvloop", "zlib_ng"} <= set(EXTRA_OF)


def test_an_embedder_gets_the_quick_json_of_machines_without_the_client() -> None:
    assert "orjson" in _modules("fast")
    assert not _modules("fast") & {"click", "rich"}


def test_all_brings_every_extra() -> None:
    assert _modules("all") == {module for extra in EXTRAS for module in _modules(extra)}


@pytest.mark.parametrize("name", ["import cluster.client", "from cluster import Producer"])
def test_the_client_without_its_extra_says_what_to_install(name: str) -> None:
    done = _run(name)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("cluster.extras.MissingExtra: orjson is not installed"), done.stderr
    assert last.endswith("pip install 'dledger[client]'")


COMMAND = "sys.argv = ['dledger', {words}]\nfrom cluster.entry import main\nmain()"


@pytest.mark.parametrize(
    ("words", "blocked", "extra"),
    [
        ("'--help'", EXTRA_OF, "client"),
        ("'up'", EXTRA_OF, "client"),
        ("'up'", {m for m in EXTRA_OF if EXTRA_OF[m] != "client"}, "server"),
        ("'node', 'run', 'nowhere'", {m for m in EXTRA_OF if EXTRA_OF[m] != "client"}, "server"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(
    words: str, blocked: Iterable[str], extra: str
) -> None:
    done = _run(COMMAND.format(words=words), blocked)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("dledger[missing-extra]: ")
    assert line.endswith(f"pip install 'dledger[{extra}]'")


PARTS_OF_SERVER = {f"cluster.{part}" for part in SERVER_PARTS}
NOT_INSTALLED = """
import importlib.metadata
def version(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = version
"""
NO_PLUG_INS = "import importlib.metadata\nimportlib.metadata.entry_points = lambda **_: ()\n"


@pytest.mark.parametrize(("command", "extra"), COMMANDS_OF_EXTRAS.items())
def test_a_command_of_another_distribution_says_what_to_install(command: str, extra: str) -> None:
    done = _run(NO_PLUG_INS + COMMAND.format(words=f"{command!r}, '--help'"), ())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"dledger[missing-extra]: the command {command} is not installed, and dledger was "
        f"installed without the extra {extra}; pip install 'dledger[{extra}]'\n"
    )


@pytest.mark.parametrize("words", ["produce", "consume", "topic", "group", "message", "leader"])
def test_commands_for_a_running_cluster_need_the_extra_client_only(words: str) -> None:
    blocked = {module for module in EXTRA_OF if EXTRA_OF[module] != "client"}
    done = _run(COMMAND.format(words=f"{words!r}, '--help'"), blocked | PARTS_OF_SERVER)
    assert done.returncode == 0, done.stderr


def test_a_part_of_another_distribution_says_what_to_install() -> None:
    command = COMMAND.format(words="'up', '--help'")
    done = _run(NOT_INSTALLED + command, PARTS_OF_SERVER)
    assert done.returncode == 2
    assert "is not installed, and dledger was installed without the extra server" in done.stderr
    assert done.stderr.endswith("pip install 'dledger[server]'\n")
    done = _run(NOT_INSTALLED + "from cluster import SendTimeout", {"cluster.errors"})
    assert done.stderr.endswith("pip install 'dledger[client]'\n")


def test_a_part_that_an_install_lost_says_how_to_get_it_back() -> None:
    """As where a former dledger, which had these files, was uninstalled afterwards."""
    done = _run(COMMAND.format(words="'up', '--help'"), PARTS_OF_SERVER)
    assert done.returncode == 2
    assert "is missing, although dledger-server is installed; pip install " in done.stderr
    version = PROJECT["version"]
    assert done.stderr.endswith(f"--force-reinstall --no-deps dledger-server=={version}\n")


def test_an_import_that_is_no_matter_of_extras_keeps_its_error() -> None:
    error = ModuleNotFoundError("No module named 'nowhere'", name="nowhere")
    assert missing_extra(error) is error
    named = missing_extra(ModuleNotFoundError("", name="rich.table"))
    assert isinstance(named, MissingExtra)
    assert (named.name, named.extra) == ("rich", "client")


def test_the_modules_of_extras_are_those_of_their_distributions() -> None:
    installed = packages_distributions()
    for module in EXTRA_OF:
        if module in installed:
            importlib.import_module(module)
            assert MODULE_OF.get(installed[module][0].lower(), module) == module
