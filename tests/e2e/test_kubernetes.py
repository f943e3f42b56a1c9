# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes API as a source: what is in the API is in the answers, whatever becomes of the API."""

import json
import re
import time

import pytest

from harness.daemon import merge, run_tool
from harness.kube_api import (BUILT_IN, SLICES, Fault, KubeApi, endpoint_slice, headless, make_certificates, namespace,
                              pod, service, service_entry)
from harness.kube_cluster import DOMAIN, RECOVERY, Asker, Cluster, addresses, collection, wait_for, wait_for_rcode
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

ENTRIES = "serviceentries.networking.istio.io"


@pytest.fixture
def cluster(workspace):
    return Cluster(workspace)


# --- what is served ----------------------------------------------------------------------------------


@pytest.mark.parametrize("streams_lists", [True, False], ids=["streamed", "paged"])
def test_answers_with_what_the_api_has(workspace, streams_lists):
    cluster = Cluster(workspace, streams_lists=streams_lists)
    cluster.api.put(service("alias", type="ExternalName", externalName="www.example.org"),
                    headless("byhand"), endpoint_slice("byhand", ["10.0.0.9"], managed=False, is_headless=False),
                    endpoint_slice("web", ["10.0.0.77"], is_headless=False))
    daemon = cluster.daemon()
    assert daemon.get("/readyz") == (200, '{"ready":true,"reasons":[]}\n')
    assert addresses(daemon, "web") == ["10.96.0.1"]
    assert addresses(daemon, "db") == ["10.0.0.1", "10.0.0.2"]
    assert addresses(daemon, "byhand") == ["10.0.0.9"]
    assert addresses(daemon, "alias") == ["192.0.2.1"]
    assert daemon.ask(f"missing.shop.{DOMAIN}").rcode == "NXDOMAIN", "all of the cluster is known"
    assert daemon.ask(f"shop.{DOMAIN}").rcode == "NOERROR"
    # Slices of Services with an address are none of our business.
    assert collection(daemon, "endpointslices.discovery.k8s.io[headless]")["objects"] == 1
    assert collection(daemon, "endpointslices.discovery.k8s.io[other]")["objects"] == 1


def test_a_change_is_in_the_next_answers(cluster):
    daemon = cluster.daemon()
    api = cluster.api
    for i in range(20):
        # Asked for before it is there: no denial outlives that.
        assert daemon.ask(f"new{i}.shop.{DOMAIN}").rcode == "NXDOMAIN"
        api.put(service(f"new{i}", ip=f"10.96.1.{i}"), endpoint_slice("db", [f"10.0.1.{i}"]))
        wait_for(daemon, f"new{i}", [f"10.96.1.{i}"])
        wait_for(daemon, "db", [f"10.0.1.{i}"])
    api.delete("Service", "new0", "shop")
    wait_for_rcode(daemon, "new0", "NXDOMAIN")
    assert len(api.lists("services")) == 1
    assert re.search(r'programming_duration_seconds_count\{.*since="event"\} \d\d', daemon.get("/metrics")[1])


def test_the_time_from_a_trigger_to_the_answers_is_measured(cluster):
    """Of an EndpointSlice's annotation; a clock that runs ahead of ours counts as no time."""
    daemon = cluster.daemon()
    for i, trigger in enumerate(["2026-01-01T00:00:00Z", "2199-01-01T00:00:00.5Z", None]):
        piece = endpoint_slice("db", [f"10.0.1.{i}"])
        if trigger:
            piece["metadata"]["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time": trigger}
        cluster.api.put(piece)
        wait_for(daemon, "db", [f"10.0.1.{i}"])
    text = daemon.get("/metrics")[1]
    series = dict(re.findall(r'programming_duration_seconds_(\w+)\{.*since="change"(?:,le="0.0005")?\} (\S+)', text))
    assert series["count"] == "2" and series["bucket"] == "1"
    assert float(series["sum"]) > 1000


