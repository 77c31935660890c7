"""One node of the pysyncobj cluster as a process; a line asked over TCP, a line answered.

    python -m chaos.baseline.node_main ADDRESS PEER,PEER JOURNAL      password on standard input

    append VALUE   ok OFFSET | fail WHY | info WHY      status         one JSON object
    dump           the values, a JSON list              cut A,B / cut  vanish / hear them again
    again BACK     deliver an old append once more: how many committed entries follow it

Prints `ready PORT` when it can be asked; ends with its parent, when standard input does. A crash
leaves pysyncobj's journal and its .meta file.
"""

from __future__ import annotations

import json
import os
import socketserver
import sys
import threading
from pathlib import Path

from chaos.baseline.log import CERTAINLY_NOT, AppendLog
from cluster.nameserver.syncobj import FAIL_REASON

ANSWER_SECONDS_MAX = 2.0


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, log: AppendLog) -> None:
        self.log = log
        super().__init__((host, 0), _Client)


class _Client(socketserver.StreamRequestHandler):
    """One connection; it asks one thing at a time."""

    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        for line in self.rfile:
            word, _, rest = line.decode().strip().partition(" ")
            self.wfile.write((_answer(self.server.log, word, rest) + "\n").encode())


def _answer(log: AppendLog, word: str, rest: str) -> str:
    if word == "append":
        return _append(log, rest)
    if word == "dump":
        return json.dumps(log.values)
    if word == "status":
        return json.dumps(
            {
                "leader": str(log._getLeader() or ""),
                "leads": log._isLeader(),
                "values": len(log.values),
                "term": log.raftCurrentTerm,
                "lost": log.transport.lost,
            }
        )
    if word == "cut":
        log.transport.cut = frozenset(rest.split(",")) if rest else frozenset()
        return "ok"
    if word == "again":
        return str(log.on_tick(lambda: log.transport.deliver_again(int(rest))))
    return f"fail there is no {word}"


def _append(log: AppendLog, value: str) -> str:
    done = threading.Event()
    found: list[tuple[int | None, int]] = []

    def told(offset: int | None, error: int) -> None:
        found.append((offset, error))
        done.set()

    log.append(value, callback=told)
    if not done.wait(ANSWER_SECONDS_MAX):
        return f"info no answer in {ANSWER_SECONDS_MAX:g} s"
    offset, error = found[0]
    if error == FAIL_REASON.SUCCESS:
        return f"ok {offset}"
    return f"{'fail' if error in CERTAINLY_NOT else 'info'} reason {error}"


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve until the parent's end of standard input closes; see the module's text."""
    address, peers, journal = sys.argv[1:4]
    password = sys.stdin.readline().strip()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log = AppendLog(address, peers.split(","), Path(journal), password)
    with _Server(address.partition(":")[0], log) as server:
        print(f"ready {server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
