# SPDX-License-Identifier: Apache-2.0
"""Services and workloads that istiod pushes (sources.istiod.api: workloads): what is answered, to whom, and what is said
back."""

import json
import random
import shutil

import dns.reversename
import pytest

from harness.daemon import binary
from harness.dns_client import Question, ask
from harness.fake_istiod import ADDRESS, field
from harness.istiod_mesh import Mesh
from harness.kube_api import KubeApi, namespace
from harness.preset import ONE_THREAD, fewer
from harness.seed import seed
from harness.waiting import eventually
from harness.workload_api import message, pod, service, workload

pytestmark = [ONE_THREAD, pytest.mark.skipif(not shutil.which("openssl") or not (binary().parent / "meshdns-istiod.so").exists(),
                                reason="needs openssl and the module")]

WEB = service("shop", "web.shop.svc.cluster.local", ["10.96.0.1", "2001:db8:96::1"])
DB = service("shop", "db.shop.svc.cluster.local")
DB_0 = pod("db-0", "shop", ["10.1.0.1", "2001:db8:1::1"], services=["shop/db.shop.svc.cluster.local"], kind="pod")
DB_1 = pod("db-1", "shop", ["10.1.0.2"], services=["shop/db.shop.svc.cluster.local"], kind="pod")
API = service("shop", "api.example.org", ["10.0.0.7"])
WILD = service("shop", "*.wild.example.org", ["10.0.0.9"])
MESH = [WEB, DB, DB_0, DB_1, API, WILD]


@pytest.fixture
def mesh(workspace):
    return Mesh(workspace)


def follow(mesh, istiod, change=None, **keys):
    return mesh.daemon(istiod, change, api="workloads", **keys)


# --- what is answered ----------------------------------------------------------------------------


def test_answers_the_services_and_workloads_that_istiod_pushes(mesh):
    daemon = follow(mesh, mesh.istiod(addresses=MESH))
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    for name in ("web.shop.svc.cluster.local.", "web.shop.", "web.shop.svc.", "web."):
        assert daemon.ask(name).addresses() == ["10.96.0.1"], name
    assert daemon.ask("web.shop.svc.cluster.local.", "AAAA").addresses() == ["2001:db8:96::1"]
    assert daemon.ask("x.y.wild.example.org.").addresses() == ["10.0.0.9"]
    assert sorted(daemon.ask("db.shop.").addresses()) == ["10.1.0.1", "10.1.0.2"]
    assert daemon.ask("db.shop.", "AAAA").addresses() == ["2001:db8:1::1"]
    assert daemon.ask("db-1.db.shop.svc.cluster.local.").addresses() == ["10.1.0.2"]
    assert "PTR web.shop.svc.cluster.local." in str(daemon.ask("1.0.96.10.in-addr.arpa.", "PTR").message)
    for name in ("web.shop", "api.example.org"):
        assert "; last good push: version v0" in daemon.get(f"/explain?name={name}")[1], name


def test_a_service_of_one_family_has_no_endpoints_of_the_other(mesh):
    istiod = mesh.istiod(addresses=[service("shop", "db.shop.svc.cluster.local", families=["IPv6"]), DB_0, DB_1])
    daemon = follow(mesh, istiod)

    def reads(family, name, rdtype, found):
        istiod.push_addresses([service("shop", "db.shop.svc.cluster.local", families=family)])
        eventually(lambda: daemon.ask(name, rdtype).addresses() == found)

    eventually(lambda: daemon.ask("db.shop.", "AAAA").addresses() == ["2001:db8:1::1"])
    for name in ("db.shop.", "db-0.db.shop."):
        assert daemon.ask(name).addresses() == []
    assert not daemon.ask("1.0.1.10.in-addr.arpa.", "PTR").message.answer
    # Each change counts for the workloads that are there.
    reads(["IPv4"], "db.shop.", "AAAA", [])
    reads(["IPv4", "IPv6"], "db.shop.", "AAAA", ["2001:db8:1::1"])
    reads(["IPv6"], "db-0.db.shop.", "A", [])
    reads([], "db-0.db.shop.", "A", ["10.1.0.1"])


