# SPDX-License-Identifier: Apache-2.0
"""A real API server accepts the objects of every overlay, of every component and of the chart, and knows all of their
fields: `kubectl apply --server-side --dry-run=server`.  Needs no daemon.

Where there is no real server, the other tests of the manifests remain: test_kubernetes_deployment.py and
test_helm_chart.py."""

import copy
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from e2e.test_helm_chart import CHART, HERE, OVERLAYS
from harness.helm_chart import render, render_hooks
from harness.preset import ONCE
from harness.real_kube_api import KubeServer
from harness.waiting import seconds

# MESHDNS_TEST_KUBE: a directory with the server's kubeconfig, ca.crt and token (harness/real_kube_api.py).
pytestmark = [ONCE,
              pytest.mark.skipif("MESHDNS_TEST_KUBE" not in os.environ,
                                 reason="MESHDNS_TEST_KUBE: no directory of a real server"),
              pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl with kustomize")]

COMPONENTS = sorted(path.parent.name for path in HERE.glob("components/*/kustomization.yaml"))
VALUES = {"istio": True, "gateways": True, "nearEndpoints": True, "endpoints": True, "multicluster": True, "gkeMulticluster": True,
          "metricsTls": True, **{name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "dashboard")}}
# Kinds of others: checked if the server has their definitions.
CUSTOM = ["CiliumLocalRedirectPolicy", "ServiceMonitor", "PrometheusRule"]


def everything(overlay):
    """Values for each part of the chart."""
    return {**OVERLAYS[overlay], **VALUES, "kernelAnswers": overlay != "cilium"}


def kustomize(directory):
    built = subprocess.run(["kubectl", "kustomize", "--load-restrictor=LoadRestrictionsNone", str(directory)],
                           capture_output=True, text=True, check=False, timeout=seconds(60))
    assert built.returncode == 0, built.stderr
    return [made for made in yaml.safe_load_all(built.stdout) if made]


def with_component(directory, name):
    """As docs/kubernetes.md shows it."""
    text = yaml.safe_dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
                           "resources": [os.path.relpath(HERE / "overlays" / "cluster-dns", directory)],
                           "components": [os.path.relpath(HERE / "components" / name, directory)]})
    (directory / "kustomization.yaml").write_text(text)
    return kustomize(directory)


class DryRun:
    """Objects as the server would have them; it keeps none."""

    def __init__(self, server):
        self._server = server
        self.minor = int(re.match(r"\d+", server.request("GET", "/version")[1]["minor"])[0])

    def find(self, made):
        """(the path of the group, the resource of the kind), or None."""
        version = made["apiVersion"]
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resources = self._server.request("GET", group)[1].get("resources", [])
        return next(((group, r) for r in resources if r["kind"] == made["kind"] and "/" not in r["name"]), None)

    def path_of(self, made):
        group, resource = self.find(made)
        place = f"/namespaces/{made['metadata']['namespace']}" if resource["namespaced"] else ""
        return f"{group}{place}/{resource['name']}/{made['metadata']['name']}"

    def apply(self, made):
        """(status, answer).  A server-side apply knows the fields of each kind, and refuses others."""
        return self._server.request("PATCH", f"{self.path_of(made)}?dryRun=All&fieldManager=test&force=true&fieldValidation=Strict",
                                    made, "application/apply-patch+yaml")

    def check(self, objects):
        """Returns the kinds."""
        for made in objects:
            made = self.for_version(made)
            assert self.find(made), f"the server has no {made['apiVersion']} {made['kind']}"
            status, answer = self.apply(made)
            assert status in (200, 201), (made["kind"], answer)
            assert differences(made, answer) == [], made["kind"]
        return {made["kind"] for made in objects}

    def for_version(self, made):
        """Kubernetes before 1.22 has no maxSurge in a DaemonSet, and without it no maxUnavailable of 0."""
        made = copy.deepcopy(made)
        if made["kind"] == "DaemonSet" and self.minor < 22:
            of_update = made["spec"]["updateStrategy"]["rollingUpdate"]
            if of_update.pop("maxSurge", None):
                of_update["maxUnavailable"] = 1
        return made


