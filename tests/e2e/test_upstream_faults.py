# SPDX-License-Identifier: Apache-2.0
"""Upstreams that are dead, slow, lossy or wrong: the designed outcome, and no client waits for long."""

import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.dns_client import Question, ask, open_udp
from harness.ports import free_port
from harness.preset import THREADS, at_most
from harness.waiting import eventually

pytestmark = THREADS

TIMEOUT = 2.0  # upstream.timeout, at its default
ANY_NAME = ["*.example.test. 300 A 192.0.2.1"]


def outcome(daemon, name, transport="udp", limit=TIMEOUT + 1.0):
    """The rcode and addresses; fails when the answer takes longer than the timeout plus one retry."""
    answer = daemon.ask(f"{name}.example.test.", "A", transport, timeout=limit)
    return answer.rcode, answer.addresses()


GOOD = ("NOERROR", ["192.0.2.1"])


@pytest.mark.timing
def test_one_dead_of_two_costs_no_answer(workspace):
    dead = workspace.upstream(rules=[{"drop": True}])
    alive = workspace.upstream(ANY_NAME)
    daemon = workspace.daemon({"upstream": {"policy": "sequential"}}, upstreams=[dead, alive])
    elapsed = []
    for i in range(200):
        started = time.monotonic()
        assert outcome(daemon, f"n{i}") == GOOD
        elapsed.append(time.monotonic() - started)
    assert max(elapsed[:20]) < at_most(0.9)
    # An upstream that is down is not asked first any more.
    assert sorted(elapsed[50:])[-5] < at_most(0.15)


@pytest.mark.timing
def test_all_dead_is_servfail_in_time(workspace):
    dead = [workspace.upstream(rules=[{"drop": True}]) for _ in range(2)]
    daemon = workspace.daemon(upstreams=dead)

    def fails_in_time(transport):
        for i in range(3):
            answer = daemon.ask(f"{transport}{i}.example.test.", "A", transport, timeout=6)
            assert answer.rcode == "SERVFAIL"
            assert answer.elapsed < at_most(TIMEOUT + 0.5)
            assert set(answer.extended_errors()) & {22, 23}

    with ThreadPoolExecutor() as clients:
        list(clients.map(fails_in_time, ("udp", "tcp")))


