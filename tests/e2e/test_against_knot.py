# SPDX-License-Identifier: Apache-2.0
"""The cluster zone beside an independent implementation: the same static names in Knot DNS, asked
thousands of questions, get the same rcode, AA, answer and authority from both.

Left out, because only one of the two can have them: dns-version and the name servers' addresses (of the
daemon's own making), pod names, and the weight of SRV, which the specification leaves free.
"""

import random

import pytest

from harness.dns_client import Question, ask
from harness.preset import ONE_THREAD
from harness.real_servers import Knot

pytestmark = ONE_THREAD

NAMESPACES = ["shop", "data", "web-1"]
TYPES = ["A", "AAAA", "SRV", "TXT", "CNAME", "MX", "PTR", "SOA", "HTTPS", "CAA", "NAPTR", "TYPE65280"]


def build():
    """Resources, and the zone-file lines that say the same."""
    resources, records = [], []

    def add(owner, rdtype, rdata):
        records.append(f"{owner} 5 {rdtype} {rdata}")

    for n, namespace in enumerate(NAMESPACES):
        resources.append({"kind": "Namespace", "metadata": {"name": namespace}})
        for i in range(6):  # Services with a cluster IP, every other one of both families
            full = f"svc{i}.{namespace}.svc"
            ips = [f"10.96.{n}.{i + 1}"] + ([f"fd00:96::{n}:{i + 1}"] if i % 2 else [])
            resources.append({"kind": "Service", "metadata": {"name": f"svc{i}", "namespace": namespace},
                              "spec": {"clusterIP": ips[0], "clusterIPs": ips, "ports": [
                                  {"name": "http", "port": 80, "protocol": "TCP"},
                                  {"name": "dns", "port": 53 + i, "protocol": "UDP"}]}})
            for ip in ips:
                add(full, "AAAA" if ":" in ip else "A", ip)
            for owner, port in ((f"_http._tcp.{full}", 80), (f"_dns._udp.{full}", 53 + i), (full, 80), (full, 53 + i)):
                add(owner, "SRV", f"0 1 {port} {full}")
        for i in range(3):  # headless ones, with hostnames and without
            full = f"set{i}.{namespace}.svc"
            resources.append({"kind": "Service", "metadata": {"name": f"set{i}", "namespace": namespace},
                              "spec": {"clusterIP": "None", "ports": [{"name": "pg", "port": 5432, "protocol": "TCP"}]}})
            endpoints = []
            for e in range(4):
                ip = f"10.4.{n * 3 + i}.{e + 1}"
                label = f"set{i}-{e}" if e % 2 else ip.replace(".", "-")
                endpoints.append({"addresses": [ip], **({"hostname": label} if e % 2 else {})})
                add(full, "A", ip)
                add(f"{label}.{full}", "A", ip)
                for owner in (full, f"{label}.{full}", f"_pg._tcp.{full}"):
                    add(owner, "SRV", f"0 1 15432 {label}.{full}")
            resources.append({"kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints,
                              "metadata": {"name": f"set{i}-x", "namespace": namespace,
                                           "labels": {"kubernetes.io/service-name": f"set{i}"}},
                              "ports": [{"name": "pg", "port": 15432, "protocol": "TCP"}]})
        for name, target in (("to-svc", f"svc1.{NAMESPACES[0]}.svc"), ("to-set", f"set0.{namespace}.svc"),
                             ("to-alias", f"to-svc.{namespace}.svc"), ("to-nothing", f"gone.{namespace}.svc")):
            resources.append({"kind": "Service", "metadata": {"name": name, "namespace": namespace},
                              "spec": {"type": "ExternalName", "externalName": f"{target}.cluster.local"}})
            add(f"{name}.{namespace}.svc", "CNAME", target)
    return resources, records


def questions(records):
    """Every owner, everything above it, and names beside and below each, in mixed case, of all types."""
    rng = random.Random(7)
    names = {record.split()[0] for record in records}
    for name in list(names):
        labels = name.split(".")
        names.update(".".join(labels[i:]) for i in range(1, len(labels)))
        names.add(f"missing.{name}")
        if rng.random() < 0.3:
            names.add(".".join(["x", *labels[1:]]))
            names.add(f"_x._tcp.{name}")
    names |= {"missing", "missing.svc", "a.missing.svc", "a.b.missing.svc", "a.b.c.d.e.f.svc"}
    for name in sorted(names):
        full = f"{name}.cluster.local."
        mixed = "".join(c.upper() if rng.random() < 0.5 else c for c in full)
        for rdtype in TYPES:
            yield Question(mixed if rng.random() < 0.3 else full, rdtype)
    for rdtype in TYPES:
        yield Question("cluster.local.", rdtype)


def summary(answer):
    """Returns the parts that must be equal; names in lower case, SRV without weight, SOA without serial."""
    def text(record):
        owner, _, rdtype, rdata = record
        words = rdata.to_text().lower().split()
        if rdtype == "SRV":
            del words[1]
        if rdtype == "SOA":
            words = words[:2] + words[3:]
        return f"{owner.to_text().lower()} {rdtype} {' '.join(words)}"

    return (answer.rcode, answer.has(0x0400), sorted(text(r) for r in answer.section("answer")),
            sorted(text(r) for r in answer.section("authority") if r[2] != "NS"))


@pytest.fixture
def both(workspace, tmp_path):
    resources, records = build()
    workspace.write("cluster.yaml", *resources)
    knot = workspace.own(Knot(tmp_path / "knot", "cluster.local.", records, ttl=5, soa=(
        "ns.dns.cluster.local. hostmaster.cluster.local.", "7200 1800 86400 5"), name_server="ns.dns"))
    daemon = workspace.daemon({"mesh": {"authoritative": True, "pods": "disabled", "search_shortcut": "off"}},
                              upstreams=[workspace.upstream()])
    return daemon, ("127.0.0.1", knot.port), list(questions(records))


@pytest.mark.slow("asks thousands of questions of two servers")
def test_answers_the_cluster_zone_as_knot_does(both):
    daemon, knot, asked = both
    assert len(asked) >= 2000
    differences = []
    for question in asked:
        ours, theirs = summary(ask(daemon.server, question)), summary(ask(knot, question))
        if ours != theirs:
            differences.append(f"{question}\n  meshdns {ours}\n  knot    {theirs}")
    assert not differences, f"{len(differences)} of {len(asked)} differ:\n" + "\n".join(differences[:20])