@pytest.mark.parametrize("version", ["v1beta1", None], ids=["slices of v1beta1", "endpoints"])
def test_an_old_server(workspace, version):
    served = dict(BUILT_IN)
    del served[SLICES]
    if version:
        served[SLICES] = ([version], "EndpointSlice")
    api = workspace.own(KubeApi(streams_lists=False, served=served))
    api.put(namespace("shop"), headless("db"))
    if version:
        api.put(endpoint_slice("db", ["10.0.0.1"]))
    else:
        api.put({"kind": "Endpoints", "metadata": {"name": "db", "namespace": "shop"},
                 "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "http", "port": 80}]}]})
    daemon = workspace.daemon({"sources": [{"kubernetes": {"kubeconfig": api.kubeconfig(workspace.path / "k")}}]})
    wait_for(daemon, "db", ["10.0.0.1"])


def test_kinds_are_followed_from_the_moment_that_they_exist(cluster):
    daemon = cluster.daemon()
    api = cluster.api
    assert not api.asked("serviceentries")
    api.serve(ENTRIES)
    api.put(service_entry("e", "api.example.org", addresses=["10.5.5.5"], resolution="STATIC"))
    eventually(lambda: daemon.ask("api.example.org.").addresses() == ["10.5.5.5"], RECOVERY)
    api.withdraw(ENTRIES)
    eventually(lambda: daemon.ask("api.example.org.").addresses() == [], RECOVERY)


def test_an_exported_service_has_a_name_in_the_cluster_set(cluster):
    daemon, api = cluster.daemon(), cluster.api
    api.serve("serviceexports.multicluster.x-k8s.io", ["v1alpha1"])
    for name in ("web", "db"):
        api.put({"kind": "ServiceExport", "metadata": {"name": name, "namespace": "shop"}})
    eventually(lambda: daemon.ask("web.shop.svc.clusterset.local.").addresses() == ["10.96.0.1"], RECOVERY)
    eventually(lambda: sorted(daemon.ask("db.shop.svc.clusterset.local.").addresses()) == ["10.0.0.1", "10.0.0.2"],
               RECOVERY)
    api.delete("ServiceExport", "web", "shop")
    eventually(lambda: daemon.ask("web.shop.svc.clusterset.local.").addresses() == [], RECOVERY)


def test_pods_are_watched_only_where_they_matter(cluster):
    api = cluster.api
    api.serve(ENTRIES)
    api.put(pod("one", "10.0.7.1", labels={"app": "x"}), pod("two", "10.0.7.2"),
            pod("local", "127.0.0.1", node="n1"))
    daemon = cluster.daemon({"node_name": "n1"}, {"client": {"by_source_address": True}})
    assert [query["fieldSelector"] for query in api.watches("pods")] == [
        "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed"]
    # The address identifies the client: the short name is one of its namespace.
    assert daemon.ask("web.").addresses() == ["10.96.0.1"]
    api.put(service_entry("e", "members.example.org", resolution="STATIC", location="MESH_INTERNAL",
                          workloadSelector={"labels": {"app": "x"}}))
    eventually(lambda: daemon.ask("members.example.org.").addresses() == ["10.0.7.1"], RECOVERY)
    assert api.watches("pods")[-1]["fieldSelector"].endswith("spec.nodeName!=n1")
    api.put(pod("two", "10.0.7.2", labels={"app": "x"}))
    eventually(lambda: sorted(daemon.ask("members.example.org.").addresses()) == ["10.0.7.1", "10.0.7.2"], RECOVERY)


def test_pods_that_server_allow_refuses_are_said(cluster):
    cluster.api.put(pod("private", "10.0.7.1"), pod("one", "203.0.113.7"), pod("two", "203.0.113.200"))
    daemon = cluster.daemon(change={"client": {"by_source_address": True}})
    reason = "server.allow: refuses the queries of 2 Pods; one of them: Pod shop/"

    def degraded():
        return daemon.get_json("/readyz").get("degraded", [])
    eventually(lambda: any(text.startswith(reason) and "; add 203.0.113.0/24, " in text for text in degraded()), RECOVERY)
    daemon.wait_for_log("WARN server.allow refuses Pods reason=")
    # Each of these takes another look.
    for count in (3, 4):
        cluster.api.put(pod(f"pod-{count}", f"203.0.113.20{count}"))
        eventually(lambda count=count: f"refuses the queries of {count} Pods" in "".join(degraded()), RECOVERY)
    assert len([line for line in daemon.process.log_lines() if "server.allow refuses Pods" in line]) == 1
    daemon.write_config(merge(daemon.config, {"server": {"allow": ["127.0.0.0/8", "10.0.0.0/8", "203.0.113.0/24"]}}))
    daemon.reload()
    eventually(lambda: degraded() == [], RECOVERY)


def test_given_namespaces_are_followed_alone(cluster):
    api = cluster.api
    api.put(namespace("other"), service("web", "other", ip="10.96.0.2"))
    daemon = cluster.daemon(change={"mesh": {"namespaces": ["shop"]}})
    wait_for(daemon, "web", ["10.96.0.1"])
    assert {path for path, _ in api.asked("services")} == {"/api/v1/namespaces/shop/services"}
    assert daemon.ask(f"web.other.{DOMAIN}").addresses() == []


@pytest.mark.slow("two starts of a daemon that is not ready, which says so after 5 s")
def test_a_given_namespace_that_has_never_existed_is_waited_for(workspace, cluster):
    """Names of the others are answered meanwhile.  One that is deleted later is a problem, and the daemon stays ready."""
    options = {"mesh": {"namespaces": ["shop", "shp", "wbe"]}, "state_dir": str(workspace.path / "state")}
    daemon = cluster.daemon(change=options)

    def missing(kind, *names):
        readyz = json.loads(daemon.get("/readyz")[1])
        words = ", ".join(f'"{name}"' for name in names)
        assert [text for text in readyz.get(kind, []) if f"chosen namespaces that do not exist: {words}; create them" in text], readyz

    def is_ready():
        return daemon.get("/readyz")[0] == 200

    def status():
        return run_tool("status", "--admin", daemon.config["admin"]["listen"])

    def restart():
        daemon.stop()
        workspace.forget(daemon)
        return cluster.daemon(change=options)

    for next_start in (restart, None):  # the second one has the state of the first one
        missing("notReady", "shp", "wbe")
        assert not is_ready()
        assert addresses(daemon, "web") == ["10.96.0.1"]
        shown = status()
        assert shown.returncode == 1 and 'do not exist: "shp", "wbe"' in shown.stdout, shown
        daemon.wait_for_log(r'WARN chosen namespaces that do not exist: "shp", "wbe";')
        daemon.wait_for_log(r'WARN not ready yet: .*do not exist: \\"shp\\", \\"wbe\\"')
        if next_start:
            daemon = next_start()
    cluster.api.put(namespace("shp"), namespace("wbe"), service("new", "wbe", ip="10.96.0.9"))
    eventually(is_ready, RECOVERY)
    wait_for(daemon, "new", ["10.96.0.9"], namespace="wbe")
    daemon.wait_for_log("INFO ready: ")
    cluster.api.delete("Namespace", "shp")
    eventually(lambda: missing("degraded", "shp"), RECOVERY)
    assert is_ready() and status().returncode == 0
    daemon.wait_for_log(r'WARN chosen namespaces that do not exist: "shp";')
    daemon = restart()
    eventually(lambda: missing("degraded", "shp"), RECOVERY)
    assert is_ready()


def test_one_of_several_sources_may_lack_a_namespace_of_the_mesh(workspace, cluster):
    workspace.write("vm.yaml", service("db", "vm", ip="10.96.0.7"), namespace("vm"))
    kubernetes = {"kubeconfig": cluster.api.kubeconfig(workspace.path / "kubeconfig")}
    sources = [{"kubernetes": kubernetes}, {"files": {"path": str(workspace.resources)}}]
    daemon = cluster.daemon(change={"mesh": {"namespaces": ["shop", "vm"]}, "sources": sources})
    wait_for(daemon, "db", ["10.96.0.7"], namespace="vm")
    wait_for(daemon, "web", ["10.96.0.1"])
    assert daemon.get("/readyz") == (200, '{"ready":true,"reasons":[]}\n')


def test_a_reload_with_a_namespace_that_does_not_exist_changes_nothing_of_readiness(cluster):
    waiting = cluster.daemon(change={"mesh": {"namespaces": ["shop", "shp"]}})
    daemon = cluster.daemon(change={"mesh": {"namespaces": ["shop"]}})
    daemon.write_config(merge(daemon.config, {"mesh": {"namespaces": ["shop", "shp"]}}))
    daemon.reload()
    eventually(lambda: 'do not exist: \\"shp\\";' in daemon.get("/readyz")[1], RECOVERY)
    assert daemon.get("/readyz")[0] == 200
    assert addresses(daemon, "web") == ["10.96.0.1"]
    assert waiting.get("/readyz")[0] == 503
    waiting.write_config(merge(waiting.config, {"mesh": {"namespaces": ["shop", "shp", "wbe"]}}))
    waiting.reload()
    eventually(lambda: 'do not exist: \\"shp\\", \\"wbe\\";' in waiting.get("/readyz")[1], RECOVERY)
    assert waiting.get("/readyz")[0] == 503
    cluster.api.put(namespace("shp"), namespace("wbe"))
    waiting.wait_for_log("INFO ready: ")
    assert waiting.get("/readyz") == (200, '{"ready":true,"reasons":[]}\n')


def test_one_faulty_object_harms_no_other(cluster):
    api = cluster.api
    bad = service("bad")
    bad["spec"]["clusterIP"] = "10.0.0.300"
    api.put(bad)
    daemon = cluster.daemon()
    daemon.wait_for_log(r"Service shop/bad: spec\.clusterIP")
    assert addresses(daemon, "web") == ["10.96.0.1"]
    # A version that turns faulty leaves the one before it in service.
    broken = service("web")
    broken["spec"]["ports"] = "none"
    api.put(broken, service("later", ip="10.96.0.7"))
    wait_for(daemon, "later", ["10.96.0.7"])
    assert addresses(daemon, "web") == ["10.96.0.1"]
    assert collection(daemon, "services")["refused"] == 2
    api.put(service("web", ip="10.96.0.8"))
    wait_for(daemon, "web", ["10.96.0.8"])
    assert "shop/web" not in daemon.get("/registry/findings")[1]


@pytest.mark.parametrize("streams_lists", [True, False], ids=["streamed", "paged"])
def test_an_object_that_nests_without_end_harms_no_other(workspace, streams_lists):
    cluster = Cluster(workspace, streams_lists=streams_lists)
    deep = service("deep")
    for _ in range(100):
        deep["spec"] = {"spec": deep["spec"]}
    cluster.api.put(deep)
    daemon = cluster.daemon()
    daemon.wait_for_log(r"Service shop/deep: cannot be read: nested more than 64 levels deep")
    assert addresses(daemon, "web") == ["10.96.0.1"]
    broken = dict(service("web"), spec=deep["spec"])
    cluster.api.put(broken, service("later", ip="10.96.0.7"))
    wait_for(daemon, "later", ["10.96.0.7"])
    assert addresses(daemon, "web") == ["10.96.0.1"], "the version before stays"
    assert collection(daemon, "services")["refused"] == 2
    assert 'meshdns_kubernetes_refused_objects{' in daemon.get("/metrics")[1]
    cluster.api.delete("Service", "deep", "shop")
    cluster.api.delete("Service", "web", "shop")
    wait_for_rcode(daemon, "web", "NXDOMAIN")
    assert collection(daemon, "services")["refused"] == 0


# --- who we are ----------------------------------------------------------------------------------------


def test_tls_and_a_token_that_rotates(workspace):
    certificates = make_certificates(workspace.path)
    cluster = Cluster(workspace, certificates=certificates, token="one")
    token = workspace.path / "token"
    token.write_text("one\n")
    daemon = cluster.daemon(user={"tokenFile": str(token)})
    wait_for(daemon, "web", ["10.96.0.1"])
    cluster.api.token = "two"
    cluster.api.reset_connections()
    eventually(lambda: cluster.api.unauthorized > 0, RECOVERY)
    assert addresses(daemon, "web") == ["10.96.0.1"]
    token.write_text("two\n")
    cluster.api.put(service("new", ip="10.96.0.5"))
    wait_for(daemon, "new", ["10.96.0.5"], limit=15)


def test_a_server_that_nobody_vouches_for_is_not_believed(workspace):
    certificates = make_certificates(workspace.path)
    cluster = Cluster(workspace, certificates=certificates)
    kubeconfig = workspace.path / "kubeconfig"
    cluster.api.kubeconfig(kubeconfig)
    kubeconfig.write_text(kubeconfig.read_text().replace(str(certificates[0]), "/etc/ssl/certs/ca-certificates.crt"))
    daemon = cluster.daemon(kubeconfig=str(kubeconfig))
    status, text = daemon.get("/readyz")
    assert status == 503 and "certificate" in text
    assert not cluster.api.requests


def test_a_client_certificate(workspace):
    certificates = make_certificates(workspace.path)
    mine = make_certificates(workspace.path, "client")
    cluster = Cluster(workspace, certificates=certificates, client_ca=str(mine[0]))
    daemon = cluster.daemon(user={"client-certificate": str(mine[0]), "client-key": str(mine[1])})
    wait_for(daemon, "web", ["10.96.0.1"])


def test_a_plugin_gives_the_token(workspace):
    cluster = Cluster(workspace, token="from-plugin")
    plugin = workspace.path / "plugin"
    plugin.write_text('#!/bin/sh\nsleep 0.3\necho "{\\"kind\\":\\"ExecCredential\\",\\"status\\":{\\"token\\":\\"$1\\"}}"\n')
    plugin.chmod(0o700)
    daemon = cluster.daemon(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin),
                                           "args": ["from-plugin"]}})
    wait_for(daemon, "web", ["10.96.0.1"])


