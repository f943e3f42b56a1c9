# SPDX-License-Identifier: Apache-2.0
"""Steps of the clients, for harness.load.Load: probes, which know the right answers, and hostile ones, which do not care.

Each step returns a problem as text, or None.
"""

import random
import socket
import struct
import time

import dns.edns
import dns.exception
import dns.message
import dns.rcode

import truth
from harness.dns_client import ask_wire, frame, open_tcp
from harness.waiting import seconds

# --- probes -------------------------------------------------------------------------------------


# The daemon's own, and what it relays when every upstream server says so.
_FAILURES = (dns.rcode.SERVFAIL, dns.rcode.REFUSED, dns.rcode.FORMERR)


def _ask_once(server, name, transport, timeout, chance):
    """The answer of the right id, or None where none came."""
    query = dns.message.make_query(name, "A", id=chance.randrange(65536), use_edns=chance.choice((-1, 0)))
    began = time.monotonic()
    wire = ask_wire(server, query.to_wire(), transport, timeout=timeout)
    if wire is None and transport == "tcp" and time.monotonic() - began < seconds(timeout):
        # At the limit of connections, one that has not asked yet makes room for the next.
        wire = ask_wire(server, query.to_wire(), transport, timeout=timeout)
    if wire is None:
        return None
    answer = dns.message.from_wire(wire, raise_on_truncation=False)
    return answer if answer.id == query.id else None


def _ask(server, name, transport, timeouts, chance):
    """The answer to the first of several queries that has one; over TCP if it was truncated, by the rate limit."""
    for timeout in timeouts:
        answer = _ask_once(server, name, transport, timeout, chance)
        if answer is not None and answer.flags & dns.flags.TC:
            answer = _ask_once(server, name, "tcp", timeout, chance)
        if answer is not None:
            return answer
    return None


def _addresses(answer):
    return [rdata.address for rrset in answer.answer for rdata in rrset if rrset.rdtype == 1]


def registry_names(chance, state, server, names):
    """Each has its one address, whatever else happens.  A query that is lost is sent once more."""
    name = chance.choice(names)
    transport = "tcp" if chance.random() < 0.2 else "udp"
    answer = _ask(server, name, transport, (3, 5), chance)
    if answer is None:
        return f"{name} over {transport}: no answer to two queries"
    found = _addresses(answer)
    return None if found == [truth.address_of(name)] else f"{name} over {transport}: {dns.rcode.to_text(answer.rcode())} {found}"


def names_of_moving_files(chance, state, server, names):
    """In a file or in none at the moment, and then asked of the upstreams: the right address, no such name, or a failure."""
    name = chance.choice(names)
    answer = _ask(server, name, "udp", (6, 6), chance)
    if answer is None:
        return f"{name}: no answer to two queries"
    found, rcode = _addresses(answer), answer.rcode()
    if found in ([truth.address_of(name)], []) and rcode in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN, *_FAILURES):
        return None
    return f"{name}: {dns.rcode.to_text(rcode)} {found}"


def forwarded_names(chance, state, server, names, longest):
    """The right address or a failure, within `longest` seconds."""
    name = chance.choice(names)
    if chance.random() < 0.3:
        name = f"r{chance.randrange(10 ** 9)}.{name}"
    transport = "tcp" if chance.random() < 0.2 else "udp"
    began = time.monotonic()
    answer = _ask_once(server, name, transport, longest, chance)
    if answer is None:
        answer = _ask_once(server, name, transport, longest, chance)
        if answer is None:
            return f"{name} over {transport}: no answer to two queries within {longest} s each"
    elif time.monotonic() - began > seconds(longest):
        return f"{name} over {transport}: answered after {time.monotonic() - began:.1f} s"
    found = _addresses(answer)
    if found == [truth.address_of(name)] or (not found and answer.rcode() in _FAILURES):
        return None
    if not found and answer.flags & dns.flags.TC and transport == "udp":
        return None
    return f"{name} over {transport}: {dns.rcode.to_text(answer.rcode())} {found}"


# --- hostile clients ----------------------------------------------------------------------------


def _some_address(chance):
    return f"127.0.{chance.randrange(1, 4)}.{chance.randrange(1, 255)}"


def _some_name(chance):
    return chance.choice((*truth.stable_names(20), *truth.moving_names(20), *truth.forwarded_names(),
                          f"x{chance.randrange(10 ** 6)}.short.wild.example.net.", "missing.example.net.", ".",
                          "kubernetes.default.svc.cluster.local.", "7.0.18.198.in-addr.arpa.", "version.bind.",
                          "a." * 120))


