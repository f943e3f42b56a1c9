# SPDX-License-Identifier: Apache-2.0
"""An upstream that speaks DNS over TLS: each name is answered with one address, at once or never."""

import socket
import ssl
import struct
import threading

import dns.message
import dns.name
import dns.rcode
import dns.rrset


class TlsUpstream:
    """Never answers names below `silent`, denies those below `denied`; all others are 192.0.2.1.  A thread for each
    connection."""

    def __init__(self, certificates, silent="silent.test.", denied="denied.test."):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*certificates)
        self._silent = dns.name.from_text(silent)
        self._denied = dns.name.from_text(denied)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._lock = threading.Lock()
        self._received = 0
        self._connections = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def server(self):
        """As upstream.servers has it; the certificate is for the address."""
        return f"tls://127.0.0.1:{self._listener.getsockname()[1]}#127.0.0.1"

    @property
    def received(self):
        """How many queries came so far."""
        with self._lock:
            return self._received

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._connections:
                connection.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with self._lock:
            self._connections.add(connection)
        try:
            with self._context.wrap_socket(connection, server_side=True) as stream:
                while self._answer_one(stream):
                    pass
        except OSError:
            pass  # the client has gone

    def _answer_one(self, stream):
        head = self._read(stream, 2)
        if not head:
            return False
        query = dns.message.from_wire(self._read(stream, struct.unpack("!H", head)[0]))
        with self._lock:
            self._received += 1
        question = query.question[0]
        if question.name.is_subdomain(self._silent):
            return True
        reply = dns.message.make_response(query, recursion_available=True)
        if question.name.is_subdomain(self._denied):
            reply.set_rcode(dns.rcode.NXDOMAIN)
            reply.authority.append(dns.rrset.from_text(self._denied, 30, "IN", "SOA", "ns.test. root.test. 1 2 3 4 30"))
        else:
            reply.answer.append(dns.rrset.from_text(question.name, 300, "IN", "A", "192.0.2.1"))
        wire = reply.to_wire()
        stream.sendall(struct.pack("!H", len(wire)) + wire)
        return True

    @staticmethod
    def _read(stream, size):
        data = b""
        while len(data) < size:
            got = stream.recv(size - len(data))
            if not got:
                return b""
            data += got
        return data
