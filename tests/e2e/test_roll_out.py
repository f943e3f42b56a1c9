# SPDX-License-Identifier: Apache-2.0
"""Roll-outs of the DaemonSet over several nodes, which a stand-in for Kubernetes' controller and kubelets runs: a revision that
never gets ready stops with its first nodes, and no client notices."""

import os
import pathlib
import shutil

import pytest

from harness.daemonset import Pod, Strategy, decide
from harness.kube_api import Fault, namespace
from harness.kubelet import Cluster
from harness.namespaces import LINK_LOCAL, available
from harness.node_pods import ADDRESS, NAME
from harness.pod_queries import PodQueries
from harness.preset import ONCE, TREE
from harness.real_kube_api import KubeServer, RealKubeApi, ServiceAccount
from harness.waiting import eventually

pytestmark = ONCE

STRATEGY = Strategy("5%", 10)
NOW = 1000.0


def pod(node, revision, ready_for=None, **options):
    return Pod(node, revision, None if ready_for is None else NOW - ready_for, **options)


def decided(*pods, nodes=("a", "b"), revision=2):
    ended, new = decide(list(pods), nodes, revision, STRATEGY, NOW)
    return [(gone.node, gone.revision) for gone in ended], new


# --- the rules


@TREE
@pytest.mark.parametrize("surge, count, expected", [("5%", 500, 25), ("5%", 501, 26), ("5%", 3, 1), (2, 500, 2)])
def test_a_share_of_the_nodes_is_rounded_up(surge, count, expected):
    assert Strategy(surge, 10).surge_of(count) == expected


@TREE
def test_a_node_without_a_pod_gets_one():
    assert decided() == ([], ["a", "b"])
    assert decided(pod("a", 2, 60), pod("b", 2, 60)) == ([], [])
    assert decided(pod("a", 2, 60), pod("b", 2, 60, is_ending=True)) == ([], []), "when the old one is gone"


@TREE
def test_so_many_new_pods_begin_as_the_surge_allows():
    old = [pod(node, 1, 60) for node in ("a", "b")]
    assert decided(*old) == ([], ["a"])
    assert decided(*old, pod("a", 2)) == ([], []), "the new one is not ready"
    assert decided(*old, pod("a", 2, 9)) == ([], []), "not for long enough"
    assert decided(*old, pod("a", 2, 10)) == ([("a", 1)], [])
    assert decided(pod("a", 1, 60, is_ending=True), pod("a", 2, 10), pod("b", 1, 60)) == ([], ["b"])


@TREE
def test_an_old_pod_that_is_not_ready_is_replaced_at_once():
    assert decided(pod("a", 1, 60), pod("b", 1)) == ([], ["b", "a"]), "it is not part of the surge"
    assert decided(pod("a", 1, 60), pod("b", 1), pod("b", 2)) == ([("b", 1)], []), "even if the new one is not ready, either"


@TREE
def test_a_third_revision_takes_the_place_of_the_second_one():
    on_a = [pod("a", 1, 60), pod("a", 2)]
    assert decided(*on_a, pod("b", 1, 60), revision=3) == ([("a", 2)], [])
    assert decided(*on_a, pod("b", 1, 60), revision=1) == ([("a", 2)], []), "back to the first one"


def roll_out(count, ready_after):
    """Returns the seconds that it takes, and the nodes with a new Pod; None: it stands still.  A Pod ends within 5 s."""
    nodes = [f"node-{number}" for number in range(count)]
    pods, made, ending = [Pod(node, 1, 0.0) for node in nodes], {}, {}
    for now in range(100, 3600):
        ended, new = decide(pods, nodes, 2, STRATEGY, now)
        for gone in ended:
            gone.is_ending, ending[gone] = True, now
        pods = [each for each in pods if not each.is_ending or now < ending[each] + 5]
        pods += (begun := [Pod(node, 2) for node in new])
        made |= dict.fromkeys(begun, now)
        for each, begin in made.items():
            if ready_after is not None and now >= begin + ready_after and each.ready_since is None:
                each.ready_since = float(now)
        if len(pods) == count and {each.revision for each in pods} == {2} and all(e.is_available(STRATEGY, now) for e in pods):
            return now - 100, len(made)
    return None, len(made)


@TREE
def test_500_nodes_take_a_quarter_of_an_hour():
    """With 30 s for an image and the start."""
    taken, changed = roll_out(500, 30)
    assert 600 < taken <= 15 * 60 and changed == 500


@TREE
def test_a_revision_that_is_never_ready_stops_with_its_first_nodes():
    assert roll_out(500, None) == (None, 25)


# --- with daemons

needs_nodes = pytest.mark.skipif(not available() or not shutil.which("nft"),
                                 reason="needs root, bridged network namespaces and nft")


@pytest.fixture(name="cluster")
def fixture_cluster(workspace):
    cluster = Cluster(workspace, 3)
    pass_until(cluster, cluster.is_rolled_out)
    return cluster


