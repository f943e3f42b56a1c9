# SPDX-License-Identifier: Apache-2.0
"""The manifests of conf/kubernetes: they fit together, ask for no right that is not used, and their rules undo."""

import os
import re
import shutil
import subprocess
from collections import Counter

import pytest
import yaml

from e2e.test_helm_chart import CHART, OWN_VALUES, config_maps
from harness.daemon import ROOT, run_tool
from harness.helm_chart import render
from harness.kube_api import BUILT_IN, CUSTOM, SLICES, KubeApi, namespace, pod, service_entry
from harness.preset import ONCE, TREE
from harness.waiting import eventually, seconds

pytestmark = ONCE

HERE = ROOT / "conf" / "kubernetes"
OVERLAYS = sorted(path.parent for path in HERE.glob("overlays/*/kustomization.yaml"))
COMPONENTS = sorted(path.parent for path in HERE.glob("components/*/kustomization.yaml"))
ALL = [HERE / "base", *OVERLAYS]
NODE_SETUP = HERE / "base" / "node-setup"
ROLES = ["endpoints", "multicluster", "gke-multicluster", "gateways", "near-endpoints"]  # as docs/reference has them


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def find(kind, directory=HERE / "base"):
    (found,) = [d for path in directory.glob("*.yaml") for d in documents(path) if d.get("kind") == kind]
    return found


def pod_spec():
    return find("DaemonSet")["spec"]["template"]["spec"]


def one_file(directory, name):
    """The overlay's own, else that of the overlay or base below it."""
    own = directory / name
    if own.exists() or directory == HERE / "base":
        return own
    (kustomization,) = documents(directory / "kustomization.yaml")
    return one_file((directory / kustomization["resources"][0]).resolve(), name)


# Without the chart, which test_helm_chart.py renders.
FILES = sorted(path for path in HERE.rglob("*.yaml") if HERE / "chart" not in path.parents)


@TREE
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_every_file_is_yaml_and_used(path):
    assert documents(path)
    folder = path.parent
    text = "".join((f / "kustomization.yaml").read_text() for f in [*ALL, *COMPONENTS] if f == folder)
    assert path.name in text or path.name in ("kustomization.yaml", "kubelet.yaml", "felix.yaml")


@TREE
@pytest.mark.parametrize("directory", [*ALL, *COMPONENTS], ids=lambda path: path.name)
def test_a_kustomization_names_what_is_there(directory):
    (kustomization,) = documents(directory / "kustomization.yaml")
    files = [*kustomization.get("resources", []), *[p["path"] for p in kustomization.get("patches", [])],
             *[f for g in kustomization.get("configMapGenerator", []) for f in g["files"]]]
    for name in files:
        assert (directory / name).exists(), name


@TREE
def test_the_pod_refers_to_what_is_there():
    spec = pod_spec()
    assert spec["serviceAccountName"] == find("ServiceAccount")["metadata"]["name"]
    generated = {g["name"] for g in find("Kustomization")["configMapGenerator"]}
    assert {v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v} == generated
    volumes = {v["name"] for v in spec["volumes"]}
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert {m["name"] for m in container["volumeMounts"]} <= volumes
    labels = find("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert find("DaemonSet")["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert find("Service")["spec"]["selector"].items() <= labels.items()
    binding = find("ClusterRoleBinding")
    assert binding["roleRef"]["name"] == find("ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": spec["serviceAccountName"],
                                    "namespace": find("Kustomization")["namespace"]}]


