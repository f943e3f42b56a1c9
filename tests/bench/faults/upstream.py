# SPDX-License-Identifier: Apache-2.0
"""A DNS server that knows one answer and fails as it is told; a process of its own, and quick, so that what is
measured is not the server's own slowness."""

import heapq
import multiprocessing
import random
import select
import socket
import struct
import time

ADDRESS = socket.inet_aton("192.0.2.1")

# The keys of a fault: drop (share of datagrams, 0..1), delay (seconds), rcode, truncate (UDP; TCP is then dead), cut.


def _reply(query, fault, ttl):
    """The answer to `query`, or None.  Every name below example.org has the one address; so has every other."""
    end = 12
    while end < len(query) and query[end]:
        end += query[end] + 1
    end += 5
    if len(query) < end:
        return None
    qtype = struct.unpack("!H", query[end - 4:end - 2])[0]
    rcode = fault.get("rcode", 0)
    truncated = 0x0200 if fault.get("truncate") else 0
    answers = 1 if qtype == 1 and not rcode and not truncated else 0
    reply = query[:2] + struct.pack("!5H", 0x8180 | truncated | rcode, 1, answers, 0, 0) + query[12:end]
    if answers:
        reply += struct.pack("!3HIH", 0xC00C, 1, 1, ttl, 4) + ADDRESS
    return reply[:-5] if fault.get("cut") else reply


def _serve(udp, tcp, ttl, pipe):
    fault, due, tie = {}, [], 0
    while True:
        wait = max(0, due[0][0] - time.monotonic()) if due else None
        for ready in select.select([udp, tcp, pipe], [], [], wait)[0]:
            if ready is pipe:
                fault = pipe.recv()
                if fault is None:
                    return
                pipe.send("taken")
            elif ready is tcp:
                connection = tcp.accept()[0]
                if not fault.get("truncate") and fault.get("drop") != 1:
                    _serve_connection(connection, ttl)
                connection.close()
            else:
                query, source = udp.recvfrom(4096)
                if random.random() < fault.get("drop", 0):
                    continue
                reply = _reply(query, fault, ttl)
                if reply is None:
                    continue
                tie += 1
                heapq.heappush(due, (time.monotonic() + fault.get("delay", 0), tie, reply, source))
        while due and due[0][0] <= time.monotonic():
            _, _, reply, source = heapq.heappop(due)
            udp.sendto(reply, source)


def _serve_connection(connection, ttl):
    connection.settimeout(0.2)
    try:
        size = struct.unpack("!H", connection.recv(2))[0]
        reply = _reply(connection.recv(size), {}, ttl)
        connection.sendall(struct.pack("!H", len(reply)) + reply)
    except (OSError, struct.error, TypeError):
        pass  # the client has gone, or never meant it


class Upstream:
    def __init__(self, ttl):
        while True:
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            udp.bind(("127.0.0.1", 0))
            tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self.port = udp.getsockname()[1]
            try:
                tcp.bind(("127.0.0.1", self.port))
                break
            except OSError:
                udp.close()
        tcp.listen(64)
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_serve, args=(udp, tcp, ttl, theirs), daemon=True)
        self._process.start()
        udp.close()
        tcp.close()

    def fail(self, fault):
        """From now on; {} is well again."""
        self._pipe.send(fault)
        self._pipe.recv()

    def close(self):
        self._pipe.send(None)
        self._process.join(5)
