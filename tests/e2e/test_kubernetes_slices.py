# SPDX-License-Identifier: Apache-2.0
"""Slices of headless Services are followed by the label service.kubernetes.io/headless: whatever becomes of Services,
their names and their slices, the answers are those of the API's own lists. Slices of a Service that has none with the
label are listed by its name."""

import json
import os
import pathlib
import random
import time

import pytest

from harness.kube_api import Fault, endpoint_slice, headless, namespace, service
from harness.kube_cluster import DOMAIN, RECOVERY, Cluster, addresses, wait_for, wait_for_rcode
from harness.preset import ONE_THREAD
from harness.real_kube_api import RealKubeApi
from harness.waiting import eventually

pytestmark = ONE_THREAD

SEARCH = 15.0  # seconds until the slices of eight Services are listed by their names
GRACE = 30.0  # seconds until those of a Service that becomes headless are
NAMESPACES = ["shop", "lab"]
NAMES = ["a", "b", "c", "d"]
CONTROLLER = "endpointslice-controller.k8s.io"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
LABEL = "service.kubernetes.io/headless"
OF = "kubernetes.io/service-name"


def alias(name, ns="shop"):
    return {"kind": "Service", "metadata": {"name": name, "namespace": ns},
            "spec": {"type": "ExternalName", "externalName": "www.example.org"}}


# --- single cases ------------------------------------------------------------------------------------


def test_slices_without_the_label_are_found_at_the_start(workspace):
    cluster = Cluster(workspace)
    api = cluster.api
    api.put(headless("pay"), endpoint_slice("pay", ["10.0.3.1"], is_headless=False))
    daemon = cluster.daemon()
    wait_for(daemon, "pay", ["10.0.3.1"])
    # The label comes: the watch has the slice from now on.
    api.put(endpoint_slice("pay", ["10.0.3.2"]))
    wait_for(daemon, "pay", ["10.0.3.2"])
    api.put(endpoint_slice("pay", ["10.0.3.3"]))
    wait_for(daemon, "pay", ["10.0.3.3"])
    api.delete("EndpointSlice", "pay-0", "shop")
    wait_for_rcode(daemon, "pay", "NXDOMAIN")


def test_services_of_the_same_name_elsewhere_cost_no_memory(workspace):
    """Only slices of headless Services are kept."""
    cluster = Cluster(workspace)
    api = cluster.api
    api.put(namespace("lab"), service("cache", "lab", ip="10.96.0.9"),
            endpoint_slice("cache", ["10.0.5.1"], "lab", is_headless=False),
            headless("cache"), endpoint_slice("cache", ["10.0.5.2"], is_headless=False))
    daemon = cluster.daemon()
    wait_for(daemon, "cache", ["10.0.5.2"])
    assert addresses(daemon, "cache", "lab") == ["10.96.0.9"]
    assert daemon.ask(f"10-0-5-1.cache.lab.{DOMAIN}").rcode == "NXDOMAIN"


def test_a_search_outlives_errors_of_the_api(workspace):
    """ClusterIP, then ExternalName, then headless: the controller sees no reason to write the slice."""
    cluster = Cluster(workspace)
    api = cluster.api
    api.put(service("pay", ip="10.96.0.9"), endpoint_slice("pay", ["10.0.3.1"], is_headless=False))
    daemon = cluster.daemon()
    wait_for(daemon, "pay", ["10.96.0.9"])
    api.put(alias("pay"))
    wait_for(daemon, "pay", ["192.0.2.1"])
    api.faults["endpointslices"] = Fault(status=500)
    api.put(headless("pay"))
    eventually(lambda: searches(api), GRACE + RECOVERY)
    del api.faults["endpointslices"]
    wait_for(daemon, "pay", ["10.0.3.1"], limit=10)


