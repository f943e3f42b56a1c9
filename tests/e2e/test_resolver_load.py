# SPDX-License-Identifier: Apache-2.0
"""Namespaces with thousands of endpoint names, whose TTL is 0, beside one with a few."""

import pathlib
import re
import socket
import struct
import threading
import time

import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD, at_most
from harness.waiting import eventually

pytestmark = ONE_THREAD

NAMES = 4_000


class HastyUpstream:
    """Answers every name with another address each time, for 0 seconds; those of `below` do not exist."""

    def __init__(self, below):
        self._below = below.encode()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._socket.bind(("127.0.0.1", 0))
        self.server = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.queries = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                query, client = self._socket.recvfrom(2048)
            except OSError:
                return
            self.queries += 1
            end = 12
            while query[end]:
                end += query[end] + 1
            name, question = query[12:end], query[12:end + 5]
            rcode = 3 if self._below in name.lower() else 0
            has_address = rcode == 0 and question[-4:-2] == b"\0\1"
            reply = query[:2] + struct.pack(">HHHHH", 0x8180 | rcode, 1, has_address, 0, 0) + question
            if has_address:
                reply += b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x0a" + struct.pack(">I", self.queries)[1:]
            self._socket.sendto(reply, client)

    def close(self):
        self._socket.close()


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
    upstream = workspace.own(HastyUpstream("mesh"))
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
    before, commits, asked = cpu_seconds(daemon), metric(daemon, "meshdns_registry_commits_total"), upstream.queries
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 5, 10)
    took = time.monotonic() - began
    assert upstream.queries - asked < 220 * took + 50
    assert metric(daemon, "meshdns_registry_commits_total") - commits < 25 * took
    assert cpu_seconds(daemon) - before < at_most(0.25 * took)


def test_names_beyond_the_limit_of_a_namespace_are_a_finding(workspace):
    upstream = workspace.own(HastyUpstream("mesh"))
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])
    workspace.write("crowded.yaml", *(entry("crowded", f"crowded{i}.mesh", [f"n{j}.e{i}.example.org" for j in range(NAMES)])
                                      for i in range(3)))
    workspace.write("victim.yaml", entry("small", "victim.mesh", ["victim.example.org"]))
    assert eventually(lambda: daemon.ask("victim.mesh.").addresses(), 10)
    eventually(lambda: metric(daemon, "meshdns_resolver_names_refused") == 2_000, 10)
    assert metric(daemon, "meshdns_resolver_names") == 10_001
    assert "2000 are not looked up" in daemon.get("/registry/findings")[1]
    daemon.wait_for_log("too many DNS endpoint names.*namespace=crowded")
    # With fewer names there is room for those that were refused.
    workspace.write("crowded.yaml", entry("crowded", "crowded2.mesh", [f"n{j}.e2.example.org" for j in range(NAMES)]))
    eventually(lambda: metric(daemon, "meshdns_resolver_names_refused") == 0, 10)
    eventually(lambda: len(daemon.ask("crowded2.mesh.", transport="tcp").addresses()) > 1_000, 30)
