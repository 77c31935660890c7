"""Finds the tool chains of the foreign clients, and builds what we run with them.

    .tools/interop/<what>/        what was built, with a file `stamp` that says from what
    .tools/cache/{m2,go,npm}/     what the package managers downloaded

Each tool uses its own settings for where packages come from. A build happens when CI=true or
DLEDGER_INTEROP_INSTALL is set (scripts/interop sets it); otherwise only what is there already is
used, and a test says "needs ..." and is skipped. The same switch lets a missing tool be installed
with apt-get, when this runs as root on a Debian system.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from chaos.judges.porcupine import judge
from chaos.tools import go_builds
from tests.waiting import limit

ROOT = Path(__file__).resolve().parents[3]
INTEROP = ROOT / "tests" / "interop"
BUILT = ROOT / ".tools" / "interop"
CACHE = ROOT / ".tools" / "cache"

# Two of them download 80 MB each on a cold machine that does other things too.
BUILD_SECONDS_MAX = limit(900)

PACKAGES = {
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
    "go": "golang-go",
    "node": "nodejs",
    "npm": "npm",
    "chromium": "chromium",
    "nft": "nftables",
    "ip": "iproute2",
    "tc": "iproute2",
}
"""Program → the Debian package that has it."""

#: For Java that runs for seconds: the second compiler would cost more than it gives.
QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

APT_WAITS = ("-o", "DPkg::Lock::Timeout=300")


class Missing(Exception):
    """A tool chain is not here; the text begins with "needs "."""


def may_install() -> bool:
    return os.environ.get("CI") == "true" or bool(os.environ.get("DLEDGER_INTEROP_INSTALL"))


def need(*programs: str) -> None:
    """Raises Missing when a program is neither here nor can be installed."""
    absent = [program for program in programs if shutil.which(program) is None]
    if absent and may_install() and os.geteuid() == 0 and shutil.which("apt-get"):
        packages = [PACKAGES[program] for program in absent]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        # Two workers of one suite may want something each, and Spark a Java (spark_tests.py).
        with _alone(ROOT / ".tools" / "apt.lock"):
            for arguments in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends"]):
                names = packages if arguments[0] == "install" else []
                run(["apt-get", *APT_WAITS, *arguments, *names], environment=environment)
        absent = [program for program in absent if shutil.which(program) is None]
    if absent:
        raise Missing(f"needs {', '.join(absent)} on the path")


def run(command: list[str], folder: Path = ROOT, environment: dict[str, str] | None = None) -> None:
    """Run one step of a build. Raises Missing with its last words when it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(
            f"needs the packages of {command[0]}: it did not end in {BUILD_SECONDS_MAX:g} s"
        ) from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-12:]
        raise Missing(
            f"needs what `{' '.join(command[:6])} ...` makes: it failed\n" + "\n".join(said)
        )


def built(what: str, sources: Iterable[Path], version: str, build: Callable[[Path], None]) -> Path:
    """The folder of a build, made when its sources or its version changed.

    Raises Missing when it is not there and must not be made now.
    """
    folder = BUILT / what
    wanted = _digest(sources, version)
    stamp = folder / "stamp"
    with _alone(BUILT / f"{what}.lock"):  # two test runs of one checkout
        if stamp.exists() and stamp.read_text() == wanted:
            return folder
        if not may_install():
            raise Missing(f"needs {what}, which scripts/interop builds")
        folder.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        build(folder)
        stamp.write_text(wanted)
    return folder


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _digest(sources: Iterable[Path], version: str) -> str:
    digest = hashlib.sha256(version.encode())
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


def promtool() -> str:
    """Prometheus' own checker of rules. Raises Missing."""
    return _of_prometheus("promtool")


def prometheus() -> str:
    """Prometheus' server. Raises Missing."""
    return _of_prometheus("prometheus")


def _of_prometheus(program: str) -> str:
    found = shutil.which(program)
    return found or str(built("prometheus", [], "debian", _unpack_prometheus) / "usr/bin" / program)