@pytest.mark.parametrize("scope", ["headless", "all"])
def test_endpoints_of_all_services_are_a_choice(workspace, scope):
    """Names of endpoints, their SRV and PTR records exist for all Services or only for headless ones, whatever the
    author of the slice."""
    cluster = Cluster(workspace)
    cluster.api.put(endpoint_slice("web", ["10.0.7.1"], is_headless=False),
                    service("byhand", ip="10.96.0.2"),
                    endpoint_slice("byhand", ["10.0.7.2"], managed=False, is_headless=False))
    daemon = cluster.daemon({"endpoints": scope}, {"mesh": {"reverse_zones": ["10.0.0.0/8"]}})
    for address, name in (("10.0.7.1", "web"), ("10.0.7.2", "byhand")):
        label = address.replace(".", "-")
        reverse = ".".join(reversed(address.split("."))) + ".in-addr.arpa."
        expected_ = "NOERROR" if scope == "all" else "NXDOMAIN"
        assert daemon.ask(f"{label}.{name}.shop.{DOMAIN}").rcode == expected_
        assert daemon.ask(f"{label}.{name}.shop.{DOMAIN}", "SRV").rcode == expected_
        assert daemon.ask(reverse, "PTR").rcode == expected_
    assert daemon.ask("1.0.0.10.in-addr.arpa.", "PTR").rcode == "NOERROR"
    assert addresses(daemon, "web") == ["10.96.0.1"]
    assert not searches(cluster.api)


def test_a_target_that_we_refuse_ends_the_one_before(workspace):
    """The API has accepted it, so the former target is in force no longer."""
    cluster = Cluster(workspace)
    cluster.api.put(alias("ext"))
    daemon = cluster.daemon()
    wait_for(daemon, "ext", ["192.0.2.1"])
    refused = alias("ext")
    refused["spec"]["externalName"] = "no host name"
    cluster.api.put(refused)
    wait_for_rcode(daemon, "ext", "NXDOMAIN")
    assert "spec.externalName" in daemon.get("/registry/findings")[1]


def searches(api):
    """The requests for slices by the names of Services."""
    return [q for _, q in api.asked("endpointslices") if "service-name" in q.get("labelSelector", "")]


# --- churn -------------------------------------------------------------------------------------------


def slices_of(api, key):
    return [o for o in api.list("EndpointSlice") if (o["metadata"]["namespace"], o["metadata"]["labels"].get(OF)) == key]


def is_followed(piece):
    labels = piece["metadata"]["labels"]
    return LABEL in labels or labels.get(MANAGED_BY) != CONTROLLER


def ready(slices):
    return {address for piece in slices for endpoint in piece.get("endpoints") or []
            if endpoint.get("conditions", {}).get("ready", True) for address in endpoint["addresses"]}


def expected(api):
    """{(namespace, name): (least, most)}: addresses by the API's own lists, empty where there is no such name. Slices
    without the label count if the Service has none with it, and may count otherwise."""
    found = {(ns, name): (set(), set()) for ns in NAMESPACES for name in api.names}
    services = {(o["metadata"]["namespace"], o["metadata"]["name"]): o["spec"] for o in api.list("Service")}
    for key in found:
        spec = services.get(key)
        if spec is None:
            continue
        if spec.get("type") == "ExternalName":
            found[key] = ({"192.0.2.1"},) * 2
        elif spec.get("clusterIP") != "None":
            found[key] = ({spec["clusterIP"]},) * 2
        else:
            slices = slices_of(api, key)
            is_labelled = any(LABEL in o["metadata"]["labels"] for o in slices)
            found[key] = (ready(o for o in slices if is_followed(o) or not is_labelled), ready(slices))
    return found


def compare(daemon, api, unlabelled=()):
    """Asserts that the answers are those of the API's lists, which do not change meanwhile. Names of `unlabelled` are
    left out: their slices are listed again in 10 minutes."""
    wrong = []
    for (ns, name), (least, most) in expected(api).items():
        if (ns, name) in unlabelled:
            continue
        reply = daemon.ask(f"{name}.{ns}.{DOMAIN}")
        found = set(reply.addresses())
        if not least <= found <= most or (reply.rcode == "NXDOMAIN") == bool(found):
            wrong.append(f"{name}.{ns}: {reply.rcode} {sorted(found)}, not {sorted(least)} to {sorted(most)}")
    assert not wrong


