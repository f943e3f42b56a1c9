# SPDX-License-Identifier: Apache-2.0
"""Namespaces with thousands of endpoint names, whose TTL is 0, beside one with a few."""

import ipaddress
import itertools
import pathlib
import re
import time

import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD, at_most
from harness.waiting import eventually

pytestmark = ONE_THREAD

NAMES = 4_000


class Hasty:
    """A zone in which every name has another address each time, for 0 seconds; those below `mesh` do not exist."""

    def __init__(self):
        self._addresses = itertools.count(0x0A000001)

    def answer(self, response):
        question = response.question[0]
        if b"mesh" in question.name.labels:
            response.set_rcode(dns.rcode.NXDOMAIN)
        elif question.rdtype == dns.rdatatype.A:
            address = str(ipaddress.IPv4Address(next(self._addresses)))
            response.answer.append(dns.rrset.from_text(question.name, 0, "IN", "A", address))


def entry(ns, host, names):
    return {"kind": "ServiceEntry", "metadata": {"name": host.split(".")[0], "namespace": ns},
            "spec": {"hosts": [host], "resolution": "DNS", "endpoints": [{"address": name} for name in names],
                     "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}


def cpu_seconds(daemon):
    """Of the control thread."""
    fields = pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def metric(daemon, name):
    return float(re.search(rf"^{name} (\S+)$", daemon.get("/metrics")[1], re.M).group(1))


@pytest.mark.timing
def test_thousands_of_endpoint_names_leave_the_daemon_idle(workspace):
    upstream = workspace.upstream(zone=Hasty())
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])
    start = time.monotonic()
    workspace.write("crowded.yaml", entry("crowded", "crowded.mesh", [f"n{i}.example.org" for i in range(NAMES)]))
    slowest = 0
    victims = 0
    while metric(daemon, "meshdns_resolver_lookups_total") < 2 * NAMES:
        # Meanwhile others get their first answers at once, and health checks theirs.
        victims += 1
        workspace.write("victim.yaml", entry("small", f"v{victims}.mesh", [f"v{victims}.example.org"]))
        eventually(lambda: daemon.ask(f"v{victims}.mesh.").addresses(), 10)
        began = time.monotonic()
        assert daemon.get("/healthz") == (200, "ok\n")
        slowest = max(slowest, time.monotonic() - began)
        assert time.monotonic() - start < at_most(60)
    assert slowest < at_most(0.25), slowest
    eventually(lambda: len(daemon.ask("crowded.mesh.", transport="tcp").addresses()) > 1_000, 10)
    # Then it goes on with 200 lookups a second at most, and with few commits.
    before, commits, asked = cpu_seconds(daemon), metric(daemon, "meshdns_registry_commits_total"), len(upstream.received())
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 5, 10)
    took = time.monotonic() - began
    assert len(upstream.received()) - asked < 220 * took + 50
    assert metric(daemon, "meshdns_registry_commits_total") - commits < 25 * took
    assert cpu_seconds(daemon) - before < at_most(0.25 * took)


def test_names_beyond_the_limit_of_a_namespace_are_a_finding(workspace):
    upstream = workspace.upstream(zone=Hasty())
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])
    workspace.write("crowded.yaml", *(entry("crowded", f"crowded{i}.mesh", [f"n{j}.e{i}.example.org" for j in range(NAMES)])
                                      for i in range(3)))
    workspace.write("victim.yaml", entry("small", "victim.mesh", ["victim.example.org"]))
    assert eventually(lambda: daemon.ask("victim.mesh.").addresses(), 10)
    # The name of the small namespace may be counted a commit later.
    eventually(lambda: [metric(daemon, name) for name in ("meshdns_resolver_names_refused", "meshdns_resolver_names")] == [2_000, 10_001],
               10)
    assert "2000 are not looked up" in daemon.get("/registry/findings")[1]
    daemon.wait_for_log("too many DNS endpoint names.*namespace=crowded")
    # With fewer names there is room for those that were refused.
    workspace.write("crowded.yaml", entry("crowded", "crowded2.mesh", [f"n{j}.e2.example.org" for j in range(NAMES)]))
    eventually(lambda: metric(daemon, "meshdns_resolver_names_refused") == 0, 10)
    eventually(lambda: len(daemon.ask("crowded2.mesh.", transport="tcp").addresses()) > 1_000, 30)
