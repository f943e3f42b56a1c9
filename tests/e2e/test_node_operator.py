# SPDX-License-Identifier: Apache-2.0
"""Class CH on a node: programs of the node itself ask as its operators, at the address that its Pods ask; no Pod does,
whatever source its packets have."""

import contextlib
import socket
import struct
import subprocess
import threading

import dns.flags
import pytest

from harness.dns_client import Question, ask
from harness.namespaces import LINK_LOCAL, NODE_IPV4, NODE_IPV6, Node, available, inside
from harness.preset import THREADS
from harness.waiting import eventually, seconds

pytestmark = [THREADS, pytest.mark.root,
              pytest.mark.skipif(not available(), reason="needs root and bridged network namespaces")]

OWN_IPV6 = "fd00:169:254:20::10"
HIDDEN = {"kind": "ServiceEntry", "metadata": {"name": "secret", "namespace": "vault"},
          "spec": {"hosts": ["secret.example.org"], "addresses": ["10.66.6.6"], "exportTo": ["."], "resolution": "STATIC"}}
PUBLIC = {"kind": "ServiceEntry", "metadata": {"name": "public", "namespace": "vault"},
          "spec": {"hosts": ["public.example.org"], "addresses": ["10.66.6.7"], "resolution": "STATIC"}}
SECRET = Question("secret.example.org.", "TXT", "CH")
PLAIN = Question("public.example.org.")

# Specific addresses, those of a wildcard, and IPv4 at a socket of IPv6.
SERVERS = [(LINK_LOCAL, 53), (OWN_IPV6, 53), (NODE_IPV4, 5301), (LINK_LOCAL, 5301), (NODE_IPV6, 5302), (NODE_IPV4, 5302)]
LISTEN = [f"{LINK_LOCAL}:53", f"[{OWN_IPV6}]:53", "0.0.0.0:5301", "[::]:5302"]


@pytest.fixture
def node():
    with Node({"pod": ("10.60.0.11", "fd60::11")}) as made:
        run(made, "ip", "addr", "add", f"{OWN_IPV6}/128", "dev", "lo", "nodad")
        yield made


def run(node, *command, text=""):
    return subprocess.run(["ip", "netns", "exec", node.name, *command], check=True, capture_output=True, text=True, input=text,
                          timeout=seconds(20)).stdout


def start(workspace, node, **server):
    workspace.write("a.yaml", HIDDEN, PUBLIC)
    return workspace.daemon({"server": {"listen": LISTEN, **server}, "client": {"default": {"namespace": "shop"}}},
                            upstreams=["127.0.0.1:9"], prefix=["ip", "netns", "exec", node.name])


@pytest.fixture
def daemon(workspace, node):
    return start(workspace, node)


def is_operators(answer):
    return answer.rcode == "NOERROR" and "vault/secret" in " ".join(answer.texts())


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_the_node_itself_asks_as_its_operator(node, daemon, transport):
    with inside(node.name):
        for server in SERVERS:
            assert is_operators(ask(server, SECRET, transport)), server
        # From another address than the one that it asks, it is one of the clients.
        other = ask((LINK_LOCAL, 53), Question("whoami.meshdns.", "TXT", "CH", source=NODE_IPV4), transport)
        assert other.rcode == "REFUSED" and "server.chaos" in other.extended_text()


def test_dig_needs_no_options(node, daemon):
    """It connects its socket; a program that does not is sent to TCP, where it can be found."""
    for address in (LINK_LOCAL, OWN_IPV6):
        assert "vault/secret" in run(node, "dig", f"@{address}", "+tries=1", "+short", "CH", "TXT", "secret.example.org")
    with inside(node.name), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unconnected:
        unconnected.settimeout(seconds(5))
        unconnected.sendto(SECRET.to_message().to_wire(), (LINK_LOCAL, 53))
        flags = struct.unpack("!H", unconnected.recv(4096)[2:4])[0]
        assert flags & dns.flags.TC


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_pod_does_not(node, daemon, transport):
    with inside(node.pods["pod"]):
        for server in SERVERS:
            if server[0] != OWN_IPV6 or server[1] == 53:
                assert ask(server, SECRET, transport).rcode == "REFUSED", server
                assert ask(server, PLAIN, transport).addresses() == ["10.66.6.7"], server


