# SPDX-License-Identifier: Apache-2.0
"""Queries for the kube-dns Service in a cluster whose kube-proxy uses nftables: they go to the daemon of the node, and to
kube-dns while no daemon runs (overlay kube-dns-capture)."""

import shutil
import signal
import subprocess

import pytest

from harness.daemon import ROOT
from harness.dns_client import Question, ask
from harness.fake_upstream import FakeUpstream
from harness.namespaces import available, inside
from harness.node_pods import ADDRESS, CLIENTS, NAME, TAKEN_OVER, NodeWithPods
from harness.pod_queries import PodQueries
from harness.preset import ONCE, ONE_THREAD
from harness.states import record
from harness.waiting import eventually

OVERLAY = ROOT / "conf" / "kubernetes" / "overlays" / "kube-dns-capture"
KUBE_DNS, OF_KUBE_DNS = ("10.96.0.10", 53), "192.0.2.53"

pytestmark = [ONE_THREAD, pytest.mark.root,
              pytest.mark.skipif(not available() or not shutil.which("nft"),
                                 reason="needs root, bridged network namespaces and nft")]

# As kube-proxy writes them; `masquerade` brings replies between two Pods of one bridge back through the node.
KUBE_PROXY = f"""
table ip kube-proxy {{
  set cluster-ips {{ type ipv4_addr; elements = {{ {KUBE_DNS[0]} }}; }}
  chain kube-dns {{ meta l4proto {{ tcp, udp }} dnat to {CLIENTS["two"][0]}:53; }}
  map service-ips {{
    type ipv4_addr . inet_proto . inet_service : verdict;
    elements = {{ {KUBE_DNS[0]} . udp . 53 : goto kube-dns, {KUBE_DNS[0]} . tcp . 53 : goto kube-dns }};
  }}
  chain services {{ ip daddr . meta l4proto . th dport vmap @service-ips; }}
  chain nat-prerouting {{ type nat hook prerouting priority dstnat; policy accept; jump services; }}
  chain nat-output {{ type nat hook output priority -100; policy accept; jump services; }}
  chain nat-postrouting {{ type nat hook postrouting priority srcnat; policy accept; ct status dnat masquerade; }}
  chain cluster-ips-check {{ ip daddr @cluster-ips reject; }}
  chain filter-forward {{ type filter hook forward priority filter; policy accept; ct state new jump cluster-ips-check; }}
  chain filter-output {{ type filter hook output priority filter; policy accept; ct state new jump cluster-ips-check; }}
}}
"""


@pytest.fixture
def node(workspace):
    made = NodeWithPods(workspace, OVERLAY / "meshdns.yaml")
    in_node = ["ip", "netns", "exec", made.node.name]
    loaded = subprocess.run([*in_node, "nft", "-f", "-"], input=KUBE_PROXY, text=True, capture_output=True, check=False)
    if "Operation not supported" in loaded.stderr:
        pytest.skip("this kernel has no nf_tables with NAT")
    assert loaded.returncode == 0, loaded.stderr
    subprocess.run([*in_node, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
    with inside(made.node.pods["two"]):
        workspace.own(FakeUpstream([f"{NAME} 60 A {OF_KUBE_DNS}"], address=CLIENTS["two"][0], port=53))
    return made


def start(node, lameduck="0s"):
    pod = node.start({"server": {"lameduck": lameduck}})
    pod.daemon.wait_for_line(r"\bready:", 20)
    return pod


def answered_by(node, address):
    """Over both transports."""
    with inside(node.node.pods["one"]):
        try:
            return all(ask(KUBE_DNS, Question(NAME), transport, 0.5).addresses() == [address] for transport in ("udp", "tcp"))
        except OSError:
            return False


class States:
    """A Pod asks without pause through the states of the daemon."""

    def __init__(self, node):
        self._node = node
        self._queries = PodQueries(node.node.pods["one"], KUBE_DNS, NAME, [ADDRESS, OF_KUBE_DNS])

    def end(self, state, answering=ADDRESS):
        """It ends when `answering` does.  Returns the number of lost queries."""
        eventually(lambda: answered_by(self._node, answering), 10)
        count = self._queries.note()
        record("node", state, count.lost, count.asked)
        return count.lost

    def begin_after(self, answering):
        """Leaves out what is lost until `answering` does."""
        eventually(lambda: answered_by(self._node, answering), 10)
        self._queries.forget()

    def close(self):
        self._queries.close()


MISTAKE = {"cache": {"size": "none"}}


@ONCE
def test_a_pod_loses_no_query_but_those_of_a_crash(workspace, node):
    states = workspace.own(States(node))
    node.start(MISTAKE).end_without_daemon()
    assert states.end("failed start", OF_KUBE_DNS) == 0, "there is no older Pod"
    first = start(node)
    assert states.end("start") == 0

    first.config_path.write_text("server: {listen: [")
    first.daemon.send_signal(signal.SIGHUP)
    first.daemon.wait_for_line("reload failed")
    assert states.end("reload with a mistake") == 0
    node.start(MISTAKE).end_without_daemon()
    assert states.end("failed start") == 0, "the older Pod goes on"

    second = start(node)
    first.end()
    assert states.end("roll-out") == 0
    withdrawn = start(node)
    second.daemon.wait_for_line(TAKEN_OVER, 20)
    withdrawn.end()
    second.daemon.wait_for_line("answering again", 20)
    assert states.end("roll-back") == 0

    second.daemon.kill()
    states.end("crash", OF_KUBE_DNS)
    second.restart_daemon()
    assert states.end("restart") == 0

    with inside(node.node.name):
        node.api.stop()
    node.pull_the_plug(second)
    states.begin_after(OF_KUBE_DNS)  # nobody asks while the node is off
    third = start(node, "1s")  # as the overlay has it
    assert states.end("reboot") == 0, "it has its saved state"
    third.end()
    assert states.end("stop", OF_KUBE_DNS) == 0
