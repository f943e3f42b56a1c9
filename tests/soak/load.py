# SPDX-License-Identifier: Apache-2.0
"""The load of a soak; each kind runs in its own process until it is stopped."""

import socket
import struct
import time

import dns.message

from harness import dnsperf
from harness.dns_client import frame, open_tcp, read_frame

IDLE_TIMEOUT = 2  # seconds; of the daemon's TCP connections


def _socket(state, server, timeout=5.0):
    if "udp" not in state:
        udp = state["udp"] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        udp.connect(server)
        udp.settimeout(timeout)
    return state["udp"]


def _flood(state, server, datagrams):
    """Sends them, and throws away what has come back."""
    udp = _socket(state, server, 0.0)
    try:
        while udp.recv(65535):
            pass
    except BlockingIOError:
        pass
    for datagram in datagrams:
        udp.send(datagram)


def right_answers(chance, state, server, names):
    """Each of the names has its address, over UDP, and never another."""
    name, address = names[chance.randrange(len(names))]
    query = dns.message.make_query(name, "A", id=chance.randrange(65536))
    udp = _socket(state, server)
    udp.send(query.to_wire())
    try:
        answer = dns.message.from_wire(udp.recv(4096))
    except TimeoutError:
        return f"{name}: no answer within 5 s"
    found = [rdata.address for rrset in answer.answer for rdata in rrset]
    if answer.id != query.id or found != [address]:
        return f"{name}: {found} ({answer.rcode()}), not {address}"
    return None


def never_older(chance, state, server):
    """moving.example.org tells its generation in its address, which never goes back."""
    query = dns.message.make_query("moving.example.org.", "A", id=chance.randrange(65536))
    udp = _socket(state, server)
    udp.send(query.to_wire())
    try:
        answer = dns.message.from_wire(udp.recv(4096))
    except TimeoutError:
        return "moving.example.org.: no answer within 5 s"
    found = [rdata.address for rrset in answer.answer for rdata in rrset]
    generation = int.from_bytes(socket.inet_aton(found[0]), "big") if len(found) == 1 else -1
    # Two workers may see a new snapshot a moment apart.
    if generation < state.get("last", 0) - 1:
        return f"moving.example.org.: {found} after {state['last']}"
    state["last"] = max(generation, state.get("last", 0))
    return None


def unknown_names(chance, state, server, zone):
    """A flood of names that do not exist, each asked once; nobody waits for the answers."""
    _flood(state, server, [dns.message.make_query(f"n{chance.getrandbits(64):x}.{zone}", "A").to_wire()
                           for _ in range(10)])


def garbage(chance, state, server):
    """Octets of chance, cut queries, queries with changed octets."""
    query = bytearray(dns.message.make_query("stable-1.example.org.", "A", use_edns=0).to_wire())
    kind = chance.randrange(4)
    if kind == 0:
        query = chance.randbytes(chance.randrange(1, 600))
    elif kind == 1:
        query = query[:chance.randrange(len(query))]
    elif kind == 2:
        for _ in range(chance.randrange(1, 8)):
            query[chance.randrange(len(query))] = chance.randrange(256)
    else:
        query = query + chance.randbytes(chance.randrange(1, 1400))
    _flood(state, server, [bytes(query)])


def tcp_churn(chance, state, server, name, address):
    """Connections that ask well, ask rubbish, leave in mid-word, are reset, or stay silent."""
    connection = open_tcp(server)
    active_at, longest_rest = time.monotonic(), 0.0
    query = dns.message.make_query(name, "A")
    kind = chance.randrange(6)
    try:
        if kind <= 1:
            for _ in range(chance.randrange(1, 5)):
                connection.sendall(frame(query.to_wire()))
                longest_rest = max(longest_rest, time.monotonic() - active_at)
                found = [r.address for rrset in dns.message.from_wire(read_frame(connection)).answer for r in rrset]
                active_at = time.monotonic()
                if found != [address]:
                    return f"{name} over TCP: {found}"
        elif kind == 2:
            connection.sendall(frame(chance.randbytes(chance.randrange(0, 300))))
        elif kind == 3:
            connection.sendall(frame(query.to_wire())[:chance.randrange(1, 20)])
        elif kind == 4:
            connection.sendall(frame(query.to_wire()) * 3)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            state.setdefault("silent", []).append(connection)
            if len(state["silent"]) > 20:
                state["silent"].pop(0).close()
            return None
        connection.close()
    except OSError as error:
        # The machine kept this client waiting so long that the daemon was right to close the idle connection.
        if kind <= 1 and longest_rest < IDLE_TIMEOUT / 2:
            return f"{name} over TCP: {error!r}"
    return None


class Dnsperf(dnsperf.Dnsperf):
    """dnsperf on a list of names, all of which must be answered with NOERROR."""

    def __init__(self, server, names, path, rate, seconds):
        dnsperf.write_queries(path, names)
        # Many sockets: each has room for some hundred answers while dnsperf waits for its turn.
        super().__init__(server, path, rate, "-l", seconds, "-c", 64, "-q", 5000, "-t", 10)

    def stop(self):
        """(sent, lost but not by dnsperf itself, other than NOERROR, what it printed), at once."""
        counts = super().stop()
        return counts["sent"], counts["lost"], counts["completed"] - counts["noerror"], self.output