@pytest.mark.timing
def test_refused_ports_fail_at_once(workspace):
    """ICMP reports the closed port, so no query waits for a time-out."""
    daemon = workspace.daemon(upstreams=[f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"])
    for i in range(5):
        answer = daemon.ask(f"n{i}.example.test.")
        assert answer.rcode == "SERVFAIL"
        assert answer.elapsed < at_most(0.5)


def test_an_upstream_that_returns_is_used_again(workspace):
    port = free_port()
    daemon = workspace.daemon(upstreams=[f"127.0.0.1:{port}"])
    for i in range(20):
        assert outcome(daemon, f"early{i}") == ("SERVFAIL", [])
    workspace.upstream(ANY_NAME, port=port)
    counter = iter(range(10000))
    eventually(lambda: outcome(daemon, f"late{next(counter)}") == GOOD, 3.0, 0.05)
    for i in range(20):
        assert outcome(daemon, f"then{i}") == GOOD


def test_a_slow_upstream_is_waited_for(workspace):
    slow = workspace.upstream(ANY_NAME, [{"delay": 0.9}])
    daemon = workspace.daemon(upstreams=[slow])
    for i in range(3):
        assert outcome(daemon, f"n{i}") == GOOD
        # No storm of retries.
        assert len(slow.received(f"n{i}.example.test.")) <= 4


def test_loss_is_made_up_for_inside(workspace):
    """Of 100 names, 95 at least at the client's first try, with 30 % lost."""
    lossy = workspace.upstream(ANY_NAME, [{"drop": True, "share": 0.3, "transport": "udp"}])
    daemon = workspace.daemon(upstreams=[lossy])
    good = sum(outcome(daemon, f"n{i}") == GOOD for i in range(100))
    assert good >= 95


def test_a_low_soft_limit_of_descriptors_is_raised(workspace):
    """Each question that waits holds a socket: many silent names must not leave honest ones without."""
    soft, hard = 256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= hard < 8192:
        pytest.skip(f"the hard limit is {hard}")
    upstream = workspace.upstream(ANY_NAME, [{"match": "*.silent.example.test.", "drop": True}])
    daemon = workspace.daemon(upstreams=[upstream],
                              prefix=["bash", "-c", f"ulimit -Sn {soft} && exec \"$@\"", "bash"])
    with open_udp(daemon.server) as udp:
        for i in range(2 * soft):
            udp.send(Question(f"n{i}.silent.example.test.").to_message().to_wire())
        eventually(lambda: len(upstream.received()) >= soft, 10.0, 0.05)
        assert outcome(daemon, "honest") == GOOD


@pytest.mark.timing
def test_a_bad_name_does_not_mark_an_upstream_down(workspace):
    """One bad name never marks an upstream down."""
    upstream = workspace.upstream(ANY_NAME, [
        {"match": "servfail.example.test.", "rcode": "SERVFAIL"},
        {"match": "refused.example.test.", "rcode": "REFUSED"},
        {"match": "silent.example.test.", "drop": True},
        {"match": "cut.example.test.", "forge": "cut"},
        {"match": "reset.example.test.", "transport": "udp", "truncate": True},
        {"match": "reset.example.test.", "transport": "tcp", "drop": True}])
    daemon = workspace.daemon({"upstream": {"timeout": "800ms"}}, upstreams=[upstream])
    for i, bad in enumerate(["servfail", "refused", "cut", "reset", "silent"] * 2):
        assert daemon.ask(f"{bad}.example.test.", timeout=4).rcode in ("SERVFAIL", "REFUSED"), bad
        answer = daemon.ask(f"good{i}.example.test.")
        assert answer.addresses() == ["192.0.2.1"], f"after {bad}: {answer}"
        assert answer.elapsed < at_most(0.3), f"after {bad}"


@pytest.mark.timing
def test_truncation_with_tcp_refused_is_said(workspace):
    """SERVFAIL or TC to the client, and UDP to that upstream goes on."""
    upstream = workspace.upstream(ANY_NAME, [{"match": "big.example.test.", "truncate": True}], tcp=False)
    daemon = workspace.daemon(upstreams=[upstream])
    answer = daemon.ask("big.example.test.", timeout=5)
    assert answer.rcode == "SERVFAIL" or answer.has(0x0200)
    assert answer.elapsed < at_most(TIMEOUT + 0.5)
    assert outcome(daemon, "good") == GOOD


@pytest.mark.parametrize("count", [1, 28, 29, 30, 70, 80, 500, 1000])
def test_answers_of_any_size_arrive(workspace, count):
    """Over UDP the complete set, or TC with as many whole records as fit; over TCP the whole set, up to its limit."""
    records = [f"many.example.test. 300 A 10.{i // 62500}.{i // 250 % 250}.{i % 250}" for i in range(1, count + 1)]
    daemon = workspace.daemon(upstreams=[workspace.upstream(records)])
    expected = {record.split()[3] for record in records}
    whole = daemon.ask("many.example.test.", "A", "tcp")
    assert set(whole.addresses()) == expected and len(whole.addresses()) == count
    for edns, bufsize in ((False, 0), (True, 512), (True, 1232), (True, 4096)):
        answer = daemon.ask("many.example.test.", "A", "udp", edns=edns, bufsize=bufsize)
        limit = min(max(bufsize, 512), 1232)
        assert len(answer.wire) <= limit
        assert set(answer.addresses()) <= expected
        if answer.has(0x0200):
            assert len(answer.wire) + 16 > limit
        else:
            assert set(answer.addresses()) == expected


def test_sixty_kilobytes_of_one_record_arrive_over_tcp(workspace):
    text = " ".join(f'"{"x" * 250}"' for _ in range(230))
    daemon = workspace.daemon(upstreams=[workspace.upstream([f"big.example.test. 300 TXT {text}"])])
    answer = daemon.ask("big.example.test.", "TXT", "tcp")
    assert len(answer.texts()[0]) == 230 * 250
    cut = daemon.ask("big.example.test.", "TXT")
    assert cut.has(0x0200) and cut.section("answer") == []


def test_a_forged_flood_is_never_believed(workspace):
    """Thousands of guesses at the right port with wrong IDs, then the truth."""
    upstream = workspace.upstream(ANY_NAME, [{"delay": 0.15}])
    daemon = workspace.daemon(upstreams=[upstream])

    def flood(i):
        """Waits for the query, then guesses; the fake answers truly 150 ms later."""
        eventually(lambda: upstream.received(f"n{i}.example.test."), 2, 0.001)
        query = upstream.received(f"n{i}.example.test.")[0]
        lie = bytearray(query.wire)
        lie[2:4] = b"\x81\x80"
        lie[6:8] = b"\x00\x01"
        lie[10:12] = b"\x00\x00"
        end = 12
        while lie[end]:
            end += lie[end] + 1
        question_end = end + 5
        lie = lie[:question_end] + b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xcb\x00\x71\x42"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            attacker.bind(("127.0.0.1", 0))
            for guess in range(2000):
                lie[0:2] = ((query.id + 1 + guess) & 0xFFFF).to_bytes(2, "big")
                attacker.sendto(bytes(lie), ("127.0.0.1", query.source_port))
            # The right ID, from the wrong port.
            lie[0:2] = query.id.to_bytes(2, "big")
            attacker.sendto(bytes(lie), ("127.0.0.1", query.source_port))

    for i in range(3):
        thread = threading.Thread(target=flood, args=(i,))
        thread.start()
        answer = ask(daemon.server, Question(f"n{i}.example.test."))
        thread.join()
        assert answer.addresses() == ["192.0.2.1"]


@pytest.mark.timing
def test_a_loop_back_to_ourselves_ends(workspace):
    """An upstream that sends our own queries back to us; nothing spins, and other names go on."""
    port = free_port()
    upstream = workspace.upstream(ANY_NAME)
    daemon = workspace.daemon({"server": {"listen": [f"127.0.0.1:{port}"]},
                               "upstream": {"servers": [f"127.0.0.1:{port}", upstream.server],
                                            "policy": "sequential", "timeout": "1s"}})
    answer = daemon.ask("n0.example.test.", timeout=5)
    assert answer.addresses() == ["192.0.2.1"] or answer.rcode == "SERVFAIL"
    assert answer.elapsed < at_most(2.0)
    eventually(lambda: daemon.ask("n1.example.test.", timeout=5).addresses() == ["192.0.2.1"], 6)


@pytest.mark.timing
@pytest.mark.parametrize("kind", ["silent", "closed"])
def test_a_missing_service_is_missing_while_all_are_dead(workspace, kind):
    """With `all`, the rest of the name is asked upstream, too; that this fails does not make the Service exist."""
    workspace.write("web.yaml", {"kind": "Namespace", "metadata": {"name": "web"}})
    dead = workspace.upstream(rules=[{"drop": True}]) if kind == "silent" else f"127.0.0.1:{free_port()}"
    daemon = workspace.daemon({"mesh": {"authoritative": True, "search_shortcut": "all"},
                               "client": {"default": {"namespace": "web", "search": ["web.svc.cluster.local", "corp.example"]}}},
                              upstreams=[dead])
    for name in ("db.eu", "www.example.net"):
        answer = daemon.ask(f"{name}.web.svc.cluster.local.", "A", timeout=6)
        assert answer.rcode == "NXDOMAIN" and answer.elapsed < at_most(TIMEOUT + 0.5)
        assert set(answer.extended_errors()) & {22, 23}, "it says that the search list was left"
    assert daemon.ask("www.example.net.", "A", timeout=6).rcode == "SERVFAIL"
