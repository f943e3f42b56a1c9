# SPDX-License-Identifier: Apache-2.0
"""TCP as RFC 7766 wants it: pipelining, any order, whole answers, patience and its limits."""

import socket
import struct
import threading
import time

import dns.message
import pytest

from harness.dns_client import Question, frame, open_tcp, read_frame
from harness.preset import THREADS, at_most
from harness.waiting import eventually, seconds

pytestmark = THREADS

HOSTS = 50


@pytest.fixture
def registry(workspace):
    workspace.write("hosts.yaml", *[
        {"kind": "ServiceEntry", "metadata": {"name": f"h{i}"},
         "spec": {"hosts": [f"h{i}.example.org"], "addresses": [f"10.0.0.{i + 1}"], "resolution": "STATIC"}}
        for i in range(HOSTS)])
    return workspace


def read_all(tcp, count):
    return [dns.message.from_wire(read_frame(tcp)) for _ in range(count)]


def check_answers(queries, answers):
    """Each query got exactly one answer, of its own ID and question, with the right address."""
    by_id = {answer.id: answer for answer in answers}
    assert len(by_id) == len(answers) == len(queries)
    for query, address in queries:
        answer = by_id[query.id]
        assert answer.question == query.question
        assert [rdata.address for rrset in answer.answer for rdata in rrset] == [address]


def numbered_queries(count):
    queries = []
    for i in range(count):
        query = Question(f"h{i % HOSTS}.example.org.").to_message()
        query.id = i + 1
        queries.append((query, f"10.0.0.{i % HOSTS + 1}"))
    return queries


def test_answers_a_thousand_pipelined_queries(registry):
    daemon = registry.daemon()
    queries = numbered_queries(1000)
    with open_tcp(daemon.server, timeout=20) as tcp:
        sender = threading.Thread(
            target=lambda: tcp.sendall(b"".join(frame(query.to_wire()) for query, _ in queries)))
        sender.start()
        answers = read_all(tcp, 1000)
        sender.join()
    check_answers(queries, answers)


@pytest.mark.timing
def test_answers_pipelined_queries_of_registry_and_upstream_mixed(registry):
    """A slow forwarded name holds up nobody: local answers overtake it."""
    upstream = registry.upstream(["*.slow.example.net. 60 A 192.0.2.1"],
                                 [{"match": "*.slow.example.net.", "delay": 0.5}])
    daemon = registry.daemon(upstreams=[upstream])
    queries = numbered_queries(1000)
    for i in range(0, 1000, 20):
        query = Question(f"n{i}.slow.example.net.").to_message()
        query.id = i + 1
        queries[i] = (query, "192.0.2.1")
    with open_tcp(daemon.server, timeout=20) as tcp:
        sender = threading.Thread(
            target=lambda: tcp.sendall(b"".join(frame(query.to_wire()) for query, _ in queries)))
        started = time.monotonic()
        sender.start()
        answers = [dns.message.from_wire(read_frame(tcp))]
        first_after = time.monotonic() - started
        answers += read_all(tcp, 999)
        sender.join()
    check_answers(queries, answers)
    assert first_after < at_most(0.4), "the first answer waited for the upstream"
    assert [a.id for a in answers] != sorted(a.id for a in answers)


def test_reads_a_query_that_comes_octet_by_octet(registry):
    daemon = registry.daemon()
    (query, address), = numbered_queries(1)
    with open_tcp(daemon.server) as tcp:
        for octet in frame(query.to_wire()):
            tcp.sendall(bytes([octet]))
        check_answers([(query, address)], read_all(tcp, 1))


def test_answers_after_the_client_has_finished_sending(registry):
    """A half-closed connection: what was asked is answered, then the server closes, too."""
    daemon = registry.daemon()
    queries = numbered_queries(10)
    with open_tcp(daemon.server) as tcp:
        tcp.sendall(b"".join(frame(query.to_wire()) for query, _ in queries))
        tcp.shutdown(socket.SHUT_WR)
        check_answers(queries, read_all(tcp, 10))
        assert read_frame(tcp) is None