def no_request_for(api, plural, span):
    """A check that is true when the last request for the collection is `span` seconds ago."""
    last = {"count": -1, "time": 0.0}

    def check():
        if len(api.asked(plural)) != last["count"]:
            last.update(count=len(api.asked(plural)), time=time.monotonic())
        return time.monotonic() - last["time"] >= span
    return check


def test_a_missing_permission_costs_only_what_it_is_for(cluster):
    api = cluster.api
    api.faults["endpointslices"] = Fault(status=403, message="User \"x\" cannot list resource \"endpointslices\"")
    daemon = cluster.daemon(wait=False)
    daemon.wait_for_log(r"\bready:", 15)
    daemon.wait_until_ready()
    eventually(lambda: daemon.get("/readyz")[0] == 200, 15)
    assert "forbidden" in daemon.get("/readyz")[1]
    wait_for(daemon, "web", ["10.96.0.1"])
    for name in ("db", "db-0.db"):  # whether it has endpoints is not known: no denial
        answer = daemon.ask(f"{name}.shop.{DOMAIN}")
        assert answer.rcode == "SERVFAIL" and 14 in answer.extended_errors(), name
    assert daemon.ask(f"missing.shop.{DOMAIN}").rcode == "NXDOMAIN"
    daemon.wait_for_log(r"\[headless\].*ClusterRole")
    lines = [line for line in daemon.process.log_lines() if "ClusterRole" in line and "[headless]" in line]
    assert len(lines) == 1 and "list and watch of endpointslices.discovery.k8s.io" in lines[0]
    assert re.search(r'kubernetes_forbidden\{[^}]*headless[^}]*\} 1', daemon.get("/metrics")[1])
    eventually(no_request_for(api, "endpointslices", 1.0), 15)  # its tries become rarer
    api.faults.clear()
    daemon.reload()  # instead of waiting for the next try
    wait_for(daemon, "db", ["10.0.0.1", "10.0.0.2"])


