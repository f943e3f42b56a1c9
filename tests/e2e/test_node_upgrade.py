# SPDX-License-Identifier: Apache-2.0
"""Upgrades of the DaemonSet as it is shipped: Pods of a node replace each other while other Pods ask without pause.

MESHDNS_TEST_UPGRADE_LOAD="UDP TCP SECONDS": so many queries per second over each, and at least so long in each state."""

import math
import os
import pathlib
import shutil
import socket
import time

import pytest

from harness.daemon import ROOT, binary
from harness.dns_client import Question, ask, frame, open_tcp, read_frame
from harness.dnsperf import Dnsperf, rate_to_keep, write_queries
from harness.helm_chart import render_hooks
from harness.kube_api import service
from harness.load import Load
from harness.namespaces import LINK_LOCAL, available, inside
from harness.node_pods import ADDRESS, NAME, TAKEN_OVER, NodeWithPods
from harness.preset import IS_DEEP, IS_RELEASE, ONCE, ONE_THREAD
from harness.waiting import eventually, seconds

# Without CAP_NET_ADMIN, a socket has this room for queries that wait for the next daemon.
HAS_ROOM = int(pathlib.Path("/proc/sys/net/core/rmem_max").read_text()) >= 1 << 20
# Queries per second of dnsperf in one Pod over UDP.  A machine that has no time for so many fills the sockets.
LEAST_UDP_RATE, MOST_UDP_RATE = 500, (20000 if IS_DEEP else 5000) if IS_RELEASE and HAS_ROOM else 500
# dnsperf in the other Pod sends one query over TCP for so many over UDP.
UDP_FOR_EACH_TCP, LEAST_TCP_RATE = 20, 100
CAREFUL_TCP_RATE, STATE_TIME = 400, 0
if "MESHDNS_TEST_UPGRADE_LOAD" in os.environ:
    MOST_UDP_RATE, CAREFUL_TCP_RATE, STATE_TIME = map(int, os.environ["MESHDNS_TEST_UPGRADE_LOAD"].split())
    LEAST_UDP_RATE = MOST_UDP_RATE
# The careful clients send so many queries at once, each of them 200 times a second.
BATCH = max(1, round(CAREFUL_TCP_RATE / 400))
ANSWERING_AGAIN = "the next daemon has ended; answering again"
REMOVED = "the daemon that this one has replaced has ended"

pytestmark = [ONE_THREAD, pytest.mark.root,
              pytest.mark.skipif(not available() or not shutil.which("nft"),
                                 reason="needs root, bridged network namespaces and nft")]


SERVER = (LINK_LOCAL, 53)
CHART = ROOT / "conf" / "kubernetes" / "chart"


def queries_of_a_batch():
    query = Question(NAME).to_message().to_wire()
    return b"".join(frame(number.to_bytes(2, "big") + query[2:]) for number in range(BATCH))


def ask_over_tcp(_, state, pod, keeps):
    """A step of a client that, with `keeps`, has one connection.  A server may close it; then the client asks over another
    one (RFC 7766, section 6.2.4)."""
    if "queries" not in state:
        state["queries"], state["namespace"] = queries_of_a_batch(), inside(pod)
        state["namespace"].__enter__()  # the process of this load stays there
    queries, kept = state["queries"], state.pop("kept", None)
    replies = over(kept, queries) if kept else None
    for _ in range(2):
        if not replies:
            kept = open_tcp(SERVER)
            replies = over(kept, queries)
    if not replies or not all(socket.inet_aton(ADDRESS) in reply for reply in replies):
        return f"no answer: {replies}"
    if keeps:
        state["kept"] = kept
    else:
        kept.close()
    return None


def over(connection, queries):
    """The replies; None if the connection has ended."""
    try:
        connection.sendall(queries)
        replies = [read_frame(connection) for _ in range(BATCH)]
    except ConnectionError:
        replies = [None]
    if None not in replies:
        assert len({reply[:2] for reply in replies}) == BATCH
        return replies
    connection.close()
    return None


