"""A local cluster's part of a bug report, in one archive, without its secrets.

    bundle/about.json                   versions, machine, when
           doctor.json                  alerts of the machine
           profile.json                 members and addresses
           ⟨node⟩/settings.json         every setting and its origin
                  status.json  metrics.txt  ready.txt      as the node answers, if it does
                  log.txt  log.1.txt …  the end of each
                  files.txt             bytes, time of change and path of each file of its folder

No message is in it; names of topics, groups and clients are. Every secret of the settings, and of
this process's environment, is replaced by `***` wherever it stands, also within a log line.
"""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path

from cluster.health.machine import look, machine_alerts
from cluster.local import admin
from cluster.local.launcher import LocalCluster
from cluster.local.node_files import write_node_file
from cluster.local.profile import BROKER, Member
from cluster.settings.node import read_node
from cluster.settings.settings import Settings, is_secret

LOG_BYTES_MAX = 4 << 20
"""Of each log file the end goes into the bundle; a day of a busy node."""
SECRET_CHARS_MIN = 4
"""A shorter text is no secret: it would be replaced in the middle of other words."""
MASK = "***"
_ANSWERS = {"status.json": "/api/v1/status", "metrics.txt": "/metrics", "ready.txt": "/readyz"}


class Masked:
    """Replaces secrets in texts; the longest first, so that no part of one stays."""

    def __init__(self, secrets: Iterable[str]) -> None:
        kept = {text for text in secrets if len(text) >= SECRET_CHARS_MIN}
        self._secrets = sorted(kept, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text


def write_bundle(cluster: LocalCluster, out: Path, now_s: float) -> list[str]:
    """Write the archive (.tar.gz) for its owner only; returns the names in it. Raises OSError.

    `out` must not exist.
    """
    nodes = [(one, _settings(cluster, one)) for one in cluster.profile.of_kind(BROKER)]
    masked = Masked(_secrets(cluster, (settings for _, settings in nodes)))
    descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    names = []
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in _texts(cluster, nodes, now_s):
            data = masked(text).encode()
            info = tarfile.TarInfo(f"bundle/{name}")
            info.size, info.mtime, info.mode = len(data), int(now_s), 0o600
            archive.addfile(info, io.BytesIO(data))
            names.append(name)
    return names


def _settings(cluster: LocalCluster, member: Member) -> Settings:
    return read_node(write_node_file(cluster.root, cluster.profile, member), os.environ)


def _secrets(cluster: LocalCluster, settings: Iterable[Settings]) -> Iterator[str]:
    yield from (text for name, text in os.environ.items() if is_secret(name))
    yield from (text for name, text in cluster.profile.settings.items() if is_secret(name))
    for one in settings:
        yield from (str(row["value"]) for row in one.rows() if is_secret(str(row["key"])))


def _texts(
    cluster: LocalCluster, nodes: Iterable[tuple[Member, Settings]], now_s: float
) -> Iterator[tuple[str, str]]:
    """(name, text) of each file, secrets included."""
    yield "about.json", _json(_about(now_s))
    yield "doctor.json", _json(list(machine_alerts(look(cluster.root))))
    yield "profile.json", _json(asdict(cluster.profile))
    for member, settings in nodes:
        yield f"{member.name}/settings.json", _json(settings.rows())
        for name, path in _ANSWERS.items():
            yield f"{member.name}/{name}", _answer(member, path, cluster.profile.admin_token)
    for member in cluster.profile.processes():
        folder = cluster.root / member.process
        for log in sorted(folder.glob("log*.txt")):
            yield f"{member.process}/{log.name}", _end_of(log)
        yield f"{member.process}/files.txt", "\n".join(_files(folder))


def _about(now_s: float) -> dict[str, object]:
    return {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s)),
        "python": sys.version,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": dict(sorted((one.name, one.version) for one in distributions())),
    }


def _answer(member: Member, path: str, token: str | None) -> str:
    try:
        code, body = admin.get(member.admin, path, token=token)
    except OSError as error:
        return f"it does not answer: {error}"
    text = body.decode("utf-8", "replace")
    return text if code == 200 else f"{code} {text}"


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_BYTES_MAX))
        return file.read(LOG_BYTES_MAX).decode("utf-8", "replace")


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        try:
            found = path.stat()
        except OSError:
            continue  # deleted meanwhile
        if path.is_file():
            changed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime))
            yield f"{found.st_size:>14} {changed} {path.relative_to(folder)}"


def _json(value: object) -> str:
    return json.dumps(value, indent=1, default=str)
