# SPDX-License-Identifier: Apache-2.0
"""Istio's MeshConfig from the Kubernetes API and from files: what it changes, who says so, and what a missing permission costs."""

import re

import pytest

from harness.daemon import merge
from harness.kube_api import Fault, namespace, service_entry
from harness.kube_cluster import RECOVERY, Cluster, collection
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

ENTRIES = "serviceentries.networking.istio.io"
SIDECARS = "sidecars.networking.istio.io"
NAME = "api.example.org"
COLLECTION = "configmaps@istio-system"


def config_map(mesh, name="istio"):
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "istio-system"}, "data": {"mesh": mesh}}


def is_seen(daemon):
    return daemon.ask(NAME + ".").addresses() == ["10.0.0.7"]


def wait_until(daemon, seen):
    eventually(lambda: is_seen(daemon) == seen, RECOVERY)


def reconfigure(daemon, change):
    daemon.write_config(merge(daemon.config, change))
    daemon.reload()


def in_force(daemon, key):
    value = daemon.get_json("/config")["in_force"]["mesh." + key]
    return value["value"], value["from"]


@pytest.fixture
def cluster(workspace):
    cluster = Cluster(workspace)
    cluster.api.serve(ENTRIES)
    cluster.api.serve(SIDECARS)
    cluster.api.put(namespace("istio-system"),
                    service_entry("api", NAME, addresses=["10.0.0.7"], resolution="STATIC"))
    return cluster


CLIENT = {"client": {"default": {"namespace": "web"}}}


def test_a_change_in_the_api_changes_answers_at_once(cluster):
    api = cluster.api
    api.put(config_map("accessLogFile: /dev/stdout\ndefaultServiceExportTo: ['.']\n"), config_map("{", "other"))
    daemon = cluster.daemon(change=CLIENT)
    assert not is_seen(daemon)
    assert collection(daemon, COLLECTION)["objects"] == 1
    assert {path for path, _ in api.asked("configmaps")} == {"/api/v1/namespaces/istio-system/configmaps"}
    assert {query["fieldSelector"] for _, query in api.asked("configmaps")} == {"metadata.name=istio"}
    assert in_force(daemon, "default_export_to") == (["."], "ConfigMap istio-system/istio")
    assert in_force(daemon, "root_namespace") == ("istio-system", "default")
    hidden = daemon.get(f"/explain?name={NAME}&format=text")[1]
    assert "default_export_to (ConfigMap istio-system/istio) applies" in hidden

    api.put(config_map("defaultServiceExportTo: [web]"))
    wait_until(daemon, True)
    api.put(config_map("defaultServiceExportTo: ['.']"))
    wait_until(daemon, False)

    # A mistake: the last good one stays, and the log says where and why.
    api.put(config_map("defaultServiceExportTo: ['*']\nrootNamespace: [x]"))
    daemon.wait_for_log(r"ERROR .*ConfigMap istio-system/istio: data\.mesh\.rootNamespace: expected a string, got a list "
                        r"\(line 2 of the text\)")
    assert not is_seen(daemon)

    api.delete("ConfigMap", "istio", "istio-system")
    wait_until(daemon, True)
    assert in_force(daemon, "default_export_to") == (["*"], "default")
    assert len(api.lists("services")) == 1, "nothing else was listed again"


def test_keys_of_the_configuration_win_until_a_reload_removes_them(cluster):
    cluster.api.put(config_map("defaultServiceExportTo: ['.']\nrootNamespace: mesh-root"))
    daemon = cluster.daemon(change={**CLIENT, "mesh": {"default_export_to": ["*"]}})
    assert is_seen(daemon)
    assert in_force(daemon, "default_export_to") == (["*"], "the configuration")
    assert in_force(daemon, "root_namespace") == ("mesh-root", "ConfigMap istio-system/istio")
    reconfigure(daemon, {"mesh": {"default_export_to": None}})
    wait_until(daemon, False)


def test_the_sidecars_of_the_named_root_namespace_are_followed(cluster):
    """Also where the source follows other namespaces only."""
    sidecar = {"kind": "Sidecar", "metadata": {"name": "default", "namespace": "mesh-root"},
               "spec": {"egress": [{"hosts": ["./*"]}]}}
    cluster.api.put(namespace("mesh-root"), namespace("web"), sidecar)
    daemon = cluster.daemon({"namespaces": ["shop", "web"]}, change=CLIENT)
    assert is_seen(daemon)
    cluster.api.put(config_map("rootNamespace: mesh-root"))
    wait_until(daemon, False)
    hidden = daemon.get(f"/explain?name={NAME}&format=text")[1]
    assert "mesh-root is the root namespace (ConfigMap istio-system/istio)" in hidden
    cluster.api.delete("ConfigMap", "istio", "istio-system")
    wait_until(daemon, True)


def test_a_missing_permission_is_one_warning(cluster):
    api = cluster.api
    api.put(config_map("defaultServiceExportTo: ['.']"))
    api.faults["configmaps"] = Fault(status=403, message='configmaps "istio" is forbidden: User "x" cannot list')
    daemon = cluster.daemon(wait=False, change=CLIENT)
    daemon.wait_until_ready()
    eventually(lambda: daemon.get("/readyz")[0] == 200, 15)
    daemon.wait_for_log(r"WARN .*configmaps@istio-system.*may not be read.*defaultServiceExportTo.*not known")
    assert "configmaps" not in daemon.get("/readyz")[1], "nothing that is needed is missing"
    assert is_seen(daemon), "the defaults count"
    assert collection(daemon, COLLECTION)["trouble"] == "forbidden"
    assert re.search(r'kubernetes_forbidden\{[^}]*configmaps[^}]*\} 1', daemon.get("/metrics")[1])
    api.faults.clear()
    daemon.reload()  # instead of waiting for the next try
    wait_until(daemon, False)
    lines = [line for line in daemon.process.log_lines() if "configmaps" in line and "may not be read" in line]
    assert len(lines) == 1


def test_no_config_map_is_asked_for_without_istio_or_when_switched_off(workspace):
    without = Cluster(workspace)
    daemon = without.daemon()
    assert daemon.get("/readyz")[0] == 200
    assert not without.api.asked("configmaps")
    without.api.serve(ENTRIES)
    eventually(lambda: without.api.asked("configmaps"), 10)
    reconfigure(daemon, {"mesh": {"istio_config_map": ""}})
    eventually(lambda: COLLECTION not in daemon.get("/sources")[1], RECOVERY)


def test_the_last_runs_settings_count_until_the_sources_have_been_read(cluster, workspace, tmp_path):
    cluster.api.put(config_map("defaultServiceExportTo: ['.']"))
    change = {**CLIENT, "state_dir": str(tmp_path)}
    daemon = cluster.daemon(change=change)
    assert not is_seen(daemon)
    daemon.stop()
    workspace.forget(daemon)
    cluster.api.stop()
    again = cluster.daemon(change=change)
    again.wait_for_log("restored")
    assert in_force(again, "default_export_to") == (["."], "ConfigMap istio-system/istio")
    assert not is_seen(again)
