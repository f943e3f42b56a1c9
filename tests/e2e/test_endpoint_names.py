# SPDX-License-Identifier: Apache-2.0
"""Endpoint names: over TLS, in a circle, without an address, and a name of the mesh that never stays the same."""

import json
import pathlib
import re
import threading
import time

import pytest

from harness.kube_api import make_certificates
from harness.ports import free_port
from harness.preset import IS_RELEASE, ONE_THREAD, at_most
from harness.tls_upstream import TlsUpstream
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
    return {name["host"]: name for name in json.loads(daemon.get("/resolver")[1])}


def test_names_are_looked_up_over_tls_where_all_servers_use_it(workspace):
    certificates = make_certificates(workspace.path)
    upstream = workspace.own(TlsUpstream(certificates))
    workspace.write("resources.yaml", entry("default", "front.example.org", ["lb.example.net"]),
                    entry("default", "gone.example.org", ["gone.denied.test"]))
    daemon = workspace.daemon({"upstream": {"tls": {"ca_file": str(certificates[0])}}, "admin": admin()},
                              upstreams=[upstream.server])
    eventually(lambda: daemon.ask("front.example.org.", "A").addresses() == ["192.0.2.1"], 5)
    assert upstream.received >= 1
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
        eventually(lambda n=name, r=rcode: resolver_page(daemon)[n]["lastError"].startswith(f"{r} (asked "), 5)
        assert daemon.ask(f"{rcode.lower()}.example.org.", "A").rcode == "SERVFAIL"


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
        page = json.loads(daemon.get(f"/registry/endpoints?host={name}.default.svc.cluster.local")[1])
        return [endpoint["address"] for service in page for endpoint in service["endpoints"]]

    eventually(lambda: endpoints_of("outside") == ["192.0.2.1"], 5)
    eventually(lambda: endpoints_of("inside") == ["240.0.0.1"], 5)
    assert "CNAME" in str(daemon.ask("outside.default.svc.cluster.local.", "A"))
