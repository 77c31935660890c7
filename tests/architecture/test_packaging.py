"""Another distribution on the index is called `cluster` too; one would overwrite the other."""

from __future__ import annotations

import importlib
import re
import tomllib
from importlib.metadata import entry_points, packages_distributions
from pathlib import Path
from typing import Any

import pytest

from cluster.extras import COMMANDS_OF_EXTRAS
from cluster.health.machine import DISTRIBUTIONS

from .source_tree import PACKAGES, ROOT

PARTS = ("commitlog", "chaos", "pipeline")
"""Folders with a distribution of their own; all else is the distribution dledger."""


def project(folder: str) -> dict[str, Any]:
    text = (ROOT / folder / "pyproject.toml").read_text("utf-8")
    return dict(tomllib.loads(text)["project"])


def test_the_distributions_are_of_one_version_and_ask_for_just_that() -> None:
    """They import each other's private modules, so a mixture is not an installation."""
    projects = [project(folder) for folder in (".", *PARTS)]
    assert {one["name"] for one in projects} == DISTRIBUTIONS
    (version,) = {one["version"] for one in projects}
    asked = [
        requirement
        for one in projects
        for part in (one["dependencies"], *one.get("optional-dependencies", {}).values())
        for requirement in part
        if re.match(r"dledger(-|=)", requirement)
    ]
    assert len(asked) == 6
    assert {requirement.partition("==")[2] for requirement in asked} == {version}
    assert {one["requires-python"] for one in projects} == {projects[0]["requires-python"]}


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
    by_path = re.findall(r"-e (\w+)", code)
    assert sorted(by_path) == sorted(whole["tool"]["uv"]["workspace"]["members"]) == sorted(PARTS)