def forged(source, destination, port, payload):
    """An IP packet with a datagram from `source`, which is not the sender's."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    ends = socket.inet_pton(family, source) + socket.inet_pton(family, destination)
    length = 8 + len(payload)
    pseudo = ends + struct.pack("!LHH", length, 0, socket.IPPROTO_UDP) if family == socket.AF_INET6 else \
        ends + struct.pack("!BBH", 0, socket.IPPROTO_UDP, length)
    words = pseudo + struct.pack("!HHHH", port, 53, length, 0) + payload + b"\0" * (length % 2)
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    udp = struct.pack("!HHHH", port, 53, length, (~total & 0xffff) or 0xffff) + payload
    if family == socket.AF_INET6:
        return struct.pack("!LHBB", 6 << 28, length, socket.IPPROTO_UDP, 64) + ends + udp
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, socket.IPPROTO_UDP, 0) + ends + udp


def send_forged(node, address, port, payload):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside(node.pods["pod"]), socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        raw.sendto(forged(address, address, port, payload), (address, 0))


def accept_local(node, value):
    # rp_filter would drop it for another reason.
    for name in ("all", "br0"):
        for key, number in (("accept_local", value), ("rp_filter", 0)):
            run(node, "sysctl", "-qw", f"net.ipv4.conf.{name}.{key}={number}")


@pytest.mark.parametrize("address, accepts", [(LINK_LOCAL, 0), (LINK_LOCAL, 1), (OWN_IPV6, 0)])
def test_a_forged_source_is_no_operator(node, daemon, address, accepts):
    """Its reply goes to the node, so that the Pod learns nothing in any case.  The kernel drops the packet with IPv4, and with
    accept_local it does not; with IPv6 it has no such check."""
    accept_local(node, accepts)
    with inside(node.pods["pod"]):
        assert ask((address, 53), PLAIN).addresses()  # from here on the link knows its neighbours
    with inside(node.name), socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as victim:
        victim.bind((address, 0))
        victim.settimeout(seconds(5))
        port = victim.getsockname()[1]
        send_forged(node, address, port, SECRET.to_message().to_wire())
        with inside(node.pods["pod"]):
            assert ask((address, 53), PLAIN).addresses(), "what the Pod sent before has arrived, too"
        later = PLAIN.to_message().to_wire()
        victim.sendto(later, (address, 53))
        arrives = accepts == 1 or ":" in address
        # Two workers may answer in any order.
        replies = []
        while later[:2] not in [reply[:2] for reply in replies] or len(replies) < 1 + arrives:
            replies.append(victim.recv(4096))
    assert all(b"vault" not in reply for reply in replies)
    assert len(replies) == 1 + arrives, "the kernel treats such packets otherwise than the documentation says"


def masquerade(node):
    """As a rule does that gives packets of Pods the address of the machine: here, the address that they ask."""
    rules = "\n".join(f"""
        table {family} test {{
            chain input {{
                type nat hook input priority 100
                iifname "br0" {family} daddr {address} snat to {address}
            }}
        }}""" for family, address in (("ip", LINK_LOCAL), ("ip6", OWN_IPV6)))
    try:
        run(node, "nft", "-f", "-", text=rules)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this kernel has no NAT for packets to itself: {error.stderr}")


@pytest.mark.parametrize("address", [LINK_LOCAL, OWN_IPV6])
def test_a_masqueraded_pod_is_no_operator(node, daemon, address):
    masquerade(node)
    with inside(node.pods["pod"]):
        for transport in ("udp", "tcp"):
            assert ask((address, 53), PLAIN, transport).addresses() == ["10.66.6.7"]
        over_udp = ask((address, 53), SECRET)
        # This says that the daemon sees its own address as the source.
        assert over_udp.has(dns.flags.TC) and not over_udp.texts()
        assert ask((address, 53), SECRET, "tcp").rcode == "REFUSED"
    # With the port of a program of the node that waits for datagrams of anybody, it is not that program.
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside(node.name), socket.socket(family, socket.SOCK_DGRAM) as waiting:
        waiting.bind((address, 0))
        port = waiting.getsockname()[1]
        with inside(node.pods["pod"]), socket.socket(family, socket.SOCK_DGRAM) as pod:
            pod.bind(("", port))
            pod.connect((address, 53))
            pod.settimeout(seconds(5))
            pod.send(SECRET.to_message().to_wire())
            assert b"vault" not in pod.recv(4096)


class Proxy:
    """A program of the node that passes on what Pods send to it, as docker-proxy and `ssh -L` do."""

    def __init__(self, node):
        with inside(node.name):
            self._listening = socket.create_server((NODE_IPV4, 0))
        self.server = self._listening.getsockname()
        self._node = node
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            client, _ = self._listening.accept()
            with client, inside(self._node.name), socket.create_connection((LINK_LOCAL, 53)) as daemon:
                request = client.recv(4096)
                if not request:
                    return
                daemon.sendall(request)
                while data := daemon.recv(65536):
                    client.sendall(data)
                    daemon.shutdown(socket.SHUT_WR)

    def close(self):
        with inside(self._node.name):
            socket.create_connection(self.server).close()
        self._thread.join()
        self._listening.close()


@pytest.mark.parametrize("chaos", ["loopback", "off"])
def test_a_program_that_passes_queries_on_acts_for_its_clients(workspace, node, chaos):
    """It is a program of the machine like any other; docs/security.md says what to do."""
    start(workspace, node, chaos=chaos)
    with contextlib.closing(Proxy(node)) as proxy, inside(node.pods["pod"]):
        answer = ask(proxy.server, SECRET, "tcp")
    assert is_operators(answer) if chaos == "loopback" else answer.rcode == "REFUSED"


def test_nothing_else_of_loopback_counts_for_the_node(workspace, node):
    """Cookies and the limit of rates are as for each client; so are the names that it sees."""
    start(workspace, node, rate_limit={"responses_per_second": 1, "slip": 1})
    with inside(node.name):
        assert ask((LINK_LOCAL, 53), Question("secret.example.org.")).addresses() == []
        eventually(lambda: ask((LINK_LOCAL, 53), PLAIN).has(dns.flags.TC))
