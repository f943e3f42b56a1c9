# SPDX-License-Identifier: Apache-2.0
"""Upgrades of the DaemonSet as it is shipped: Pods of a node replace each other while other Pods ask without pause.

MESHDNS_TEST_UPGRADE_LOAD="UDP TCP SECONDS": so many queries per second over each, and at least so long in each state."""

import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness.daemon import binary
from harness.dns_client import Question, ask, frame, open_tcp, read_frame
from harness.load import Load
from harness.namespaces import LINK_LOCAL, available, inside
from harness.node_pods import ADDRESS, NAME, TAKEN_OVER, NodeWithPods
from harness.preset import IS_RELEASE, ONCE
from harness.real_servers import find_program
from harness.waiting import eventually, seconds

# Without CAP_NET_ADMIN, a socket has this room for queries that wait for the next daemon.
HAS_ROOM = int(pathlib.Path("/proc/sys/net/core/rmem_max").read_text()) >= 1 << 20
IS_IDLE = os.getloadavg()[0] < (os.cpu_count() or 1)
# Queries per second of dnsperf in one Pod over UDP, and in the other one over TCP.  A machine that has no time for so many
# fills the sockets.
UDP_RATE, TCP_RATE = (20000, 1000) if IS_RELEASE and HAS_ROOM and IS_IDLE else (500, 100)
CAREFUL_TCP_RATE, STATE_TIME = 400, 0
if "MESHDNS_TEST_UPGRADE_LOAD" in os.environ:
    UDP_RATE, CAREFUL_TCP_RATE, STATE_TIME = map(int, os.environ["MESHDNS_TEST_UPGRADE_LOAD"].split())
# The careful clients send so many queries at once, each of them 200 times a second.
BATCH = max(1, round(CAREFUL_TCP_RATE / 400))
# Each connection has a query every half second: a daemon that ends closes those that are idle for 250 ms.
TCP_CONNECTIONS = TCP_RATE // 2
ANSWERING_AGAIN = "the next daemon has ended; answering again"
REMOVED = "the daemon that this one has replaced has ended"

pytestmark = [pytest.mark.root,
              pytest.mark.skipif(not available() or not shutil.which("nft"),
                                 reason="needs root, bridged network namespaces and nft")]


SERVER = (LINK_LOCAL, 53)


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
        queries.write_text(f"{NAME} A\n")
        # A query without an answer for so long is lost; dnsperf reads whole seconds.
        self.patience = math.ceil(seconds(3))
        common = ["-s", LINK_LOCAL, "-d", str(queries), "-l", "300", "-t", str(self.patience), "-q", "60000"]
        one, two = node.pods["one"], node.pods["two"]
        self._dnsperf = {
            "udp": self._start(one, *common, "-c", "32", "-Q", str(UDP_RATE)),
            "tcp": self._start(two, *common, "-m", "tcp", "-c", str(TCP_CONNECTIONS), "-Q", str(TCP_RATE))}
        self._careful = [Load(ask_over_tcp, 200, one, True), Load(ask_over_tcp, 200, two, False)]

    @staticmethod
    def _start(pod, *arguments):
        return subprocess.Popen(["ip", "netns", "exec", pod, find_program("dnsperf"), *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def stop(self):
        """({transport: {"completed": ..., "lost": ...}}, the problems of the other clients); all answers were right."""
        problems = [problem for load in self._careful if (problem := load.stop())]
        counts = {transport: self._stop(process) for transport, process in self._dnsperf.items()}
        print(counts, [load.steps * BATCH for load in self._careful], problems)
        return counts, problems

    @staticmethod
    def _stop(process):
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=seconds(30))[0]
        counts = {key: int(re.search(rf"Queries {key}:\s+(\d+)", output).group(1)) for key in ("completed", "lost")}
        assert counts["completed"] and f"NOERROR {counts['completed']} " in output, output
        return counts

    def close(self):
        for load in self._careful:
            load.stop()
        for process in self._dnsperf.values():
            process.kill()
            process.wait()


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
    """Datagrams that the kernel dropped because a socket was full: in the node, and in the Pod that asks over UDP."""
    found = {}
    for place, namespace in (("node", node.node.name), ("pod", node.node.pods["one"])):
        with inside(namespace):
            names, values = (line.split() for line in pathlib.Path("/proc/thread-self/net/snmp").read_text().splitlines()
                             if line.startswith("Udp:"))
        found[place] = int(dict(zip(names, values))["RcvbufErrors"])
    return found


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
    """A step of a roll-out: the old Pod ends when the new one has taken over."""
    new = start(node, **change)
    old.daemon.wait_for_line(TAKEN_OVER, 20)
    old.end()
    new.daemon.wait_for_line(REMOVED, 20)
    answers(node)
    return new


def copy_of_the_program(directory):
    """Another image."""
    copy = directory / "meshdnsd"
    shutil.copy2(binary(), copy)
    for folder in [directory, *directory.parents]:  # the Pod's user gets there
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    return copy


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
    eventually(lambda: node.probe() == 200, 10)
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
    assert counts["udp"]["lost"] <= sum(full.values()) <= counts["udp"]["completed"] / 100, (counts, full)
    assert problems == []
    # dnsperf does not ask again for what it sends while one of the connections ends.
    assert counts["tcp"]["lost"] <= 5 * TCP_CONNECTIONS, counts
    fourth.end()


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
    assert counts["udp"]["lost"] <= 2 * 64 + sum(full.values()) and problems == [], (counts, problems, full)
    third.end()
