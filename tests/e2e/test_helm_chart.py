# SPDX-License-Identifier: Apache-2.0
"""The Helm chart: made from the manifests, and with the same content as each overlay."""

import copy
import importlib.machinery
import importlib.util
import json
import re
import shutil
import subprocess

import pytest
import yaml

from harness.daemon import ROOT
from harness.helm_chart import Failed, render, render_all, render_hooks
from harness.preset import ONCE, TREE
from harness.waiting import seconds

pytestmark = [ONCE, TREE]

HERE = ROOT / "conf" / "kubernetes"
CHART = HERE / "chart"
OVERLAYS = {
    "cluster-dns": {},
    "dual-stack": {"addresses": ["169.254.20.10", "fd00:169:254:20::10"],
                   "config": {"admin": {"metrics_listen": "[::]:15055"}}},
    "kube-dns-capture": {"addresses": ["169.254.20.10", "10.96.0.10"], "config": {"server": {"lameduck": "1s"}}},
    "calico-ebpf": {"addresses": ["169.254.20.10", "10.96.0.10"], "config": {"server": {"lameduck": "1s"}}},
    "cilium": {"cilium": True, "config": {"admin": {"metrics_listen": "[::]:15055"}}},
}


def load_generator():
    loader = importlib.machinery.SourceFileLoader("generate_chart", str(HERE / "generate-chart"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator():
    return load_generator()


def test_the_generated_files_are_those_of_the_manifests(generator):
    """If this fails, run conf/kubernetes/generate-chart."""
    for name, text in generator.generate().items():
        assert (HERE / name).read_text() == text, name


def by_name(objects):
    """Without what only kustomize or only Helm has: hashes in names, checksums, and where images come from."""
    found = {}
    for made in copy.deepcopy(objects):
        made["metadata"]["name"] = re.sub(r"(meshdns(-node)?)-[a-z0-9]{10}$", r"\1", made["metadata"]["name"])
        if made["kind"] == "DaemonSet":
            template = made["spec"]["template"]
            template["metadata"]["annotations"].pop("checksum/config", None)
            pod = template["spec"]
            assert [pod.pop(key, None) or None for key in ("imagePullSecrets", "nodeSelector", "affinity")] == [None] * 3
            for container in [*pod["initContainers"], *pod["containers"]]:
                container["image"] = container["image"].partition(":")[0]
                assert container.pop("imagePullPolicy", "IfNotPresent") == "IfNotPresent"
            for key in ("initContainers", "containers", "volumes"):
                pod[key] = {item["name"]: item for item in pod[key]}
            for volume in pod["volumes"].values():
                if "configMap" in volume:
                    volume["configMap"]["name"] = re.sub(r"-[a-z0-9]{10}$", "", volume["configMap"]["name"])
        if made["kind"] == "ServiceAccount":
            assert made["metadata"].pop("annotations", {}) == {}
        found[made["kind"], made["metadata"]["name"]] = made
    assert len(found) == len(objects)
    return found


def config_maps(objects):
    return {made["metadata"]["name"]: made["data"] for made in objects if made["kind"] == "ConfigMap"}


def config_of(objects):
    return yaml.safe_load(config_maps(objects)["meshdns"]["meshdns.yaml"])


def without_defaults(config):
    """The chart also writes keys that have their default values."""
    assert config["mesh"].pop("cluster_domain") == "cluster.local"
    assert config.pop("upstream") == {"servers": []}
    return config


def test_every_overlay_has_a_place_in_the_chart():
    assert set(OVERLAYS) == {path.parent.name for path in HERE.glob("overlays/*/kustomization.yaml")}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_has_the_objects_of_the_overlay(generator, overlay):
    rendered = render(CHART, OVERLAYS[overlay])
    expected = by_name(generator.manifests(HERE / "overlays" / overlay))
    found = by_name(rendered)
    assert {name: made for name, made in found.items() if made["kind"] != "ConfigMap"} == expected
    files = {"cluster-dns": "base", "calico-ebpf": "overlays/kube-dns-capture"}
    file = HERE / files.get(overlay, f"overlays/{overlay}") / "meshdns.yaml"
    assert without_defaults(config_of(rendered)) == yaml.safe_load(file.read_text())
    assert config_maps(rendered)["meshdns-node"] == {"node-setup": (HERE / "base" / "node-setup").read_text()}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl with kustomize")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_generator_reads_the_manifests_as_kustomize_does(generator, overlay):
    built = subprocess.run(["kubectl", "kustomize", str(HERE / "overlays" / overlay)], capture_output=True, text=True,
                           check=True, timeout=seconds(60))
    expected = by_name([made for made in yaml.safe_load_all(built.stdout) if made and made["kind"] != "ConfigMap"])
    assert by_name(generator.manifests(HERE / "overlays" / overlay)) == expected


# {component: the values that have the same}
COMPONENTS = {
    **{name: {value: True} for name, value in {
        "istio": "istio", "gateways": "gateways", "near-endpoints": "nearEndpoints", "endpoints": "endpoints",
        "multicluster": "multicluster", "gke-multicluster": "gkeMulticluster", "kernel-answers": "kernelAnswers",
        "metrics-tls": "metricsTls"}.items()},
    "prometheus-operator": {"serviceMonitor": {"enabled": True}},
    "prometheus-operator-tls": {"serviceMonitor": {"enabled": True}, "metricsTls": True},
    "prometheus-rules": {"prometheusRule": {"enabled": True}}, "dashboard": {"dashboard": {"enabled": True}}}
PATCHES = {"kernel-answers", "metrics-tls"}  # they change the DaemonSet


def objects_of(generator, component):
    """As kustomize makes them."""
    if component == "dashboard":
        made = generator.dashboard_of_component()
        made["data"] = {name: (HERE.parent / "grafana" / name).read_text() for name in made["data"]}
        return [made]
    (kustomization,) = generator.documents(HERE / "components" / component / "kustomization.yaml")
    return [made for name in kustomization["resources"] for made in generator.documents(HERE / "components" / component / name)]


def test_every_component_has_values():
    assert set(COMPONENTS) == {path.parent.name for path in HERE.glob("components/*/kustomization.yaml")}


@pytest.mark.parametrize("component", sorted(set(COMPONENTS) - PATCHES))
def test_the_values_of_a_component_add_its_objects(generator, component):
    def named(objects):
        return {(made["kind"], made["metadata"]["name"]): made for made in objects}
    beside = {"metricsTls": True} if component == "prometheus-operator-tls" else {}
    without, rendered = named(render(CHART, beside)), named(render(CHART, COMPONENTS[component]))
    assert {name: made for name, made in rendered.items() if name not in without} == named(objects_of(generator, component))
    assert without.keys() < rendered.keys()


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl with kustomize")
def test_kustomize_makes_the_config_map_of_the_dashboard(generator):
    built = subprocess.run(["kubectl", "kustomize", str(HERE.parent / "grafana")], capture_output=True, text=True, check=True,
                           timeout=seconds(60))
    assert [yaml.safe_load(built.stdout)] == objects_of(generator, "dashboard")


def test_all_objects_are_in_the_namespace_of_the_release():
    """But the Role for Istio, which is where Istio is."""
    values = {}
    for of_component in COMPONENTS.values():
        values |= of_component
    rendered = by_name(render(CHART, values, namespace="dns"))
    assert {made["metadata"].get("namespace") for made in rendered.values()} == {"dns", "istio-system", None}
    bindings = [made for (kind, _), made in rendered.items() if kind.endswith("RoleBinding") or kind == "ClusterRoleBinding"]
    assert len(bindings) == 7 and all(made["subjects"][0]["namespace"] == "dns" for made in bindings)


def test_metrics_over_tls_are_a_value(generator):
    """The same as the two components."""
    rendered = render(CHART, {"metricsTls": True})
    (patch,) = generator.documents(HERE / "components" / "metrics-tls" / "daemonset.yaml")
    base = generator.manifests(HERE / "overlays" / "cluster-dns")
    expected = by_name([generator.merge(made, patch) if made["kind"] == "DaemonSet" else made for made in base])
    assert by_name(rendered)["DaemonSet", "meshdns"] == expected["DaemonSet", "meshdns"]
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    shown = yaml.safe_load(re.search(r"```yaml\n(admin:\n.*?)```", page, re.S).group(1))["admin"]
    assert config_of(rendered)["admin"] == shown


def test_answers_in_the_kernel_are_a_value(generator):
    """The same as the component."""
    rendered = render(CHART, {"kernelAnswers": True})
    (patch,) = generator.documents(HERE / "components" / "kernel-answers" / "daemonset.yaml")
    base = generator.manifests(HERE / "overlays" / "cluster-dns")
    expected = by_name([generator.merge(made, patch) if made["kind"] == "DaemonSet" else made for made in base])
    assert by_name(rendered)["DaemonSet", "meshdns"] == expected["DaemonSet", "meshdns"]
    assert config_of(rendered)["server"]["kernel_answers"] == "auto"
    assert "kernel_answers" not in config_of(render(CHART))["server"], "off, as it is without the component"
    (made,) = [o for o in render(CHART, {"kernelAnswers": True, "kernelInterfaces": ["eni*", "cni0"]}) if o["kind"] == "DaemonSet"]
    assert made["spec"]["template"]["spec"]["containers"][-1]["args"][1] == "--interfaces=eni*,cni0"
    with pytest.raises(Failed, match="set cilium or kernelAnswers to false"):
        render(CHART, {"kernelAnswers": True, "cilium": True})


@pytest.mark.parametrize("cilium", [False, True])
def test_the_own_labels_of_the_pods_win(cilium):
    values = {"cilium": cilium, "podLabels": {"app.kubernetes.io/name": "other", "team": "dns"},
              "podAnnotations": {"checksum/config": "1", "note": "true"}, "nodeSelector": {"dns": "mesh"},
              "affinity": {"nodeAffinity": {}}}
    (daemonset,) = [made["spec"] for made in render(CHART, values) if made["kind"] == "DaemonSet"]
    metadata, pod = daemonset["template"]["metadata"], daemonset["template"]["spec"]
    assert metadata["labels"] == {"app.kubernetes.io/name": "meshdns", "team": "dns"}
    assert metadata["annotations"]["note"] == "true" and len(metadata["annotations"]["checksum/config"]) == 64
    assert pod["nodeSelector"] == {"dns": "mesh"} and pod["affinity"] == {"nodeAffinity": {}}


def test_the_notes_say_how_to_ask_the_daemon():
    _, notes = render_all(CHART, {"addresses": ["169.254.20.10", "fd00::11"], "clusterDomain": "east.example.org"}, "dns")
    for address in ("169.254.20.10", "fd00::11"):
        assert f"    nslookup kubernetes.default.svc.east.example.org {address}\n" in notes
    for command in ("kubectl -n dns rollout status daemonset/meshdns", "helm -n dns test meshdns",
                    "kubectl -n dns exec daemonset/meshdns -- meshdnsd status"):
        assert f"    {command}\n" in notes
    assert "kernel" not in notes
    _, notes = render_all(CHART, {"cilium": True}, "dns")
    assert "    nslookup kubernetes.default.svc.cluster.local\n" in notes and "169.254.20.10" not in notes
    _, notes = render_all(CHART, {"kernelAnswers": True}, "dns")
    assert "-c kernel-answers -- meshdns-kernel status\n" in notes


OWN_VALUES = {"image": {"repository": "registry.example.org/meshdnsd", "tag": "1", "pullPolicy": "Always"}, "handover": False,
              "clusterDomain": "east.example.org", "forwarders": ["192.0.2.53"], "tolerations": [],
              "resources": {"limits": {"memory": "1Gi"}}, "addresses": ["169.254.20.11", "fd00::11"],
              "imagePullSecrets": [{"name": "registry"}], "priorityClassName": "dns",
              "serviceAccount": {"annotations": {"team": "dns"}}, "extraArgs": ["--istio-vm=/vm"],
              "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://192.0.2.1"}],
              "extraVolumes": [{"name": "hosts", "configMap": {"name": "hosts"}}],
              "extraVolumeMounts": [{"name": "hosts", "mountPath": "/etc/hosts.d"}],
              "config": {"cache": {"size": "32MiB"}, "mesh": {"search_shortcut": "off"}}}


