"""Another distribution on the index is called `cluster` too; one would overwrite the other."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections import Counter
from importlib.metadata import entry_points, packages_distributions
from pathlib import Path

import pytest

from cluster.extras import COMMANDS_OF_EXTRAS, SERVER_PARTS
from cluster.health.machine import DISTRIBUTIONS

from .source_tree import PACKAGES, ROOT
from .wheel_contents import FOLDERS, files_below, files_of, packages_of, project

SHIMS = ("pyspark_dledger", "pyspark_dledger_archive", "pyspark_dledger_log")


def test_the_distributions_are_of_one_version_and_ask_for_just_that() -> None:
    """They import each other's private modules, so a mixture is not an installation."""
    projects = [project(folder) for folder in FOLDERS]
    assert {one["name"] for one in projects} == DISTRIBUTIONS
    (version,) = {one["version"] for one in projects}
    asked = [
        requirement
        for one in projects
        for part in (one["dependencies"], *one.get("optional-dependencies", {}).values())
        for requirement in part
        if re.match(r"dledger(-|=)", requirement)
    ]
    assert len(asked) == 9
    assert {requirement.partition("==")[2] for requirement in asked} == {version}
    assert {one["requires-python"] for one in projects} == {projects[0]["requires-python"]}


def test_a_distribution_asks_for_the_one_below_it() -> None:
    """Installers go by that order. The new dledger is installed, and a former one's files are
    removed, before the distributions are that took files over from it."""
    asked = [project(folder)["dependencies"] for folder in FOLDERS]
    bare = [[one.partition("==")[0] for one in each] for each in asked]
    ours = [[name for name in each if name in DISTRIBUTIONS] for each in bare]
    names = [project(folder)["name"] for folder in FOLDERS]
    assert ours == [[], *([name] for name in names[:-1])]


def test_each_file_is_in_one_wheel() -> None:
    """A second one with it would overwrite it, and remove it when it is uninstalled."""
    held = [name for folder in FOLDERS for name in files_of(folder)]
    assert [name for name, times in Counter(held).items() if times > 1] == []
    assert set(held) == files_below((*PACKAGES, *SHIMS))


def test_the_extra_that_brings_a_part_of_cluster_is_known() -> None:
    assert {name.partition("/")[2] for name in packages_of("cluster/broker")} == SERVER_PARTS


def test_a_command_of_an_extra_is_known_without_it() -> None:
    """So that `dledger demo` without the extra names it."""
    plugged = {name for point in entry_points(group="dledger.commands") for name in point.load()}
    assert plugged == set(COMMANDS_OF_EXTRAS)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_ours_alone(package: str) -> None:
    # An editable install lists no packages, so the name is either absent or ours.
    assert set(packages_distributions().get(package, [])) <= DISTRIBUTIONS
    file = importlib.import_module(package).__file__
    assert file is not None
    assert Path(file).is_relative_to(ROOT / package)


def test_conf_is_data() -> None:
    assert not list((ROOT / "conf").rglob("*.py"))


def test_the_command_and_its_plug_ins_resolve() -> None:
    (command,) = entry_points(group="console_scripts", name="dledger")
    assert callable(command.load())
    for point in entry_points(group="dledger.commands"):
        assert point.load()


def test_pip_installs_the_groups_that_uv_installs() -> None:
    """Both ways of scripts/_env make an environment in which every gate runs."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = (ROOT / "scripts/_env").read_text("utf-8").splitlines()
    code = "\n".join(line for line in lines if not line.strip().startswith("#"))
    by_pip = re.findall(r"--group (\w+)", code)
    assert sorted(["ours", *by_pip]) == sorted(whole["tool"]["uv"]["default-groups"])
    by_path = re.findall(r"-e ([\w/]+)", code)
    members = sorted({*FOLDERS} - {"."})
    assert sorted(by_path) == sorted(whole["tool"]["uv"]["workspace"]["members"]) == members