def lost_in(workspace, cluster):
    """Asks from a Pod of each node.  Returns a function: the number of queries that have been lost so far."""
    asking = [workspace.own(PodQueries(node.node.pods["one"], (LINK_LOCAL, 53), NAME, [ADDRESS])) for node in cluster.nodes.values()]
    return lambda: sum(queries.note().lost for queries in asking)


@pytest.fixture(name="lost")
def fixture_lost(workspace, cluster):
    return lost_in(workspace, cluster)


class SmallServers:
    """One on each node, without roles: who is refused is refused all."""

    change = {"cache": {"size": "2MiB"}}

    def __init__(self, workspace):
        self.cluster = Cluster(workspace, 3)

    def hinder(self):
        for node in self.cluster.nodes.values():
            node.api.faults = {"*": Fault(403, "forbidden")}
            node.api.reset_connections()

    def mend(self):
        for node in self.cluster.nodes.values():
            node.api.faults = {}


class WithoutNamespace(SmallServers):
    """The new revision names one that does not exist yet, or is misspelt."""

    change = {"mesh": {"namespaces": ["shop", "shp"]}}

    def hinder(self):
        pass

    def mend(self):
        for node in self.cluster.nodes.values():
            node.api.put(namespace("shp"))


class RealServer:
    """With the service account and the role of conf/kubernetes."""

    change = SmallServers.change

    def __init__(self, workspace):
        directory = pathlib.Path(os.environ["MESHDNS_TEST_KUBE"])
        account = ServiceAccount(KubeServer(directory))
        self.hinder, self.mend = account.revoke_role, account.grant_role
        self.cluster = Cluster(workspace, 3, lambda node: RealKubeApi(directory, node, account.token))


def pass_until(cluster, condition, limit=60):
    """The time of the cluster goes on.  Its seconds are shorter than ours, but a daemon has time for its start."""
    def is_over():
        cluster.tick()
        return condition()
    eventually(is_over, limit, 0.05)


@pytest.mark.root
@needs_nodes
@pytest.mark.slow("three nodes, one after the other")
def test_a_good_revision_reaches_all_nodes_and_loses_no_query(cluster, lost):
    cluster.roll_out({"cache": {"size": "2MiB"}})

    def is_over():
        for node in cluster.nodes:
            going = [each for each in cluster.pods(node) if not each.is_ending]
            assert len(going) in (1, 2)
            if len(going) == 1 and len(cluster.pods(node)) == 2:
                assert cluster.is_available(going[0]), "the old Pod ends when the new one is available"
        return cluster.is_rolled_out()
    pass_until(cluster, is_over)
    assert lost() == 0
    cluster.end()


BAD = {
    "a wrong kubeconfig": {"sources": [{"kubernetes": {"kubeconfig": "/nonexistent/kubeconfig"}}]},
    "a misspelt key": {"sources": [{"kubernetes": {"namespace": ["shop"]}}]},
}


@pytest.mark.root
@needs_nodes
@pytest.mark.slow("three nodes, a minute of a cluster")
@pytest.mark.parametrize("mistake", BAD)
def test_a_bad_revision_stops_at_its_first_node_and_loses_no_query(cluster, lost, mistake):
    old = cluster.pods()
    cluster.roll_out(BAD[mistake])
    begin = cluster.now
    pass_until(cluster, lambda: cluster.now >= begin + 60)
    (new,) = [each for each in cluster.pods() if each not in old]
    assert new.ready_since is None and cluster.is_unable(new)
    assert all(not each.is_ending and cluster.is_available(each) for each in old) and len(old) == 3
    assert lost() == 0
    cluster.undo()
    pass_until(cluster, cluster.is_rolled_out)
    assert cluster.pods() == old, "they have not been restarted"
    assert lost() == 0
    cluster.end()


@pytest.mark.root
@needs_nodes
@pytest.mark.slow("three nodes, a minute of a cluster")
@pytest.mark.parametrize("servers", [
    SmallServers, WithoutNamespace, pytest.param(RealServer, marks=pytest.mark.skipif(
        "MESHDNS_TEST_KUBE" not in os.environ, reason="MESHDNS_TEST_KUBE: no directory of a real server"))])
def test_a_revoked_role_or_a_missing_namespace_stops_the_roll_out_until_it_is_there_again(workspace, servers):
    """The old daemons, which are refused as well, answer as before."""
    of = servers(workspace)
    pass_until(of.cluster, of.cluster.is_rolled_out)
    lost = lost_in(workspace, of.cluster)
    old = of.cluster.pods()
    of.hinder()
    of.cluster.roll_out(of.change)
    begin = of.cluster.now
    pass_until(of.cluster, lambda: of.cluster.now >= begin + 60)
    (new,) = [each for each in of.cluster.pods() if each not in old]
    assert new.ready_since is None and of.cluster.is_unable(new)
    assert all(not each.is_ending and of.cluster.is_available(each) for each in old) and len(old) == 3
    of.mend()
    pass_until(of.cluster, of.cluster.is_rolled_out)
    assert not set(of.cluster.pods()) & set(old)
    assert lost() == 0
    of.cluster.end()