def differences(sent, stored, place=""):
    """The parts of `sent` that are not in `stored`, which may have defaults besides."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return [d for key, value in sent.items() if value is not None
                for d in differences(value, stored.get(key), f"{place}.{key}")]
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        return [d for i, value in enumerate(sent) for d in differences(value, stored[i], f"{place}[{i}]")]
    # An empty object or list may be left out.
    return [] if sent == stored or (not sent and not stored) else [f"{place}: {sent} is stored as {stored}"]


@pytest.fixture(scope="module")
def any_server():
    server = KubeServer(pathlib.Path(os.environ["MESHDNS_TEST_KUBE"]))
    for name in ("istio-system", "kube-system"):
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return DryRun(server)


@pytest.fixture(scope="module")
def server(any_server):
    if not any_server.find({"apiVersion": "apps/v1", "kind": "DaemonSet"}):
        pytest.skip("the server has no DaemonSets")
    return any_server


def built_in(objects):
    return [made for made in objects if made["kind"] not in CUSTOM]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_accepts_the_overlay(server, overlay):
    assert server.check(built_in(kustomize(HERE / "overlays" / overlay))) == {
        "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "Service", "ServiceAccount"}


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_server_accepts_the_component(server, component, tmp_path):
    server.check(built_in(with_component(tmp_path, component)))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_accepts_the_chart(server, overlay):
    assert server.check(built_in(render(CHART, everything(overlay)))) == {
        "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "Role", "RoleBinding", "Service", "ServiceAccount"}


def pods(objects):
    """Those that the controller of DaemonSets makes."""
    found = []
    for made in objects:
        if made["kind"] == "DaemonSet":
            template = made["spec"]["template"]
            found.append({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
                          "metadata": {**template["metadata"], "name": "meshdns-x", "namespace": "kube-system"}})
    return found


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_accepts_the_pods(any_server, overlay):
    """Also a small server of a new version, which has no DaemonSets."""
    assert any_server.check(pods(kustomize(HERE / "overlays" / overlay))) == {"Pod"}
    assert any_server.check(pods(render(CHART, everything(overlay)))) == {"Pod"}
    assert any_server.check(render_hooks(CHART, everything(overlay))) == {"Pod"}


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_server_accepts_the_pods_of_the_component(any_server, component, tmp_path):
    assert any_server.check(pods(with_component(tmp_path, component))) == {"Pod"}


@pytest.mark.parametrize("kind", CUSTOM)
def test_the_server_accepts_the_kind_of_others(any_server, kind, tmp_path):
    objects = [*kustomize(HERE / "overlays" / "cilium"), *render(CHART, everything("cilium"))]
    for name in ("prometheus-operator", "prometheus-operator-tls", "prometheus-rules"):
        (tmp_path / name).mkdir()
        objects += with_component(tmp_path / name, name)
    found = [made for made in objects if made["kind"] == kind]
    assert len(found) >= 2
    if not any_server.find(found[0]):
        pytest.skip(f"the server has no definition of {kind}")
    any_server.check(found)


def changed_pod(change):
    (made,) = pods(kustomize(HERE / "overlays" / "cluster-dns"))
    change(made["spec"]["containers"][0])
    return made


def test_the_server_refuses_a_reference_to_nothing(server):
    status, answer = server.apply(changed_pod(lambda container: container["volumeMounts"][0].update(name="none")))
    assert status == 422 and 'volumeMounts[0].name: Not found: "none"' in answer["message"], answer


def test_the_server_refuses_an_unknown_field(any_server):
    status, answer = any_server.apply(changed_pod(lambda container: container.update(livenessprobe={"periodSeconds": 10})))
    assert status >= 400 and "livenessprobe" in answer["message"], answer


def test_what_the_server_does_not_keep_is_found():
    sent = {"spec": {"containers": [{"name": "one", "limits": {}}], "none": None}}
    assert differences(sent, {"spec": {"containers": [{"name": "one", "added": 1}]}, "status": {}}) == []
    assert differences({"spec": {"containers": [{"livenessprobe": 1}]}}, {"spec": {"containers": [{}]}}) == [
        ".spec.containers[0].livenessprobe: 1 is stored as None"]