class FakeCluster:
    """The fake API with a controller that writes slices as the one of Kubernetes does: with the label that the
    Service calls for when a slice is written, perhaps by an older state of the Service; and never because of it."""

    def __init__(self, api, choice):
        self.api, self.choice = api, choice
        self.names = NAMES
        self.numbers = 0
        self.unlabelled = set()  # have had slices without the label since they are headless

    def list(self, kind):
        return list(self.api.objects.get(self.api.collection_of(kind), {}).values())

    def write_slice(self, ns, name, written=None):
        spec = next((o["spec"] for o in self.list("Service")
                     if (o["metadata"]["namespace"], o["metadata"]["name"]) == (ns, name)), {})
        is_headless = spec.get("clusterIP") == "None"
        if self.choice.random() < 0.3:
            is_headless = not is_headless  # the controller's view is older
        self.numbers += 1
        picked = [f"10.1.{self.numbers >> 8}.{self.numbers & 255}", f"10.2.{self.numbers >> 8}.{self.numbers & 255}"]
        made = endpoint_slice(name, picked[:self.choice.randint(0, 2)], ns, self.numbers, is_headless=is_headless)
        made["metadata"]["name"] = written or made["metadata"]["name"]
        if self.choice.random() < 0.2:
            for endpoint in made["endpoints"]:
                endpoint["conditions"]["ready"] = False
        if self.choice.random() < 0.1:
            made["metadata"]["labels"][MANAGED_BY] = "endpointslicemirroring-controller.k8s.io"
        self.api.put(made)

    def change(self):
        ns, name = self.choice.choice(NAMESPACES), self.choice.choice(NAMES)
        exists = any((o["metadata"]["namespace"], o["metadata"]["name"]) == (ns, name) for o in self.list("Service"))
        slices = slices_of(self, (ns, name))
        what = self.choice.random()
        if what < 0.35:
            self.api.put(self.choice.choice([headless, headless, service, alias])(name, ns))
        elif what < 0.5 and exists:
            self.api.delete("Service", name, ns)
            if self.choice.random() < 0.5:  # else garbage collection is late
                for piece in slices:
                    self.api.delete("EndpointSlice", piece["metadata"]["name"], ns)
        elif what < 0.7 or not slices:
            self.write_slice(ns, name)
        elif what < 0.85:
            self.write_slice(ns, name, self.choice.choice(slices)["metadata"]["name"])
        elif what < 0.9:
            moved = json.loads(json.dumps(self.choice.choice(slices)))
            moved["metadata"]["labels"][OF] = self.choice.choice(NAMES)
            self.api.put(moved)
        else:
            self.api.delete("EndpointSlice", self.choice.choice(slices)["metadata"]["name"], ns)
        self.note_unlabelled()

    def note_unlabelled(self):
        headless_ = {(o["metadata"]["namespace"], o["metadata"]["name"]) for o in self.list("Service")
                     if o["spec"].get("clusterIP") == "None"}
        self.unlabelled &= headless_
        self.unlabelled |= {key for key in headless_ if not all(is_followed(o) for o in slices_of(self, key))}


@pytest.mark.parametrize("seed", range(int(os.environ.get("MESHDNS_CHURN_SEEDS", "3"))))
def test_answers_follow_the_lists_of_the_api_through_any_churn(workspace, seed):
    choice = random.Random(seed)
    cluster = Cluster(workspace, streams_lists=seed % 2 == 0)
    cluster.api.put(namespace("lab"))
    fake = FakeCluster(cluster.api, choice)
    for _ in range(40):
        fake.change()
    daemon = cluster.daemon()
    eventually(lambda: compare(daemon, fake), SEARCH)
    for _ in range(4):
        for _ in range(choice.choice([1, 5, 60])):
            fake.change()
            if choice.random() < 0.2:
                time.sleep(choice.random() / 50)
        if choice.random() < 0.3:
            cluster.api.reset_connections()
        eventually(lambda: compare(daemon, fake, fake.unlabelled), RECOVERY)
    daemon = cluster.daemon()
    eventually(lambda: compare(daemon, fake), SEARCH)
    assert len(searches(cluster.api)) < 100


# --- a real server -----------------------------------------------------------------------------------


