"""`conf/`: every setting with its meaning and default, from the dataclasses; dashboards; metrics.

Beside it the pages of `docs/reference`, from the code.

python -m cluster.settings.conf_files           write them
python -m cluster.settings.conf_files --check   exit 1 and say which is not current
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from cluster.metrics.page import metrics_md
from cluster.reference.api_page import api_md
from cluster.reference.commands_page import commands_md, measuring_md
from cluster.reference.errors_page import errors_md
from cluster.reference.settings_page import settings_md
from cluster.settings.conf_alerts import RUNBOOKS, alerts_yml, runbooks_md
from cluster.settings.conf_dashboard import grafana_json, prometheus_yml
from cluster.settings.docs import section_toml
from cluster.settings.node import SECTIONS

ROOT = Path(__file__).resolve().parents[2]

HEADER = """\
# {title}
#{steps}
# Every setting stands here at its default, commented out; what must be set is marked "required".
# Check a file with: dledger config check FILE. Made by scripts/gen-conf: edit the dataclasses.

"""

STEPS_OF_THREE = """
# 1. Copy this file to each of the three machines; only the user that runs the node may read it.
# 2. Change in all three alike: raft.cluster_id (any name), raft.peers (where nodes reach each
#    other), raft.secret and broker.cluster_secret (each of: openssl rand -hex 32),
#    broker.name_servers.
# 3. Change in each: raft.node_id, broker.root, broker.listen_host and broker.advertised (its own
#    address), broker.peers (where clients reach the other two). Nodes that share a machine need
#    ports of their own there, or addresses, and in admin.listen.
# 4. On each machine, once:      dledger node format FILE
#    and at every start:         dledger node run FILE
#    Does it serve?              dledger node status FILE
#
# dledger node init writes such files by itself, with secrets; cluster/README.md: "Run a node".
#"""

# A group of three, one node per machine: what a first real installation changes.
THREE_NODES: dict[str, dict[str, object]] = {
    "raft": {
        "node_id": "n0",
        "cluster_id": "my-cluster",
        "peers": {"n0": "10.0.0.10:20911", "n1": "10.0.0.11:20911", "n2": "10.0.0.12:20911"},
        "secret": "change me: the same on every node",
    },
    "broker": {
        "root": "/var/lib/dledger",
        "listen_host": "10.0.0.10",
        "advertised": "10.0.0.10:10911",
        "peers": {"n1": "10.0.0.11:10911", "n2": "10.0.0.12:10911"},
        "name_servers": ["10.0.0.20:9876"],
        "cluster_secret": "change me: the same on every node",
    },
    "admin": {"listen": "127.0.0.1:8080"},
}


def render(title: str, values: dict[str, dict[str, object]], steps: str = "") -> str:
    """The text of one broker file."""
    sections = [section_toml(name, kind, values.get(name)) for name, kind in SECTIONS.items()]
    return HEADER.format(title=title, steps=steps) + "\n".join(sections)


def _broker_toml() -> str:
    return render("One broker node: all settings.", {})


def _broker_of_three_toml() -> str:
    return render("Node n0 of a group of three, one node per machine.", THREE_NODES, STEPS_OF_THREE)


#: Path below the project's root → what makes its text.
FILES: Mapping[str, Callable[[], str]] = {
    "conf/broker.toml": _broker_toml,
    "conf/broker-of-three.toml": _broker_of_three_toml,
    "conf/prometheus.yml": prometheus_yml,
    "conf/grafana-dashboard.json": grafana_json,
    "conf/prometheus-alerts.yml": alerts_yml,
    "docs/metrics.md": metrics_md,
    "docs/reference/api.md": api_md,
    "docs/reference/commands.md": commands_md,
    "docs/reference/errors.md": errors_md,
    "docs/reference/measuring.md": measuring_md,
    "docs/reference/settings.md": settings_md,
    RUNBOOKS: runbooks_md,
}


def main() -> int:
    """The exit code: 1 if `--check` found a file that is not current, else 0."""
    stale = []
    for name, make in FILES.items():
        path, text = ROOT / name, make()
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(str(path))
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        sys.stderr.write(f"not current: {' '.join(stale)}; run scripts/gen-conf\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
