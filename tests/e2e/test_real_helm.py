# SPDX-License-Identifier: Apache-2.0
"""Helm itself renders the chart as harness/helm_chart.py does, accepts it, and installs, upgrades and removes it at a real
API server.  Needs no daemon, and Helm, which Debian does not have."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest
import yaml

from e2e.test_helm_chart import CHART, OVERLAYS
from e2e.test_server_dry_run import DryRun
from harness.helm_chart import render, render_all, render_hooks
from harness.preset import ONCE
from harness.real_kube_api import KubeServer
from harness.waiting import seconds

# MESHDNS_TEST_HELM: the program; otherwise the one that is installed.
HELM = os.environ.get("MESHDNS_TEST_HELM") or shutil.which("helm")
pytestmark = [ONCE, pytest.mark.skipif(not HELM, reason="MESHDNS_TEST_HELM: no Helm")]

FLAGS = ["istio", "gateways", "nearEndpoints", "endpoints", "multicluster", "gkeMulticluster", "metricsTls", "handover"]
NAMESPACE = "dns"


@pytest.fixture
def helm(tmp_path):
    def run(*arguments, values=None, environment=()):
        command = [HELM, *map(str, arguments)]
        if values is not None:
            (tmp_path / "values.yaml").write_text(json.dumps(values))
            command += ["--values", tmp_path / "values.yaml"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds(120),
                              env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **dict(environment)})
    return run


def in_order(objects):
    return sorted(objects, key=lambda made: (made["kind"], made["metadata"]["name"]))


def rendered_by(helm, values):
    ran = helm("template", "meshdns", CHART, "--namespace", NAMESPACE, values=values)
    assert ran.returncode == 0, ran.stderr
    return in_order(made for made in yaml.safe_load_all(ran.stdout) if made)


def rendered_by_our_tests(values):
    """Also the Pod of `helm test`."""
    return in_order(render(CHART, values, NAMESPACE) + render_hooks(CHART, values, NAMESPACE))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_renders_the_overlay_as_our_tests_do(helm, overlay):
    assert rendered_by(helm, OVERLAYS[overlay]) == rendered_by_our_tests(OVERLAYS[overlay])


def some_values(draw):
    texts = ["plain", "two words", 'a "quote"', "it's", "a: b # c", "<&>", "ä€", "{{ x }}", "-", "1e3", "null", "back\\slash"]

    def pairs():
        return {f"example.org/key-{i}": draw.choice(texts) for i in range(draw.randrange(3))}

    values = {flag: draw.random() < 0.5 for flag in FLAGS}
    is_cilium = draw.random() < 0.3
    values |= {"cilium": is_cilium, "kernelAnswers": not is_cilium and draw.random() < 0.5, "podLabels": pairs(),
               "podAnnotations": pairs(), "nodeSelector": pairs(), "clusterDomain": draw.choice(["cluster.local", "east.example.org"]),
               "addresses": draw.sample(["169.254.20.10", "fd00::10", "10.96.0.10"], draw.randint(1, 3)),
               "forwarders": draw.sample(["192.0.2.53", "tls://192.0.2.1#dns.example.org", "[2001:db8::1]:53"], draw.randrange(4)),
               "kernelInterfaces": draw.sample(["veth*", "cali*", "eni*"], draw.randint(1, 3)),
               "image": {"repository": "registry.example.org:5000/meshdnsd", "tag": draw.choice(["", "1", "0.1", "latest"])}}
    def part():
        return {"enabled": draw.random() < 0.5, "labels": pairs()}

    values |= {"serviceMonitor": {**part(), "interval": draw.choice(["30s", "1m"])}, "prometheusRule": part(), "dashboard": part(),
               "serviceAccount": {"annotations": pairs()}, "updateStrategy": draw.choice([{}, {"type": "OnDelete"}]),
               "extraArgs": draw.sample(texts, draw.randrange(3)), "extraEnv": [{"name": "A", "value": draw.choice(texts)}],
               "extraVolumes": draw.choice([[], [{"name": "a", "emptyDir": {}}]]),
               "extraVolumeMounts": draw.choice([[], [{"name": "a", "mountPath": "/a"}]])}
    config = {"server": draw.choice([{}, {"workers": 2}, {"listen": ["127.0.0.1:53"]}, {"kernel_answers": "on"}]),
              "mesh": draw.choice([{}, {"cluster_domain": "own.example"}]),
              "upstream": draw.choice([{}, {"servers": []}, {"servers": ["192.0.2.9"]}]), "cache": {"size": draw.choice(["1MiB", 1048576])}}
    return {**values, "config": config}


def test_helm_renders_any_values_as_our_tests_do(helm):
    draw = random.Random(7)
    for _ in range(60):
        values = some_values(draw)
        assert rendered_by(helm, values) == rendered_by_our_tests(values), values


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_has_nothing_to_say_against_the_chart(helm, overlay):
    ran = helm("lint", "--strict", CHART, values=OVERLAYS[overlay])
    assert ran.returncode == 0 and "1 chart(s) linted, 0 chart(s) failed" in ran.stdout, ran.stdout + ran.stderr
    said = re.findall(r"^\[(?!INFO).*", ran.stdout, re.M)
    assert said == []


@pytest.mark.parametrize("values, said", [
    ({"adresses": ["169.254.20.10"]}, "adresses"), ({"addresses": []}, "addresses"), ({"addresses": "169.254.20.10"}, "addresses"),
    ({"cilium": "yes"}, "cilium"), ({"podLabels": {"one": 1}}, "podLabels/one"), ({"config": {"mesh": None}}, "mesh"),
    ({"image": {"digest": "sha256:0"}}, "digest"), ({"serviceMonitor": True}, "serviceMonitor"),
    ({"config": {"admin": {"listen": "127.0.0.1:15054"}}}, "the probes ask there"), ({"kernelAnswers": True, "cilium": True}, "set cilium or kernelAnswers to false")])
def test_helm_refuses_wrong_values_and_names_them(helm, values, said):
    ran = helm("template", "meshdns", CHART, values=values)
    assert ran.returncode != 0 and said in ran.stderr, ran.stderr


# --- at a server


@pytest.fixture(scope="module")
def server():
    if "MESHDNS_TEST_KUBE" not in os.environ:
        pytest.skip("MESHDNS_TEST_KUBE: no directory of a real server")
    found = KubeServer(pathlib.Path(os.environ["MESHDNS_TEST_KUBE"]))
    if found.request("GET", "/apis/apps/v1")[0] != 200:
        pytest.skip("the server has no DaemonSets")
    found.request("POST", "/api/v1/namespaces", {"metadata": {"name": "istio-system"}})
    return found


@pytest.fixture
def chart(server, tmp_path):
    """The chart, also for a server that is too old for it.  Such a one has no maxSurge: `handover` must be false."""
    copy = tmp_path / "chart"
    shutil.copytree(CHART, copy)
    about = (copy / "Chart.yaml").read_text()
    assert 'kubeVersion: ">=1.22.0-0"' in about
    version = server.request("GET", "/version")[1]
    if int(re.match(r"\d+", version["minor"])[0]) < 22:
        (copy / "Chart.yaml").write_text(about.replace(">=1.22.0-0", ">=1.20.0-0"))
    return copy


def test_helm_installs_upgrades_rolls_back_and_uninstalls(helm, server, chart):
    access = {"KUBECONFIG": str(server.directory / "kubeconfig")}
    values = {"handover": False, "istio": True, "nearEndpoints": True}

    def run(verb, *arguments, **options):
        ran = helm(verb, *arguments, "--namespace", NAMESPACE, environment=access.items(), **options)
        assert ran.returncode == 0, (verb, ran.stdout, ran.stderr)
        return ran.stdout

    path_of = DryRun(server).path_of

    def configured():
        return server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/meshdns")[1]["data"]["meshdns.yaml"]

    objects, notes = render_all(chart, values, NAMESPACE)
    said = run("install", "meshdns", chart, "--create-namespace", values=values)
    assert said.rpartition("NOTES:\n")[2].strip() == notes.strip()
    for made in objects:
        assert server.request("GET", path_of(made))[0] == 200, made["kind"]
    first = configured()

    changed = {**values, "forwarders": ["192.0.2.53"], "nearEndpoints": False}
    run("upgrade", "meshdns", chart, values=changed)
    assert '"servers":["192.0.2.53"]' in configured()
    gone = {path_of(made) for made in objects} - {path_of(made) for made in render(chart, changed, NAMESPACE)}
    assert gone and {server.request("GET", path)[0] for path in gone} == {404}

    def answers():
        return {server.request("GET", path_of(made))[0] for made in objects}

    run("rollback", "meshdns", "1")
    assert answers() == {200} and configured() == first
    run("uninstall", "meshdns")
    assert answers() == {404}
