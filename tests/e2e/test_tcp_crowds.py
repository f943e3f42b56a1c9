# SPDX-License-Identifier: Apache-2.0
"""Many TCP connections that rest: they make room for those that ask, the oldest of the largest client first."""

import collections
import itertools
import pathlib
import socket

import pytest

from harness.dns_client import Question, ask, frame, open_tcp, read_frame
from harness.memory import MEBIBYTE, resident
from harness.preset import THREADS, at_most
from harness.waiting import eventually, seconds

pytestmark = THREADS

API = {"kind": "ServiceEntry", "metadata": {"name": "api"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


@pytest.fixture
def crowd():
    """Connections that the test holds open; the oldest of them close when there are too many for this process."""
    held = collections.deque()
    yield held
    for tcp in held:
        tcp.close()


def rest(crowd, server, source, limit=3000):
    """A connection from `source` that asks nothing."""
    tcp = socket.socket()
    tcp.settimeout(seconds(5))
    try:
        tcp.bind((source, 0))
        tcp.connect(server)
    except OSError:
        tcp.close()  # refused by the kernel: its queue is full
        return
    crowd.append(tcp)
    if len(crowd) > limit:
        crowd.popleft().close()


def is_served(server, source=""):
    answer = ask(server, Question("api.example.org.", source=source), "tcp")
    return answer.addresses() == ["10.0.0.7"]


def ask_again(tcp):
    tcp.sendall(frame(Question("api.example.org.").to_message().to_wire()))
    return read_frame(tcp) is not None


def test_a_new_connection_is_served_beside_a_thousand_idle_ones_of_its_address(workspace, crowd):
    workspace.write("api.yaml", API)
    daemon = workspace.daemon(upstreams=["127.0.0.1:9"])
    with open_tcp(daemon.server, "127.0.0.2") as other:
        assert ask_again(other)
        for _ in range(1000):
            rest(crowd, daemon.server, "127.0.0.1")
        for _ in range(50):
            assert is_served(daemon.server, "127.0.0.1")
        assert ask_again(other)  # another address has lost nothing


def test_a_connection_that_waits_for_an_answer_is_kept(workspace, crowd):
    workspace.write("api.yaml", API)
    upstream = workspace.upstream(["slow.example.net. A 192.0.2.9"], [{"delay": 2}])
    daemon = workspace.daemon({"upstream": {"timeout": "20s"}}, upstreams=[upstream])
    with open_tcp(daemon.server, "127.0.0.1", timeout=20) as waiting:
        waiting.sendall(frame(Question("slow.example.net.").to_message().to_wire()))
        eventually(lambda: upstream.received("slow.example.net."))
        for _ in range(400):
            rest(crowd, daemon.server, "127.0.0.1")
        assert is_served(daemon.server, "127.0.0.1")
        assert read_frame(waiting) is not None


@pytest.mark.parametrize("workers", [1, 2])
def test_twenty_thousand_connections_of_many_addresses_keep_nobody_out(workspace, crowd, workers):
    """As many as 127.9.0.0/16 has, and as many again of one address: the server stays within its budget."""
    workspace.write("api.yaml", API)
    daemon = workspace.daemon({"server": {"workers": workers, "tcp": {"max_connections": 500}}},
                              upstreams=["127.0.0.1:9"])
    before = resident(daemon.pid)
    sources = itertools.chain((f"127.9.{i // 250}.{i % 250 + 1}" for i in range(10000)), ["127.8.0.1"] * 10000)
    for i, source in enumerate(sources):
        rest(crowd, daemon.server, source)
        if i % 500 == 499:
            assert is_served(daemon.server, "127.0.0.3"), f"after {i + 1} connections"
    sockets = [fd for fd in (pathlib.Path("/proc") / str(daemon.pid) / "fd").iterdir()]
    assert len(sockets) < 500 + 200
    assert resident(daemon.pid) - before < at_most(16 * MEBIBYTE)


def test_the_client_with_most_connections_makes_room(workspace, crowd):
    """Clients with one connection each keep theirs while another one opens fifty times as many."""
    workspace.write("api.yaml", API)
    daemon = workspace.daemon({"server": {"tcp": {"max_connections": 100, "max_connections_per_client": 1000}}},
                              upstreams=["127.0.0.1:9"])
    modest = [open_tcp(daemon.server, f"127.0.2.{i + 1}") for i in range(20)]
    for _ in range(50):
        for _ in range(20):
            rest(crowd, daemon.server, "127.0.0.1")
        # In time: a server that is nearly full closes what has rested for a second.
        assert all(ask_again(tcp) for tcp in modest)
    assert is_served(daemon.server, "127.0.0.3")
    for tcp in modest:
        tcp.close()
