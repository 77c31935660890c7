"""How the interpreter of a run was built: an unoptimised build costs 1.1 to 1.3 of the time.

Said beside the figures of every bench, with a better built interpreter of this machine's path.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence

OPTIONS = ("--enable-optimizations", "--with-lto")
NAMES = ("python3.11", "python3", "python3.12", "python3.13", "python3.14")
FOLDERS = ("/usr/bin", "/usr/local/bin")
ASK = (
    "import json, platform, sys, sysconfig; print(json.dumps([sys.version_info >= (3, 11), "
    "platform.python_version(), sysconfig.get_config_var('CONFIG_ARGS') or '']))"
)
ASK_SECONDS_MAX = 10.0


def options_of(arguments: str) -> tuple[str, ...]:
    """Which of OPTIONS a build was configured with."""
    return tuple(option for option in OPTIONS if option in arguments)


def said_of(version: str, options: Sequence[str]) -> str:
    """For people; a distribution may optimise by other means than options."""
    lacking = [option for option in OPTIONS if option not in options]
    built = [f"with {' and '.join(options)}"] if options else []
    built += [f"without {' and '.join(lacking)}"] if lacking else []
    return f"CPython {version}, configured {', '.join(built)}"


def description() -> str:
    """This interpreter, and a better built one when there is one."""
    own = options_of(str(sysconfig.get_config_var("CONFIG_ARGS") or ""))
    said = said_of(sys.version.split()[0], own)
    if len(own) == len(OPTIONS):
        return said
    better = _better_than(len(own))
    return f"{said}; better built: {better}" if better else said


def _better_than(options: int) -> str:
    for name in NAMES:
        for place in (name, *(f"{folder}/{name}" for folder in FOLDERS)):
            path = shutil.which(place)
            found = _asked(path) if path else None
            if path and found and len(found[1]) > options:
                return f"{path} ({said_of(*found)})"
    return ""


def _asked(path: str) -> tuple[str, tuple[str, ...]] | None:
    """Version and options of another interpreter that is new enough for us."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", ASK], capture_output=True, text=True, timeout=ASK_SECONDS_MAX
        )
        enough, version, arguments = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return (str(version), options_of(str(arguments))) if enough else None
