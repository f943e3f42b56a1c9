# SPDX-License-Identifier: Apache-2.0
"""Upgrades and sudden ends under load, with a kernel that answers for the daemon: a Pod asks 2,000 queries a second.

MESHDNS_KERNEL_UPGRADES sets the number of upgrades by handover."""

import os
import select
import signal
import socket
import struct
import threading
import time

import pytest

from harness.dns_client import Question
from harness.kernel_fixture import made_or_skipped
from harness.kernel_node import KernelDaemon, KernelNode, pod_objects
from harness.namespaces import inside
from harness.preset import IS_SANITIZED, ONE_THREAD
from harness.routed_node import NODE_IPV4
from harness.waiting import eventually, seconds

pytestmark = [ONE_THREAD, pytest.mark.root, pytest.mark.skipif(IS_SANITIZED, reason="its load is too much for a sanitizer build")]

NAME = "api.example.org"
RATE = 2000
UPGRADES = int(os.environ.get("MESHDNS_KERNEL_UPGRADES", "2"))
LONGEST_DELAY = 0.05  # seconds; a client that was late does not ask for more at once, which would fill the sockets
PORTS = 16  # of the client: so they reach all workers
SO_MEMINFO = 55  # its last number counts dropped datagrams
HAS_TAKEN_OVER = "the next daemon answers; this one waits for SIGTERM"
HEARTBEAT_LIMIT = 2.0


@pytest.fixture
def node(tmp_path):
    with made_or_skipped(KernelNode, tmp_path) as made:
        yield made


def write(workspace, address):
    workspace.write("mesh.yaml", {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
                                  "spec": {"hosts": [NAME], "addresses": [address], "resolution": "STATIC"}})


