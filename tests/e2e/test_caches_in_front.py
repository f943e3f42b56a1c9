# SPDX-License-Identifier: Apache-2.0
"""A cache in front of the daemon keeps what it is told: a question for one type of a name of the mesh must not cost
the cache the addresses of the name, or the names below it."""

import pytest

from harness.dns_client import Question, ask
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.process import Process
from harness.real_servers import find_program
from harness.waiting import eventually

pytestmark = ONE_THREAD

RESOURCES = [
    {"kind": "ServiceEntry", "metadata": {"name": "api"},
     "spec": {"hosts": ["api.mesh.test", "www.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC",
              "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}},
    {"kind": "Service", "metadata": {"name": "web", "namespace": "default"},
     "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80, "name": "http"}]}},
]
# The first question, and the name whose address must be answered afterwards.
CASES = [
    *[(f"api.mesh.test. {rdtype}", "api.mesh.test.", "10.0.0.7")
      for rdtype in ("MX", "TXT", "SRV", "NS", "CAA", "SOA", "DS", "PTR")],
    ("mesh.test. A", "api.mesh.test.", "10.0.0.7"),
    ("test. MX", "api.mesh.test.", "10.0.0.7"),
    ("web.default. TXT", "web.default.", "10.96.0.1"),
    ("default. A", "web.default.", "10.96.0.1"),
    ("www.example.org. MX", "www.example.org.", "10.0.0.7"),
]


class Dnsmasq:
    def __init__(self, upstream):
        self.server = ("127.0.0.1", free_port())
        host, port = upstream
        self.process = Process(
            [find_program("dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
             "--bind-interfaces", "--listen-address=127.0.0.1", f"--port={self.server[1]}", "--user=root", "--pid-file=",
             "--cache-size=1000", "--log-facility=-", f"--server={host}#{port}"], "dnsmasq")

    def close(self):
        self.process.stop()


class ForwardingUnbound:
    def __init__(self, directory, upstream):
        directory.mkdir()
        self.server = ("127.0.0.1", free_port())
        host, port = upstream
        config = directory / "unbound.conf"
        config.write_text(f"""\
server:
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{directory}"
  pidfile: "{directory}/unbound.pid"
  use-syslog: no
  interface: 127.0.0.1@{self.server[1]}
  do-ip6: no
  do-not-query-localhost: no
  module-config: "iterator"
  harden-below-nxdomain: yes
  local-zone: "test." nodefault
  num-threads: 1
  so-rcvbuf: 0
  so-sndbuf: 0
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: {host}@{port}
""")
        self.process = Process([find_program("unbound"), "-d", "-p", "-c", config], "unbound", cwd=directory)

    def close(self):
        self.process.stop()


def start_meshdns(workspace, upstream):
    (workspace.path / "empty").mkdir()
    return workspace.daemon({"sources": [{"files": {"path": str(workspace.path / "empty")}}],
                             "cache": {"nxdomain_cut": True}}, upstreams=["{}:{}".format(*upstream)])


def start_front(workspace, kind, upstream):
    if kind == "dnsmasq":
        return workspace.own(Dnsmasq(upstream))
    if kind == "unbound":
        return workspace.own(ForwardingUnbound(workspace.path / "unbound", upstream))
    return start_meshdns(workspace, upstream)


@pytest.fixture(params=["dnsmasq", "unbound", "meshdnsd"])
def front(workspace, request):
    workspace.write("a.yaml", *RESOURCES)
    outside = workspace.upstream(["www.example.org. 60 CNAME cdn.example.net.", "cdn.example.net. 60 A 192.0.2.1"])
    daemon = workspace.daemon({}, upstreams=[outside])
    server = start_front(workspace, request.param, daemon.server).server
    eventually(lambda: address_of(server, "alive.mesh.test.") is not None, 10.0)
    return server


def address_of(server, name):
    try:
        return ask(server, Question(name, "A"), timeout=1.0).addresses()
    except OSError:
        return None


@pytest.mark.parametrize("first,name,address", CASES, ids=[case[0] for case in CASES])
def test_a_question_for_another_type_costs_no_address(front, first, name, address):
    asked, rdtype = first.split()
    for _ in range(2):
        assert ask(front, Question(asked, rdtype)).rcode == "NOERROR"
    assert address_of(front, name) == [address]
