# SPDX-License-Identifier: Apache-2.0
"""Near endpoints with the places that the Kubernetes API tells."""

import pytest

from harness.kube_api import Fault, headless, pod
from harness.kube_cluster import RECOVERY, Cluster, addresses, collection
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

NEAR_A = ["10.1.0.1"]
NEAR_B = ["10.2.0.1"]
ALL = NEAR_A + NEAR_B
WEB = "127.0.3.1"
NEAR_ONLY = {"mesh": {"locality": "only"}, "client": {"by_source_address": True}}


def node(name, zone):
    return {"kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}}}


@pytest.fixture
def cluster(workspace):
    cluster = Cluster(workspace)
    service = headless("near")
    service["spec"]["trafficDistribution"] = "PreferSameZone"
    labels = {"kubernetes.io/service-name": "near", "service.kubernetes.io/headless": ""}
    endpoints = [{"addresses": [address], "zone": zone, "nodeName": f"node-{zone}"}
                 for address, zone in zip(ALL, ["a", "b"], strict=True)]
    cluster.api.put(service, pod("web-1", WEB, node="node-1"), node("node-1", "a"), node("node-2", "b"),
                    {"kind": "EndpointSlice", "metadata": {"name": "near-1", "namespace": "shop", "labels": labels},
                     "addressType": "IPv4", "ports": [{"name": "http", "port": 80}], "endpoints": endpoints})
    return cluster


def wait_for_near(daemon, expected):
    def check():
        found = addresses(daemon, "near", source=WEB)
        assert found == expected, found
    eventually(check, RECOVERY)


def test_answers_follow_the_zone_of_the_clients_node(cluster):
    daemon = cluster.daemon({"node_name": "node-1"}, change=NEAR_ONLY)
    wait_for_near(daemon, NEAR_A)
    assert {query.get("fieldSelector") for _, query in cluster.api.asked("nodes")} == {"metadata.name=node-1"}
    cluster.api.put(node("node-1", "b"))
    wait_for_near(daemon, NEAR_B)
    cluster.api.put(pod("web-1", WEB, node="node-2"))
    cluster.api.delete("Node", "node-1")
    wait_for_near(daemon, ALL)
    told = daemon.get(f"/explain?name=near.shop.svc.cluster.local&from={WEB}&format=text")[1]
    assert "10.1.0.1 ready, node node-a, zone a (elsewhere)" in told


def test_the_daemon_of_a_node_knows_its_zone_without_clients(cluster):
    daemon = cluster.daemon({"node_name": "node-2"}, change={"mesh": {"locality": "only"}})
    eventually(lambda: addresses(daemon, "near") == NEAR_B, RECOVERY)


def test_a_missing_permission_costs_the_places_alone(cluster):
    cluster.api.faults["nodes"] = Fault(status=403, message='nodes is forbidden: User "x" cannot list')
    daemon = cluster.daemon({"node_name": "node-1"}, wait=False, change=NEAR_ONLY)
    daemon.wait_until_ready()
    daemon.wait_for_log(r"WARN .*nodes.*may not be read.*grant list and watch of nodes in the ClusterRole")
    wait_for_near(daemon, ALL)
    assert collection(daemon, "nodes[node-1]")["trouble"] == "forbidden"
    assert daemon.get("/readyz")[0] == 200
    cluster.api.faults.clear()
    daemon.reload()
    wait_for_near(daemon, NEAR_A)


def test_nodes_are_not_asked_for_without_need(cluster):
    daemon = cluster.daemon({"node_name": "node-1"}, change={"client": {"by_source_address": True}})
    wait_for_near(daemon, ALL)
    assert not cluster.api.asked("nodes")
