"""Which layers each command runs.

    gate     a command that must exit 0: counts as one passed or one failed
    pytest   a run of tests: its own counts, which tests/layer_report.py leaves for the runner

`scripts/test` holds what is quick and what no busy machine can turn red. The long layers hold what
takes long or measures time: soak, mutants, thousands of seeds, benchmarks whose floors mean
something, whole suites of foreign clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Layer:
    """One step of a run.

    `command`: without the folder of its program. `alone`: for a run of tests, the command to which
    the name of one test can be added to run it by itself. `beside`: the steps behind this one run
    at the same time; they make way for it, unless it is itself `nice` or `is_equal`. `after`: names
    of steps beside, begun before, that have ended when this one begins. `is_quiet`: what it prints
    is shown when it fails only. `in_memory`: its tests' files may be in memory (scratch.py).
    """

    name: str
    command: tuple[str, ...]
    alone: tuple[str, ...] = ()
    beside: bool = False
    after: tuple[str, ...] = ()
    is_quiet: bool = False
    in_memory: bool = False
    is_equal: bool = False

    @property
    def tests(self) -> bool:
        return bool(self.alone)

    @property
    def goes_first(self) -> bool:
        """Do the steps behind it make way for it while it runs beside them?"""
        return self.beside and self.command[0] != "nice" and not self.is_equal


#: No -x, no -m: a test that is named runs, be it long or not (tests/conftest.py).
ALONE = ("pytest", "-n0")


def pytest_layer(
    name: str, *options: str, beside: bool = False, after: tuple[str, ...] = ()
) -> Layer:
    """A run of tests in the checkout's own environment."""
    return Layer(name, ("pytest", *options), ALONE, beside, after)


# Of one process each and quick to tell what is wrong: the types beside the others.
GATES = (
    Layer("types", ("nice", "mypy"), beside=True),
    Layer("format", ("ruff", "format", "--check", "-q", ".")),
    Layer("lint", ("ruff", "check", "-q", ".")),
    Layer("import arrows", ("lint-imports", "--no-logo")),
    # Strict: a link or a heading that is not there, or a page without a place, is an error.
    Layer("documents site", ("mkdocs", "build", "--strict"), is_quiet=True),
)
ARCHITECTURE = pytest_layer("architecture", "-n0", "tests/architecture")
#: Tests wait more than they work (elections, sockets, syncs): more workers than processors.
WORKERS = 4
SPARK_PATH = "tests/pipeline/spark"
SUITE_TESTS = (
    *("-m", "not long", "tests", "--ignore=tests/interop", f"--ignore={SPARK_PATH}"),
    # In the order of tests/suite_order.py, not by how many tests a file has.
    *("--dist=loadscope", "--no-loadscope-reorder"),
)
# In a fresh checkout pytest compiles every test's asserts, 30 s of work, and leaves the result on
# the disk. Once here, beside the types, instead of at the same time in each worker. Those of Spark
# and of foreign clients, too: where these are missing they are skipped, and must not fail.
COLLECTED = Layer(
    "tests can be imported",
    ("pytest", "-n0", "--collect-only", "-qq", "-m", "not long", "tests"),
    is_quiet=True,  # a line for each file
)
# Nodes sync at every step and tests wait for it: on the disk a third of the time and a quarter of
# the processor time of tests of brokers. The long layers are always on the disk.
SUITE = replace(pytest_layer("suite", f"-n{WORKERS}", *SUITE_TESTS), in_memory=True)
# Other people's programs, where they may be installed: while everything else is run.
CLIENTS, SPARK_MADE = "set-up of clients", "set-up of Spark"
# One session for all, in an environment of its own; in CI that is made (spark_tests.py).
SPARK_TESTS = ("python", "scripts/spark_tests.py")
SPARK_ALONE = (*SPARK_TESTS, "-n0")
PREPARED = (
    Layer(CLIENTS, ("nice", "python", "-m", "tests.interop.harness.prepare"), beside=True),
    Layer(SPARK_MADE, ("nice", *SPARK_TESTS, "make-in-ci"), beside=True),
)
# Foreign clients: what is installed already; in CI all of them (tests/interop/README.md).
INTEROP_SMOKE = replace(
    pytest_layer(
        *("interop, smoke", "-n0", "-m", "not long", "tests/interop"), beside=True, after=(CLIENTS,)
    ),
    is_equal=True,
)
SPARK = Layer(
    "spark",
    (*SPARK_TESTS, "-n0", "-m", "not long", SPARK_PATH),
    SPARK_ALONE,
    beside=True,
    # One after the other: virtual machines of Java start in both.
    after=(SPARK_MADE, INTEROP_SMOKE.name),
    is_equal=True,
)
# Both wait more than they work (starts, triggers, looks for a route every few seconds), so they run
# beside gates and suite, with addresses of their own.
LANE = (INTEROP_SMOKE, SPARK)
LONG_PATHS = ("tests", "--ignore=tests/interop", f"--ignore={SPARK_PATH}", "--ignore=tests/bench")
SPARK_LONG = Layer(
    "spark, long",
    (*SPARK_TESTS, "-n0", "-m", "long", SPARK_PATH),
    SPARK_ALONE,
    beside=True,
)
LONG = (
    pytest_layer(
        "long tests",
        *("-n3", "--dist=loadfile", "-m", "long and not soak and not alone", *LONG_PATHS),
    ),
    pytest_layer("long tests, alone", "-n0", "-m", "long and alone", *LONG_PATHS),
    # Benchmarks share the machine with nobody, so that their floors mean something.
    pytest_layer("benchmarks, smoke size", "-n0", "-m", "long", "tests/bench"),
    pytest_layer("interop, whole", "-n2", "--dist=loadfile", "-m", "long", "tests/interop"),
    # These two beside what computes only, which makes way for them: virtual clusters and mutants.
    SPARK_LONG,
    pytest_layer(
        "five minutes of mixed faults, three of power cuts",
        *("-n0", "-m", "soak", "tests/chaos/live"),
        beside=True,
        after=(SPARK_LONG.name,),
    ),
    Layer("1,000 simulated clusters", ("dledger", "sim", "--seeds", "0..1000", "--jobs", "2")),
    Layer(
        "500 whose members, logs and disks change",
        ("dledger", "sim", "--everything", "--seeds", "0..500", "--seconds", "30", "--jobs", "2"),
    ),
    Layer("rules taken out one by one", ("dledger", "mutants", "--jobs", "2")),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """`resumes`: layers that passed on this very tree are not run again."""

    name: str
    layers: tuple[Layer, ...]
    resumes: bool = False


def plan(arguments: list[str]) -> Plan:
    """What to run for a command line: the script's name, then what the user wrote."""
    what, *rest = arguments
    if what == "check":
        return Plan("check", (*GATES, ARCHITECTURE))
    if "--long" in rest:
        rest.remove("--long")
        if not rest:
            return Plan("long", LONG, resumes=True)
        return Plan("long", (pytest_layer("chosen long tests", "-n0", "-m", "long", *rest),))
    if what == "interop":
        paths = rest or ["tests/interop"]
        return Plan("interop", (pytest_layer("interop", "-n0", "-m", "long or not long", *paths),))
    if what == "spark":
        paths = rest or [SPARK_PATH]
        chosen = (*SPARK_TESTS, "make", "-n0", "-m", "long or not long", *paths)
        return Plan("spark", (Layer("spark", chosen, SPARK_ALONE),))
    if rest:
        return Plan("test", (pytest_layer("chosen tests", "-n2", *rest),))
    return Plan("test", (*PREPARED, *LANE, *GATES, COLLECTED, SUITE))