@TREE
def test_the_pod_has_no_more_than_it_needs():
    spec = pod_spec()
    daemon, watch = spec["containers"]
    assert [daemon["name"], watch["name"]] == ["meshdnsd", "node-watch"]
    assert spec["hostNetwork"] and spec["priorityClassName"] == "system-node-critical"
    security = daemon["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}
    assert security["runAsNonRoot"] and security["readOnlyRootFilesystem"] and "privileged" not in security
    for container in (spec["initContainers"][0], watch):
        assert "privileged" not in container["securityContext"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert watch["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert "memory" in daemon["resources"]["limits"]


def containers_of_manifests():
    """(where, container) of the base, and of the patches that add one."""
    for path in FILES:
        for made in documents(path):
            if made.get("kind") == "DaemonSet":
                spec = made["spec"]["template"]["spec"]
                for container in [*spec.get("initContainers", []), *spec["containers"]]:
                    if "image" in container:
                        yield f"{path.relative_to(HERE)}: {container['name']}", container


@TREE
def test_every_container_has_a_seccomp_profile():
    profiles = {where: container["securityContext"].get("seccompProfile", {}).get("type")
                for where, container in containers_of_manifests()}
    assert len(profiles) == 5 and set(profiles.values()) == {"RuntimeDefault"}


@TREE
def test_only_the_daemon_has_the_token_of_the_service_account():
    assert pod_spec()["automountServiceAccountToken"] is False
    (volume,) = [v for v in pod_spec()["volumes"] if "serviceAccountToken" in str(v)]
    files = {item["path"] for source in volume["projected"]["sources"]
             for kind in source.values() for item in kind.get("items", [kind])}
    assert files == {"token", "ca.crt", "namespace"}, "those that Kubernetes mounts by itself"
    mounts = {where: mount["mountPath"] for where, container in containers_of_manifests()
              for mount in container["volumeMounts"] if mount["name"] == volume["name"]}
    assert mounts == {"base/daemonset.yaml: meshdnsd": "/var/run/secrets/kubernetes.io/serviceaccount"}


def probe_socket(probe):
    program, command, kind, option, address = probe["exec"]["command"]
    assert [program, command, option] == ["/usr/sbin/meshdnsd", "status", "--admin"]
    return kind, address


@TREE
def test_the_probes_ask_the_socket_of_their_own_pod():
    """The other address belongs to the node, where the daemon of another Pod may answer."""
    spec = pod_spec()
    daemon = spec["containers"][0]
    asked = {name: probe_socket(daemon[f"{name}Probe"]) for name in ("startup", "liveness", "readiness")}
    assert {name: kind for name, (kind, _) in asked.items()} == {"startup": "--live", "liveness": "--live", "readiness": "--ready"}
    (address,) = {address for _, address in asked.values()}
    (volume,) = [v["name"] for v in spec["volumes"] if "emptyDir" in v]
    (folder,) = [m["mountPath"] for m in daemon["volumeMounts"] if m["name"] == volume]
    assert address.startswith(f"unix:{folder}/")
    assert [where for where, container in containers_of_manifests()
            if volume in {m["name"] for m in container["volumeMounts"]}] == ["base/daemonset.yaml: meshdnsd"]
    for directory in ALL:
        listen = yaml.safe_load(one_file(directory, "meshdns.yaml").read_text())["admin"]["listen"]
        assert listen == [address, "127.0.0.1:15054"], "the second one for the page, and for kubectl port-forward"


@TREE
def test_an_old_pod_that_has_handed_over_stays_until_the_new_one_is_available():
    """The controller deletes an old Pod beside a new one as soon as it is not ready."""
    readiness = pod_spec()["containers"][0]["readinessProbe"]
    soonest_not_ready = (readiness["failureThreshold"] - 1) * readiness["periodSeconds"]
    latest_available = readiness["periodSeconds"] + find("DaemonSet")["spec"]["minReadySeconds"]
    assert soonest_not_ready > latest_available


@pytest.mark.parametrize("directory", ALL, ids=lambda path: path.name)
def test_the_configuration_is_valid_and_its_addresses_are_the_nodes(directory):
    config = one_file(directory, "meshdns.yaml")
    result = run_tool("check", "--config", config)
    assert result.returncode == 0, result.stdout + result.stderr
    assert yaml.safe_load(config.read_text())["server"]["workers"] == 2, "docs/sizing.md"
    listen = {address.rpartition(":")[0].strip("[]") for address in yaml.safe_load(config.read_text())["server"]["listen"]}
    if directory.name == "cilium":  # its Pods have addresses of their own
        assert listen == {"::"}
        return
    patch = one_file(directory, "addresses.yaml")
    spec = documents(patch)[0]["spec"]["template"]["spec"] if patch.exists() else pod_spec()
    watch = next(c for c in spec["containers"] if c["name"] == "node-watch")
    for container in (spec["initContainers"][0], watch):
        assert set(container["env"][0]["value"].split()) == listen
    kubelet = directory / "kubelet.yaml"
    if kubelet.exists():
        assert set(documents(kubelet)[0]["clusterDNS"]) == listen


def test_the_configuration_of_the_chart_is_valid(tmp_path):
    path = tmp_path / "meshdns.yaml"
    path.write_text(config_maps(render(CHART, OWN_VALUES))["meshdns"]["meshdns.yaml"])
    result = run_tool("check", "--config", path)
    assert result.returncode == 0, result.stdout + result.stderr


@TREE
def test_both_pods_of_an_upgrade_fit_on_a_node_and_hand_the_sockets_over():
    daemonset, spec = find("DaemonSet")["spec"], pod_spec()
    assert daemonset["updateStrategy"]["rollingUpdate"] == {"maxSurge": "5%", "maxUnavailable": 0}
    assert daemonset["minReadySeconds"] >= 10 and spec["terminationGracePeriodSeconds"] >= 30
    (init,), (daemon, watch) = spec["initContainers"], spec["containers"]
    assert not any("ports" in container for container in (init, daemon, watch)), "two Pods of a node cannot have them"
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    for directory in ALL:
        handover = yaml.safe_load(one_file(directory, "meshdns.yaml").read_text())["server"].get("handover")
        assert bool(handover) == (directory.name != "cilium"), "a daemon takes no socket of another network"
        if handover:
            folder = handover.rpartition("/")[0]
            (volume,) = [name for name, path in paths.items() if path == folder]
            for container in (init, daemon):
                assert {"name": volume, "mountPath": folder} in container["volumeMounts"]
            owner = spec["containers"][0]["securityContext"]
            assert re.search(rf"chown {owner['runAsUser']}:{owner['runAsGroup']} .*{folder}$", init["args"][0], re.M)


@TREE
def test_the_redirect_policy_names_ports_of_the_pod():
    overlay = HERE / "overlays" / "cilium"
    (policy,) = documents(overlay / "localredirectpolicy.yaml")
    (patch,) = documents(overlay / "pod-network.yaml")
    daemon = next(c for c in patch["spec"]["template"]["spec"]["containers"] if c["name"] == "meshdnsd")
    ports = {(port["name"], str(port["containerPort"]), port["protocol"]) for port in daemon["ports"]}
    assert {(p["name"], p["port"], p["protocol"]) for p in policy["spec"]["redirectBackend"]["toPorts"]} <= ports


@TREE
def test_metrics_can_be_scraped_as_shipped():
    """At an address that other nodes reach, which shows nothing else."""
    (port,) = find("Service")["spec"]["ports"]
    for directory in ALL:
        admin = yaml.safe_load(one_file(directory, "meshdns.yaml").read_text())["admin"]
        assert admin["metrics_listen"] in (f"0.0.0.0:{port['port']}", f"[::]:{port['port']}")
    (monitor,) = documents(HERE / "components" / "prometheus-operator" / "servicemonitor.yaml")
    assert monitor["spec"]["endpoints"][0]["port"] == port["name"]
    labels = {k: v for pair in find("Kustomization")["labels"] for k, v in pair["pairs"].items()}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()


@TREE
def test_metrics_over_tls_read_the_files_of_the_component():
    """The configuration that the page shows, the patch of the component, and the Secret that Prometheus uses."""
    (patch,) = documents(HERE / "components" / "metrics-tls" / "daemonset.yaml")
    spec = patch["spec"]["template"]["spec"]
    (mount,), (volume,) = spec["containers"][0]["volumeMounts"], spec["volumes"]
    sources = [source["secret"] for source in volume["projected"]["sources"]]
    files = {f"{mount['mountPath']}/{item['path']}" for secret in sources for item in secret["items"]}
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    shown = yaml.safe_load(re.search(r"```yaml\n(admin:\n.*?)```", page, re.S).group(1))["admin"]
    assert shown.pop("listen") == yaml.safe_load((HERE / "base" / "meshdns.yaml").read_text())["admin"]["listen"]
    assert mount["name"] == volume["name"] and set(shown.values()) - {shown["metrics_listen"]} == files
    assert shown["metrics_listen"] == yaml.safe_load((HERE / "base" / "meshdns.yaml").read_text())["admin"]["metrics_listen"]
    (plain,), (secure,) = (documents(HERE / "components" / name / "servicemonitor.yaml")
                           for name in ("prometheus-operator", "prometheus-operator-tls"))
    (endpoint,) = secure["spec"]["endpoints"]
    assert endpoint.pop("scheme") == "https"
    assert endpoint.pop("tlsConfig")["ca"]["secret"]["name"] == sources[0]["name"]
    login = {reference["name"] for reference in endpoint.pop("basicAuth").values()}
    assert secure == plain, "but for these it is the same"
    for name in (*(secret["name"] for secret in sources), *login):
        assert re.search(rf"kubectl -n kube-system create secret \w+ {name} ", page)


def rights(api):
    """{(group, resource, verb)} of all that was asked for but discovery, which every authenticated client may ask."""
    used = set()
    for path, query in list(api.requests):
        parts = path.strip("/").split("/")
        if parts[0] == "apis" and len(parts) <= 3:
            continue
        plurals = {plural for _, plural in api.kinds}
        verb = ("watch" if "watch" in query else "list") if parts[-1] in plurals else "get"
        used.add(("" if parts[0] == "api" else parts[1], parts[-1], verb))
    return used


def test_the_role_grants_what_is_used_and_nothing_else(workspace):
    """A daemon that uses everything, of a server of today and of an old one, asks for exactly what the role grants."""
    today = workspace.own(KubeApi())
    for crd in CUSTOM:
        today.serve(crd)
    today.put(namespace("shop"), pod("one", "10.0.0.1"),
              service_entry("e", "members.example.org", resolution="STATIC", location="MESH_INTERNAL",
                            workloadSelector={"labels": {"app": "x"}}))
    old = workspace.own(KubeApi(streams_lists=False, served={k: v for k, v in BUILT_IN.items() if k != SLICES}))
    workspace.daemon({"sources": [{"kubernetes": {"kubeconfig": api.kubeconfig(workspace.path / name),
                                                  "node_name": "n1", "cluster": name}}
                                  for name, api in (("today", today), ("old", old))],
                      "mesh": {"gateway_names": {"kinds": ["HTTPRoute", "TLSRoute", "GRPCRoute", "Ingress"]},
                               "locality": "first"},
                      "client": {"by_source_address": True}})

    components = HERE / "components"
    istio = components / "istio"
    rules = find("ClusterRole")["rules"] + find("Role", istio)["rules"]
    for name in ROLES:
        rules += find("ClusterRole", components / name)["rules"]
    granted = {(group, resource, verb) for rule in rules for group in rule["apiGroups"]
               for resource in rule["resources"] for verb in rule["verbs"]}
    # A streamed list is a watch; a server that does not stream any is asked for both.
    resources = {right[:2] for right in granted}

    def check():
        used = rights(today) | rights(old)
        assert {right[:2] for right in used} == resources
        assert {right[2] for right in used} == {"list", "watch"}
        assert used <= granted
    eventually(check, 5)
    assert granted == {(*resource, verb) for resource in resources for verb in ("list", "watch")}
    # One ConfigMap only: Kubernetes applies resourceNames to lists and watches of one name.
    role = find("Role", istio)
    (rule,) = role["rules"]
    for path, query in today.asked("configmaps"):
        assert path == f"/api/v1/namespaces/{role['metadata']['namespace']}/configmaps"
        assert [query["fieldSelector"]] == [f"metadata.name={name}" for name in rule["resourceNames"]]
    binding = find("RoleBinding", istio)
    assert binding["subjects"] == find("ClusterRoleBinding")["subjects"]
    assert binding["metadata"]["namespace"] == role["metadata"]["namespace"]


@TREE
def test_the_documentation_shows_the_same_role():
    shown = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", (ROOT / "docs" / "reference" / "kubernetes-source.md").read_text(), re.S)
    components = HERE / "components"
    roles = [find("ClusterRole"), *(find("ClusterRole", components / name) for name in ROLES),
             find("Role", components / "istio")]
    assert [yaml.safe_load(role) for role in shown] == roles


@TREE
@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl with kustomize")
@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_kustomize_builds_it(overlay):
    built = subprocess.run(["kubectl", "kustomize", str(overlay)], capture_output=True, text=True, check=False,
                           timeout=seconds(60))
    assert built.returncode == 0, built.stderr
    objects = [document for document in yaml.safe_load_all(built.stdout) if document]
    kinds = ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "ConfigMap", "DaemonSet", "Service", "ServiceAccount"]
    if overlay.name == "cilium":
        kinds.append("CiliumLocalRedirectPolicy")
    assert sorted(o["kind"] for o in objects) == sorted(kinds)
    assert {o["metadata"].get("namespace") for o in objects} == {"kube-system", None}


@TREE
@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl with kustomize")
def test_kustomize_adds_the_components(tmp_path):
    """All but those over TLS, whose ServiceMonitor has the name of the other one."""
    names = [path.name for path in COMPONENTS if path.name != "prometheus-operator-tls"]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [os.path.relpath(HERE / "overlays" / "cluster-dns", tmp_path)],
        "components": [os.path.relpath(HERE / "components" / name, tmp_path) for name in names]}))
    built = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=False, timeout=seconds(60))
    assert built.returncode == 0, built.stderr
    kinds = Counter(document["kind"] for document in yaml.safe_load_all(built.stdout) if document)
    assert kinds == Counter({"ClusterRole": 6, "ClusterRoleBinding": 6, "Role": 1, "RoleBinding": 1, "ConfigMap": 3, "DaemonSet": 1,
                             "Service": 1, "ServiceAccount": 1, "ServiceMonitor": 1, "PrometheusRule": 1})