# --- outages -------------------------------------------------------------------------------------------


def test_before_the_first_sync(cluster):
    cluster.api.stop()
    daemon = cluster.daemon()
    assert daemon.get("/readyz")[0] == 503
    answer = daemon.ask(f"web.shop.{DOMAIN}")
    assert answer.rcode == "SERVFAIL" and 14 in answer.extended_errors()
    assert daemon.ask("www.example.org.").addresses() == ["192.0.2.1"]
    cluster.api.start()
    wait_for(daemon, "web", ["10.96.0.1"])
    eventually(lambda: daemon.get("/readyz")[0] == 200)


@pytest.mark.parametrize("compacted", [False, True], ids=["history kept", "compacted"])
def test_the_last_known_state_outlives_the_api(cluster, compacted):
    api = cluster.api
    daemon = cluster.daemon()
    with Asker(daemon):
        api.stop()
        eventually(lambda: "has not answered" in daemon.get("/readyz")[1], RECOVERY)
        assert daemon.get("/readyz")[0] == 200
        assert addresses(daemon, "db") == ["10.0.0.1", "10.0.0.2"]
        assert "meshdns_kubernetes_reachable" in daemon.get("/metrics")[1]
        api.delete("Service", "db", "shop")
        api.put(service("new", ip="10.96.0.3"))
        if compacted:
            api.compact()
        api.start()
        wait_for(daemon, "new", ["10.96.0.3"])
        wait_for_rcode(daemon, "db", "NXDOMAIN")
    assert len(api.lists("services")) == (2 if compacted else 1)
    eventually(lambda: daemon.get("/readyz")[1] == '{"ready":true,"reasons":[]}\n', RECOVERY)


