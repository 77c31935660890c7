"""Settings that a new node must share with its group: sent with the list of members (31012).

    {"settings": {"raft.cluster_id": "4b…", "broker.broker_name": "broker-a", …},
     "secrets": ["raft.secret", "broker.cluster_secret"]}

A secret's value is never told, only that there is one.
"""

from __future__ import annotations

from typing import Any

from cluster.broker.config import BrokerConfig
from dledger.config import RaftConfig

#: "Every replica must have the same", and who the group is.
RAFT_KEYS = (
    *("group", "lease_reads", "clock_drift_max", "entry_size_max", "tls_mode"),
    *("heartbeat_ms", "election_timeout_min_ms", "election_timeout_max_ms", "resend_timeout_ms"),
    *("connection_timeout_ms", "disk_stall_ms"),
)
BROKER_KEYS = (
    *("cluster_name", "broker_name", "name_servers", "region", "body_size_max", "frame_size_max"),
    *("message_delay_level", "durability", "tls_mode", "name_server_tls", "pop_retry_v2"),
    *("auto_create_topics", "auto_create_groups", "queue_ext_enabled", "filter_bitmap_enabled"),
)
_RAFT_DEFAULTS = RaftConfig("n", {}, "")


def shared_settings(raft: RaftConfig, broker: BrokerConfig, cluster_id: str) -> dict[str, Any]:
    """The object of the module's text: settings that are not at their defaults, and the broker's
    name.
    """
    defaults = BrokerConfig(broker.node_id, broker.root)
    settings: dict[str, Any] = {"raft.cluster_id": cluster_id}
    for section, keys, config, default in (
        ("raft", RAFT_KEYS, raft, _RAFT_DEFAULTS),
        ("broker", BROKER_KEYS, broker, defaults),
    ):
        for key in keys:
            value = getattr(config, key)
            if value != getattr(default, key):
                settings[f"{section}.{key}"] = value
    settings["broker.broker_name"] = broker.broker_name
    secrets = {"raft.secret": raft.secret, "broker.cluster_secret": broker.cluster_secret}
    return {
        "settings": settings,
        "secrets": [name for name, value in secrets.items() if value is not None],
    }