def kustomizations_of_the_pages():
    for name in ("deploy.md", "kubernetes.md"):
        blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / name).read_text(), re.M | re.S)
        yield from (pytest.param(block, id=f"{name}-{number}") for number, block in enumerate(blocks) if "kind: Kustomization" in block)


@TREE
@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl with kustomize")
@pytest.mark.parametrize("text", kustomizations_of_the_pages())
def test_kustomize_builds_what_the_pages_show(tmp_path, text):
    (tmp_path / "kustomization.yaml").write_text(text.replace("../meshdns/", f"{os.path.relpath(ROOT, tmp_path)}/"))
    built = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=False, timeout=seconds(60))
    assert built.returncode == 0, built.stderr
    (daemonset,) = [made for made in yaml.safe_load_all(built.stdout) if made and made["kind"] == "DaemonSet"]
    pod_of_page = daemonset["spec"]["template"]["spec"]
    if "images:" in text:
        images = {container["image"].rpartition("/")[0] for container in [*pod_of_page["initContainers"], *pod_of_page["containers"]]}
        assert images == {"registry.example.org"} and pod_of_page["nodeSelector"] == {"meshdns": "true"}


@TREE
def test_the_page_has_every_overlay_and_component():
    page = (ROOT / "docs" / "deploy.md").read_text()
    shown = {section: re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^\| (`.*?) \|", page.split(f"### {section}\n")[1].split("\n### ")[0], re.M)))
             for section in ("Overlays", "Components")}
    assert sorted(shown["Overlays"]) == [path.name for path in OVERLAYS]
    assert sorted(shown["Components"]) == [path.name for path in COMPONENTS]


def in_a_namespace(commands):
    """Runs a shell script in a network namespace of its own."""
    return subprocess.run(["unshare", "--net", "sh", "-euc", commands], capture_output=True, text=True, check=False,
                          timeout=seconds(60))


def rules_can_be_loaded():
    return shutil.which("nft") and in_a_namespace("nft list ruleset").returncode == 0


needs_rules = pytest.mark.skipif(not rules_can_be_loaded(), reason="needs nft, and network namespaces")


# Stands for the daemon: listens on addresses that the node may not have yet, until the shell ends.
LISTENER = """
import signal, socket, sys
IP_FREEBIND, sockets = 15, []
for address in sys.argv[1:]:
    sockets.append(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM))
    sockets[-1].setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
    sockets[-1].bind((address, 53))
signal.pause()
"""


def node_setup(tmp_path, commands):
    """Runs commands on a node of its own; lo stands for the dummy interface, which some kernels lack."""
    (tmp_path / "listener").write_text(LISTENER)
    result = in_a_namespace(f"""
        export LINK=lo LOCK={tmp_path}/lock INTERVAL=0.1 DRAIN=0.1 ADDRESSES='169.254.20.10 fd00:169:254:20::10'
        listener=
        trap '[ -z "$listener" ] || kill $listener' EXIT
        listens() {{ for a in $ADDRESSES; do ss -Hlnu 'sport = :53' | grep -qF "$a" || return 1; done; }}
        serve() {{ /usr/bin/python3 {tmp_path}/listener $ADDRESSES >/dev/null & listener=$!; eventually listens; }}
        end_serving() {{ kill $listener; wait $listener || true; listener=; }}
        setup() {{ sh {NODE_SETUP} "$@"; }}
        watch() {{ sh {NODE_SETUP} watch >/dev/null & pid=$!; }}
        eventually() {{ for i in $(seq 200); do ! "$@" || return 0; sleep 0.1; done; return 1; }}
        state() {{ nft list ruleset; ip -o address show dev lo | grep -v 'scope host' || true; echo ===; }}
        ip link set lo up
        nft add table ip others
        {commands}""")
    if "Operation not supported" in result.stderr:
        pytest.skip("this kernel has no nf_tables with notrack")
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split("===\n")[:-1]


@needs_rules
def test_the_node_is_set_up_twice_as_once_and_left_without_a_trace(tmp_path):
    before, once, twice, after = node_setup(tmp_path, """
        ! setup check
        state
        serve
        setup apply; setup check; state
        setup apply; setup check; state
        setup remove; ! setup check; state""")
    assert once == twice and once.count("notrack") == 6
    assert once.count("169.254.20.10") == once.count("fd00:169:254:20::10") == 2, "on the interface, and in a rule"
    assert before == after and "notrack" not in before


@needs_rules
@pytest.mark.parametrize("address", ["169.254.20.10", "fd00:169:254:20::10"])
def test_the_node_is_set_up_for_one_family(tmp_path, address):
    (state,) = node_setup(tmp_path, f"ADDRESSES={address}; serve; setup apply; setup check; state")
    assert state.count(address) == 2


@needs_rules
@pytest.mark.parametrize("dummy, holder", [("bridge", "meshdns"), ("none", "lo")])
def test_a_kernel_without_dummy_interfaces_has_the_addresses_on_lo(tmp_path, dummy, holder):
    """A bridge stands for the dummy interface, which the kernel of this test may lack."""
    (tmp_path / "ip").write_text(f"""#!/bin/sh
        case "$*" in *"type dummy") exec {shutil.which("ip")} link add "$3" type {dummy} ;; esac
        exec {shutil.which("ip")} "$@"
        """)
    (tmp_path / "ip").chmod(0o755)
    before, applied, mended, after = node_setup(tmp_path, f"""
        unset LINK; PATH={tmp_path}:$PATH
        held() {{ ip -o address show dev {holder} up | grep -q 169.254.20.10; }}
        state() {{ ip -o link show | cut -d: -f2; ip -o address show | grep -F -e 169.254 -e fd00 | cut -d' ' -f2-7; echo ===; }}
        ! setup check; state
        serve; setup apply >{tmp_path}/messages; setup check; held; state
        ip link delete meshdns || ip address flush dev lo to 169.254.0.0/16; ! setup check
        watch; eventually held; setup check; state
        kill $pid; wait $pid; ! setup check; state""")
    assert applied == mended and before == after and "169.254" not in before
    lines = applied.splitlines()
    assert [line for line in lines if line.startswith(f"{holder} ")] == lines[-2:]
    assert (" meshdns" in lines) == (holder == "meshdns")
    said = (tmp_path / "messages").read_text()
    assert said == ("no dummy interface: the addresses go to lo\n" if holder == "lo" else "")


@needs_rules
def test_an_address_of_kube_proxy_in_ipvs_mode_is_refused(tmp_path):
    (state,) = node_setup(tmp_path, """
        ip link add kube-ipvs0 type bridge
        ip address add 10.96.0.10/32 dev kube-ipvs0
        setup apply; setup remove
        export ADDRESSES='169.254.20.10 10.96.0.10'
        serve
        ! setup apply 2>messages || exit 1
        grep -q '10.96.0.10 belongs to kube-proxy in IPVS mode' messages
        ip link delete kube-ipvs0
        setup apply; setup check; state""".replace("messages", f"{tmp_path}/messages"))
    assert state.count("10.96.0.10") == 2


@TREE
def test_calico_excludes_the_addresses_of_services():
    overlay = HERE / "overlays" / "calico-ebpf"
    (patch,) = documents(overlay / "felix.yaml")
    listen = yaml.safe_load(one_file(overlay, "meshdns.yaml").read_text())["server"]["listen"]
    captured = [address.rpartition(":")[0] for address in listen if not address.startswith("169.254.")]
    assert patch["spec"]["bpfExcludeCIDRsFromNAT"] == [f"{address}/32" for address in captured]


@needs_rules
def test_what_somebody_removes_is_noticed_and_applied_again(tmp_path):
    node_setup(tmp_path, """
        serve
        setup apply
        for removal in "ip address delete 169.254.20.10/32 dev lo" "ip address delete fd00:169:254:20::10/128 dev lo" \\
            "nft flush chain inet meshdns output" "nft delete element inet meshdns v6 { fd00:169:254:20::10 }"; do
          setup check
          $removal
          ! setup check
          setup apply
        done
        watch; nft delete table inet meshdns; eventually setup check
        kill $pid; wait $pid""")


@needs_rules
def test_the_last_pod_of_a_node_leaves_no_trace(tmp_path):
    before, during, after = node_setup(tmp_path, """
        state
        watch; old=$pid; eventually setup check
        watch; new=$pid
        # Not in /proc/locks, which has no lock of a process that has ended in another PID namespace than the first.
        both_watch() { grep -q '^lock:.*FLOCK' /proc/$old/fdinfo/9 && grep -q '^lock:.*FLOCK' /proc/$new/fdinfo/9; }
        eventually both_watch
        kill $old; wait $old
        setup check; state
        kill $new; wait $new
        ! setup check; state""")
    assert before == after != during


@needs_rules
def test_no_other_process_of_the_node_can_hold_the_lock(tmp_path):
    """An earlier version made it for all to read.  An exclusive lock, which only root can have now, ends the wait."""
    modes = node_setup(tmp_path, """
        : >$LOCK; chmod 644 $LOCK
        watch; eventually setup check
        stat -c %a $LOCK; echo ===
        kill $pid; wait $pid
        exec 8>>$LOCK; flock --exclusive 8
        ! LOCK_SECONDS=0.1 sh -c 'exec 8>&-; exec sh "$0" watch' """ + str(NODE_SETUP) + """ 2>$LOCK.text
        grep -q 'another process keeps' $LOCK.text""")
    assert modes == ["600\n"]


@needs_rules
def test_queries_are_taken_from_kube_proxy_only_while_a_daemon_listens(tmp_path):
    without, with_daemon, again = node_setup(tmp_path, """
        captured() { nft get element inet meshdns v4 '{ 169.254.20.10 }' >/dev/null 2>&1; }
        not_captured() { ! captured; }
        setup apply; setup check; state
        watch
        serve; eventually captured; eventually setup check; state
        end_serving; eventually not_captured; eventually setup check; state
        kill $pid; wait $pid""")
    assert without == again != with_daemon
    assert "169.254.20.10" in without, "the daemon needs it at its start"
