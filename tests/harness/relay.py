# SPDX-License-Identifier: Apache-2.0
"""A path between a client and a server that can die without a word: connections stay, and nothing passes."""

import contextlib
import socket
import threading

from harness.namespaces import inside


class Relay:
    """`namespace`: the network namespace of its clients; that of the server is the caller's."""

    def __init__(self, port, namespace=None):
        self._target = ("127.0.0.1", port)
        self._passes = threading.Event()
        self._passes.set()
        self._gates = []  # one for each connection
        with inside(namespace) if namespace else contextlib.nullcontext():
            self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def freeze(self):
        self._passes.clear()

    def freeze_connections(self):
        """Those of now; later ones pass."""
        for gate in self._gates:
            gate.clear()

    def close(self):
        self._listener.close()
        for gate in [self._passes, *self._gates]:
            gate.set()
        for end in self._sockets:
            end.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            gate = threading.Event()
            gate.set()
            self._gates.append(gate)
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, sink, gate), daemon=True).start()

    def _pass(self, source, sink, gate):
        try:
            while octets := source.recv(65536):
                self._passes.wait()
                gate.wait()
                sink.sendall(octets)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