class Clients:
    """dnsperf in both Pods, and two clients that ask again if their connection ends."""

    def __init__(self, node, directory):
        queries = directory / "queries"
        write_queries(queries, [NAME])
        one, two = ["ip", "netns", "exec", node.pods["one"]], ["ip", "netns", "exec", node.pods["two"]]
        rate = rate_to_keep(SERVER, queries, LEAST_UDP_RATE, MOST_UDP_RATE, one)
        tcp_rate = max(LEAST_TCP_RATE, rate // UDP_FOR_EACH_TCP)
        # Each connection has a query every half second: a daemon that ends closes those that are idle for 250 ms.
        self.tcp_connections = tcp_rate // 2
        # A query without an answer for so long is lost; dnsperf reads whole seconds.
        self.patience = math.ceil(seconds(3))
        common = ["-l", 300, "-t", self.patience, "-q", 60000]
        self._dnsperf = {
            "udp": Dnsperf(SERVER, queries, rate, *common, "-c", 32, prefix=one),
            "tcp": Dnsperf(SERVER, queries, tcp_rate, *common, "-m", "tcp", "-c", self.tcp_connections, prefix=two)}
        self._careful = [Load(ask_over_tcp, 200, node.pods["one"], True), Load(ask_over_tcp, 200, node.pods["two"], False)]

    def stop(self):
        """({transport: {"completed": ..., "lost": ...}}, the problems of the other clients); all answers were right."""
        problems = [problem for load in self._careful if (problem := load.stop())]
        counts = {transport: self._stop(load) for transport, load in self._dnsperf.items()}
        print(counts, [load.steps * BATCH for load in self._careful], problems)
        return counts, problems

    @staticmethod
    def _stop(load):
        counts = load.stop()
        assert 0 < counts["completed"] == counts["noerror"], load.output
        return counts

    def close(self):
        for load in self._careful:
            load.stop()
        for load in self._dnsperf.values():
            load.close()


@pytest.fixture
def node(workspace):
    return NodeWithPods(workspace)


def answers(node, count=20):
    """Asks from a Pod; the load goes on meanwhile."""
    until = time.monotonic() + STATE_TIME
    with inside(node.node.pods["one"]):
        while count > 0 or time.monotonic() < until:
            count -= 1
            assert ask(SERVER, Question(NAME), ("udp", "tcp")[count % 2]).addresses() == [ADDRESS]


def full_sockets(node):
    """Datagrams that the kernel of the node dropped because a socket of a daemon was full."""
    with inside(node.node.name):
        names, values = (line.split() for line in pathlib.Path("/proc/thread-self/net/snmp").read_text().splitlines()
                         if line.startswith("Udp:"))
    return int(dict(zip(names, values))["RcvbufErrors"])


def answers_after_all_is_said(node, clients):
    """Until dnsperf knows what it has lost."""
    until = time.monotonic() + clients.patience + 1
    while time.monotonic() < until:
        answers(node)


def start(node, **change):
    pod = node.start(**change)
    pod.daemon.wait_for_line(r"\bready:", 20)
    answers(node)
    return pod


def replace(node, old, **change):
    """A step of a roll-out: the old Pod ends when the new one has taken over.  Until then its probes say that it is alive, and
    no longer ready."""
    new = start(node, **change)
    old.daemon.wait_for_line(TAKEN_OVER, 20)
    eventually(lambda: new.probe("readiness") and not old.probe("readiness"), 10)
    assert old.probe("liveness") and new.probe("liveness")
    old.end()
    new.daemon.wait_for_line(REMOVED, 20)
    answers(node)
    return new


def test_the_pod_of_helm_test_gets_an_answer_from_the_daemon_alone(node, tmp_path):
    (made,) = render_hooks(CHART)
    node.api.put(service("kubernetes", "default", "10.96.0.1"))
    resolv_conf = tmp_path / "resolv.conf"
    servers = "".join(f"nameserver {address}\n" for address in made["spec"]["dnsConfig"]["nameservers"])
    resolv_conf.write_text(f"{servers}options timeout:1 attempts:2\n")
    (container,) = made["spec"]["containers"]

    def asked():
        return node.node.run("one", *container["command"], resolv_conf=resolv_conf, timeout=seconds(60))
    pod = start(node)
    assert asked().returncode == 0 and "10.96.0.1" in asked().stdout
    pod.end()
    assert asked().returncode != 0


def copy_of_the_program(directory):
    """Another image."""
    copy = directory / "meshdnsd"
    shutil.copy2(binary(), copy)
    for folder in [directory, *directory.parents]:  # the Pod's user gets there
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    return copy


@pytest.mark.slow("load in each state of several upgrades")
def test_planned_changes_lose_no_query(workspace, node, tmp_path):
    first = start(node)
    clients = workspace.own(Clients(node.node, tmp_path))
    second = replace(node, first, workers=1)  # a changed ConfigMap
    third = replace(node, second, program=copy_of_the_program(tmp_path))
    # A roll-back: the new Pod ends first.
    withdrawn = start(node)
    third.daemon.wait_for_line(TAKEN_OVER, 20)
    withdrawn.end()
    third.daemon.wait_for_line(ANSWERING_AGAIN, 20)
    eventually(lambda: third.probe("readiness"), 10)
    answers(node)
    # The controller ends the old Pod before the new one has taken over.
    fourth = node.start()
    fourth.daemon.wait_for_line("another daemon runs; it answers until this one has read all sources", 20)
    third.end()
    fourth.daemon.wait_for_line(r"\bready:", 20)
    answers_after_all_is_said(node, clients)
    counts, problems = clients.stop()
    # On a busy machine the load can fill the sockets of a daemon that has no processor time.
    full = full_sockets(node)
    assert counts["udp"]["lost"] <= full <= counts["udp"]["completed"] / 100, (counts, full)
    assert problems == []
    # dnsperf does not ask again for what it sends while one of the connections ends.
    assert counts["tcp"]["lost"] <= 5 * clients.tcp_connections, counts
    fourth.end()


@pytest.mark.slow("load in each state of several upgrades")
@ONCE
def test_a_killed_daemon_loses_no_more_than_it_had_read(workspace, node, tmp_path):
    """The other one of the node answers on: the old one if the new one is killed, and the new one if the old one is."""
    first = start(node)
    clients = workspace.own(Clients(node.node, tmp_path))
    second = start(node)
    first.daemon.wait_for_line(TAKEN_OVER, 20)
    second.kill()
    first.daemon.wait_for_line(ANSWERING_AGAIN, 20)
    answers(node)
    position = len(first.daemon.log_lines())
    third = start(node)
    first.daemon.wait_for_line(TAKEN_OVER, 20, position)
    first.kill()
    third.daemon.wait_for_line(REMOVED, 20)
    answers_after_all_is_said(node, clients)
    counts, problems = clients.stop()
    # 64 queries for each of two workers.
    full = full_sockets(node)
    assert counts["udp"]["lost"] <= 2 * 64 + full and problems == [], (counts, problems, full)
    third.end()
