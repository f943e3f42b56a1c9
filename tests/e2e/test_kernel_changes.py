# SPDX-License-Identifier: Apache-2.0
"""Pods that ask without pause while the mesh changes, and a kernel that answers for the daemon: no answer is older than the
last version that was seen before the question, and each Pod sees its own.

MESHDNS_KERNEL_CHANGES_SECONDS and MESHDNS_KERNEL_SEED set how long it goes on, and by which seed."""

import contextlib
import os
import random
import socket
import struct
import threading
import time

import pytest

from harness.changing_mesh import MARKER, NAMES, OBSERVER, PODS, ChangingMesh, marker_address
from harness.dns_client import Question
from harness.fake_upstream import FakeUpstream
from harness.kernel_fixture import made_or_skipped
from harness.kernel_node import KernelDaemon, KernelNode, pod_objects
from harness.kube_api import KubeApi, namespace, service, service_entry
from harness.namespaces import inside
from harness.preset import IS_SANITIZED, ONE_THREAD
from harness.routed_node import NODE_IPV4
from harness.seed import seed
from harness.waiting import eventually, seconds

pytestmark = [ONE_THREAD, pytest.mark.root, pytest.mark.skipif(IS_SANITIZED, reason="too slow for a crowd of questions")]

SECONDS = float(os.environ.get("MESHDNS_KERNEL_CHANGES_SECONDS", "2"))
SEED = int(os.environ.get("MESHDNS_KERNEL_SEED", seed()))
CHANGES_PER_SECOND = 1000


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with made_or_skipped(KernelNode, tmp_path_factory.mktemp("kernel")) as made:
        yield made


def addresses_of(reply, question_size):
    """The IPv4 addresses of an answer whose owners are pointers to the question; empty for any other."""
    count, = struct.unpack_from("!H", reply, 6)
    at, found = 12 + question_size, set()
    for _ in range(count):
        if reply[at:at + 4] != b"\xc0\x0c\0\1":
            return frozenset()
        found.add(socket.inet_ntoa(reply[at + 12:at + 16]))
        at += 16
    return frozenset(found)


class Asker(threading.Thread):
    """Asks in a Pod, one question after the other, until `over` is set.  `check(name, asked, found)` with what `now()` said
    before the question returns a complaint or None."""

    def __init__(self, node, pod, names, now, check, pause=0.0005):
        super().__init__(daemon=True)
        self._node, self._pod, self._names, self._now, self._check, self._pause = node, pod, names, now, check, pause
        self.over = threading.Event()
        self.asked, self.problem = 0, None

    def run(self):
        try:
            self._ask_all()
        except Exception as failure:  # the test is to say it
            self.problem = self.problem or repr(failure)

    def _ask_all(self):
        chance = random.Random(f"{SEED}-{self._pod}")
        wires = {name: Question(f"{name}.").to_message().to_wire() for name in self._names}
        with inside(self._node.node.pods[self._pod]):
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with udp:
            udp.connect((NODE_IPV4, 53))
            udp.settimeout(seconds(5))
            while not self.over.is_set() and not self.problem:
                name = chance.choice(self._names)
                identity = struct.pack("!H", chance.randrange(65536))
                before = self._now()
                udp.send(identity + wires[name][2:])
                reply = udp.recv(4096)
                if reply[:2] != identity:
                    self.problem = f"{name}: the answer to another question"
                    return
                self.problem = self._check(self._pod, name, before, addresses_of(reply, len(name) + 2 + 4))
                self.asked += 1
                time.sleep(self._pause)

    def end(self):
        self.over.set()
        self.join()
        assert not self.problem, f"{self._pod}, seed {SEED}: {self.problem}"