def restored(daemon):
    return "\nmeshdns_registry_from_snapshot 1\n" in daemon.get("/metrics")[1]


def written(daemon):
    text = daemon.get("/metrics")[1]
    return float(re.search(r"^meshdns_snapshot_write_timestamp_seconds (\S+)$", text, re.M).group(1)) > 0


@pytest.fixture
def restarted_without_api(cluster, workspace):
    """A daemon that was killed and is back while the API is away, after an object has gone, come and changed."""
    api = cluster.api
    change = {"state_dir": str(workspace.path)}
    api.put(service("old", ip="10.96.0.2"), service("moved", ip="10.96.0.4"))
    kubeconfig = api.kubeconfig(workspace.path / "kubeconfig")
    daemon = cluster.daemon(change=change, kubeconfig=kubeconfig)
    wait_for(daemon, "moved", ["10.96.0.4"])
    eventually(lambda: written(daemon), 15)
    daemon.kill()
    workspace.forget(daemon)
    api.stop()
    api.delete("Service", "old", "shop")
    api.put(service("moved", ip="10.96.0.5"), service("new", ip="10.96.0.3"))
    return cluster.daemon(change=change, kubeconfig=kubeconfig)


def test_a_restart_without_the_api_answers_from_the_last_state(cluster, restarted_without_api):
    daemon = restarted_without_api
    with Asker(daemon):
        assert restored(daemon)
        assert addresses(daemon, "db") == ["10.0.0.1", "10.0.0.2"]
        assert addresses(daemon, "old") == ["10.96.0.2"]
        assert daemon.ask(f"none.shop.{DOMAIN}").rcode == "NXDOMAIN", "what was complete may deny"
        answer = daemon.ask(f"web.shop.{DOMAIN}")
        assert 3 in answer.extended_errors()
        status, text = daemon.get("/readyz")
        assert status == 200 and "snapshot" in text

        cluster.api.start()
        wait_for(daemon, "new", ["10.96.0.3"], 35)
        wait_for(daemon, "moved", ["10.96.0.5"])
        wait_for_rcode(daemon, "old", "NXDOMAIN")
        eventually(lambda: not restored(daemon), RECOVERY)
        assert daemon.ask(f"web.shop.{DOMAIN}").extended_errors() == []


