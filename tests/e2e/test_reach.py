# SPDX-License-Identifier: Apache-2.0
"""An address of the daemon whose queries go elsewhere: the log and /readyz say so."""

import json
import shutil
import subprocess

import pytest

from harness.namespaces import NODE_IPV4, Node, available, inside
from harness.preset import IS_RELEASE, ONE_THREAD
from harness.waiting import eventually

pytestmark = [ONE_THREAD, pytest.mark.root, pytest.mark.skipif(not IS_RELEASE, reason="measures, and waits for seconds"),
              pytest.mark.skipif(not available() or not shutil.which("nft"),
                                 reason="needs root, bridged network namespaces and nft")]

# As the portmap plugin of the CNI writes the hostPort 53 of a Pod.
HOST_PORT = """
table ip cni_hostport {
  chain hostports { meta l4proto { tcp, udp } th dport 53 dnat to 10.60.0.7:53; }
  chain output { type nat hook output priority -100; policy accept; fib daddr type local jump hostports; }
}
"""


@pytest.fixture
def node(workspace):
    made = workspace.own(Node({}))
    return made


def nft(node, text):
    loaded = subprocess.run(["ip", "netns", "exec", node.name, "nft", "-f", "-"], input=text, text=True,
                            capture_output=True, check=False)
    if "Operation not supported" in loaded.stderr:
        pytest.skip("this kernel has no nf_tables with NAT")
    assert loaded.returncode == 0, loaded.stderr


def degraded(daemon, node):
    with inside(node.name):
        status, text = daemon.get("/readyz")
    assert status == 200
    return [reason for reason in json.loads(text)["reasons"] if "do not reach" in reason]


def test_a_host_port_that_takes_the_queries_of_an_address_is_found(workspace, node):
    nft(node, HOST_PORT)
    daemon = workspace.daemon({"server": {"listen": [f"{NODE_IPV4}:53", f"{NODE_IPV4}:5353"]}, "admin": {"listen": "127.0.0.1:15054"}},
                              upstreams=["192.0.2.1"], prefix=["ip", "netns", "exec", node.name])
    eventually(lambda: degraded(daemon, node), 20)
    (reason,) = degraded(daemon, node)  # the other port is free
    assert f"queries to {NODE_IPV4}:53 do not reach this daemon" in reason and "hostPort" in reason
    daemon.wait_for_log(r"WARN queries to an address do not reach this daemon address=10\.60\.0\.1:53")
    nft(node, "delete table ip cni_hostport")
    eventually(lambda: not degraded(daemon, node), 10)
    daemon.wait_for_log("INFO queries reach an address again")
