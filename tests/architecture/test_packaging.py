"""Another distribution on the index is called `cluster` too; one would overwrite the other."""

from __future__ import annotations

import importlib
import re
import tomllib
from importlib.metadata import entry_points, packages_distributions
from pathlib import Path

import pytest

from .source_tree import PACKAGES, ROOT


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_ours_alone(package: str) -> None:
    # An editable install lists no packages, so the name is either absent or ours.
    assert set(packages_distributions().get(package, ["dledger"])) == {"dledger"}
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = (ROOT / "scripts/_env").read_text("utf-8").splitlines()
    code = "\n".join(line for line in lines if not line.strip().startswith("#"))
    by_pip = re.findall(r"--group (\w+)", code)
    assert sorted(by_pip) == sorted(project["tool"]["uv"]["default-groups"])
