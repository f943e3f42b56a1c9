# SPDX-License-Identifier: Apache-2.0
"""The metrics: the documentation, the alerts and the dashboard speak of those that exist, and of no others."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml

from harness.daemon import ROOT, merge
from harness.istiod_mesh import Mesh
from harness.kube_api import KubeApi, endpoint_slice, headless, namespace
from harness.ports import free_port
from harness.preset import ONE_THREAD, TREE
from harness.process import Process
from harness.waiting import eventually, seconds
from harness.workspace import Workspace

pytestmark = ONE_THREAD

RULES = ROOT / "conf" / "prometheus" / "meshdns.rules.yaml"
DASHBOARD = ROOT / "conf" / "grafana" / "meshdns.json"
# Labels that Prometheus gives to a target, of which no metric of ours may have one.
OF_TARGETS = {"cluster", "namespace", "node", "instance", "job"}
API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}
HIDDEN = {"kind": "ServiceEntry", "metadata": {"name": "hidden", "namespace": "shop"},
          "spec": {"hosts": ["hidden.example.org"], "addresses": ["10.0.0.8"], "resolution": "STATIC", "exportTo": ["."]}}


@pytest.fixture(scope="module")
def exposition(tmp_path_factory):
    """The metrics of a daemon after some queries of each kind."""
    workspace = Workspace(tmp_path_factory.mktemp("metrics"))
    workspace.write("api.yaml", API, HIDDEN)
    cluster = workspace.own(KubeApi())
    cluster.put(namespace("shop"), headless("db"), endpoint_slice("db", ["10.0.0.1"]))
    mesh = Mesh(workspace)
    sources = [{"files": {"path": str(workspace.resources)}},
               {"kubernetes": {"kubeconfig": cluster.kubeconfig(workspace.path / "kubeconfig")}},
               mesh.entry(mesh.istiod(table={}))]
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "sources": sources,
                               "dependencies": {"record": "mesh"}},
                              upstreams=[workspace.upstream(["www.example.org. 300 A 192.0.2.1"])])
    for name in ("api.example.org.", "www.example.org.", "missing.example.org.", "hidden.example.org."):
        daemon.ask(name)
    # The record of dependencies may follow the last answer by some seconds.
    text = eventually(lambda: "meshdns_dependencies_hidden{" in (page := daemon.get("/metrics")[1]) and page, 20)
    yield text
    workspace.close()


def exported(text):
    """{family: its label names}, without the one that histograms have by nature."""
    families = {name: set() for name in re.findall(r"^# TYPE (\S+)", text, re.M)}
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", text, re.M):
        families[family_of(name, families)] |= set(re.findall(r'(\w+)="', labels)) - {"le"}
    return families


def family_of(name, families):
    stem = re.sub(r"_(bucket|sum|count)$", "", name)
    return name if name in families else stem


def documented():
    """The same from the table of docs/reference/metrics.md."""
    rows = re.findall(r"^\| (`(?:meshdns|process)_.*?) \|(.*?)\| ", (ROOT / "docs" / "reference" / "metrics.md").read_text(), re.M)
    return {name: set(re.findall(r"`(\w+)`", labels)) for names, labels in rows
            for name in re.findall(r"`(\w+)`", names)}


def test_every_metric_is_documented_with_its_labels(exposition):
    assert documented() == exported(exposition)
    assert not OF_TARGETS & set().union(*documented().values())


def test_histograms_are_cumulative_and_end_with_all(exposition):
    for name in ("meshdns_dns_request_duration_seconds", "meshdns_proxy_request_duration_seconds"):
        buckets = re.findall(rf'^{name}_bucket\{{.*?le="(.*?)"\}} (\d+)', exposition, re.M)
        counts = [int(count) for _, count in buckets]
        assert counts == sorted(counts) and buckets[-1][0] == "+Inf", name
        assert counts[-1] == int(re.search(rf"^{name}_count(?:\{{.*\}})? (\d+)", exposition, re.M).group(1)) > 0


def test_tells_configurations_apart(workspace):
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=["192.0.2.1"])
    first = daemon.config

    def config_hash():
        return re.search(r'^meshdns_config_info\{hash="([0-9a-f]{16})"\} 1$', daemon.get("/metrics")[1], re.M).group(1)

    before = config_hash()
    daemon.write_config(merge(first, {"cache": {"size": "2MiB"}}))
    daemon.reload()
    eventually(lambda: config_hash() != before)
    daemon.write_config(first)
    daemon.reload()
    eventually(lambda: config_hash() == before)


def test_counts_by_upstream(exposition):
    (name,) = re.findall(r'^meshdns_proxy_healthy\{to="(.+?)"\} 1$', exposition, re.M)
    answered = re.search(rf'^meshdns_proxy_responses_total\{{to="{name}",rcode="ok"\}} (\d+)', exposition, re.M)
    assert int(answered.group(1)) >= 2


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs the package prometheus")
def test_prometheus_can_read_all_of_it(exposition):
    subprocess.run(["promtool", "check", "metrics"], input=exposition, text=True, check=True, capture_output=True,
                   timeout=seconds(30))
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True, capture_output=True, timeout=seconds(30))


def expressions():
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_alerts_and_dashboard_use_only_what_exists(exposition):
    families = exported(exposition)
    used = set()
    for title, expression in expressions():
        names = re.findall(r"\bmeshdns_\w+", expression)
        assert names, title
        for name in names:
            assert family_of(name, families) in families, f"{title}: {name}"
        used.update(names)
        for inside in re.findall(r"\{(.*?)\}", expression):
            for label in re.findall(r"(\w+)[=!~]+\"", inside):
                assert label in OF_TARGETS or label in families[names[0]], f"{title}: {label}"
        for by in re.findall(r"by \(([^)]*)\)", expression):
            known = set().union(*(families[family_of(name, families)] for name in names)) | {"le", "instance"}
            assert {label.strip() for label in by.split(",")} <= known, f"{title}: by ({by})"
    assert len(used) > 15


@TREE
def test_the_dashboard_is_what_its_generator_prints():
    made = subprocess.run([str(ROOT / "conf" / "grafana" / "generate")], check=True, capture_output=True, text=True)
    assert made.stdout == DASHBOARD.read_text()


@TREE
def test_every_panel_says_what_it_shows_and_follows_every_choice():
    dashboard = json.loads(DASHBOARD.read_text())
    choices = [variable["name"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    assert choices == ["cluster", "namespace", "node", "instance"]
    for panel in dashboard["panels"]:
        assert panel["description"].endswith("."), panel["title"]
        for target in panel["targets"]:
            names = re.findall(r"\bmeshdns_\w+(.*?)(?=\bmeshdns_|$)", target["expr"])
            assert names and all(all(f'{c}=~"${c}"' in rest for c in choices) for rest in names), target["expr"]


def test_counts_translated_answers(workspace):
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "dns64": {"prefix": "64:ff9b::/96"}},
                              upstreams=[workspace.upstream(["www.example.org. 300 A 192.0.2.1"])])
    for rdtype in ("AAAA", "A", "AAAA"):
        assert daemon.ask("www.example.org.", rdtype).rcode == "NOERROR"
    assert "\nmeshdns_dns64_requests_translated_total 2\n" in daemon.get("/metrics")[1]


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs the package prometheus")
def test_prometheus_scrapes_the_address_for_metrics(workspace):
    """The configuration of the manifests: every address of the machine, health and metrics alone."""
    target, web = free_port(), free_port()
    admin = yaml.safe_load((ROOT / "conf" / "kubernetes" / "base" / "meshdns.yaml").read_text())["admin"]
    assert admin["metrics_listen"] == "0.0.0.0:15055"
    workspace.daemon({"admin": {"listen": "", "metrics_listen": f"0.0.0.0:{target}"}})
    config = workspace.path / "prometheus.yaml"
    config.write_text(yaml.safe_dump({
        "global": {"scrape_interval": "1s"}, "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "meshdns", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}]}))
    workspace.own_process(Process(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={workspace.path / 'tsdb'}",
                                   f"--web.listen-address=127.0.0.1:{web}"], "prometheus"))

    def value(query):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/api/v1/query?query={query}", timeout=seconds(5)) as reply:
                result = json.load(reply)["data"]["result"]
        except urllib.error.URLError:
            return None
        return result[0]["value"][1] if result else None
    eventually(lambda: value("up") == "1" and value("meshdns_ready") == "1", 20, 0.1)
    assert float(value("process_open_fds")) > 5 and float(value("process_resident_memory_bytes")) > 1e6
