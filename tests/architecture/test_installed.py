"""The wheels, installed in fresh environments with each extra: what works, what says why not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.own_network import own_network
from tests.waiting import limit

from .source_tree import ROOT
from .wheel_contents import FOLDERS, files_of, project

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

_UV = ROOT / ".tools" / "uv" / "bin" / "uv"
#: uv, which keeps what it has built; without it pip does the same in minutes.
UV = (
    None
    if os.environ.get("DLEDGER_NO_UV")
    else shutil.which("uv") or (str(_UV) if _UV.exists() else None)
)
#: Distribution → the folder that it is built from.
WHEELS = {project(folder)["name"].replace("-", "_"): folder for folder in FOLDERS}
WHEEL_BYTES_MAX = 1_500_000
"""The largest one has 0.64 MB of it; a wheel that nears it is to be split again."""
EMBEDDED = ROOT / "tests" / "architecture" / "embedded.py"


@dataclass(frozen=True, slots=True)
class Environment:
    """A fresh environment with our wheels; `home` stands in for the user's home folder."""

    folder: Path
    home: Path

    def run(
        self, *words: str, before: Sequence[str] = (), stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, away from the checkout."""
        program, *rest = words
        return subprocess.run(
            [*before, str(self.folder / "bin" / program), *rest],
            cwd=self.home,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=limit(120),
        )

    def must(self, *words: str, before: Sequence[str] = (), stdin: str = "") -> str:
        """Run a program that must end well; its output."""
        done = self.run(*words, before=before, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our wheels, built from the checkout as it is."""
    folder = tmp_path_factory.mktemp("wheels")
    sources = [str(ROOT / source) for source in WHEELS.values()]
    if UV is not None:
        for source in sources:
            _step(UV, "build", "-q", "--wheel", "--out-dir", str(folder), source)
    else:
        builder = tmp_path_factory.mktemp("builder") / "venv"
        _step(sys.executable, "-m", "venv", str(builder))
        pip = (str(builder / "bin" / "python"), "-m", "pip")
        _step(*pip, "wheel", "-q", "--no-deps", "-w", str(folder), *sources)
    return folder


def _step(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=limit(600))
    assert done.returncode == 0, done.stdout + done.stderr


def _install(wheels: Path, folder: Path, extra: str) -> Environment:
    """A fresh environment with our wheels, and with what the index of scripts/_env has."""
    environment = Environment(folder / "venv", folder / "home")
    environment.home.mkdir()
    python = str(environment.folder / "bin" / "python")
    (main,) = wheels.glob("dledger-*.whl")  # by its path: an index may have the name, too
    what = ["--find-links", str(wheels), f"{main}[{extra}]" if extra else str(main)]
    if UV is not None:
        # uv would take what it unpacked from a folder of the same path before.
        what += [word for name in WHEELS for word in ("--refresh-package", name.replace("_", "-"))]
        _step(UV, "venv", "-q", "--python", sys.executable, str(environment.folder))
        _step(UV, "pip", "install", "-q", "--python", python, *what)
    else:
        _step(sys.executable, "-m", "venv", str(environment.folder))
        _step(python, "-m", "pip", "install", "-q", *what)
    return environment


def _distributions(environment: Environment) -> set[str]:
    code = "from importlib.metadata import distributions as d; print(*{x.name for x in d()})"
    return set(environment.must("python", "-c", code).split()) - {"pip", "setuptools"}


def test_each_wheel_has_our_packages_and_nothing_else(wheels: Path) -> None:
    found = {wheel.name.partition("-")[0]: wheel for wheel in wheels.glob("*.whl")}
    assert found.keys() == WHEELS.keys()
    for name, wheel in found.items():
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        assert [name for name in names if name.endswith("/LICENSE")], name
        files = {one for one in names if ".dist-info/" not in one}
        assert files == files_of(WHEELS[name]), name
        assert wheel.stat().st_size <= WHEEL_BYTES_MAX, name


def test_they_install_from_a_folder_without_an_index(wheels: Path, tmp_path: Path) -> None:
    """By pip itself, which comes with Python: what an air-gapped machine has."""
    python = str(tmp_path / "venv" / "bin" / "python")
    _step(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    offline = ("-m", "pip", "install", "-q", "--no-index", "--find-links", str(wheels))
    _step(python, *offline, "dledger")
    _step(python, *offline, "dledger-pipeline")
    environment = Environment(tmp_path / "venv", tmp_path)
    assert _distributions(environment) == {name.replace("_", "-") for name in WHEELS}
    assert environment.must("python", str(EMBEDDED)) == "stored\n"


def test_the_log_and_the_store_come_alone(wheels: Path, tmp_path: Path) -> None:
    environment = _install(wheels, tmp_path, "")
    assert _distributions(environment) == {"dledger", "dledger-commitlog"}
    assert environment.must("python", str(EMBEDDED)) == "stored\n"
    done = environment.run("python", "-c", "import cluster.client")
    assert done.stderr.strip().endswith("pip install 'dledger[client]'")
    done = environment.run("dledger", "up")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith("pip install 'dledger[client]'\n")


def test_the_client_brings_the_commands_that_ask_a_cluster(wheels: Path, tmp_path: Path) -> None:
    environment = _install(wheels, tmp_path, "client")
    assert not _distributions(environment) & {"dledger-server", "dledger-chaos"}
    environment.must("python", "-c", "from cluster import Producer, connect, SendTimeout")
    environment.must("dledger", "produce", "--help")
    done = environment.run("dledger", "up")
    assert done.returncode == 2
    assert done.stderr.endswith("pip install 'dledger[server]'\n")


def test_the_server_runs_a_cluster(wheels: Path, tmp_path: Path) -> None:
    environment = _install(wheels, tmp_path, "server")
    with own_network() as network:
        try:
            environment.must("dledger", "up", before=network)
            done = environment.run("dledger", "demo")
            assert done.returncode == 2
            assert done.stderr.endswith("pip install 'dledger[chaos]'\n")
            environment.must("dledger", "produce", "t", before=network, stdin="hi\n")
            assert environment.must("dledger", "consume", "t", "-n", "1", before=network) == "hi\n"
        finally:
            environment.run("dledger", "down", "--purge", before=network)


def test_chaos_simulates(wheels: Path, tmp_path: Path) -> None:
    environment = _install(wheels, tmp_path, "chaos")
    said = environment.must("dledger", "sim", "--seeds", "0..2", "--seconds", "3")
    assert "violations 0" in said


def test_spark_has_what_the_pipeline_needs(wheels: Path, tmp_path: Path) -> None:
    environment = _install(wheels, tmp_path, "spark")
    environment.must(
        "python",
        "-c",
        "from pipeline.requirements import check_packages; check_packages()\n"
        "import pipeline.rawlog.source, pipeline.source.source, pyspark_dledger",
    )


@pytest.mark.skipif(UV is None, reason="pip makes no archive of sources")
@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != "."])
def test_an_archive_of_sources_that_no_wheel_could_be_built_from_is_refused(
    tmp_path: Path, folder: str
) -> None:
    """It would have neither the packages' folder nor the hook, and `uv build` would publish it."""
    command = (str(UV), "build", "--sdist", "--out-dir", str(tmp_path), str(ROOT / folder))
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit(600))
    assert done.returncode != 0
    assert f"uv build --wheel {folder}" in done.stderr
    assert not list(tmp_path.glob("*.tar.gz"))