class RealCluster:
    """A kube-apiserver with the controllers of Kubernetes."""

    def __init__(self, api, choice):
        self.choice = choice
        self.call, self.list = api.call, api.list
        self.pods = 0
        # Slices of earlier runs may still be there.
        run = choice.getrandbits(16) ^ time.monotonic_ns() & 0xffffff
        self.names = [f"{name}-{run}" for name in NAMES]
        self.call("POST", "/api/v1/nodes", {"metadata": {"name": "node-1"}})
        for ns in NAMESPACES:
            self.call("POST", "/api/v1/namespaces", {"metadata": {"name": ns}})

    @staticmethod
    def path(ns, plural, name=None):
        return f"/api/v1/namespaces/{ns}/{plural}" + (f"/{name}" if name else "")

    def add_pod(self, ns, name):
        self.pods += 1
        pod = f"{name}-{self.pods}"
        self.call("POST", self.path(ns, "pods"), {
            "metadata": {"name": pod, "labels": {"app": name}},
            "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "x"}]}})
        self.set_ready(ns, pod, f"10.3.{self.pods >> 8}.{self.pods & 255}", True)

    def set_ready(self, ns, pod, ip, ready):
        self.call("PATCH", self.path(ns, "pods", pod) + "/status", {
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                       "conditions": [{"type": "Ready", "status": str(ready)}]}})

    def become_headless(self, ns, name):
        """From ClusterIP by way of ExternalName: its slice has no label, and the controller leaves it so."""
        self.add_pod(ns, name)
        self.call("POST", self.path(ns, "services"), {"metadata": {"name": name}, "spec": {
            "selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}})
        eventually(lambda: any(o["metadata"]["labels"].get(OF) == name and o["endpoints"]
                               for o in self.list("EndpointSlice")), 10)
        for spec in ({"type": "ExternalName", "externalName": "www.example.org", "clusterIP": None, "clusterIPs": None},
                     {"type": "ClusterIP", "externalName": None, "clusterIP": "None"}):
            assert self.call("PATCH", self.path(ns, "services", name), {"spec": spec})

    def change(self):
        ns, name = self.choice.choice(NAMESPACES), self.choice.choice(self.names)
        what = self.choice.random()
        to_alias = {"type": "ExternalName", "externalName": "www.example.org", "clusterIP": None, "clusterIPs": None}
        if what < 0.4:
            kind = self.choice.choice([{"clusterIP": "None"}, {}, {}, to_alias])
            spec = {k: v for k, v in kind.items() if v is not None}
            self.call("POST", self.path(ns, "services"), {"metadata": {"name": name}, "spec": {
                "selector": {"app": name}, "ports": [{"name": "http", "port": 80}], **spec}})
            self.call("PATCH", self.path(ns, "services", name), {"spec": self.choice.choice([
                to_alias, {"type": "ClusterIP", "externalName": None, "clusterIP": "None"},
                {"type": "ClusterIP", "externalName": None}])})
        elif what < 0.5:
            self.call("DELETE", self.path(ns, "services", name))
        elif what < 0.75:
            self.add_pod(ns, name)
        else:
            pods = self.call("GET", self.path(ns, "pods"))["items"]
            if not pods:
                return
            pod = self.choice.choice(pods)
            if what < 0.9:
                self.set_ready(ns, pod["metadata"]["name"], pod["status"].get("podIP", "10.3.0.0"),
                               self.choice.random() < 0.5)
            else:
                self.call("DELETE", self.path(ns, "pods", pod["metadata"]["name"]) + "?gracePeriodSeconds=0")


@pytest.mark.skipif("MESHDNS_TEST_KUBE" not in os.environ, reason="MESHDNS_TEST_KUBE: no directory of a real server")
@pytest.mark.parametrize("seed", range(int(os.environ.get("MESHDNS_CHURN_SEEDS", "3"))))
def test_answers_follow_the_lists_of_a_real_server_through_any_churn(workspace, seed):
    choice = random.Random(seed)
    api = workspace.own(RealKubeApi(pathlib.Path(os.environ["MESHDNS_TEST_KUBE"])))
    real = RealCluster(api, choice)
    for ns in NAMESPACES:
        real.become_headless(ns, real.names[0])
    for _ in range(20):
        real.change()
    time.sleep(2)  # the controllers come to rest
    upstream = workspace.upstream(["www.example.org. 300 A 192.0.2.1"])
    daemon = workspace.daemon({"sources": [{"kubernetes": {"kubeconfig": str(api.directory / "kubeconfig")}}]},
                              upstreams=[upstream])
    eventually(lambda: compare(daemon, real), SEARCH)
    for _ in range(5):
        for _ in range(choice.choice([1, 10, 100])):
            real.change()
        unlabelled = {(ns, name) for ns in NAMESPACES for name in real.names
                      if not all(is_followed(o) for o in slices_of(real, (ns, name)))}
        eventually(lambda: compare(daemon, real, unlabelled | {(ns, real.names[0]) for ns in NAMESPACES}), SEARCH)
