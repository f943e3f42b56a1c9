# SPDX-License-Identifier: Apache-2.0
"""Queries and connections that are refused or lost for lack of room are counted and logged, at most every 10 s."""

import contextlib
import re
import signal
import time

import pytest

from harness.dns_client import Question, frame, open_tcp, open_udp, read_frame
from harness.ports import free_port
from harness.preset import THREADS
from harness.supervisor import NotifySocket
from harness.waiting import eventually

pytestmark = THREADS

API = {"kind": "ServiceEntry", "metadata": {"name": "api"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}
PAUSE = 10.0  # seconds between two warnings of a kind
WIRE = Question("api.example.org.").to_message().to_wire()


@pytest.fixture
def start(workspace):
    notify = workspace.own(NotifySocket(workspace.path / "notify"))
    workspace.write("api.yaml", API)
    silent = workspace.upstream(rules=[{"drop": True}])

    def start(change):
        daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, **change}, upstreams=[silent],
                                  env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "1000000"})
        daemon.notify = notify
        return daemon
    start.upstream = silent
    return start


def metric(daemon, name):
    return int(re.search(rf"^meshdns_{re.escape(name)} (\d+)$", daemon.get("/metrics")[1], re.M).group(1))


def warnings(daemon, message):
    lines = [line for line in daemon.process.log_lines() if message in line]
    assert all(" WARN " in line for line in lines)
    return [int(re.search(r"\bcount=(\d+)", line).group(1)) for line in lines]


def wait_for_the_watch(daemon):
    """The overload watch runs each second, the watchdog is fed three times a second at most: the seventh feed comes after a whole run."""
    since = time.monotonic()
    eventually(lambda: len(daemon.notify.messages("WATCHDOG", since)) >= 7, 10)


def is_said(daemon, message, metric_name, provoke):
    """The first of it at once, whatever follows not before PAUSE is over."""
    started = time.monotonic()
    provoke()
    eventually(lambda: warnings(daemon, message))
    for _ in range(3):
        before = metric(daemon, metric_name)
        provoke()
        eventually(lambda: metric(daemon, metric_name) > before)
        wait_for_the_watch(daemon)  # it had the chance to say more
    elapsed = time.monotonic() - started
    said = warnings(daemon, message)
    assert len(said) <= 1 + elapsed // PAUSE
    assert 0 < sum(said) <= metric(daemon, metric_name)
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]


def connect(stack, daemon, count):
    for i in range(count):
        with contextlib.suppress(OSError):
            tcp = stack.enter_context(open_tcp(daemon.server))
            tcp.sendall(frame(WIRE))
            read_frame(tcp)


def test_connections_over_a_clients_share(start):
    """Connections that wait for an answer make no room for new ones."""
    daemon = start({"server": {"tcp": {"max_connections_per_client": 2}}, "upstream": {"timeout": "30s"}})
    with contextlib.ExitStack() as stack:
        for name in ("n0.example.test.", "n1.example.test."):
            tcp = stack.enter_context(open_tcp(daemon.server))
            tcp.sendall(frame(Question(name).to_message().to_wire()))
            eventually(lambda name=name: start.upstream.received(name))
        is_said(daemon, "server.tcp.max_connections_per_client", 'tcp_closed_total{reason="rejected_client"}',
                lambda: connect(stack, daemon, 6))


def test_idle_connections_that_make_room(start):
    daemon = start({"server": {"workers": 1, "tcp": {"max_connections": 2}}})
    with contextlib.ExitStack() as stack:
        is_said(daemon, "closed idle TCP connections", 'tcp_closed_total{reason="evicted"}',
                lambda: connect(stack, daemon, 8))


def test_questions_over_the_limit_of_those_under_way(start):
    daemon = start({"upstream": {"max_in_flight": 4}})
    with open_udp(daemon.server) as udp:
        def provoke():
            for i in range(50):
                udp.send(Question(f"n{i}.example.test.").to_message().to_wire())
        is_said(daemon, "upstream.max_in_flight", "forward_rejected_total", provoke)


def test_queries_that_the_kernel_drops(start):
    daemon = start({"server": {"workers": 1}})
    with open_udp(daemon.server) as udp:
        def provoke():
            # More than fits into a buffer of 4 MiB, each small datagram counting for 768 octets.
            daemon.process.send_signal(signal.SIGSTOP)
            for _ in range(20_000):
                udp.send(WIRE)
            daemon.process.send_signal(signal.SIGCONT)
        is_said(daemon, "the kernel's receive buffer was full", "udp_socket_overflow_total", provoke)
