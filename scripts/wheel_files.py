"""A build hook of hatchling: a distribution whose packages do not lie in the folder of its project.

`packages` names them, from the checkout's root; all of their files but pages go into the wheel. No
archive of sources is made of such a project: it would lack this hook and the packages' folder, so
no wheel could be built from it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent


class WheelFiles(BuildHookInterface[Any]):
    """Adds files of `packages` to a wheel; `dev-mode-dirs` is what an editable install takes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds; `version` is "standard" or "editable"."""
        if self.target_name == "sdist":
            sys.exit(
                f"{self.metadata.name} has no source distribution; build its wheel from a checkout:"
                f" uv build --wheel {Path(self.root).name}, or pip wheel ./{Path(self.root).name}"
            )
        if version == "editable":
            return
        for package in self.config["packages"]:
            for file in sorted((ROOT / package).rglob("*")):
                pages = file.suffix == ".md" or file.name == "pyproject.toml"
                if file.is_file() and file.parent.name != "__pycache__" and not pages:
                    build_data["force_include"][str(file)] = str(file.relative_to(ROOT))
