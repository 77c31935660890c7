"""Builds what the short tests run beside Python, while the suite runs: python -m …harness.prepare

The official toxiproxy server, porcupine, a browser, and the clients of the smoke cases. What may
not be installed here is left out, and what fails is told and left to the tests that need it: each
of them makes it, or says what it lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from chaos.toxiproxy import official
from tests.interop import test_java, test_mqadmin
from tests.interop.harness import toolchains


def _toxiproxy() -> None:
    if official.find() is None and official.go() is not None:
        official.build()


#: In the order in which the suite asks for them.
PARTS: tuple[tuple[str, Callable[[], object]], ...] = (
    ("porcupine", toolchains.porcupine),
    ("a browser", toolchains.browser),
    ("promtool", toolchains.promtool),
    ("the toxiproxy server", _toxiproxy),
    ("the Go client", toolchains.go),
    ("the Node client", toolchains.node),
    ("the Java client", lambda: toolchains.java(test_java.SMOKE_VERSION)),
    ("mqadmin", lambda: toolchains.java(test_mqadmin.VERSION)),
)


def main() -> int:
    if not toolchains.may_install():
        print("nothing is installed unless CI=true: scripts/interop does it")
        return 0
    for name, make in PARTS:
        try:
            make()
        except (toolchains.Missing, OSError) as error:
            print(f"{name} was not made: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
