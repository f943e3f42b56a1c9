# SPDX-License-Identifier: Apache-2.0
"""`meshdnsd explain` says the same with and without the running daemon, but for what only the daemon knows."""

import re

import pytest

from harness.daemon import run_tool
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

ONLY_OF_THE_DAEMON = re.compile(r"(since|last change of the name|cache,|upstream:)")
PORT = {"number": 443, "name": "tls", "protocol": "TLS"}
ALLOCATED = "note: only a proxy of the mesh can connect to an allocated address"
VIRTUAL = ("note: a proxy of the mesh connects to an endpoint instead of a virtual address; a client without a proxy needs a "
           "route to it")


def entry(name, namespace="shop", **spec):
    return {"kind": "ServiceEntry", "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [f"{name}.example.org"], "ports": [PORT], "resolution": "STATIC", **spec}}


RESOURCES = [
    entry("vip", addresses=["10.0.0.7"], endpoints=[{"address": "192.0.2.1"}]),
    entry("own", addresses=["10.0.0.8"], exportTo=["."]),
    entry("direct", resolution="NONE"),
    {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
     "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80, "name": "http"}]}},
    {"kind": "WorkloadEntry", "metadata": {"name": "vm", "namespace": "shop"}, "spec": {"address": "10.1.1.1"}},
]


def explained(config_path, name, *arguments):
    result = run_tool("explain", "--config", config_path, name, "A", *arguments)
    assert result.returncode == 0, result
    return result


def lines(result):
    return [line for line in result.stdout.splitlines() if not ONLY_OF_THE_DAEMON.match(line)]


@pytest.mark.parametrize("client", [
    {"by_source_address": True, "unknown": "refuse", "workload_entry_namespaces": ["shop"]},
    {"by_source_address": True, "unknown": "public"},
    {"default": {"namespace": "web"}},
], ids=["refuse", "public", "one client"])
def test_the_files_and_the_daemon_explain_alike(workspace, client):
    workspace.write("shop.yaml", *RESOURCES)
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "client": client},
                              upstreams=[workspace.upstream()])
    for name, source in (("vip.example.org", "10.1.1.1"), ("own.example.org", "10.1.1.2"), ("own.example.org", "shop"),
                         ("direct.example.org", "203.0.113.9"), ("web.shop.svc.cluster.local", "web")):
        asked = explained(daemon.config_path, name, "--from", source)
        assert asked.stderr == "explained by the running daemon\n", asked
        assert lines(asked) == lines(explained(daemon.config_path, name, "--from", source, "--offline"))


def test_an_address_of_nobody_is_explained(workspace):
    workspace.write("shop.yaml", *RESOURCES)
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "client": {"by_source_address": True}})
    assert "identity: no Pod or WorkloadEntry has the address" in lines(explained(
        daemon.config_path, "vip.example.org", "--from", "10.1.1.2"))


def test_a_refused_client_is_explained(workspace):
    workspace.write("shop.yaml", *RESOURCES)
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"},
                               "client": {"by_source_address": True, "unknown": "refuse"}})
    assert explained(daemon.config_path, "vip.example.org", "--from", "10.1.1.2").stdout.splitlines() == [
        "vip.example.org. for an unknown client",
        "no Pod or WorkloadEntry has 10.1.1.2, and client.unknown is refuse: its queries are REFUSED, whatever the name"]


def test_an_explanation_says_that_a_virtual_address_needs_a_proxy(workspace):
    allocated = entry("allocated", resolution="DNS", endpoints=[{"address": "us.example.net"}])
    workspace.write("shop.yaml", *RESOURCES, allocated)
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "mesh": {"auto_allocate": "hash"}})
    assert VIRTUAL in lines(explained(daemon.config_path, "vip.example.org"))
    assert ALLOCATED in lines(explained(daemon.config_path, "allocated.example.org"))
    for name in ("web.shop.svc.cluster.local", "direct.example.org"):
        assert "proxy" not in explained(daemon.config_path, name).stdout


def test_a_change_of_another_namespace_is_named_as_such(workspace):
    workspace.write("shop.yaml", entry("api", addresses=["10.0.0.7"]))
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "client": {"default": {"namespace": "web"}}})
    eventually(lambda: "since: unchanged since the start" in explained(daemon.config_path, "api.example.org").stdout)
    workspace.write("bank.yaml", entry("api", "bank", addresses=["10.0.0.9"], exportTo=["."]))
    named = r"(?m)^last change of the name \S+, in namespace bank: appeared, 10\.0\.0\.9"
    eventually(lambda: re.search(named, explained(daemon.config_path, "api.example.org").stdout) is not None, 10)
    at_home = explained(daemon.config_path, "api.example.org", "--from", "bank").stdout
    assert re.search(r"^since \S+: appeared, 10\.0\.0\.9", at_home, re.M), at_home