def test_no_answer_is_older_than_what_was_seen_before(node, workspace):
    mesh = ChangingMesh(SEED)
    versions = [mesh.answers()]  # the newest may not be known to the daemon yet
    seen = 0
    workspace.write("mesh.yaml", *mesh.resources(0))
    with inside(node.node.name):
        upstream = workspace.own(FakeUpstream())  # all its names are NXDOMAIN
    running = KernelDaemon(node, workspace, {"server": {"workers": 2},
                                             "upstream": {"servers": [upstream.server]}}).wait_until_open()

    def check(pod, name, before, found):
        possible = {versions[v][pod, name] for v in range(before, len(versions))}
        if found in possible:
            return None
        return f"{name}: {sorted(found)}, and not one of {[sorted(each) for each in possible]} of versions from {before} on"

    kernel_before = running.count()
    askers = [Asker(node, pod, NAMES, lambda: seen, check) for pod in PODS]
    for asker in askers:
        asker.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not any(asker.problem for asker in askers):
        mesh.change()
        versions.append(mesh.answers())
        wanted = [marker_address(len(versions) - 1)]
        workspace.write("mesh.yaml", *mesh.resources(len(versions) - 1))
        eventually(lambda: running.ask(OBSERVER, MARKER, transport="tcp").addresses() == wanted, 5)
        seen = len(versions) - 1
    for asker in askers:
        asker.end()
    of_kernel, asked = running.count() - kernel_before, sum(asker.asked for asker in askers)
    print(f"seed {SEED}: {len(versions)} versions, {asked} questions, {of_kernel} answered in the kernel")
    assert len(versions) > 5 * SECONDS and of_kernel > asked / 4, (len(versions), asked, of_kernel)


@contextlib.contextmanager
def changes_of_an_api(api, per_second):
    """Gives the number of changes so far.  They come in parcels, one each 10 ms."""
    over, made = threading.Event(), [0]

    def change():
        due = time.monotonic()
        while not over.is_set():
            due += 0.01
            for _ in range(per_second // 100):
                made[0] += 1
                number = made[0]
                api.put(service_entry(f"e{number % 200}", f"e{number % 200}.changing.example.org", resolution="STATIC",
                                      addresses=[f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"]))
            over.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        yield lambda: made[0]
    finally:
        over.set()
        thread.join()


def test_changes_of_other_names_leave_answers_in_the_kernel(node, workspace):
    with inside(node.node.name):
        api = workspace.own(KubeApi())
    api.serve("serviceentries.networking.istio.io")
    names = {f"n{i}.stable.example.org": frozenset([f"10.200.0.{i}"]) for i in range(1, 21)}
    api.put(namespace("shop"), service("web", "shop", "10.96.0.1"), *pod_objects(shop="shop"),
            *(service_entry(name.partition(".")[0], name, resolution="STATIC", addresses=list(addresses))
              for name, addresses in names.items()))
    running = KernelDaemon(node, workspace, {
        "sources": [{"kubernetes": {"kubeconfig": api.kubeconfig(workspace.path / "kubeconfig")}}]}).wait_until_open()
    running.ask_kernel("shop", "n1.stable.example.org")

    def share(duration):
        """Of the answers, how many are the kernel's."""
        asker = Asker(node, "shop", list(names), lambda: None,
                      lambda _, name, __, found: None if found == names[name] else f"{name}: {sorted(found)}")
        before = running.count()
        asker.start()
        time.sleep(duration)
        asker.end()
        return (running.count() - before) / asker.asked

    # A worker offers an answer again after a second, if the first offer came during a change.
    eventually(lambda: share(0.1) == 1, 10)
    calm = share(0.3)
    with changes_of_an_api(api, CHANGES_PER_SECOND) as changes:
        eventually(lambda: changes() > 200, 5)
        first, started = changes(), time.monotonic()
        busy = share(1)
        rate = (changes() - first) / (time.monotonic() - started)
    number = changes()
    eventually(lambda: running.ask("shop", f"e{number % 200}.changing.example.org", transport="tcp").addresses()
               == [f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"], 10)
    print(f"answered in the kernel: {calm:.1%}, and {busy:.1%} at {rate:.0f} changes a second")
    assert calm > 0.98 and busy > 0.9, (calm, busy)