def some_query(chance):
    """A query of one of many kinds, well formed or not, as octets."""
    query = dns.message.make_query(_some_name(chance), chance.choice(("A", "AAAA", "MX", "SRV", "TXT", "CNAME", "SOA", "PTR")),
                                   id=chance.randrange(65536))
    if chance.random() < 0.6:
        options = [dns.edns.GenericOption(chance.choice((3, 8, 10, 12, 15, 65001)), chance.randbytes(chance.randrange(0, 40)))
                   for _ in range(chance.randrange(0, 4))]
        query.use_edns(chance.choice((0, 0, 0, 1, 255)), chance.choice((0, 0x8000, 0x4321)),
                       chance.choice((0, 1, 511, 512, 1232, 4096, 65535)), options=options)
    wire = bytearray(query.to_wire())
    kind = chance.randrange(12)
    if kind == 0:
        return chance.randbytes(chance.randrange(0, 600))
    if kind == 1:
        return bytes(wire[:chance.randrange(len(wire))])
    if kind == 2:
        for _ in range(chance.randrange(1, 8)):
            wire[chance.randrange(len(wire))] = chance.randrange(256)
    elif kind == 3:
        return bytes(wire) + chance.randbytes(chance.randrange(1, 1400))
    elif kind in (4, 5):
        end = wire.find(b"\0", 12) + 1  # of the name: no label holds a zero octet
        types = (0, 255, 250, 251, 252, 41, 249, 65535, 6, 64, 65)
        wire[end:end + 4] = struct.pack("!HH", chance.choice(types), chance.choice((1, 1, 1, 3, 254, 255, 0)))
    elif kind == 6:
        wire[2:12] = chance.randbytes(10)  # flags and counts
    return bytes(wire)


def datagrams(chance, state, server):
    """Bursts of all kinds of queries from one of many addresses; nobody reads the answers for long."""
    udp = state.get("udp")
    if udp is None or chance.random() < 0.1:
        if udp is not None:
            udp.close()  # with answers on their way: they become ICMP errors
        udp = state["udp"] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((_some_address(chance), 0))
        udp.setblocking(False)
    for _ in range(chance.choice((1, 1, 5, 20, 200))):
        try:
            udp.sendto(some_query(chance), server)
        except OSError:
            break
    try:
        for _ in range(50):
            udp.recv(65535)
    except OSError:
        pass


def crowd(chance, state, server):
    """Many clients that want one name of the upstream's at once, and some that leave before the answer."""
    name = f"c{chance.randrange(50)}.{chance.choice(truth.forwarded_names())}"
    source = _some_address(chance)
    sockets = []
    for _ in range(chance.randrange(2, 12)):
        try:
            tcp = open_tcp(server, source, 1.0)
            sockets.append(tcp)
            for _ in range(chance.randrange(1, 6)):
                tcp.sendall(frame(dns.message.make_query(name, "A").to_wire()))
        except OSError:
            continue
    for tcp in sockets:
        _leave(tcp, chance)


def _leave(tcp, chance):
    if chance.random() < 0.5:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    tcp.close()


def connections(chance, state, server):
    """Connections that pipeline, send slowly, stop in mid-message, do not read, are reset, or stay."""
    kept = state.setdefault("kept", [])
    while len(kept) > chance.randrange(5, 40):
        _leave(kept.pop(chance.randrange(len(kept))), chance)
    try:
        tcp = open_tcp(server, _some_address(chance), 1.0)
    except OSError:
        return
    kept.append(tcp)
    kind = chance.randrange(6)
    try:
        if kind == 0:
            tcp.sendall(b"".join(frame(some_query(chance)) for _ in range(chance.randrange(1, 120))))
        elif kind == 1:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            big = dns.message.make_query(truth.forwarded_names()[2], "A").to_wire()
            tcp.settimeout(0.2)
            tcp.sendall(frame(big) * 200)  # and none of the answers is read
        elif kind == 2:
            for octet in frame(some_query(chance))[:12]:
                tcp.sendall(bytes([octet]))
        elif kind == 3:
            tcp.sendall(frame(some_query(chance)) * 3)
            _leave(kept.pop(), chance)
        elif kind == 4:
            tcp.sendall(frame(some_query(chance)))
            tcp.shutdown(socket.SHUT_WR)
        else:
            tcp.sendall(struct.pack("!H", 65535) + chance.randbytes(chance.randrange(0, 3000)))
    except OSError:
        pass


# --- the admin endpoint -------------------------------------------------------------------------

_PAGES = ("/", "/status.js", "/healthz", "/readyz", "/metrics", "/status", "/sources", "/registry/services", "/registry/endpoints", "/registry/vips",
          "/registry/findings", "/changes", "/resolver", "/upstreams", "/cache", "/cache?zone=.&limit=9", "/cache?top=yes", "/dependencies",
          "/config", "/log/level", "/nothing")


def admin_calls(chance, state, port):
    """Pages, changes of state, and requests that are wrong, slow or given up."""
    kept = state.setdefault("kept", [])
    while len(kept) > 4:
        kept.pop(0).close()
    kind = chance.randrange(8)
    path = chance.choice(_PAGES)
    if kind == 1:
        path = f"/explain?name={_some_name(chance)[:60]}&type={chance.choice(('A', 'SRV', 'TYPE0', 'x'))}" \
               f"&from={chance.choice(('', 'default', 'x%d' % chance.randrange(9999), '127.0.0.1'))}"
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    if kind == 2:
        target = chance.choice(("/cache/flush", f"/cache/flush?name={truth.forwarded_names()[0]}", "/log/level?level=warn",
                                "/log/level?level=error", "/log/level?level=nonsense"))
        request = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    elif kind == 3:
        request = chance.randbytes(chance.randrange(1, 2000))
    elif kind == 4:
        request = request[:chance.randrange(1, len(request))]
    try:
        with_answer = kind in (0, 1, 2)
        tcp = socket.create_connection(("127.0.0.1", port), timeout=seconds(1))
        tcp.sendall(request)
        if with_answer:
            while tcp.recv(65536):
                pass
            tcp.close()
        elif kind == 7:
            _leave(tcp, random.Random(chance.random()))
        else:
            kept.append(tcp)
    except OSError:
        pass
