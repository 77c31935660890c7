"""A cluster that wants TLS and an account; the topic `orders` has messages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.client import Account, ClientConfig, Tls
from cluster.client.blocking import connect
from cluster.local import plan
from cluster.local.launcher import LocalCluster

PEM = Path(__file__).parents[2] / "data" / "tls"
ACCOUNTS = """
accounts:
- accessKey: reader
  secretKey: reader-secret
  topicPerms:
  - orders=SUB
  groupPerms:
  - watchers=SUB
- accessKey: writer
  secretKey: writer-secret
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB|SUB
  - DLEDGER_SPARK_STAGING=PUB|SUB
- accessKey: successor
  secretKey: successor-secret
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB|SUB
  - DLEDGER_SPARK_STAGING=PUB|SUB
  takeOverProducers: [batch/handed0/*]
- accessKey: master
  secretKey: master-secret
  admin: true
"""
TLS = {"client.tls.authority": str(PEM / "server.pem"), "client.tls.checkHost": "false"}
READER = {"client.accessKey": "reader", "client.secretKey": "reader-secret", "groupId": "watchers"}
WRITER = {"client.accessKey": "writer", "client.secretKey": "writer-secret"}
SUCCESSOR = {"client.accessKey": "successor", "client.secretKey": "successor-secret"}
MASTER = {"client.accessKey": "master", "client.secretKey": "master-secret"}
SENT = 24


@contextlib.contextmanager
def guarded_cluster(folder: Path, hosts: Sequence[str], tls_mode: str) -> Iterator[LocalCluster]:
    """Three nodes; `tls_mode`: permissive or enforcing."""
    file = folder / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    settings = {
        "raft.data_file_size": str(16 << 20),
        "raft.index_file_size": str(1 << 20),
        "broker.acl_file": str(file),
        "broker.cluster_secret": "one for all",
        "broker.tls_mode": tls_mode,
        "broker.tls_certificate": str(PEM / "server.pem"),
        "broker.tls_key": str(PEM / "server.key"),
    }
    cluster = LocalCluster.create(folder / "c", plan.plan(3, hosts), settings, tied=True)
    cluster.up()
    try:
        tls = Tls(authority=str(PEM / "server.pem"), check_host=False)
        master = ClientConfig(account=Account("master", "master-secret"), tls=tls)
        with connect(cluster.nameserver, master) as mq, mq.producer() as producer:
            mq.admin().create_topic("orders", 2)
            for number in range(SENT):
                producer.send("orders", b"%d" % number)
        yield cluster
    finally:
        cluster.down()
