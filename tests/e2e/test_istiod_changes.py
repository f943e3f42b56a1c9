# SPDX-License-Identifier: Apache-2.0
"""How soon answers show the changes that istiod pushes one by one, beside many names.

MESHDNS_ISTIOD_CHANGES="NAMES RATE SECONDS" sets the load.
"""

import bisect
import os
import shutil
import socket
import threading
import time

import pytest

from harness.daemon import binary
from harness.dns_client import Question
from harness.istiod_mesh import Mesh
from harness.preset import IS_RELEASE, ONE_THREAD
from harness.waiting import eventually, seconds

pytestmark = [ONE_THREAD, pytest.mark.skipif(not shutil.which("openssl") or not (binary().parent / "meshdns-istiod.so").exists(),
                                reason="needs openssl and the module")]

DEFAULT_LOAD = "100000 1000 5" if IS_RELEASE else "10000 100 3"
NAMES, RATE, SECONDS = map(int, os.environ.get("MESHDNS_ISTIOD_CHANGES", DEFAULT_LOAD).split())


def address(number):
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def table(count):
    return {f"n{i}.s{i % 100}.svc.cluster.local": {"ips": [address(i)], "registry": "Kubernetes", "shortname": f"n{i}",
                                                   "namespace": f"s{i % 100}"} for i in range(count)}


class Watch:
    """Asks for one name all the time, and notes when each address is answered first."""

    def __init__(self, server, name):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(server)
        self._socket.settimeout(seconds(5))
        self._query = Question(name, edns=False).to_message().to_wire()
        self._is_over = threading.Event()
        self.first_seen = []  # (number, time), in the order of both
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._is_over.wait(0.0005):
            self._socket.send(self._query)
            number = int.from_bytes(self._socket.recv(512)[-3:], "big")
            if not self.first_seen or number > self.first_seen[-1][0]:
                self.first_seen.append((number, time.monotonic()))

    def delays(self, sent):
        """From each push of [(number, time)] to the first answer with it or a later one, sorted."""
        numbers = [number for number, _ in self.first_seen]
        return sorted(self.first_seen[bisect.bisect_left(numbers, number)][1] - at for number, at in sent)

    def stop(self):
        self._is_over.set()
        self._thread.join()
        self._socket.close()


@pytest.mark.slow("pushes changes for seconds beside 100,000 names")
def test_a_push_of_one_name_costs_what_it_changes(workspace):
    mesh = Mesh(workspace)
    istiod = mesh.istiod()
    daemon = mesh.daemon(istiod)
    eventually(lambda: istiod.streams, 10)
    istiod.push_delta({"many": ("1", table(NAMES)), "one": ("0", {"x.example.org": {"ips": [address(0)]}})})
    mesh.wait_for(daemon, "x.example.org.", [address(0)], 30)
    watch = Watch(daemon.server, "x.example.org.")
    sent, began = [], time.monotonic()
    for number in range(1, RATE * SECONDS + 1):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        sent.append((number, time.monotonic()))
        istiod.push_delta({"one": (str(number), {"x.example.org": {"ips": [address(number)]}})})
    ended = time.monotonic()
    try:
        eventually(lambda: mesh.source(daemon)["pushes"] == len(sent) + 1, 60)
        eventually(lambda: watch.first_seen[-1][0] == len(sent))
        behind = watch.first_seen[-1][1] - ended
    finally:
        watch.stop()
    delays = watch.delays(sent)
    print(f"{NAMES} names, {len(sent) / (ended - began):.0f} pushes/s for {ended - began:.1f} s: in answers after "
          f"{1000 * delays[len(delays) // 2]:.1f} ms, p99 {1000 * delays[len(delays) * 99 // 100]:.1f} ms, the last "
          f"after {1000 * behind:.0f} ms")
    assert mesh.source(daemon)["names"] == NAMES + 1
    assert behind < seconds(1)