def test_follows_what_changes_and_what_is_removed(mesh):
    istiod = mesh.istiod(addresses=MESH)
    daemon = follow(mesh, istiod)
    mesh.wait_for(daemon, "db.shop.", ["10.1.0.1", "10.1.0.2"])
    istiod.push_addresses([pod("db-1", "shop", ["10.1.0.2"], services=["shop/db.shop.svc.cluster.local"], kind="pod",
                               healthy=False)])
    mesh.wait_for(daemon, "db.shop.", ["10.1.0.1"])
    istiod.push_addresses([service("shop", "db.shop.svc.cluster.local", publishes_unhealthy=True)])
    mesh.wait_for(daemon, "db.shop.", ["10.1.0.1", "10.1.0.2"])
    # A workload that leaves a service stays a workload.
    istiod.push_addresses([pod("db-1", "shop", ["10.1.0.2"], kind="pod")])
    mesh.wait_for(daemon, "db.shop.", ["10.1.0.1"])
    istiod.push_addresses(removed=[DB_0[0], WEB[0]])
    mesh.wait_for(daemon, "db.shop.", [])
    mesh.wait_for(daemon, "web.shop.", [])
    istiod.push_addresses([WEB], removed=[API[0]])
    mesh.wait_for(daemon, "api.example.org.", [])
    assert daemon.ask("web.shop.").addresses() == ["10.96.0.1"]
    assert mesh.source(daemon)["names"] == 4


def test_a_service_without_an_address_has_its_workloads(mesh):
    """Of another domain than the cluster's, whatever it was in the cluster: inline endpoints, WorkloadEntries, Pods."""
    name = "shop/vms.example.org"
    entry = workload("east/networking.istio.io/WorkloadEntry/shop/vm-1", "shop", ["10.2.0.1"], services=[name])
    inline = workload("east/networking.istio.io/ServiceEntry/shop/vms/10.2.0.2", "shop", ["10.2.0.2"], services=[name])
    opaque = workload("0ae5c03d-5fb3-4eb9-9de8-2bd4b51606ba", "shop", ["10.2.0.3", "2001:db8:2::3"], services=[name])
    sick = workload("east/networking.istio.io/WorkloadEntry/shop/vm-4", "shop", ["10.2.0.4"], services=[name],
                    healthy=False)
    daemon = follow(mesh, mesh.istiod(addresses=[
        entry, inline, opaque, sick, pod("p", "shop", ["10.2.0.5"], services=[name]), service("shop", "vms.example.org")]))
    mesh.wait_for(daemon, "vms.example.org.", ["10.2.0.1", "10.2.0.2", "10.2.0.3", "10.2.0.5"])
    assert daemon.ask("vms.example.org.", "AAAA").addresses() == ["2001:db8:2::3"]


def test_a_workload_that_is_a_name_is_resolved(mesh):
    mesh.upstream.set(["backend.example.net. 60 A 192.0.2.44"])
    named = workload("east/networking.istio.io/ServiceEntry/shop/ext/backend.example.net", "shop",
                     hostname="backend.example.net", services=["shop/ext.example.org"])
    daemon = follow(mesh, mesh.istiod(addresses=[named, service("shop", "ext.example.org")]))
    mesh.wait_for(daemon, "ext.example.org.", ["192.0.2.44"])


def test_gives_the_addresses_of_the_own_network(mesh):
    two = service("shop", "two.shop.svc.cluster.local", [("net-1", "10.96.1.1", None), ("net-2", "10.97.1.1", None)])
    other = service("shop", "other.shop.svc.cluster.local", [("net-2", "10.97.1.2", None)])
    external = service("shop", "two.example.org", [("net-1", "10.0.1.1", 32), ("net-2", "10.0.2.1", None)])
    addresses = [two, other, external]
    near = follow(mesh, mesh.istiod(addresses=addresses))
    mesh.wait_for(near, "two.shop.", ["10.96.1.1"])
    assert near.ask("two.example.org.").addresses() == ["10.0.1.1"]
    assert (near.ask("other.shop.").rcode, near.ask("other.shop.").addresses()) == ("NOERROR", [])
    node = {"address": "10.0.0.5", "name": "central", "namespace": "shop"}
    central = follow(mesh, mesh.istiod(addresses=addresses), node=node)
    mesh.wait_for(central, "two.shop.", ["10.96.1.1", "10.97.1.1"])


