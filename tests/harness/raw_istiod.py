# SPDX-License-Identifier: Apache-2.0
"""A hostile istiod that writes HTTP/2 frames by itself: what no gRPC server would send."""

import gzip
import socket
import ssl
import struct
import threading

DATA, HEADERS, SETTINGS = 0, 1, 4
ACK, END_HEADERS = 1, 4
PREFACE_SIZE = 24
STATUS_200 = b"\x88"


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name, value):
    """A literal without indexing (RFC 7541, section 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def compressed_message(octets):
    """A gRPC message whose flag says that it is compressed."""
    compressed = gzip.compress(octets)
    return struct.pack(">BI", 1, len(compressed)) + compressed


class RawIstiod:
    """After release(), answers the first request of each connection with one gzip message."""

    def __init__(self, certificates, message):
        certificate, key = certificates
        self._message = message
        self._is_released = threading.Event()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._context.set_alpn_protocols(["h2"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def release(self):
        self._is_released.set()

    def close(self):
        self._is_released.set()
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with self._context.wrap_socket(connection, server_side=True) as tls, tls.makefile("rb") as stream:
                tls.sendall(frame(SETTINGS, 0, 0, b""))
                stream.read(PREFACE_SIZE)
                while head := stream.read(9):
                    stream.read(int.from_bytes(head[:3], "big"))
                    kind, flags, number = head[3], head[4], int.from_bytes(head[5:], "big")
                    if kind == SETTINGS and not flags & ACK:
                        tls.sendall(frame(SETTINGS, ACK, 0, b""))
                    if kind == HEADERS and self._is_released.wait():
                        tls.sendall(self._answer(number))
        except OSError:
            pass

    def _answer(self, stream):
        headers = STATUS_200 + header("content-type", "application/grpc") + header("grpc-encoding", "gzip")
        parts = [self._message[at:at + 16_384] for at in range(0, len(self._message), 16_384)]
        return frame(HEADERS, END_HEADERS, stream, headers) + b"".join(frame(DATA, 0, stream, part) for part in parts)