def test_a_list_that_fails_at_the_restart_takes_nothing_away(cluster, restarted_without_api):
    """The slices cannot be listed for a while; Services can."""
    daemon = restarted_without_api
    cluster.api.faults["endpointslices"] = Fault(status=500)
    with Asker(daemon, "db", ("10.0.0.1", "10.0.0.2")):
        cluster.api.start()
        wait_for(daemon, "new", ["10.96.0.3"], 35)
        assert restored(daemon)
        del cluster.api.faults["endpointslices"]
        eventually(lambda: not restored(daemon), 35)


def test_a_kind_that_a_starting_server_does_not_list_keeps_its_objects(cluster, workspace):
    """The server publishes the groups of CRDs some time after it answers; the daemon starts from its saved state."""
    api = cluster.api
    api.serve(ENTRIES)
    api.put(service_entry("e", "api.example.org", addresses=["10.5.5.5"], resolution="STATIC"))
    options = {"change": {"state_dir": str(workspace.path)}, "kubeconfig": api.kubeconfig(workspace.path / "kubeconfig")}
    daemon = cluster.daemon(**options)
    eventually(lambda: daemon.ask("api.example.org.").addresses() == ["10.5.5.5"])
    eventually(lambda: written(daemon), 15)
    daemon.kill()
    workspace.forget(daemon)
    api.unpublished, api.is_ready = {"networking.istio.io", "apiextensions.k8s.io"}, False
    api.put(service("new", ip="10.96.0.3"))
    daemon = cluster.daemon(**options)
    wait_for(daemon, "new", ["10.96.0.3"])
    eventually(lambda: collection(daemon, ENTRIES)["trouble"] == "unconfirmed")
    with Asker(daemon, "api.example.org.", ("10.5.5.5",)):
        assert restored(daemon)
        eventually(lambda: "not confirmed: the API server does not list this kind" in
                   daemon.get("/explain?name=api.example.org.&from=127.0.0.1")[1])
        api.unpublished, api.is_ready = set(), True
        eventually(lambda: collection(daemon, ENTRIES)["synced"] and not restored(daemon), 2 * RECOVERY)
        assert collection(daemon, ENTRIES)["trouble"] == ""
        # The same while it runs, and a group that fails: what is listed is followed.
        api.unpublished = {"networking.istio.io"}
        api.broken_groups = {"multicluster.x-k8s.io"}
        api.compact()
        api.reset_connections()
        eventually(lambda: collection(daemon, ENTRIES)["trouble"] == "unconfirmed", 2 * RECOVERY)
        api.unpublished = set()
        eventually(lambda: collection(daemon, ENTRIES)["watching"], 2 * RECOVERY)
    api.withdraw(ENTRIES)
    eventually(lambda: daemon.ask("api.example.org.").addresses() == [], RECOVERY)