def test_the_workload_of_an_address_is_the_client(mesh):
    private = service("bank", "vault.bank.svc.cluster.local", ["10.96.2.1"], private=True)
    bank = service("bank", "web.bank.svc.cluster.local", ["10.96.2.2"])
    addresses = [WEB, private, bank, pod("a", "shop", ["127.0.0.2"]), pod("b", "bank", ["127.0.0.3"])]
    istiod = mesh.istiod(addresses=addresses)
    daemon = follow(mesh, istiod, {"client": {"by_source_address": True}})
    mesh.wait_for(daemon, "web.shop.svc.cluster.local.", ["10.96.0.1"])

    def asked_from(source, name):
        return sorted(ask(daemon.server, Question(name, source=source)).addresses())
    assert asked_from("127.0.0.2", "web.") == ["10.96.0.1"]
    assert asked_from("127.0.0.3", "web.") == ["10.96.2.2"]
    assert asked_from("127.0.0.2", "vault.bank.svc.cluster.local.") == []
    assert asked_from("127.0.0.3", "vault.") == ["10.96.2.1"]
    # The node's address, which several Pods share, is nobody's.
    istiod.push_addresses([pod("b", "bank", ["127.0.0.3"], host_network=True)])
    eventually(lambda: asked_from("127.0.0.3", "vault.") == [])


def test_prefers_the_own_namespace_and_then_the_canonical_service(mesh):
    host = "api.example.org"
    daemon = follow(mesh, mesh.istiod(addresses=[
        service("aaa", host, ["10.0.0.1"]), service("zzz", host, ["10.0.0.2"], canonical=True)]))
    mesh.wait_for(daemon, host + ".", ["10.0.0.2"])
    near = follow(mesh, mesh.istiod(addresses=[
        service("shop", host, ["10.0.0.1"]), service("zzz", host, ["10.0.0.2"], canonical=True)]))
    mesh.wait_for(near, host + ".", ["10.0.0.1"])


# --- what is said back ---------------------------------------------------------------------------


def test_asks_for_all_and_confirms_each_push(mesh):
    istiod = mesh.istiod(addresses=MESH)
    daemon = follow(mesh, istiod, node={"type": "ztunnel", "address": "10.0.0.5", "name": "vm-1", "namespace": "shop"})
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    eventually(lambda: len(istiod.requests) == 2)
    first, reply = istiod.requests
    assert (first.type_url, first.subscribed, first.held) == (ADDRESS, ["*"], {})
    assert first.node_id == "ztunnel~10.0.0.5~vm-1.shop~shop.svc.cluster.local"
    assert (reply.type_url, reply.error, reply.subscribed) == (ADDRESS, None, [])
    assert reply.nonce.startswith("nonce-")


