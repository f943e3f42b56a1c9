# SPDX-License-Identifier: Apache-2.0
"""Node-local mode: pods as network namespaces, the daemon on the node's link-local address, and each pod
seeing its own view."""

import itertools
import subprocess
import time

import pytest

from harness.dns_client import Question, ask
from harness.fake_upstream import FakeUpstream, without_retries
from harness.namespaces import LINK_LOCAL, NODE_IPV4, NODE_IPV6, Node, available, inside
from harness.preset import THREADS
from harness.waiting import eventually

PODS = {"shop": ("10.60.0.11", "fd60::11"), "web": ("10.60.0.12", "fd60::12"), "stray": ("10.60.0.13", "fd60::13")}

pytestmark = [THREADS, pytest.mark.root,
              pytest.mark.skipif(not available(), reason="needs root and bridged network namespaces")]


def pod(namespace):
    ipv4, ipv6 = PODS[namespace]
    return {"kind": "Pod", "metadata": {"name": f"{namespace}-1", "namespace": namespace},
            "spec": {"nodeName": "node-1", "dnsPolicy": "ClusterFirst"},
            "status": {"phase": "Running", "podIP": ipv4, "podIPs": [{"ip": ipv4}, {"ip": ipv6}]}}


RESOURCES = [
    pod("shop"), pod("web"),
    {"kind": "Namespace", "metadata": {"name": "shop"}}, {"kind": "Namespace", "metadata": {"name": "web"}},
    {"kind": "ServiceEntry", "metadata": {"name": "private", "namespace": "shop"},
     "spec": {"hosts": ["private.example.org"], "addresses": ["10.0.0.1"], "resolution": "STATIC", "exportTo": ["."]}},
    {"kind": "ServiceEntry", "metadata": {"name": "public", "namespace": "shop"},
     "spec": {"hosts": ["public.example.org"], "addresses": ["10.0.0.2", "2001:db8::2"], "resolution": "STATIC"}},
    {"kind": "Service", "metadata": {"name": "db", "namespace": "shop"},
     "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80, "name": "http"}]}},
    {"kind": "Service", "metadata": {"name": "db", "namespace": "web"},
     "spec": {"clusterIP": "10.96.0.2", "ports": [{"port": 80, "name": "http"}]}},
]


@pytest.fixture
def node():
    with Node(PODS) as made:
        yield made


@pytest.fixture
def upstream(workspace, node):
    with inside(node.name):
        return workspace.own(FakeUpstream(["www.example.net. 60 A 192.0.2.1", "www.example.net. 60 AAAA 2001:db8::1",
                                           "private.example.org. 60 A 192.0.2.66"]))


@pytest.fixture
def daemon(workspace, node, upstream):
    workspace.write("mesh.yaml", *RESOURCES)
    config = {"server": {"listen": [f"{LINK_LOCAL}:53", "0.0.0.0:5301", "[::]:5302"]},
              "client": {"by_source_address": True, "unknown": "public"},
              "mesh": {"authoritative": True, "search_shortcut": "all"}}
    return workspace.daemon(config, upstreams=[upstream], prefix=["ip", "netns", "exec", node.name])


SERVERS = [(LINK_LOCAL, 53), (LINK_LOCAL, 5301), (NODE_IPV4, 5301), (NODE_IPV4, 5302), (NODE_IPV6, 5302)]


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_each_pod_sees_its_own_view_on_every_address(node, daemon, transport):
    """The clients' sockets are connected: an answer from any other address than the asked one is lost."""
    expected = {
        "shop": {"private.example.org.": ["10.0.0.1"], "public.example.org.": ["10.0.0.2"], "db.": ["10.96.0.1"]},
        "web": {"private.example.org.": ["192.0.2.66"], "public.example.org.": ["10.0.0.2"], "db.": ["10.96.0.2"]},
        "stray": {"private.example.org.": ["192.0.2.66"], "public.example.org.": ["10.0.0.2"], "db.": []},
    }
    for name, answers in expected.items():
        with inside(node.pods[name]):
            for server in SERVERS:
                found = {host: ask(server, Question(host), transport).addresses() for host in answers}
                assert found == answers, (name, server)


def resolv_conf(path, namespace):
    path.write_text(f"nameserver {LINK_LOCAL}\nsearch {namespace}.svc.cluster.local svc.cluster.local cluster.local\n"
                    "options ndots:5\n")
    return path


def test_glibc_resolves_short_full_and_outside_names(node, daemon, tmp_path):
    shop = resolv_conf(tmp_path / "shop.conf", "shop")
    web = resolv_conf(tmp_path / "web.conf", "web")
    for name, conf, host, address in (
            ("shop", shop, "db", "10.96.0.1"), ("web", web, "db", "10.96.0.2"), ("web", web, "db.shop", "10.96.0.1"),
            ("web", web, "db.shop.svc.cluster.local", "10.96.0.1"), ("shop", shop, "private.example.org", "10.0.0.1"),
            ("web", web, "private.example.org", "192.0.2.66"), ("web", web, "www.example.net", "192.0.2.1")):
        result = node.run(name, "getent", "ahostsv4", host, resolv_conf=conf)
        assert result.returncode == 0 and result.stdout.split()[0] == address, (name, host, result)
    missing = node.run("web", "getent", "ahosts", "no-such-name.example.net", resolv_conf=web)
    assert missing.returncode == 2, missing


MUSL_PROGRAM = r"""
#include <netdb.h>
#include <stdio.h>
#include <arpa/inet.h>
int main(int count, char** words) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = 0;
  int error = getaddrinfo(words[count - 1], "80", &hints, &found);
  if (error) return fprintf(stderr, "%s\n", gai_strerror(error)), 2;
  for (; found; found = found->ai_next) {
    char text[INET_ADDRSTRLEN];
    puts(inet_ntop(AF_INET, &((struct sockaddr_in*)found->ai_addr)->sin_addr, text, sizeof text));
  }
}
"""


@pytest.fixture
def musl_program(tmp_path):
    source, program = tmp_path / "resolve.c", tmp_path / "resolve"
    source.write_text(MUSL_PROGRAM)
    subprocess.run(["musl-gcc", "-static", "-o", program, source], check=True)
    return program


def test_musl_resolves_short_full_and_outside_names(node, daemon, tmp_path, musl_program):
    """musl sends both families at once from one socket, has no TCP fallback and follows no CNAME itself."""
    shop = resolv_conf(tmp_path / "shop.conf", "shop")
    web = resolv_conf(tmp_path / "web.conf", "web")
    for name, conf, host, address in (
            ("shop", shop, "db", "10.96.0.1"), ("web", web, "db", "10.96.0.2"), ("web", web, "db.shop", "10.96.0.1"),
            ("shop", shop, "private.example.org", "10.0.0.1"), ("web", web, "private.example.org", "192.0.2.66"),
            ("web", web, "www.example.net", "192.0.2.1")):
        result = node.run(name, str(musl_program), host, resolv_conf=conf)
        assert result.returncode == 0 and result.stdout.split() == [address], (name, host, result)
    missing = node.run("web", str(musl_program), "no-such-name.example.net", resolv_conf=web)
    assert missing.returncode == 2, missing


def test_an_outside_name_costs_one_upstream_query_per_family_whatever_ndots(node, daemon, upstream, tmp_path):
    """User-pains, 2: and no name of the cluster ever leaves it."""
    conf = resolv_conf(tmp_path / "web.conf", "web")
    result = node.run("web", "getent", "ahosts", "www.example.net", resolv_conf=conf)
    assert {"192.0.2.1", "2001:db8::1"} <= set(result.stdout.split()), result
    sent = sorted(str(r) for r in without_retries(upstream.received()) if "example.net" in r.name)
    assert sent == ["www.example.net. A", "www.example.net. AAAA"]
    assert [r for r in upstream.received() if "cluster.local" in r.name] == []


def test_dig_in_a_pod(node, daemon):
    for name, address in (("shop", "10.0.0.1"), ("web", "192.0.2.66")):
        for options in ([], ["+tcp"]):
            result = node.run(name, "dig", "+short", *options, f"@{LINK_LOCAL}", "private.example.org")
            assert result.stdout.strip() == address, result


def test_follows_resolv_conf(workspace, node, tmp_path):
    """Servers are exchanged without a reload, and a file that names nobody for a moment changes nothing."""
    with inside(node.name):
        first, second = (workspace.own(FakeUpstream([f"*.example.net. 60 A 192.0.2.{i}"], address=f"127.0.0.{i}", port=53))
                         for i in (7, 8))
    conf = tmp_path / "resolv.conf"
    conf.write_text(f"nameserver {first.address}\n")
    script = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
    workspace.daemon({"server": {"listen": [f"{LINK_LOCAL}:53"]}, "upstream": {"servers": []}},
                     prefix=["ip", "netns", "exec", node.name, "unshare", "--mount", "sh", "-c", script, "sh", str(conf)])
    numbers = itertools.count()

    def answer():
        with inside(node.pods["web"]):
            return ask((LINK_LOCAL, 53), Question(f"n{next(numbers)}.example.net.")).addresses()

    assert answer() == ["192.0.2.7"]
    conf.write_text(f"nameserver {second.address}\n")
    eventually(lambda: answer() == ["192.0.2.8"], 6)
    conf.write_text("")
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert answer() == ["192.0.2.8"]
        time.sleep(0.1)
