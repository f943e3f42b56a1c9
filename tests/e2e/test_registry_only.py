# SPDX-License-Identifier: Apache-2.0
"""mesh.registry_only in a running daemon: reloads, what is counted and listed, and that nothing is refused before Sidecars and
MeshConfig have been read."""

import re

from harness.daemon import merge, run_tool
from harness.kube_api import Fault, namespace, service_entry
from harness.kube_cluster import RECOVERY, Cluster
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

OUTSIDE = "www.example.org."
CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"name": "istio", "namespace": "istio-system"},
              "data": {"mesh": "outboundTrafficPolicy: { mode: REGISTRY_ONLY }"}}
ANSWER = {"client": {"default": {"namespace": "web"}}, "mesh": {"registry_only": {"mode": "answer"}}}


def rcode(daemon):
    return daemon.ask(OUTSIDE).rcode


def count(daemon, action):
    text = daemon.get("/metrics")[1]
    return float(re.search(rf'^meshdns_dns_registry_only_total{{action="{action}"}} (\S+)$', text, re.M).group(1))


def listed(daemon):
    return [(entry["name"], entry["action"], entry["times"]) for entry in daemon.get_json("/top")["registryOnly"]]


def test_reloads_change_the_mode_and_all_is_counted(workspace):
    workspace.write("mesh.yaml", CONFIG_MAP)
    upstream = workspace.upstream(["www.example.org. 300 A 192.0.2.1"])
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])
    assert rcode(daemon) == "NOERROR"
    assert (count(daemon, "audit"), count(daemon, "refuse"), listed(daemon)) == (0, 0, [])

    def reload(settings):
        daemon.write_config(merge(daemon.config, {"mesh": {"registry_only": settings}}))
        daemon.reload()

    reload({"mode": "audit"})
    eventually(lambda: rcode(daemon) == "NOERROR" and count(daemon, "audit") > 0)
    assert [entry[:2] for entry in listed(daemon)] == [(OUTSIDE, "audit")]
    reload({"mode": "answer"})
    eventually(lambda: rcode(daemon) == "NXDOMAIN")
    assert count(daemon, "refuse") >= 1
    assert {entry[:2] for entry in listed(daemon)} == {(OUTSIDE, "audit"), (OUTSIDE, "refuse")}
    table = run_tool("top", "--config", daemon.config_path, "--once").stdout
    assert re.search(r"^ +\d+  www\.example\.org\., refuse$", table, re.M), table
    reload({"mode": "answer", "rcode": "refused"})
    eventually(lambda: rcode(daemon) == "REFUSED")
    reload({"mode": "answer", "namespaces": ["other"]})
    eventually(lambda: rcode(daemon) == "NOERROR")
    reload({"mode": "answer", "rcode": "nxdomain", "namespaces": []})
    eventually(lambda: rcode(daemon) == "NXDOMAIN")
    reload({"mode": "explain"})
    eventually(lambda: rcode(daemon) == "NOERROR")


def cluster_of_mesh(workspace):
    cluster = Cluster(workspace)
    for kind in ("serviceentries", "sidecars"):
        cluster.api.serve(f"{kind}.networking.istio.io")
    cluster.api.put(namespace("istio-system"), CONFIG_MAP,
                    service_entry("api", "api.example.org", addresses=["10.0.0.7"], resolution="STATIC"))
    return cluster


def test_nothing_is_refused_while_sidecars_may_not_be_read(workspace):
    cluster = cluster_of_mesh(workspace)
    cluster.api.faults["sidecars"] = Fault(status=403, message='sidecars is forbidden: User "x" cannot list')
    daemon = cluster.daemon(wait=False, change=ANSWER)
    daemon.wait_until_ready()
    eventually(lambda: daemon.get("/readyz")[0] == 200, 15)
    daemon.wait_for_log(r"ERROR .*sidecars.*may not be read")
    eventually(lambda: daemon.get_json("/config")["in_force"]["mesh.outbound_traffic_policy"]["value"] == "REGISTRY_ONLY")
    assert rcode(daemon) == "NOERROR"
    cluster.api.faults.clear()
    daemon.reload()  # instead of waiting for the next try
    eventually(lambda: rcode(daemon) == "NXDOMAIN", RECOVERY)


def test_nothing_is_refused_by_what_an_earlier_run_knew(workspace, tmp_path):
    cluster = cluster_of_mesh(workspace)
    change = {**ANSWER, "state_dir": str(tmp_path)}
    daemon = cluster.daemon(change=change)
    eventually(lambda: rcode(daemon) == "NXDOMAIN", RECOVERY)
    daemon.stop()
    workspace.forget(daemon)
    cluster.api.stop()
    again = cluster.daemon(change=change)
    again.wait_for_log("restored")
    assert again.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert rcode(again) == "NOERROR"