FAULTS = {
    "a host that is none": (service("shop", "a_b.example.org", ["10.0.0.1"]), 'hostname: "a_b.example.org" has an underscore'),
    "an address of five octets": (service("shop", "bad.example.org", [b"12345"]), "addresses[0]: has 5 octets"),
    "a workload with such an address": (pod("bad", "shop", [b"123"]), "addresses[0]: has 3 octets"),
    "a port that is none": (service("shop", "bad.example.org", ports=[(70000,)]), "ports[0]: is not a port"),
    "a name of another resource": (("shop/x.example.org", service("shop", "bad.example.org")[1]), "hostname: the service is"),
    "no content": (("shop/empty.example.org", b""), "has neither a service nor a workload"),
    "no protobuf": (("shop/rubbish.example.org", message(2, b"\x1a\xff")), "is no Address message"),
    "a namespace that is none": (service("Shop!", "bad.example.org"), 'namespace: "Shop!" is not the name'),
    "too many addresses": (service("shop", "bad.example.org", [f"10.9.0.{i}" for i in range(65)]), "more than 64 elements"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_faulty_resource_is_refused_by_name_and_the_others_are_taken(mesh, kind):
    (name, octets), reason = FAULTS[kind]
    istiod = mesh.istiod(addresses=MESH)
    daemon = follow(mesh, istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    eventually(lambda: len(istiod.requests) == 2)
    istiod.push_addresses([(name, octets), service("shop", "api.example.org", ["10.0.0.8"])])
    eventually(lambda: len(istiod.requests) == 3)
    refusal = istiod.requests[-1]
    assert refusal.error.startswith(name + ": ") and reason in refusal.error
    assert refusal.nonce.startswith("nonce-")
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"])
    source = mesh.source(daemon)
    assert (source["refused"], source["refusedPushes"]) == (1, 1)
    assert reason in source["lastError"]
    (finding,) = daemon.get_json("/registry/findings")
    assert finding["object"] == name and reason in finding["message"]
    istiod.push_addresses(removed=[name])
    eventually(lambda: daemon.get_json("/registry/findings") == [])
    assert mesh.source(daemon)["lastError"] == ""


def test_the_last_good_version_of_a_faulty_resource_stays(mesh):
    istiod = mesh.istiod(addresses=MESH)
    daemon = follow(mesh, istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    istiod.push_addresses([service("shop", "api.example.org", [b"1"]), pod("db-0", "shop", [b"1"])])
    eventually(lambda: mesh.source(daemon)["refused"] == 2)
    eventually(lambda: len(istiod.requests) == 3)
    assert "1 more resource is refused" in istiod.requests[-1].error
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert daemon.ask("db-0.db.shop.").addresses() == ["10.1.0.1"]
    istiod.push_addresses([service("shop", "api.example.org", ["10.0.0.8"]), DB_0])
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"])
    assert mesh.source(daemon)["refused"] == 0


def test_a_response_of_another_type_is_refused_as_a_whole(mesh):
    istiod = mesh.istiod(addresses=MESH)
    daemon = follow(mesh, istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    istiod.send(field(4, "type.example/Other") + field(5, "bad"))
    eventually(lambda: istiod.requests[-1].nonce == "bad")
    assert "another type than Address" in istiod.requests[-1].error
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]


# --- the life of the connection ------------------------------------------------------------------


def test_a_new_stream_says_what_is_held_and_learns_what_is_gone(mesh):
    istiod = mesh.istiod(addresses=MESH)
    daemon = follow(mesh, istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    istiod.push_addresses([service("shop", "a_b.example.org")])
    eventually(lambda: mesh.source(daemon)["refused"] == 1)
    istiod.end_streams()
    istiod.addresses = dict([WEB, API])
    eventually(lambda: istiod.streams, 10)
    assert istiod.requests[0].held == {name: "v0" for name, _ in MESH}
    mesh.wait_for(daemon, "db.shop.", [])
    assert daemon.ask("web.shop.").addresses() == ["10.96.0.1"]
    assert mesh.source(daemon)["names"] == 2


def test_a_restart_answers_from_the_saved_state(mesh, workspace):
    state = workspace.path / "state"
    state.mkdir()
    istiod = mesh.istiod(addresses=MESH)
    daemon = follow(mesh, istiod, {"state_dir": str(state)})
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    daemon.stop()
    workspace.forget(daemon)
    mesh.end(istiod)
    daemon = follow(mesh, istiod, {"state_dir": str(state)})
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert daemon.ask("db-1.db.shop.").addresses() == ["10.1.0.2"]
    # The service that cannot be read any more stays as it was before the restart.
    mesh.istiod(addresses=[WEB, ("shop/api.example.org", message(2, b"\x1a\xff"))], port=istiod.port)
    mesh.wait_for(daemon, "db.shop.", [], 40)
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]


def test_the_saved_state_knows_the_family_of_a_service(mesh, workspace):
    state = workspace.path / "state"
    state.mkdir()
    istiod = mesh.istiod(addresses=[service("shop", "db.shop.svc.cluster.local", families=["IPv4"]), DB_0, DB_1])
    daemon = follow(mesh, istiod, {"state_dir": str(state)})
    mesh.wait_for(daemon, "db.shop.", ["10.1.0.1", "10.1.0.2"])
    assert daemon.ask("db.shop.", "AAAA").addresses() == []
    daemon.stop()
    workspace.forget(daemon)
    mesh.end(istiod)
    daemon = follow(mesh, istiod, {"state_dir": str(state)})
    assert sorted(daemon.ask("db.shop.").addresses()) == ["10.1.0.1", "10.1.0.2"]
    assert daemon.ask("db.shop.", "AAAA").addresses() == daemon.ask("db-0.db.shop.", "AAAA").addresses() == []


def test_an_answer_without_anything_takes_nothing_away(mesh):
    istiod = mesh.istiod(addresses=MESH)
    daemon = follow(mesh, istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    istiod.send(field(4, ADDRESS) + field(5, "empty"))
    eventually(lambda: istiod.requests[-1].nonce == "empty")
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]


# --- the same as the objects ---------------------------------------------------------------------


class RandomMesh:
    """Objects of a cluster, and what istiod makes of them for the workload API.

    The protocol says less than the objects, so they have none of these: ExternalName Services, which istiod does not
    send; names of ports; exportTo to other namespaces, and Sidecars; Pods with a hostname that is not their own name, as
    those of StatefulSets.  Nor does it say the resolution of a ServiceEntry: the endpoints that are its answers have no
    reverse names, as with DNS, so nobody asks for those."""

    NAMESPACES = ["shop", "bank"]
    FAMILIES = [("IPv4",), ("IPv6",), ("IPv4", "IPv6"), ("IPv6", "IPv4")]

    def __init__(self, dice):
        self.dice = dice
        self.objects, self.addresses = [], []
        self.hosts, self.ips = [], []
        self.taken = set()
        for position in range(60):
            self._service(f"s{position}", dice.choice(self.NAMESPACES))
        for position in range(80):
            self._entry(f"e{position}", dice.choice(self.NAMESPACES))
        # Clients: Pods that no service selects.
        for position in range(6):
            ips = [f"127.0.0.{position + 2}", f"2001:db8:2::{position + 2}"][:1 + position // 2 % 2]
            self._pod(f"client-x{position}", self.NAMESPACES[position % 2], ips, True, {}, [])

    def _ip(self, prefix):
        self.ips.append(self._endpoint(prefix))
        return self.ips[-1]

    def _endpoint(self, prefix):
        """No address twice: of two objects with one, the younger is reported."""
        while (ip := f"{prefix}.{self.dice.randrange(256)}.{self.dice.randrange(1, 255)}") in self.taken:
            pass
        self.taken.add(ip)
        return ip

    def _object(self, api_version, kind, name, ns, **parts):
        labels = parts.pop("labels", {})
        annotations = parts.pop("annotations", {})
        self.objects.append({"apiVersion": api_version, "kind": kind, "metadata": {
            "name": name, "namespace": ns, "labels": labels, "annotations": annotations}, **parts})

    def _pod(self, name, ns, ips, is_ready, labels, services, kind="deployment"):
        self._object("v1", "Pod", name, ns, labels=labels, spec={"nodeName": "node-1"}, status={
            "phase": "Running", "podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips],
            "conditions": [{"type": "Ready", "status": str(is_ready)}]})
        self.addresses.append(pod(name, ns, ips, services=services, healthy=is_ready, kind=kind))

    def _service(self, name, ns):
        host = f"{name}.{ns}.svc.cluster.local"
        self.hosts.append(host)
        is_headless, is_stateful, takes_all = (self.dice.random() < 0.5 for _ in range(3))
        is_private = self.dice.random() < 0.2
        families = self.dice.choice(self.FAMILIES)
        vip_of = {"IPv4": self._ip("10.96"), "IPv6": f"2001:db8:96::{len(self.hosts):x}"}
        self.ips.append(vip_of["IPv6"])
        vips = [] if is_headless else [vip_of[family] for family in families]
        self._object("v1", "Service", name, ns, spec={
            "clusterIP": vips[0] if vips else "None", "clusterIPs": vips or ["None"], "ports": [{"port": 80}],
            "ipFamilies": list(families), "selector": {"app": name}, "publishNotReadyAddresses": takes_all},
            annotations={"networking.istio.io/exportTo": "."} if is_private else {})
        self.addresses.append(service(ns, host, vips, publishes_unhealthy=takes_all, private=is_private,
                                      families=families))
        endpoints = []
        for ordinal in range(self.dice.randrange(4)):
            ips = [self._ip("10.1"), f"2001:db8:1:{len(self.hosts):x}::{ordinal + 1:x}"]
            is_ready = self.dice.random() < 0.7
            called = f"{name}-{ordinal}" if is_stateful else f"{name}-x{ordinal}"
            self._pod(called, ns, ips, is_ready, {"app": name}, [f"{ns}/{host}"], "pod" if is_stateful else "deployment")
            self.ips.append(ips[1])
            for dashed in (ip.translate(str.maketrans(".:", "--")) for ip in ips):
                self.hosts += [f"{called}.{host}" if is_stateful else f"{dashed}.{host}", f"{dashed}.{ns}.pod.cluster.local"]
            endpoints.append((ips, is_ready, called if is_stateful else ""))
        for family in families:
            self._object("discovery.k8s.io/v1", "EndpointSlice", f"{name}-{family.lower()}", ns,
                         labels={"kubernetes.io/service-name": name}, addressType=family, ports=[{"port": 8080}],
                         endpoints=[{"addresses": [ips[family == "IPv6"]], "conditions": {"ready": is_ready},
                                     **({"hostname": called} if called else {})} for ips, is_ready, called in endpoints])

    def _entry(self, name, ns):
        host = self.dice.choice(["", "*.", "a.b."]) + f"{name}.example.{self.dice.choice(['org', 'com'])}"
        self.hosts.append(host)
        spec = {"hosts": [host], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "location": "MESH_INTERNAL",
                "exportTo": [self.dice.choice(["*", "*", "."])]}
        is_private = spec["exportTo"] == ["."]
        kind = self.dice.choice(["declared", "allocated", "endpoints", "selected", "none"])
        vips = []
        labels, status = {"networking.istio.io/enable-autoallocate-ip": "false"}, {}
        if kind == "declared":
            vips = [self._ip("10.0"), f"2001:db8::{len(self.hosts):x}"][:self.dice.randrange(1, 3)]
            spec.update(addresses=vips, resolution=self.dice.choice(["NONE", "STATIC"]))
        elif kind == "allocated" and "*" not in host:
            vips = [self._ip("240.240")]
            labels, status = {}, {"addresses": [{"value": vips[0], "host": host}]}
            spec.update(resolution="STATIC")
        elif kind == "endpoints":
            ips = [self._endpoint("10.2") for _ in range(3)]
            spec.update(resolution="STATIC", endpoints=[{"address": ip} for ip in ips])
            self.addresses += [workload(f"east/networking.istio.io/ServiceEntry/{ns}/{name}/{ip}", ns, [ip],
                                        services=[f"{ns}/{host}"]) for ip in ips]
        elif kind == "selected":
            spec.update(resolution="STATIC", workloadSelector={"labels": {"vm": name}})
            self._pod(f"{name}-x1", ns, [self._endpoint("10.3")], True, {"vm": name}, [f"{ns}/{host}"])
            ip = self._endpoint("10.2")
            self._object("networking.istio.io/v1", "WorkloadEntry", name, ns, spec={"address": ip, "labels": {"vm": name}})
            self.addresses.append(workload(f"east/networking.istio.io/WorkloadEntry/{ns}/{name}", ns, [ip],
                                           services=[f"{ns}/{host}"]))
        else:
            spec.update(resolution="NONE")
        self._object("networking.istio.io/v1", "ServiceEntry", name, ns, spec=spec, labels=labels, status=status)
        self.addresses.append(service(ns, host, vips, private=is_private))

    def question(self):
        dice = self.dice
        source = dice.choice(["", *(f"127.0.0.{last}" for last in range(2, 9))])
        if dice.random() < 0.1:
            return Question(dns.reversename.from_address(dice.choice(self.ips)).to_text(), "PTR", source=source)
        host = dice.choice(self.hosts).replace("*", dice.choice(["x", "x.y", "*"]))
        labels = host.split(".")
        name = dice.choice([host, host, host, labels[0], ".".join(labels[:2]), ".".join(labels[:3]), f"q.{host}",
                            f"{host}.shop.svc.cluster.local", ".".join(labels[1:])])
        return Question(name.rstrip(".") + ".", dice.choice(["A", "A", "A", "A", "AAAA", "TXT"]), source=source)


def records_of(answer):
    return sorted(str(record) for record in answer.message.answer)


@pytest.mark.slow("10,000 questions to two daemons")
def test_the_same_mesh_at_the_api_server_gives_the_same_answers(mesh, workspace):
    made = RandomMesh(random.Random(seed()))
    api = workspace.own(KubeApi())
    for plural in ("serviceentries", "workloadentries"):
        api.serve(f"{plural}.networking.istio.io")
    api.put(*(namespace(ns) for ns in made.NAMESPACES), *made.objects)
    change = {"client": {"by_source_address": True}, "mesh": {"authoritative": True, "pods": "verified"}}
    made.dice.shuffle(made.addresses)
    istiod = mesh.istiod(addresses=made.addresses[:100])
    pushed = follow(mesh, istiod, change)
    eventually(lambda: mesh.source(pushed)["names"] == 100, 20)
    istiod.push_addresses(made.addresses[100:])
    kubernetes = {"kubeconfig": api.kubeconfig(workspace.path / "kubeconfig"), "endpoints": "all"}
    read = workspace.daemon(mesh.config([{"kubernetes": kubernetes}], change), upstreams=[mesh.upstream])
    eventually(lambda: mesh.source(pushed)["names"] == len(made.addresses) and read.get("/readyz")[0] == 200, 20)
    for daemon in (pushed, read):
        assert daemon.get_json("/registry/findings") == []
    known = 0
    for _ in range(fewer(10_000)):
        question = made.question()
        first, second = ask(pushed.server, question), ask(read.server, question)
        assert (first.rcode, records_of(first)) == (second.rcode, records_of(second)), question
        known += bool(records_of(first))
    assert known > fewer(500)  # the share depends on the random mesh