def cut_in_an_object(api):
    api.faults["services"] = Fault(cut_after=40, times=2, on="watch")
    api.reset_connections()


def garbage_in_the_stream(api):
    api.faults["services"] = Fault(garbage=b'{"type":"ADDED","object":{"meta\x00\xff', times=1, on="watch")
    api.reset_connections()


def gone_at_the_watch(api):
    api.stop()
    api.compact()
    api.start()


def refusals(api):
    api.faults["services"] = Fault(status=503, retry_after=1, times=2)
    api.reset_connections()


def errors(api):
    api.faults["*"] = Fault(status=500, message="etcd is unwell", times=10)
    api.reset_connections()


def an_event_twice(api):
    api.put(service("other", ip="10.96.3.1"))
    api.repeat_event()


def an_old_event_again(api):
    for i in range(3):
        api.put(service("other", ip=f"10.96.3.{i}"))
    api.repeat_event(3)


def many_at_once(api):
    api.put(*[service(f"s{i}", ip=f"10.97.{i // 250}.{i % 250 + 1}") for i in range(1000)])


@pytest.mark.parametrize("fault", [cut_in_an_object, garbage_in_the_stream, gone_at_the_watch, refusals, errors,
                                   an_event_twice, an_old_event_again, many_at_once])
def test_faults_lose_nothing(cluster, fault):
    api = cluster.api
    daemon = cluster.daemon()
    with Asker(daemon):
        fault(api)
        api.put(service("one", ip="10.96.0.4"), endpoint_slice("db", ["10.0.0.5"]))
        wait_for(daemon, "one", ["10.96.0.4"], limit=2 * RECOVERY)
        wait_for(daemon, "db", ["10.0.0.5"])
        api.put(service("two", ip="10.96.0.6"))
        api.delete("Service", "one", "shop")
        wait_for(daemon, "two", ["10.96.0.6"])
        wait_for_rcode(daemon, "one", "NXDOMAIN")
    eventually(lambda: collection(daemon, "services")["objects"] == len(api.objects[("", "services")]), RECOVERY)