def test_values_reach_the_pod_and_the_configuration():
    objects = render(CHART, OWN_VALUES)
    (daemonset,) = [made["spec"] for made in objects if made["kind"] == "DaemonSet"]
    pod = daemonset["template"]["spec"]
    assert daemonset["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
    assert pod["tolerations"] == [] and pod["imagePullSecrets"] == [{"name": "registry"}] and pod["priorityClassName"] == "dns"
    (account,) = [made for made in objects if made["kind"] == "ServiceAccount"]
    assert account["metadata"]["annotations"] == {"team": "dns"}
    daemon, watch = pod["containers"]
    assert daemon["image"] == "registry.example.org/meshdnsd:1" and daemon["resources"]["limits"] == {"memory": "1Gi"}
    assert daemon["imagePullPolicy"] == "Always" and watch["imagePullPolicy"] == "IfNotPresent"
    assert daemon["args"][-1] == "--istio-vm=/vm" and daemon["env"][-1] == OWN_VALUES["extraEnv"][0]
    assert OWN_VALUES["extraVolumeMounts"][0] in daemon["volumeMounts"] and OWN_VALUES["extraVolumes"][0] in pod["volumes"]
    assert watch["env"][0]["value"] == "169.254.20.11 fd00::11"
    config = config_of(objects)
    assert config["server"] == {"listen": ["169.254.20.11:53", "[fd00::11]:53"], "workers": 2}
    assert config["mesh"] == {"cluster_domain": "east.example.org", "search_shortcut": "off"}
    assert config["upstream"] == {"servers": ["192.0.2.53"]} and config["cache"] == {"size": "32MiB"}


@pytest.mark.parametrize("cilium", [False, True])
def test_an_update_strategy_is_taken_as_it_is(cilium):
    values = {"cilium": cilium, "handover": False, "updateStrategy": {"type": "OnDelete"}}
    (daemonset,) = [made["spec"] for made in render(CHART, values) if made["kind"] == "DaemonSet"]
    assert daemonset["updateStrategy"] == {"type": "OnDelete"}


def test_labels_and_the_interval_reach_the_objects_for_monitoring():
    for tls in (False, True):
        values = {name: {"enabled": True, "labels": {"release": name}} for name in ("serviceMonitor", "prometheusRule", "dashboard")}
        values["serviceMonitor"]["interval"] = "1m"
        objects = render(CHART, {**values, "metricsTls": tls})
        labels = {made["kind"]: made["metadata"]["labels"] for made in objects if "release" in made["metadata"].get("labels", {})}
        own = {"app.kubernetes.io/name": "meshdns"}
        assert labels == {"ServiceMonitor": {**own, "release": "serviceMonitor"},
                          "PrometheusRule": {**own, "release": "prometheusRule"},
                          "ConfigMap": {**own, "release": "dashboard", "grafana_dashboard": "1"}}
        (monitor,) = [made for made in objects if made["kind"] == "ServiceMonitor"]
        assert [endpoint["interval"] for endpoint in monitor["spec"]["endpoints"]] == ["1m"]


def test_a_configuration_without_the_socket_of_the_probes_is_refused():
    (socket,) = [address for address in config_of(render(CHART))["admin"]["listen"] if address.startswith("unix:")]
    render(CHART, {"config": {"admin": {"listen": socket}}})
    for listen in ("127.0.0.1:15054", ["127.0.0.1:15054"], [f"{socket}2"]):
        with pytest.raises(Failed, match=f"config.admin.listen must have {socket}: the probes ask there"):
            render(CHART, {"config": {"admin": {"listen": listen}}})


def test_helm_test_asks_a_name_of_the_cluster_at_the_address_of_the_node():
    (made,) = render_hooks(CHART, {"clusterDomain": "east.example.org", "addresses": ["fd00::11", "169.254.20.10"]}, "dns")
    assert made["metadata"]["annotations"]["helm.sh/hook"] == "test" and made["metadata"]["namespace"] == "dns"
    pod = made["spec"]
    assert pod["dnsPolicy"] == "None" and pod["dnsConfig"] == {"nameservers": ["fd00::11"]}
    (container,) = pod["containers"]
    assert container["command"] == ["getent", "ahosts", "kubernetes.default.svc.east.example.org"]
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container["image"] == f"meshdnsd-node:{version}"
    (made,) = render_hooks(CHART, {"cilium": True})
    assert "dnsPolicy" not in made["spec"] and "dnsConfig" not in made["spec"], "as every Pod"


def test_a_changed_configuration_causes_a_roll_out():
    def checksum(values):
        (made,) = [o for o in render(CHART, values) if o["kind"] == "DaemonSet"]
        return made["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    assert checksum({}) == checksum({}) != checksum({"forwarders": ["192.0.2.53"]})


def test_the_schema_knows_the_values():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["additionalProperties"] is False and set(schema["properties"]) == {"global", *values}


def test_the_chart_has_the_version_of_the_project():
    version = re.search(r"project\(meshdns VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version


@pytest.mark.parametrize("text", ["{{ lookup \"v1\" \"Pod\" }}", "{{ with .Values }}{{ end }}", "{{ .Values.none }}",
                                  "{{ upper .Release.Name }}"])
def test_the_renderer_refuses_what_it_does_not_know(tmp_path, text):
    (tmp_path / "templates").mkdir()
    (tmp_path / "values.yaml").write_text("{}")
    (tmp_path / "Chart.yaml").write_text("appVersion: '1'")
    (tmp_path / "templates" / "one.yaml").write_text(text)
    with pytest.raises((AssertionError, KeyError)):
        render(tmp_path)
