# SPDX-License-Identifier: Apache-2.0
"""Endpoint names: over TLS, in a circle, without an address, and a name of the mesh that never stays the same."""

import pathlib
import random
import re
import threading
import time

import pytest

from harness.kube_api import make_certificates
from harness.ports import free_port
from harness.preset import IS_RELEASE, ONE_THREAD, at_most, fewer
from harness.seed import seed
from harness.waiting import eventually

pytestmark = ONE_THREAD

USERS = 4_000 if IS_RELEASE else 800


def admin():
    return {"listen": f"127.0.0.1:{free_port()}"}


def entry(ns, host, names):
    return {"kind": "ServiceEntry", "metadata": {"name": host.split(".")[0], "namespace": ns},
            "spec": {"hosts": [host], "resolution": "DNS", "endpoints": [{"address": name} for name in names],
                     "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}


def virtual(ns, host, address):
    return {"kind": "ServiceEntry", "metadata": {"name": host.split(".")[0], "namespace": ns},
            "spec": {"hosts": [host], "resolution": "STATIC", "addresses": [address],
                     "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}


def resolver_page(daemon):
    return {name["host"]: name for name in daemon.get_json("/resolver")}


def test_names_are_looked_up_over_tls_where_all_servers_use_it(workspace):
    certificates = make_certificates(workspace.path)
    upstream = workspace.upstream(
        ["*. 300 A 192.0.2.1"], certificates=certificates,
        rules=[{"match": "*.denied.test.", "rcode": "NXDOMAIN", "authority": ["denied.test. 30 SOA ns.test. root.test. 1 2 3 4 30"]}])
    workspace.write("resources.yaml", entry("default", "front.example.org", ["lb.example.net"]),
                    entry("default", "gone.example.org", ["gone.denied.test"]))
    daemon = workspace.daemon({"upstream": {"tls": {"ca_file": str(certificates[0])}}, "admin": admin()},
                              upstreams=[upstream.server])
    eventually(lambda: daemon.ask("front.example.org.", "A").addresses() == ["192.0.2.1"], 5)
    assert upstream.received()
    assert resolver_page(daemon)["lb.example.net"]["state"] == "resolved"
    eventually(lambda: daemon.ask("gone.example.org.", "A").rcode == "NOERROR", 5)
    assert resolver_page(daemon)["gone.denied.test"]["lastError"] == "the name does not exist (NXDOMAIN)"


def test_names_without_an_address_are_told(workspace):
    upstream = workspace.upstream(["there.example.net. 60 A 192.0.2.1"])
    workspace.write("resources.yaml", entry("default", "front.example.org", ["gone.example.net"]),
                    entry("default", "other.example.org", ["there.example.net"]))
    daemon = workspace.daemon({"admin": admin()}, upstreams=[upstream])
    eventually(lambda: daemon.ask("front.example.org.", "A").rcode == "NOERROR", 5)
    answer = daemon.ask("front.example.org.", "A")
    assert not answer.addresses()
    page = resolver_page(daemon)
    assert page["gone.example.net"]["lastError"] == "the name does not exist (NXDOMAIN)"
    assert page["gone.example.net"]["families"][0]["lastError"] == "the name does not exist (NXDOMAIN)"
    assert re.search(r"(?m)^meshdns_resolver_names_failed 1$", daemon.get("/metrics")[1])
    assert "an endpoint name has no address name=gone.example.net namespace=default" in workspace.log()


def test_the_failure_that_a_server_tells_is_named(workspace):
    rules = [{"match": f"{rcode.lower()}.example.net.", "rcode": rcode} for rcode in ("SERVFAIL", "REFUSED", "NOTIMP")]
    upstream = workspace.upstream(rules=rules)
    workspace.write("resources.yaml", *[entry("default", f"{rcode.lower()}.example.org", [f"{rcode.lower()}.example.net"])
                                        for rcode in ("SERVFAIL", "REFUSED", "NOTIMP")])
    daemon = workspace.daemon({"admin": admin()}, upstreams=[upstream])
    for rcode in ("SERVFAIL", "REFUSED", "NOTIMP"):
        name = f"{rcode.lower()}.example.net"
        eventually(lambda n=name, r=rcode: resolver_page(daemon)[n]["lastError"].startswith(r), 5)
        assert daemon.ask(f"{rcode.lower()}.example.org.", "A").rcode == "SERVFAIL"


def random_names(draw):
    """Records, rules and names of an upstream: half of the names are aliases, of each other and of names of this side."""
    local = ["vip.mesh.example", "static.mesh.example", "x.any.mesh.example", "dns.mesh.example", "hidden.mesh.example",
             "web.default.svc.cluster.local", "out.default.svc.cluster.local", "gone.default.svc.cluster.local",
             "localhost", "dev.override.test", "blocked.override.test", "refused.override.test", "printer.lan",
             "db.corp.example"]
    names = [f"n{i}.example.net" for i in range(fewer(60))]
    records, rules = [f"{name}. 60 A 203.0.113.66" for name in local], []
    for i, name in enumerate(names):
        kind = draw.choice(["address", "both", "none", "text", "rcode", "truncated", "no_edns", "forged", "slow"] + ["alias"] * 9)
        if kind == "alias":
            records.append(f"{name}. 60 CNAME {draw.choice(local + names[i + 1:])}.")
            continue
        if kind not in ("none", "text", "rcode"):
            records.append(f"{name}. 60 A 192.0.2.{i + 1}")
        if kind == "both":
            records.append(f"{name}. 60 AAAA 2001:db8::{i + 1}")
        if kind == "text":
            records.append(f"{name}. 60 TXT text")
        if kind == "rcode":
            rules.append({"match": f"{name}.", "rcode": draw.choice(["SERVFAIL", "REFUSED", "NOTIMP"])})
        if kind == "truncated":
            rules.append({"match": f"{name}.", "transport": "udp", "truncate": True})
        if kind == "no_edns":
            rules.append({"match": f"{name}.", "formerr_on_edns": True})
        if kind == "forged":
            rules.append({"match": f"{name}.", "forge": draw.choice(["wrong_id", "wrong_name", "wrong_type"]), "then": True})
        if kind == "slow":
            rules.append({"match": f"{name}.", "delay": 0.05})
    return records, rules, names + local


def test_an_endpoint_name_has_the_addresses_that_a_client_gets(workspace):
    records, rules, names = random_names(random.Random(seed()))
    upstream = workspace.upstream(records, rules)
    corp = workspace.upstream(["db.corp.example. 60 A 10.1.2.3"])
    hosts = workspace.path / "hosts"
    hosts.write_text("10.5.5.5 printer.lan\n")
    static = virtual("bank", "static.mesh.example", "240.0.0.1")
    static["spec"]["endpoints"] = [{"address": "10.9.0.1"}, {"address": "10.9.0.2"}]
    del static["spec"]["addresses"]
    hidden = virtual("bank", "hidden.mesh.example", "240.0.0.2")
    hidden["spec"]["exportTo"] = ["."]
    wildcard = virtual("bank", "any.mesh.example", "240.0.0.3")
    wildcard["spec"]["hosts"] = ["*.any.mesh.example"]
    workspace.write("mesh.yaml", static, hidden, wildcard, virtual("bank", "vip.mesh.example", "240.0.0.4"),
                    entry("bank", "dns.mesh.example", ["n0.example.net"]),
                    {"kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}},
                    {"kind": "Service", "metadata": {"name": "out"}, "spec": {"type": "ExternalName", "externalName": names[0]}})
    own = virtual("toys", "vip.mesh.example", "240.0.0.5")
    own["spec"]["exportTo"] = ["."]
    sidecar = {"kind": "Sidecar", "metadata": {"name": "default", "namespace": "toys"},
               "spec": {"egress": [{"hosts": ["./*", "*/static.mesh.example", "default/*"]}]}}
    workspace.write("toys.yaml", own, sidecar)
    namespaces = ("default", "toys")
    workspace.write("entries.yaml", *[entry(ns, f"e{i}.{ns}.example", [name]) for ns in namespaces
                                      for i, name in enumerate(names)])
    change = {"hosts": {"file": str(hosts)}, "upstream": {"zones": {"corp.example": [corp.server]}},
              "overrides": {"override.test": ["192.0.2.250"], "blocked.override.test": "nxdomain",
                            "refused.override.test": "refused"}}
    clients = [(ns, workspace.daemon({**change, "client": {"default": {"namespace": ns}}}, upstreams=[upstream]))
               for ns in namespaces]

    def agree():
        differing = {}
        for ns, daemon in clients:
            for i, name in enumerate(names):
                for rtype in ("A", "AAAA"):
                    asked = sorted(daemon.ask(f"{name}.", rtype).addresses())
                    held = sorted(daemon.ask(f"e{i}.{ns}.example.", rtype).addresses())
                    if asked != held:
                        differing[f"{ns}: {name} {rtype}"] = (asked, held)
        assert not differing, f"seed {seed()}: {differing}"

    eventually(agree, 15)


def test_lookups_are_in_no_account_of_clients(workspace):
    upstream = workspace.upstream([f"n{i}.example.net. 1 A 192.0.2.{i + 1}" for i in range(20)])
    workspace.write("resources.yaml", *[entry("default", f"e{i}.example.org", [f"n{i}.example.net"]) for i in range(20)])
    daemon = workspace.daemon({"admin": admin(), "log": {"queries": {"class": "all"}},
                               "server": {"allow": ["127.0.0.1/32"], "rate_limit": {"responses_per_second": 1000}},
                               "dns64": {"prefix": "64:ff9b::/96"}}, upstreams=[upstream])

    def metrics():
        return dict(line.rsplit(" ", 1) for line in daemon.get("/metrics")[1].splitlines() if not line.startswith("#"))

    def lookups():
        return float(metrics()["meshdns_resolver_lookups_total"])

    def requests():
        return sum(float(value) for key, value in metrics().items() if key.startswith("meshdns_dns_requests_total"))

    eventually(lambda: daemon.ask("e19.example.org.", "A").addresses() == ["192.0.2.20"], 5)
    before, asked = lookups(), requests()
    eventually(lambda: lookups() >= before + 40, 10)
    assert requests() == asked
    assert daemon.ask("e1.example.org.", "AAAA").addresses() == []
    assert "n1.example.net" not in daemon.get("/top")[1]
    assert "e19.example.org" in workspace.log()
    assert "n19.example.net" not in workspace.log()


def control_seconds(daemon):
    fields = pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.timing
def test_a_name_that_changes_all_the_time_costs_its_users_a_share(workspace):
    workspace.write("users.yaml", *[entry("shop", f"n{i}.example.org", ["target.example.net"]) for i in range(USERS)])
    workspace.write("bank.yaml", entry("bank", "calm.example.org", ["quick.example.net"]))
    workspace.write("quick.yaml", virtual("default", "quick.example.net", "240.1.0.1"))
    workspace.write("target.yaml", virtual("default", "target.example.net", "240.0.0.1"))
    daemon = workspace.daemon({"admin": admin()})
    eventually(lambda: daemon.ask("n1.example.org.", "A").addresses() == ["240.0.0.1"], 10)
    stop = threading.Event()

    def flap():
        i = 0
        while not stop.wait(0.05):
            i += 1
            workspace.write("target.yaml", virtual("default", "target.example.net", f"240.0.{i % 250}.2"))

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        before = control_seconds(daemon)
        stop.wait(5)
        used = control_seconds(daemon) - before
        workspace.write("quick.yaml", virtual("default", "quick.example.net", "240.1.0.2"))
        changed = time.monotonic()
        eventually(lambda: daemon.ask("calm.example.org.", "A").addresses() == ["240.1.0.2"], 5)
        took = time.monotonic() - changed
    finally:
        stop.set()
        thread.join()
    assert used < at_most(2.5), f"{used} of 5 s"
    assert took < at_most(2), f"{took} s for another namespace's name"
    workspace.write("target.yaml", virtual("default", "target.example.net", "240.0.0.9"))
    eventually(lambda: daemon.ask("n1.example.org.", "A").addresses() == ["240.0.0.9"], 30)


def test_the_endpoints_of_an_alias_with_ports_are_its_targets_addresses(workspace):
    upstream = workspace.upstream(["a.example.net. 60 A 192.0.2.1"])

    def alias(name, target):
        return {"kind": "Service", "metadata": {"name": name},
                "spec": {"type": "ExternalName", "externalName": target, "ports": [{"port": 80, "name": "http"}]}}

    workspace.write("resources.yaml", alias("outside", "a.example.net"), alias("inside", "vip.example.org"),
                    virtual("default", "vip.example.org", "240.0.0.1"))
    daemon = workspace.daemon({"admin": admin()}, upstreams=[upstream])

    def endpoints_of(name):
        page = daemon.get_json(f"/registry/endpoints?host={name}.default.svc.cluster.local")
        return [endpoint["address"] for service in page for endpoint in service["endpoints"]]

    eventually(lambda: endpoints_of("outside") == ["192.0.2.1"], 5)
    eventually(lambda: endpoints_of("inside") == ["240.0.0.1"], 5)
    assert "CNAME" in str(daemon.ask("outside.default.svc.cluster.local.", "A"))
