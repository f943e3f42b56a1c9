# SPDX-License-Identifier: Apache-2.0
"""Two clusters with an API server each, and two networks without a route between them: every address that a Pod gets can
be connected to, and those that cannot be are not answered.

MESHDNS_TEST_KUBE_EAST and MESHDNS_TEST_KUBE_WEST: directories of two real API servers (harness/real_kube_api.py)."""

import re

import pytest

from harness.kube_cluster import RECOVERY
from harness.namespaces import available, inside
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.real_kube_api import RealKubeApi
from harness.two_clusters import CLUSTERS, MEMBERS, VISITORS, TwoClusters
from harness.two_networks import CLUSTER_IPS, DNS_SERVER, GATEWAYS, NETWORKS, TwoNetworks, network_of
from harness.waiting import eventually

pytestmark = [ONE_THREAD, pytest.mark.root,
              pytest.mark.skipif(not available(), reason="needs root and bridged network namespaces")]

AT_ONCE = 2.0  # seconds
MODES = [("local-first", "gateways"), ("local-first", "reachable"), ("merge", "gateways"), ("local-only", "reachable")]


@pytest.fixture(scope="module")
def lab():
    made = TwoNetworks()
    yield made
    made.close()


def config_of(mesh, clusters=CLUSTERS):
    return {"server": {"listen": [f"{DNS_SERVER[0]}:{DNS_SERVER[1]}"]},
            "admin": {"listen": f"127.0.0.1:{free_port()}"},
            "sources": [{"kubernetes": {"kubeconfig": mesh.kubeconfigs[cluster], "cluster": cluster}}
                        for cluster in clusters],
            "client": {"by_source_address": True},
            "mesh": {"clusters": mesh.mode, "networks": mesh.networks, "authoritative": True}}


def start(workspace, mesh):
    daemon = workspace.daemon(config_of(mesh), upstreams=["192.0.2.53:53"], prefix=["ip", "netns", "exec", mesh.lab.node])
    eventually(mesh.compare, RECOVERY)
    return daemon


def get(mesh, daemon, path):
    with inside(mesh.lab.node):
        return daemon.get(path)


def seen_at_once(mesh, change, *arguments):
    change(*arguments)
    eventually(mesh.compare, AT_ONCE)


def test_a_network_is_reached_by_its_gateway_alone(lab):
    """The other tests build on this."""
    addresses = {address for by_cluster in MEMBERS.values() for found in by_cluster.values() for address in found.values()}
    for cluster, network in VISITORS:
        for address in addresses:
            said = lab.connect(cluster, network, address)
            assert said == (address if network_of(address) == network else None)
        for address in GATEWAYS.values():
            assert lab.connect(cluster, network, address).startswith(f"{address} to ")
        for of, prefix in CLUSTER_IPS.items():
            assert lab.connect(cluster, network, f"{prefix}.1") == (f"{prefix}.1" if of == cluster else None)


@pytest.mark.parametrize(("mode", "networks"), MODES)
def test_every_answer_can_be_connected_to(workspace, lab, mode, networks):
    mesh = TwoClusters(workspace, lab, mode, networks)
    start(workspace, mesh)
    connected = 0
    for visitor in VISITORS:
        for name in mesh.names():
            reply = mesh.ask(visitor, name)
            for address in reply.addresses():
                assert (lab.connect(*visitor, address) or "").split(" to ")[0] == address, (visitor, name, address)
                connected += 1
            if not reply.addresses():
                hidden = name != "web" and mesh.endpoints(visitor[0], name)
                assert ("cannot reach" in reply.extended_text()) == bool(hidden), (visitor, name, reply)
    assert connected > len(VISITORS) * 3


def test_the_same_is_asked_of_both_servers(workspace, lab):
    mesh = TwoClusters(workspace, lab, "local-first", "gateways")
    if any(isinstance(api, RealKubeApi) for api in mesh.apis.values()):
        pytest.skip("a real server does not tell what it is asked")
    start(workspace, mesh)

    def asked(cluster):
        # Names of headless Services are in selectors.
        return {(path, re.sub(r"\(.*\)", "(...)", query.get("labelSelector", "")), query.get("fieldSelector"),
                 "watch" in query) for path, query in list(mesh.apis[cluster].requests)}

    eventually(lambda: asked("east") == asked("west"), RECOVERY)


def test_changes_at_one_server_are_seen_at_once(workspace, lab):
    mesh = TwoClusters(workspace, lab, "local-first", "gateways")
    daemon = start(workspace, mesh)
    # An endpoint moves, to the other network, and away: then those of the other cluster answer.
    seen_at_once(mesh, mesh.set_members, "east", "db", {"db-0": "10.1.0.30", "db-1": "10.1.0.21"})
    seen_at_once(mesh, mesh.set_members, "east", "db", {"db-0": "10.2.0.31"})
    seen_at_once(mesh, mesh.set_members, "east", "db", {})
    assert sorted(mesh.ask(("east", "east"), "db").addresses()) == ["10.1.0.22", GATEWAYS["west"]]
    seen_at_once(mesh, mesh.set_members, "east", "db", {"db-0": "10.1.0.32"})
    # A Service that the other cluster does not have.
    seen_at_once(mesh, mesh.set_members, "west", "fresh", {"fresh-0": "10.2.0.33"})
    assert mesh.ask(("east", "east"), "fresh").addresses() == [GATEWAYS["west"]]
    # Without its gateway a network is out of reach.
    seen_at_once(mesh, mesh.set_gateway, "west", None)
    assert not mesh.ask(("east", "east"), "fresh").addresses()
    explanation = get(mesh, daemon, "/explain?name=fresh.shop.svc.cluster.local&from=10.1.0.11&format=text")[1]
    assert "all endpoints are in network west, which clients of network east cannot reach" in explanation
    seen_at_once(mesh, mesh.set_gateway, "west", GATEWAYS["west"])


def test_a_server_that_dies_takes_nothing_with_it(workspace, lab):
    """Its names keep the last known state (docs/kubernetes.md); those of the other cluster change as before."""
    mesh = TwoClusters(workspace, lab, "local-first", "gateways")
    daemon = start(workspace, mesh)
    mesh.kill_api("east")
    eventually(lambda: "kubernetes:east" in get(mesh, daemon, "/readyz")[1], RECOVERY)
    status, reasons = get(mesh, daemon, "/readyz")
    assert status == 200 and "kubernetes:west" not in reasons
    mesh.compare()
    seen_at_once(mesh, mesh.set_members, "west", "db", {"db-0": "10.2.0.30"})
    seen_at_once(mesh, mesh.set_members, "west", "idle-east", {"idle-0": "10.2.0.31"})
    mesh.start_api("east")
    mesh.set_members("east", "db", {"db-0": "10.1.0.30", "db-9": "10.1.0.31"})
    eventually(mesh.compare, RECOVERY)
    seen_at_once(mesh, mesh.set_members, "east", "db", {"db-0": "10.1.0.20"})


def test_a_source_that_is_removed_takes_its_services_with_it(workspace, lab):
    mesh = TwoClusters(workspace, lab, "local-first", "gateways")
    daemon = start(workspace, mesh)
    daemon.write_config(workspace.config(config_of(mesh, ["west"]), ["192.0.2.53:53"]))
    daemon.reload()
    for by_cluster in mesh.members.values():
        by_cluster.pop("east", None)
    mesh.gateways["east"] = None
    eventually(lambda: mesh.compare([("west", network) for network in NETWORKS]), RECOVERY)
