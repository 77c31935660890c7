"""The files with which a name server of a local cluster starts.

    <root>/<name>/kv/          its configuration: kvConfig.json, and pysyncobj's journal and dump
    <root>/cluster.secret      what brokers prove themselves with, as the profile has it; written at
                               every start, for its owner's eyes only
    <root>/nameservers.secret  what proves to each of several that another one is one of them; made
                               with the cluster, for its owner's eyes only

One keeps its configuration by itself, several share it (cluster/nameserver/replicated_kv.py).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.home import write_private
from cluster.local.profile import NAMESERVER, Member, Profile
from cluster.settings.settings import Settings

SECRET_FILE = "nameservers.secret"
CLUSTER_SECRET_FILE = "cluster.secret"
SECTION = "nameserver"


@dataclass(frozen=True, slots=True)
class NameServerSettings:
    """Settings of a local cluster's name servers: dledger up --set nameserver.relays=off."""

    #: Routes of stock clients have relays where every node of a group has a relay port.
    relays: bool = True
    #: Stock Java consumers hear of a new leader at once, over the relay ports.
    notify_routes: bool = True


def settings_of(given: Mapping[str, str]) -> NameServerSettings:
    """The name servers' settings among those of a profile. Raises SettingsError."""
    settings = Settings({SECTION: NameServerSettings})
    for name, value in given.items():
        section, _, key = name.partition(".")
        if section == SECTION:
            settings.add(section, key, value, "--set")
    return settings.build(SECTION, NameServerSettings)


def write_secret(root: Path) -> None:
    """Make the file, once in the cluster's life."""
    fd = os.open(root / SECRET_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(secrets.token_hex(16) + "\n")


def _write_cluster_secret(root: Path, secret: str) -> Path:
    path = root / CLUSTER_SECRET_FILE
    write_private(path, secret + "\n")
    return path


def arguments(root: Path, profile: Profile, member: Member) -> list[str]:
    """Arguments of one name server's process, after `python -m`."""
    found = ["cluster.local.nameserver_main", "--listen", member.client]
    found += ["--kv-folder", str(root / member.name / "kv")]
    if member.peer:
        others = [m.peer for m in profile.of_kind(NAMESERVER) if m is not member]
        found += ["--kv-listen", member.peer, "--kv-peers", ",".join(others)]
        found += ["--kv-password-file", str(root / SECRET_FILE)]
    settings = profile.settings
    chosen = settings_of(settings)
    found += [] if chosen.relays else ["--no-relays"]
    found += ["--notify-routes" if chosen.notify_routes else "--no-notify-routes"]
    if secret := settings.get("broker.cluster_secret"):
        found += ["--cluster-secret-file", str(_write_cluster_secret(root, secret))]
    if accounts := settings.get("broker.acl_file"):
        found += ["--acl-file", accounts]
    if settings.get("broker.tls_mode", "disabled") != "disabled":
        # Clients that use TLS use it for name servers, too.
        for name in ("tls_certificate", "tls_key"):
            found += [f"--{name.replace('_', '-')}", settings.get(f"broker.{name}", "")]
    return found
