"""Our distributions, read from their pyproject.toml: folders, requirements, files of the wheels."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from .source_tree import ROOT

PROJECT = "pyproject.toml"
#: Folders with a pyproject.toml. Each one's distribution asks for that of the folder before it.
FOLDERS = ("commitlog", ".", "cluster/client", "cluster/broker", "chaos", "pipeline")


def table(folder: str) -> dict[str, Any]:
    """The pyproject.toml of a folder."""
    return tomllib.loads((ROOT / folder / PROJECT).read_text("utf-8"))


def project(folder: str) -> dict[str, Any]:
    """Name, version, requirements."""
    return dict(table(folder)["project"])


def packages_of(folder: str) -> list[str]:
    """Files and folders that the wheel is made of, from the checkout's root."""
    wheel = table(folder)["tool"]["hatch"]["build"]["targets"]["wheel"]
    return list(wheel["only-include"] if folder == "." else wheel["hooks"]["custom"]["packages"])


def files_of(folder: str) -> set[str]:
    """Files that the wheel holds, from the checkout's root; what dledger has is in no other one."""
    found = files_below(packages_of(folder))
    return found if folder == "." else found - set(packages_of("."))


def files_below(names: list[str] | tuple[str, ...]) -> set[str]:
    """Files of these files and folders, pages and compiled ones apart."""
    tops = [ROOT / name for name in names]
    files = [file for top in tops for file in (top.rglob("*") if top.is_dir() else [top])]
    return {str(file.relative_to(ROOT)) for file in files if _is_source(file)}


def _is_source(file: Path) -> bool:
    return file.is_file() and file.suffix not in {".md", ".pyc"} and file.name != PROJECT
