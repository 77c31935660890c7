"""A standalone cluster with a master and two workers, deployed and used as docs/spark-cluster.md
prints it: nothing on PYTHONPATH, an environment for each node, or one packed environment.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.local.launcher import LocalCluster

from ..source.filled import fill, new_topic
from .conftest import missing
from .standalone import Deployment, Standalone

JOB = Path(__file__).with_name("clustered.py")
COUNT = 60
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def deployed(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[Standalone]:
    """Each node with an environment of its own."""
    if why := missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("standalone")
    hosts = new_address(), new_address(), new_address()
    deployment = Deployment(folder / "deployed")
    nodes = [deployment.node(f"node-{number}") for number in range(3)]
    with Standalone(deployment, hosts, folder / "run", nodes).running() as found:
        yield found


def job(standalone: Standalone, title: str, cluster: LocalCluster, folder: Path) -> dict[str, Any]:
    """Runs the job by a script of the page; its rows are right."""
    topic, target = new_topic(cluster), new_topic(cluster)
    sent = fill(cluster, topic, COUNT)
    where = {**standalone.variables, "JOB": str(shutil.copy(JOB, folder))}
    if title == "a job with the packed environment":
        (where["SPARK_HOME"],) = map(str, standalone.nodes[0].glob("lib/python*/*/pyspark"))
    words = (cluster.nameserver, topic, target, str(folder))
    out = standalone.deployment.run(title, where, *words, cwd=folder)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert found["values"] == sorted(message.body.decode() for message in sent)
    assert {host for host, _, _ in found["places"]} == set(standalone.hosts[1:]), "both workers"
    assert {others for _, _, others in found["places"]} == {""}, "nothing is on PYTHONPATH"
    return found


def test_installed_on_each_node(
    deployed: Standalone, local_cluster: LocalCluster, tmp_path: Path
) -> None:
    found = job(deployed, "a job", local_cluster, tmp_path)
    assert found["driver"].startswith(f"{deployed.nodes[0]}/lib")
    nodes = dict(zip(deployed.hosts[1:], deployed.nodes[1:], strict=True))
    for host, package, _ in found["places"]:
        assert package.startswith(f"{nodes[host]}/lib"), "each node's own"


def test_one_packed_environment(
    deployed: Standalone, local_cluster: LocalCluster, tmp_path: Path
) -> None:
    shutil.copy(deployed.deployment.pack(), tmp_path)
    found = job(deployed, "a job with the packed environment", local_cluster, tmp_path)
    assert found["driver"].startswith(f"{tmp_path}/environment/lib")
    for _, package, _ in found["places"]:
        assert "/environment/lib" in package, "what the job brought"
        assert str(deployed.folder) in package, "in the executor's own folder"
