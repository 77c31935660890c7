"""A build hook of hatchling: a distribution whose packages do not lie in the folder of its project.

`packages` names them, or files and folders of one, from the checkout's root. Everything there goes
into the wheel but pages and what the wheel of dledger has. No archive of sources is made of such a
project: it would lack this hook and the packages' folder, so no wheel could be built from it.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent


class WheelFiles(BuildHookInterface[Any]):
    """Adds files of `packages` to a wheel; `dev-mode-dirs` is what an editable install takes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds; `version` is "standard" or "editable"."""
        if self.target_name == "sdist":
            folder = Path(self.root).relative_to(ROOT)
            sys.exit(
                f"{self.metadata.name} has no source distribution; build its wheel from a checkout:"
                f" uv build --wheel {folder}, or pip wheel ./{folder}"
            )
        if version == "editable":
            return
        whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        elsewhere = whole["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
        for package in self.config["packages"]:
            top = ROOT / package
            for file in sorted(top.rglob("*") if top.is_dir() else [top]):
                pages = file.suffix == ".md" or file.name == "pyproject.toml"
                name = str(file.relative_to(ROOT))
                compiled = file.parent.name == "__pycache__"
                if file.is_file() and not compiled and not pages and name not in elsewhere:
                    build_data["force_include"][str(file)] = name
