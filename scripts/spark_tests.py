"""pytest for tests/pipeline/spark, in an environment that has Spark.

    .tools/spark/venv    what uv.lock says, with [server,spark-connect]; 0.9 GB, a minute to make

Made when `make` is the first argument (scripts/spark) or in CI (CI=true), where tests that need
Spark must run; used when it is there. `make-in-ci` alone runs no test after that. Without it the
tests run in .venv and are skipped, each with its reason. Spark has an environment of its own so
that types and imports of the rest are checked without it, as most users have it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".tools" / "spark"
PYTHON = HOME / "venv" / "bin" / "python"
STAMP = HOME / "stamp"
JAVA = "openjdk-17-jre-headless"  # the oldest that Spark 4 takes
#: Folders of the distributions beside dledger itself.
OURS = ("commitlog", "cluster/client", "cluster/broker", "chaos", "pipeline")
MADE_FROM = ("pyproject.toml", *(f"{name}/pyproject.toml" for name in OURS), "uv.lock")


def is_current() -> bool:
    """Does the environment hold what the lock file says?"""
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text() == _wanted()


def _wanted() -> str:
    return "\n".join((ROOT / name).read_text(encoding="utf-8") for name in MADE_FROM)


def make() -> bool:
    """Make the environment, or bring it up to date; False when that failed (and was said)."""
    print("Setting up .tools/spark with Spark (first run, or dependencies changed) ...", flush=True)
    HOME.mkdir(parents=True, exist_ok=True)
    STAMP.unlink(missing_ok=True)
    local = ROOT / ".tools" / "uv" / "bin" / "uv"
    uv = shutil.which("uv") or (str(local) if local.exists() else None)
    may_use_uv = uv is not None and not os.environ.get("DLEDGER_NO_UV")
    if not (may_use_uv and _by_uv(str(uv))) and not _by_pip():
        print("Spark could not be installed; see above. Is a package index in reach?")
        return False
    STAMP.write_text(_wanted())
    return True


def _install_java() -> None:
    """Where we may, as in CI's containers; else the tests say what they lack."""
    if shutil.which("java") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        with (ROOT / ".tools" / "apt.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # tests of the suite may install something meanwhile
            for step in (
                ["update", "-q"],
                ["install", "-q", "-y", "--no-install-recommends", JAVA],
            ):
                subprocess.run(["apt-get", *step], env=environment, stdout=subprocess.DEVNULL)


def _by_uv(uv: str) -> bool:
    # Tests import 800 of its 6,700 modules: each is compiled when it is imported.
    own = {"UV_PROJECT_ENVIRONMENT": str(HOME / "venv"), "UV_COMPILE_BYTECODE": "0"}
    environment = {**os.environ, **own}
    command = [
        uv,
        "sync",
        "-q",
        "--locked",
        "--extra",
        "server",
        "--extra",
        "spark-connect",
        "--python",
        sys.executable,
    ]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


def _by_pip() -> bool:
    shutil.rmtree(HOME / "venv", ignore_errors=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-q"]
    steps = (
        [sys.executable, "-m", "venv", str(HOME / "venv")],
        [*pip, "--upgrade", "pip>=25.1"],  # the first with --group
        [*pip, *_editable(".[server,spark-connect]", *OURS), "--group", "dev"],
    )
    return all(subprocess.run(step, cwd=ROOT).returncode == 0 for step in steps)


def _editable(*what: str) -> list[str]:
    return [word for one in what for word in ("-e", one)]


def main() -> int:
    arguments = sys.argv[1:]
    alone = arguments == ["make-in-ci"]
    wanted = os.environ.get("CI") == "true"
    if arguments[:1] == ["make"]:
        del arguments[0]
        wanted = True
    if wanted:
        _install_java()
        if not is_current() and not make():
            return 1
    if alone:
        return 0
    python = str(PYTHON) if is_current() else sys.executable
    return subprocess.run([python, "-m", "pytest", *arguments], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
