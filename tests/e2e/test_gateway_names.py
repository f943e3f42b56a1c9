# SPDX-License-Identifier: Apache-2.0
"""Names of gateways from the Kubernetes API: discovery, changes, restarts, reloads and missing permissions."""

import re

import pytest
import yaml

from harness.daemon import merge, run_tool
from harness.kube_api import Fault, namespace, service
from harness.kube_cluster import RECOVERY, Cluster, collection, sources
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

GROUP = "gateway.networking.k8s.io"
GATEWAYS, ROUTES = f"gateways.{GROUP}", f"httproutes.{GROUP}"
ON = {"mesh": {"gateway_names": {"kinds": ["HTTPRoute", "Ingress"]}}}


def gateway(address):
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gateway", "metadata": {"name": "web", "namespace": "infra"},
            "spec": {"gatewayClassName": "istio",
                     "listeners": [{"name": "http", "port": 80, "protocol": "HTTP", "hostname": "*.example.org",
                                    "allowedRoutes": {"namespaces": {"from": "All"}}}]},
            "status": {"addresses": [{"type": "IPAddress", "value": address}]}}


def route(*hosts):
    return {"apiVersion": f"{GROUP}/v1", "kind": "HTTPRoute", "metadata": {"name": "api", "namespace": "shop"},
            "spec": {"parentRefs": [{"name": "web", "namespace": "infra"}], "hostnames": list(hosts)}}


def ingress(host):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i", "namespace": "shop"},
            "spec": {"rules": [{"host": host}]}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}]}}}


def wait_for_answer(daemon, name, *expected):
    def check():
        found = daemon.ask(name + ".").addresses()
        assert sorted(found) == sorted(expected), f"{name}: {found}"
    eventually(check, RECOVERY)


@pytest.fixture
def cluster(workspace):
    cluster = Cluster(workspace)
    cluster.api.serve(GATEWAYS)
    cluster.api.serve(ROUTES, versions=("v1beta1", "v1"))
    cluster.api.put(namespace("infra"), gateway("192.0.2.9"), route("api.example.org"), ingress("old.example.org"))
    return cluster


def test_changes_in_the_api_change_answers_at_once(cluster):
    api = cluster.api
    daemon = cluster.daemon(change=ON)
    wait_for_answer(daemon, "api.example.org", "192.0.2.9")
    wait_for_answer(daemon, "old.example.org", "192.0.2.8")
    assert collection(daemon, ROUTES)["objects"] == 1 and collection(daemon, GATEWAYS)["objects"] == 1
    assert {path for path, _ in api.asked("httproutes")} == {f"/apis/{GROUP}/v1/httproutes"}

    api.put(gateway("192.0.2.7"))
    wait_for_answer(daemon, "api.example.org", "192.0.2.7")
    api.put(service("web-istio", ip="10.96.0.9", namespace="infra"))
    wait_for_answer(daemon, "api.example.org", "10.96.0.9")
    explained = daemon.get("/explain?name=api.example.org&format=text")[1]
    assert "HTTPRoute shop/api" in explained and "ClusterIP of Service infra/web-istio" in explained
    api.put(route("new.example.org"))
    wait_for_answer(daemon, "new.example.org", "10.96.0.9")
    wait_for_answer(daemon, "api.example.org")
    api.delete("HTTPRoute", "api", "shop")
    wait_for_answer(daemon, "new.example.org")
    api.delete("Ingress", "i", "shop")
    wait_for_answer(daemon, "old.example.org")


def test_a_cluster_without_the_crds_works_until_they_are_there(workspace):
    cluster = Cluster(workspace)
    daemon = cluster.daemon(change=ON)
    assert GATEWAYS not in {c["name"] for c in sources(daemon)["collections"]}
    cluster.api.serve(GATEWAYS)
    cluster.api.serve(ROUTES)
    cluster.api.put(gateway("192.0.2.9"), route("api.example.org"))
    wait_for_answer(daemon, "api.example.org", "192.0.2.9")


def written(daemon):
    text = daemon.get("/metrics")[1]
    return float(re.search(r"^meshdns_snapshot_write_timestamp_seconds (\S+)$", text, re.M).group(1)) > 0


def test_the_saved_state_has_the_names(cluster, workspace):
    state = {**ON, "state_dir": str(workspace.path)}
    kubeconfig = cluster.api.kubeconfig(workspace.path / "kubeconfig")
    daemon = cluster.daemon(change=state, kubeconfig=kubeconfig)
    wait_for_answer(daemon, "api.example.org", "192.0.2.9")
    eventually(lambda: written(daemon), 15)
    daemon.kill()
    workspace.forget(daemon)
    cluster.api.stop()
    daemon = cluster.daemon(change=state, kubeconfig=kubeconfig)
    wait_for_answer(daemon, "api.example.org", "192.0.2.9")
    wait_for_answer(daemon, "old.example.org", "192.0.2.8")


def test_a_reload_turns_names_on_and_off(cluster):
    daemon = cluster.daemon()
    assert not cluster.api.asked("httproutes") and not cluster.api.asked("ingresses")
    assert not [path for path, _ in list(cluster.api.requests) if GROUP in path], "nothing is asked of the group"
    wait_for_answer(daemon, "api.example.org")
    daemon.write_config(merge(daemon.config, ON))
    daemon.reload()
    wait_for_answer(daemon, "api.example.org", "192.0.2.9")
    daemon.write_config(merge(daemon.config, {"mesh": {"gateway_names": {"kinds": []}}}))
    daemon.reload()
    wait_for_answer(daemon, "api.example.org")


def test_the_commands_read_them_from_files(tmp_path):
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([gateway("192.0.2.9"), route("api.example.org", "x.cluster.local"),
                                                               ingress("y.cluster.local")]))
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"sources": [{"files": {"path": str(tmp_path / "objects.yaml")}}], **ON}))
    explained = run_tool("explain", "--config", config, "--offline", "api.example.org", "A").stdout
    assert "HTTPRoute shop/api" in explained and "IN A 192.0.2.9" in explained
    checked = run_tool("check", "--config", config)
    assert checked.returncode == 0 and "3 resources" in checked.stdout
    # The route has no listener with its name, so it does not ask for it.
    assert re.findall(r'warning: (.*) is not served', checked.stdout) == ['Ingress shop/i: "y.cluster.local"']


def test_a_missing_permission_is_named(cluster):
    cluster.api.faults["httproutes"] = Fault(status=403, message="User \"x\" cannot list resource \"httproutes\"")
    daemon = cluster.daemon(wait=False, change=ON)
    daemon.wait_until_ready()
    wait_for_answer(daemon, "old.example.org", "192.0.2.8")
    daemon.wait_for_log(r"may not be read .*grant list and watch of httproutes\.gateway\.networking\.k8s\.io")