def test_pages_whose_token_expires(workspace):
    cluster = Cluster(workspace, streams_lists=False)
    api = cluster.api
    many_at_once(api)
    daemon = cluster.daemon()
    api.expire_pages = 1
    with Asker(daemon):
        api.stop()
        api.compact()
        api.put(service("one", ip="10.96.0.4"))
        api.start()
        wait_for(daemon, "one", ["10.96.0.4"], limit=2 * RECOVERY)
    # The first page, which has "one", counts at once; the next one is asked for after it.
    eventually(lambda: any("continue" in query for query in api.lists("services")))
    eventually(lambda: collection(daemon, "services")["objects"] == 1003)


def test_a_slow_server_is_waited_for(workspace):
    cluster = Cluster(workspace, streams_lists=False)
    cluster.api.faults["services"] = Fault(rate=1000, times=1)
    daemon = cluster.daemon()
    wait_for(daemon, "web", ["10.96.0.1"], limit=30)
    assert collection(daemon, "services")["errors"] == 0


def test_watches_that_end_often(workspace):
    cluster = Cluster(workspace, watch_limit=0.3)
    daemon = cluster.daemon()
    for i in range(10):
        cluster.api.put(endpoint_slice("db", [f"10.0.2.{i}"]))
        wait_for(daemon, "db", [f"10.0.2.{i}"])
        time.sleep(0.1)
    assert collection(daemon, "services")["lists"] == 1


def test_an_empty_list_is_not_believed_at_once(workspace):
    cluster = Cluster(workspace, streams_lists=False)
    api = cluster.api
    api.put(*[service(f"s{i}", ip=f"10.97.0.{i + 1}") for i in range(20)])
    daemon = cluster.daemon()
    with Asker(daemon):
        api.faults["services"] = Fault(empty=True, on="list", times=1)
        gone_at_the_watch(api)
        eventually(lambda: "empty list" in daemon.get("/readyz")[1], RECOVERY)


def test_sources_come_and_go_with_the_configuration(cluster):
    daemon = cluster.daemon()
    wait_for(daemon, "web", ["10.96.0.1"])
    with_source = daemon.config
    daemon.write_config({**with_source, "sources": []})
    daemon.reload()
    eventually(lambda: addresses(daemon, "web") == [])
    daemon.write_config(with_source)
    daemon.reload()
    wait_for(daemon, "web", ["10.96.0.1"])
    # A setting that the source depends on: followed anew, without a gap.
    with Asker(daemon):
        daemon.write_config({**with_source, "mesh": {"pods": "verified"}})
        daemon.reload()
        eventually(lambda: cluster.api.watches("pods"), RECOVERY)