class Load(threading.Thread):
    """Asks at a steady rate and never a second time.  Each answer is an address and the time when it was asked for."""

    def __init__(self, node, pod="shop", patience=3.0):
        """`patience`: how long it waits for answers in the end."""
        super().__init__(daemon=True)
        self._patience = patience
        self._wire = Question(f"{NAME}.").to_message().to_wire()
        with inside(node.node.pods[pod]):
            self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(PORTS)]
        for each in self._sockets:
            each.connect((NODE_IPV4, 53))
            each.setblocking(False)
        self._over = threading.Event()
        self._sent = {}  # (socket, ID) to time
        self.answers = []  # (asked at, address)
        self.refused = self.asked = self._dropped = 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()

    def run(self):
        due, end = time.monotonic(), None
        while end is None or (time.monotonic() < end and self._sent):
            now = time.monotonic()
            due = max(due, now - LONGEST_DELAY)
            while due <= now and not self._over.is_set():
                self._ask()
                due += 1 / RATE
            if self._over.is_set() and end is None:
                end = now + seconds(self._patience)
            for each in select.select(self._sockets, [], [], 0.0005)[0]:
                self._take(each)
        for each in self._sockets:
            self._dropped += struct.unpack("9I", each.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[8]
            each.close()

    def _ask(self):
        number = self.asked = self.asked + 1
        each = self._sockets[number % PORTS]
        identity = number // PORTS % 65536
        self._sent[each, identity] = time.monotonic()
        try:
            each.send(struct.pack("!H", identity) + self._wire[2:])
        except ConnectionRefusedError:  # an earlier query met nobody
            self.refused += 1
            each.send(struct.pack("!H", identity) + self._wire[2:])

    def _take(self, each):
        try:
            while True:
                reply = each.recv(4096)
                asked_at = self._sent.pop((each, struct.unpack_from("!H", reply)[0]))
                # Behind the question, which the query has before its OPT record of 11 octets: a record's head and data.
                data = reply[len(self._wire) - 11 + 12:][:4]
                self.answers.append((asked_at, socket.inet_ntoa(data) if len(data) == 4 else reply.hex()))
        except BlockingIOError:
            pass
        except ConnectionRefusedError:
            self.refused += 1

    def wait_for_more(self, count=RATE // 10):
        before = len(self.answers)
        eventually(lambda: len(self.answers) > before + count, 10)

    def lost(self):
        """Without the answers for which the sockets here had no room, because this thread had no processor time."""
        return max(len(self._sent) - self._dropped, 0)

    def since(self, moment):
        """The addresses of answers to what was asked since."""
        return {address for asked_at, address in self.answers if asked_at >= moment}


def start(node, workspace, handover=""):
    return KernelDaemon(node, workspace, {"server": {"workers": 2, "handover": str(handover) if handover else ""}})


def wait_for_kernel(running, count=RATE // 10):
    before = running.count()
    eventually(lambda: running.count() > before + count, 10)


def end(workspace, running):
    workspace.forget(running.daemon)
    running.daemon.stop()


@pytest.fixture
def mesh(workspace):
    workspace.write("pods.yaml", *pod_objects(shop="shop"))
    write(workspace, "10.0.0.1")
    return workspace


def test_no_query_is_lost_by_a_handover_and_none_is_answered_wrongly(node, mesh):
    socket_folder = mesh.path / "handover"
    socket_folder.mkdir(mode=0o755)
    running = start(node, mesh, socket_folder / "socket").wait_until_open()
    with Load(node) as load:
        wait_for_kernel(running, RATE // 2)
        for number in range(2, 2 + UPGRADES):
            following = start(node, mesh, socket_folder / "socket")
            running.daemon.wait_for_log(HAS_TAKEN_OVER)
            write(mesh, f"10.0.0.{number}")
            eventually(lambda: load.answers[-1][1] == f"10.0.0.{number}", 5)
            is_new_since = time.monotonic()
            end(mesh, running)
            running = following.wait_until_open()
            wait_for_kernel(running, RATE // 2)
            assert load.since(is_new_since) == {f"10.0.0.{number}"}
    print(f"{load.asked} asked, {load.lost()} lost, {running.count()} answered in the kernel")
    assert load.lost() == 0 and load.refused == 0
    assert running.count() > load.asked / 4


def test_a_restart_brings_no_old_answer(node, mesh):
    running = start(node, mesh).wait_until_open()
    with Load(node, patience=0.1) as load:
        wait_for_kernel(running)
        end(mesh, running)
        stopped = time.monotonic()
        write(mesh, "10.0.0.2")
        running = start(node, mesh).wait_until_open()
        wait_for_kernel(running)
        assert load.since(stopped) == {"10.0.0.2"}
    print(f"{load.asked} asked, {load.lost()} lost in a restart")


def test_a_killed_daemon_is_answered_for_at_most_two_seconds(node, mesh):
    running = start(node, mesh).wait_until_open()
    with Load(node, patience=0.1) as load:
        wait_for_kernel(running)
        mesh.forget(running.daemon)
        running.daemon.kill()
        killed = time.monotonic()
        eventually(lambda: time.monotonic() - load.answers[-1][0] > 0.5, 10)
        last = load.answers[-1][0] - killed
        assert 0 < last < HEARTBEAT_LIMIT + 0.1, last
        assert {address for _, address in load.answers} == {"10.0.0.1"}
        write(mesh, "10.0.0.2")
        started = time.monotonic()
        running = start(node, mesh).wait_until_open()
        wait_for_kernel(running)
        assert load.since(started) == {"10.0.0.2"}
    print(f"the last answer came {last:.2f} s after the end")


def test_a_killed_loader_is_replaced_by_the_next(node, mesh):
    """The kernel keeps the program and the maps; the next loader takes these over."""
    running = start(node, mesh).wait_until_open()
    with Load(node) as load:
        wait_for_kernel(running)
        node.loader.kill()
        wait_for_kernel(running)
        write(mesh, "10.0.0.2")
        eventually(lambda: load.answers[-1][1] == "10.0.0.2", 5)
        is_new_since = time.monotonic()
        loader = node.start_loader()
        loader.wait_for_line("loaded; took over the maps")
        wait_for_kernel(running)
        assert load.since(is_new_since) == {"10.0.0.2"}
        # Without its maps, a loader makes new ones, and the daemon changes to these.
        loader.kill()
        for pin in node.maps.iterdir():
            pin.unlink()
        position = running.daemon.log_position()
        loader = node.start_loader()
        loader.wait_for_line("loaded; made the maps")
        running.daemon.wait_for_log("answering in the kernel", after=position)
        wait_for_kernel(running)
        assert load.since(is_new_since) == {"10.0.0.2"}
    assert load.lost() == 0 and load.refused == 0, (load.lost(), load.refused)