def _unpack_prometheus(folder: Path) -> None:
    """Debian's package would start the server as a service: so only its files are taken."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Missing("needs prometheus and promtool on the path (Debian: prometheus)")
    with _alone(ROOT / ".tools" / "apt.lock"):
        run(["apt-get", *APT_WAITS, "update", "-q"])
        run(["apt-get", "download", "-q", "prometheus"], folder)
    (package,) = folder.glob("prometheus_*.deb")
    run(["dpkg-deb", "-x", str(package), str(folder)])
    package.unlink()


def java(version: str) -> list[str]:
    """Start of a command that runs our Java programs with that version of the official client."""
    need("javac", "mvn")
    pom = INTEROP / "java" / "pom.xml"
    jars = built(f"java-{version}-jars", [pom], version, lambda to: copy_jars(pom, version, to))
    sources = list((INTEROP / "java" / "src").rglob("*.java"))
    if version >= "5":  # what uses classes that older clients do not have
        sources += (INTEROP / "java" / "src5").rglob("*.java")
    classes = built(
        f"java-{version}-classes", sources, version, lambda to: compile_java(sources, jars, to)
    )
    return [
        *("java", "-cp", f"{classes}:{jars}/*", "-Xmx384m", "-Xss512k"),
        *(*QUICK_JAVA, "-Dfile.encoding=UTF-8"),
    ]


def java_store(version: str) -> list[str]:
    """Start of a command that runs our reader on that version of the broker's store classes."""
    need("javac", "mvn")
    pom, folder = INTEROP / "java" / "store-pom.xml", INTEROP / "java"
    jars = built(f"store-{version}-jars", [pom], version, lambda to: copy_jars(pom, version, to))
    sources = [*(folder / "store").rglob("*.java"), folder / "src" / "interop" / "Json.java"]
    classes = built(
        f"store-{version}-classes", sources, version, lambda to: compile_java(sources, jars, to)
    )
    options = ["-Xmx384m", *QUICK_JAVA, "-Dfile.encoding=UTF-8"]
    return ["java", "-cp", f"{classes}:{jars}/*", *options, "interop.StoreReader"]


def copy_jars(pom: Path, version: str, folder: Path) -> None:
    for jar in folder.glob("*.jar"):
        jar.unlink()
    run(
        [
            *("mvn", "-q", "-B", "-ntp", "-f", str(pom), "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DoutputDirectory={folder}"),
            *(f"-Drocketmq.version={version}", f"-Dmaven.repo.local={CACHE / 'm2'}"),
        ],
        environment={
            **os.environ,
            "MAVEN_OPTS": " ".join((*QUICK_JAVA, os.environ.get("MAVEN_OPTS", ""))).strip(),
        },
    )


def compile_java(sources: list[Path], jars: Path, folder: Path) -> None:
    """Java sources to classes in `folder`. Raises Missing."""
    files = [str(source) for source in sources]
    options = [f"-J{option}" for option in QUICK_JAVA]
    options += ["-nowarn", "-Xlint:-options", "-encoding", "UTF-8"]
    run(["javac", *options, "-d", str(folder), "-cp", f"{jars}/*", *files])


def go() -> list[str]:
    """Command that runs our Go program."""
    need("go")
    source = INTEROP / "go"
    files = [*source.glob("*.go"), source / "go.mod", source / "go.sum"]

    def build(folder: Path) -> None:
        go_build(source, folder / "client", ".")

    return [str(built("go", files, "", build) / "client")]


def go_build(source: Path, to: Path, *packages: str) -> None:
    """Build packages of the module in `source`: a program `to`, or programs in the folder `to`."""
    environment = go_builds.environment(GOTOOLCHAIN="local")
    run(["go", "build", "-o", str(to), *packages], source, environment)


def node(program: str = "client.js") -> list[str]:
    """Command that runs one of our Node programs."""
    return ["env", f"NODE_PATH={_node_modules()}", "node", str(INTEROP / "node" / program)]


def axe() -> Path:
    """The script by which a page judges how accessible it is (axe-core)."""
    return _node_modules() / "axe-core" / "axe.min.js"


def browser() -> str:
    """A Chromium."""
    if found := shutil.which("google-chrome"):
        return found
    need("chromium")
    return shutil.which("chromium") or ""


def _node_modules() -> Path:
    need("node", "npm")
    source = INTEROP / "node"
    files = [source / "package.json", source / "package-lock.json"]

    def build(folder: Path) -> None:
        for file in files:
            shutil.copy(file, folder)
        run(["npm", "ci", "--no-audit", "--no-fund", "--cache", str(CACHE / "npm")], folder)

    return built("node", files, "", build) / "node_modules"


def porcupine() -> Path:
    """The third judge, a Go program (chaos/judges/porcupine)."""
    need("go")

    def build(folder: Path) -> None:
        try:
            judge.build(folder)
        except judge.PorcupineError as error:
            raise Missing(str(error)) from error

    return built("porcupine", judge.sources(), "", build) / "judge"
