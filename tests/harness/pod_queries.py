# SPDX-License-Identifier: Apache-2.0
"""A Pod that asks a server all the time, and how many queries got no answer, state by state."""

import selectors
import socket
import threading
import time

from harness.dns_client import Question
from harness.namespaces import inside
from harness.waiting import eventually, seconds

INTERVAL = 0.02  # seconds; a server of the tests that answers instead has time for so many
PATIENCE = 1.0  # then a query is lost


class _Count:
    def __init__(self):
        self.asked = self.lost = self.waiting = 0


class PodQueries:
    """Over UDP, each from a socket of its own, whether the ones before were answered or not.  A right answer has one of the
    `addresses`."""

    def __init__(self, namespace, server, name, addresses):
        self._namespace, self._server = namespace, server
        self._right = [socket.inet_aton(address) for address in addresses]
        self._wire = Question(name).to_message().to_wire()
        self._lock = threading.Lock()
        self._count = _Count()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def note(self, at_least=10):
        """Ends a state, when enough was asked: returns its count."""
        eventually(lambda: self._count.asked >= at_least, 10)
        with self._lock:
            count, self._count = self._count, _Count()
        eventually(lambda: count.waiting == 0, 5)
        return count

    def forget(self):
        """Begins a state; what came before does not count."""
        with self._lock:
            self._count = _Count()

    def close(self):
        self._over.set()
        self._thread.join()

    def _run(self):
        with inside(self._namespace), selectors.DefaultSelector() as selector:
            due = time.monotonic()
            while not self._over.is_set():
                if time.monotonic() >= due:
                    self._ask(selector)
                    due = max(due + INTERVAL, time.monotonic() - 0.1)
                for key, _ in selector.select(max(0.0, due - time.monotonic())):
                    self._read(selector, key.fileobj, key.data[0])
                self._give_up(selector)
            for key in list(selector.get_map().values()):
                key.fileobj.close()

    def _ask(self, selector):
        asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        with self._lock:
            count = self._count
            count.asked += 1
            count.waiting += 1
        try:
            asking.connect(self._server)
            asking.send(self._wire)
        except OSError:
            self._end(None, asking, count, None)
            return
        selector.register(asking, selectors.EVENT_READ, (count, time.monotonic()))

    def _read(self, selector, asking, count):
        try:
            reply = asking.recv(4096)
        except OSError:  # nobody is there
            reply = None
        self._end(selector, asking, count, reply)

    def _give_up(self, selector):
        """The oldest come first."""
        before = time.monotonic() - seconds(PATIENCE)
        while (oldest := next(iter(selector.get_map().values()), None)) and oldest.data[1] < before:
            self._end(selector, oldest.fileobj, oldest.data[0], None)

    def _end(self, selector, asking, count, reply):
        if selector:
            selector.unregister(asking)
        asking.close()
        is_lost = not reply or not any(address in reply for address in self._right)
        with self._lock:
            count.lost += is_lost
            count.waiting -= 1
