"""The order in which workers take files of tests: processes first, and between them what is quick.

xdist hands out whole files in the order of the collection. A file that starts clusters waits more
than it works, so it leaves the processors to a file of plain functions on another worker; and a
long file that began last would keep one worker busy while the others have ended. So the files that
start processes are spread over the first part of the order, the longest of them at its head.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Files that take minutes: in the order in which they begin.
LONGEST = (
    "tests/docs/test_first_half_hour.py",
    "tests/integration/test_local_cluster.py",
    "tests/integration/test_node_commands.py",
    "tests/cluster/robustness/test_fuzz.py",
    "tests/integration/test_members.py",
    "tests/docs/test_programs.py",
    "tests/cluster/robustness/test_clients.py",
    "tests/cluster/commands/test_cli.py",
    "tests/commitlog/dispatch/test_accel_columns.py",
    "tests/dledger/log/test_crash.py",
    "tests/cluster/core/test_tables.py",
)
#: Folders whose tests start processes.
PROCESSES = (
    "tests/acceptance/",
    "tests/bench/",
    "tests/chaos/live/",
    "tests/cluster/local/",
    "tests/cluster/nameserver/",
    "tests/cluster/robustness/",
    "tests/docs/",
    "tests/integration/",
)
#: Files that use what the set-up of clients makes beside the suite: servers, judges, a browser.
LAST = (
    "tests/chaos/drivers/test_toxics.py",
    "tests/chaos/judges/test_porcupine.py",
    "tests/chaos/report/test_page.py",
    "tests/chaos/toxiproxy/",
)
#: Files that one worker runs, since their tests share what is dear to make.
TOGETHER = (
    # Each source file of the project, read, parsed and walked.
    ("tests/architecture/",),
    # The running `local_cluster`, three brokers that also work while nobody uses them.
    (
        "tests/pipeline/jobs/",
        "tests/pipeline/sink/",
        "tests/pipeline/source/",
        "tests/acceptance/test_bad_input_frames.py",
        "tests/acceptance/test_bad_input_requests.py",
        "tests/acceptance/test_client_misuse.py",
        "tests/chaos/live/test_aim_on_processes.py",
        "tests/integration/test_consume.py",
        "tests/integration/test_group_commands.py",
        "tests/integration/test_leader_moves.py",
    ),
)
#: Other files that come behind each of them while there are some.
BETWEEN = 4


def scope_of(test: str) -> str:
    """What a worker takes as a whole: the name of the test's file, or of the files it is with."""
    file = test.partition("::")[0]
    return next((group[0] for group in TOGETHER if file.startswith(group)), file)


def in_order(files: Sequence[str]) -> list[str]:
    """The same files, each once: `files` are paths from the checkout's root, as collected."""
    head = [name for name in LONGEST if name in files]
    slow = [name for name in files if name.startswith(PROCESSES) and name not in head]
    last = [name for name in files if name.startswith(LAST)]
    chosen = {*head, *slow, *last}
    quick = [name for name in files if name not in chosen]
    found = []
    for count, name in enumerate([*head, *slow]):
        found += [name, *quick[count * BETWEEN : (count + 1) * BETWEEN]]
    return [*found, *quick[(len(head) + len(slow)) * BETWEEN :], *last]
