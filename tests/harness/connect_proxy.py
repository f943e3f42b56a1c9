# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy that tunnels, as companies have between a node and its API server."""

import contextlib
import socket
import socketserver
import threading


class ConnectProxy:
    """`targets`: the "host:port" of every tunnel that was asked for."""

    def __init__(self):
        self.targets = []
        proxy = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                method, target, _ = self.rfile.readline().decode().split()
                while self.rfile.readline().strip():
                    pass
                if method != "CONNECT":
                    self.wfile.write(b"HTTP/1.1 405 no\r\n\r\n")
                    return
                proxy.targets.append(target)
                host, _, port = target.rpartition(":")
                with socket.create_connection((host, int(port))) as server:
                    self.wfile.write(b"HTTP/1.1 200 tunnel\r\n\r\n")
                    back = threading.Thread(target=copy, args=(server, self.connection), daemon=True)
                    back.start()
                    copy(self.connection, server)
                    back.join()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
