"""`docs/reference/settings.md`: every setting of a node, and RocketMQ's keys for it."""

from __future__ import annotations

import inspect
import textwrap
from collections import defaultdict

from cluster.core.live_settings import LIVE
from cluster.reference.markdown import code, table
from cluster.settings import namesrv_keys
from cluster.settings.docs import SettingDoc, describe
from cluster.settings.node import SECTIONS
from cluster.settings.rocketmq_keys import DURABILITY_OF_FLUSH, FIXED, REFUSED, SAME
from cluster.settings.sources import ENVIRONMENT_PREFIX
from cluster.settings.values import to_toml

_HEAD = f"""\
# Settings of a node

A flag (`--set section.key=value`) counts more than the environment, the environment more than the
file, the file more than the default. In the environment `section.key` is
`{ENVIRONMENT_PREFIX}SECTION_KEY`. A file is TOML, or RocketMQ's `broker.conf` when its name ends in
`.conf` or `.properties`. `dledger config show FILE` says where each value comes from,
`dledger config check FILE` what is wrong. Made by `scripts/gen-conf` from the dataclasses, as are
`conf/broker.toml` and `conf/broker-of-three.toml`.

A setting is read when a node starts: after a change start the nodes again, one after the other.

## Settings that change while nodes run

    dledger config set reserved_hours 48       on every node of each broker name, at once
    dledger config live                        what was set so
    dledger config unset reserved_hours        each node's own value counts again

The console's page of settings and `mqadmin updateBrokerConfig -k fileReservedTime -v 48` do the
same (there an empty value takes it back). The value stands in the log of the broker name, so it
counts on all of its nodes, whichever was asked, before their files and flags, and also on a node
that starts again or joins later. Each change is an entry of the audit log. With the first one the
log asks for feature level 2: no node of an older version can join from then on. These may be set,
all of the section `broker`; any other one is refused:

{textwrap.fill(", ".join(f"`{name}`" for name in sorted(LIVE)), 100, break_on_hyphens=False)}.

"""
#: Ours → RocketMQ's keys for it that are not in SAME.
_TRANSLATED = {
    "broker.name_servers": "namesrvAddr",
    "raft.peers": "dLegerPeers",
    "broker.durability": "flushDiskType",
}


def settings_md() -> str:
    """The page."""
    theirs = defaultdict(list)
    for key, names in SAME.items():
        for name in names:
            theirs[name].append(key)
    for name, key in _TRANSLATED.items():
        theirs[name].append(key)
    sections = [_section(name, kind, theirs) for name, kind in SECTIONS.items()]
    return _HEAD + "\n".join([*sections, _fixed(), _namesrv()])


def _section(name: str, kind: type, theirs: dict[str, list[str]]) -> str:
    summary = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    rows = [
        (
            code(doc.name),
            _default(doc),
            doc.text,
            ", ".join(map(code, theirs.get(f"{name}.{doc.name}", []))),
        )
        for doc in describe(kind)
    ]
    return f"## {name}\n\n{summary}\n\n" + table(
        ("setting", "default", "meaning", "in broker.conf"), rows
    )


def _default(doc: SettingDoc) -> str:
    if doc.required:
        return "required"
    return "not set" if doc.default is None else code(to_toml(doc.default))


def _fixed() -> str:
    flush = " and ".join(
        f"`{kind}` is `{level.value}`" for kind, level in DURABILITY_OF_FLUSH.items()
    )
    rows = [(code(key), code(value), why) for key, (value, why) in FIXED.items()]
    return (
        "## Keys of broker.conf with one value\n\nThese may stand in the file, with this value. "
        f"Of `flushDiskType`, {flush}.\n\n"
        + table(("key", "value", "why"), rows)
        + "\n## Keys of broker.conf that are refused\n\nA setting without effect would be worse "
        "than an error. All lines of a file without a meaning are told at once;\na key that is "
        "not in this table is told with the nearest one that is known.\n\n"
        + table(
            ("key", "why, or what to do instead"), [(code(k), why) for k, why in REFUSED.items()]
        )
    )


def _namesrv() -> str:
    known = ", ".join(map(code, namesrv_keys.KEYS))
    rows = [(code(key), why) for key, why in namesrv_keys.REFUSED.items()]
    return (
        "## namesrv.conf\n\nA name server takes the file by `dledger nameserver --config FILE`, "
        f"for its options `--listen`,\n`--warm-up` and `--kv-folder`. Keys: {known}. Refused:\n\n"
        + table(("key", "why"), rows)
    )
