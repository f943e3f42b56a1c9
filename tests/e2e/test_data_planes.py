# SPDX-License-Identifier: Apache-2.0
"""Queries for the kube-dns Service in a cluster whose kube-proxy uses nftables: they go to the daemon of the node, and to
kube-dns while no daemon runs (overlay kube-dns-capture)."""

import shutil
import subprocess

import pytest

from harness.daemon import ROOT
from harness.dns_client import Question, ask
from harness.fake_upstream import FakeUpstream
from harness.namespaces import available, inside
from harness.node_pods import ADDRESS, CLIENTS, NAME, NodeWithPods
from harness.waiting import eventually

OVERLAY = ROOT / "conf" / "kubernetes" / "overlays" / "kube-dns-capture"
KUBE_DNS, OF_KUBE_DNS = ("10.96.0.10", 53), "192.0.2.53"

pytestmark = [pytest.mark.root,
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


def asked(node):
    with inside(node.node.pods["one"]):
        return {transport: ask(KUBE_DNS, Question(NAME), transport).addresses() for transport in ("udp", "tcp")}


def answer(address):
    return {"udp": [address], "tcp": [address]}


def test_the_daemon_answers_in_place_of_kube_dns_while_it_runs(node):
    assert asked(node) == answer(OF_KUBE_DNS)
    pod = node.start()
    pod.daemon.wait_for_line(r"\bready:", 20)
    assert asked(node) == answer(ADDRESS)
    # An upgrade.
    successor = node.start()
    successor.daemon.wait_for_line(r"\bready:", 20)
    pod.end()
    assert asked(node) == answer(ADDRESS)
    successor.end()
    eventually(lambda: asked(node) == answer(OF_KUBE_DNS), 5)