def test_survives_connections_that_break_off(registry):
    daemon = registry.daemon()
    queries = numbered_queries(100)
    wire = b"".join(frame(query.to_wire()) for query, _ in queries)
    for cut in (0, 1, 2, 3, 13, len(wire) // 2, len(wire)):
        with open_tcp(daemon.server) as tcp:
            tcp.sendall(wire[:cut])
            # RST instead of FIN, with answers on their way.
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert daemon.ask("h0.example.org.", transport="tcp").addresses() == ["10.0.0.1"]


def test_closes_idle_connections_and_keeps_busy_ones(registry):
    idle_timeout = seconds(0.5)  # a client of a busy machine is slow, too
    daemon = registry.daemon({"server": {"tcp": {"idle_timeout": f"{1000 * idle_timeout:.0f}ms"}}})
    (query, address), = numbered_queries(1)
    with open_tcp(daemon.server) as idle, open_tcp(daemon.server) as busy:
        deadline = time.monotonic() + 3 * idle_timeout
        while time.monotonic() < deadline:
            busy.sendall(frame(query.to_wire()))
            check_answers([(query, address)], read_all(busy, 1))
            time.sleep(0.05)
        idle.settimeout(seconds(2))
        assert read_frame(idle) is None, "the idle connection is still open"


def test_many_idle_connections_do_not_stop_others(registry):
    """Beside idle and dripping connections UDP and new TCP clients are served."""
    daemon = registry.daemon({"server": {"tcp": {"max_connections": 64, "max_connections_per_client": 64}}})
    held = [open_tcp(daemon.server, source=f"127.0.1.{i % 200 + 1}") for i in range(100)]
    try:
        for tcp in held[:20]:
            try:
                tcp.sendall(b"\x00")
            except OSError:
                pass  # one of those that the server has closed
        assert daemon.ask("h1.example.org.").addresses() == ["10.0.0.2"]
        eventually(lambda: daemon.ask("h1.example.org.", transport="tcp", timeout=1).addresses() == ["10.0.0.2"], 5)
    finally:
        for tcp in held:
            tcp.close()


@pytest.fixture
def large_headless(workspace):
    """A headless Service of 300 endpoints, in slices of 100 as Kubernetes makes them."""
    workspace.write(
        "headless.yaml",
        {"kind": "Service", "metadata": {"name": "big", "namespace": "shop"},
         "spec": {"clusterIP": "None", "ports": [{"port": 80, "name": "http"}]}},
        *[{"kind": "EndpointSlice",
           "metadata": {"name": f"big-{s}", "namespace": "shop", "labels": {"kubernetes.io/service-name": "big"}},
           "addressType": "IPv4", "ports": [{"port": 80, "name": "http"}],
           "endpoints": [{"addresses": [f"10.8.{s}.{i + 1}"]} for i in range(100)]} for s in range(3)])
    return workspace


def test_cuts_a_large_answer_over_udp_and_gives_it_whole_over_tcp(large_headless):
    daemon = large_headless.daemon()
    name = "big.shop.svc.cluster.local."
    every = {f"10.8.{s}.{i + 1}" for s in range(3) for i in range(100)}
    seen = set()
    for edns, bufsize, limit in ((False, 0, 512), (True, 512, 512), (True, 1232, 1232), (True, 4096, 1232)):
        answer = daemon.ask(name, edns=edns, bufsize=bufsize)
        assert answer.has(0x0200), "TC is due"
        assert len(answer.wire) <= limit
        # As many whole records as fit: another one of 16 octets would not have.
        assert len(answer.wire) + 16 > limit, f"{len(answer.wire)} of {limit} octets"
        assert len(set(answer.addresses())) == len(answer.addresses()) > 0
        assert set(answer.addresses()) <= every
        seen |= set(answer.addresses())
    for _ in range(1200):  # each worker rotates by itself, from 300 places
        seen |= set(daemon.ask(name, edns=False).addresses())
    assert seen == every, "what is cut off rotates"
    whole = daemon.ask(name, transport="tcp")
    assert not whole.has(0x0200)
    assert sorted(whole.addresses()) == sorted(every)
