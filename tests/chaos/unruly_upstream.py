# SPDX-License-Identifier: Apache-2.0
"""Upstream servers that misbehave in every way that a script can: over UDP, TCP and TLS, each in a mood.

A mood is a table of acts and their weights; each datagram, connection and message draws one.  The servers run in a
process of their own on an event loop.  The owner changes moods at any time with `be`.  An answer that may be believed
is always true; forged ones carry truth.FORGED and something that gives them away.
"""

import asyncio
import contextlib
import multiprocessing
import random
import socket
import ssl
import struct

import truth
from harness.dns_client import frame
from harness.ports import free_port

_FORK = multiprocessing.get_context("fork")
_NOERROR, _FORMERR, _SERVFAIL, _NXDOMAIN, _REFUSED = 0, 1, 2, 3, 5
_A, _CNAME, _SOA = 1, 5, 6
_LATE = (1.2, 1.8)  # seconds until a connection that said nothing is closed: beyond the first retry of a query
_LONGEST_HANG = 20  # seconds
_FLOOD = 200  # forged datagrams for one query

# Weights of acts by kind: `udp` for a datagram, `accept` for a connection, `hello` for a TLS connection before its
# handshake, `stream` for a query on a connection.  The first act of each is the good one.
_WELL = {"udp": {"answer": 1}, "accept": {"talk": 1}, "hello": {"shake": 1}, "stream": {"answer": 1}}
MOODS = {
    "well": _WELL,
    "mixed": {
        "udp": {"answer": 20, "drop": 4, "slow": 4, "truncate": 6, "servfail": 2, "refused": 2, "formerr": 2,
                "wrong_ids": 2, "wrong_name": 2, "wrong_port": 2, "garbage": 2, "cut": 2, "twice": 2},
        "accept": {"talk": 12, "hang": 1, "late_close": 3, "reset": 2, "close": 2, "late_reset": 1},
        "hello": {"shake": 10, "late_close": 2, "garbage": 1, "reset": 1, "half_hello": 1},
        "stream": {"answer": 16, "slow": 4, "drop": 2, "wrong_ids": 2, "garbage": 1, "cut": 1, "half": 1, "close": 2,
                   "reset": 1, "late_close": 2, "dribble": 1, "twice": 1, "empty": 1, "late_reset": 1, "half_shut": 1},
    },
    # A load balancer in front of a dead server.
    "mute": {"udp": {"drop": 1}, "accept": {"late_close": 6, "late_reset": 1, "hang": 1},
             "hello": {"late_close": 4, "shake": 2}, "stream": {"late_close": 1}},
    "truncating": {"udp": {"truncate": 1}, "accept": {"talk": 2, "late_close": 3, "hang": 1}, "hello": {"shake": 1},
                   "stream": {"late_close": 3, "hang": 1, "answer": 1, "slow": 1}},
    "resetting": {"udp": {"answer": 1, "truncate": 2, "drop": 1}, "accept": {"reset": 1, "close": 1, "talk": 2},
                  "hello": {"reset": 1, "shake": 2}, "stream": {"reset": 1, "close": 1, "half": 1, "answer": 1}},
    "forging": {"udp": {"wrong_ids": 2, "wrong_port": 2, "wrong_name": 2, "garbage": 1, "cut": 1}, "accept": {"talk": 1},
                "hello": {"shake": 1}, "stream": {"wrong_ids": 2, "garbage": 1, "cut": 1}},
    "slow": {"udp": {"slow": 1}, "accept": {"talk": 1}, "hello": {"shake": 1}, "stream": {"slow": 3, "dribble": 1}},
    "closed": _WELL,  # and the sockets are closed
}
_NAMES = list(MOODS)


def _draw(chance, weights):
    return chance.choices(list(weights), list(weights.values()))[0]


class _Query:
    """One query as octets.  Raises IndexError or struct.error on what is none."""

    def __init__(self, wire):
        self.wire = wire
        end, labels = 12, []
        while wire[end]:
            labels.append(wire[end + 1:end + 1 + wire[end]].decode("ascii", "replace"))
            end += 1 + wire[end]
        self.name = ".".join(labels).lower()
        self.labels = self.name.split(".")
        self.question = wire[12:end + 5]
        self.rdtype = struct.unpack("!H", self.question[-4:-2])[0]

    def response(self, rcode=_NOERROR, answers=(), authority=(), truncated=False):
        flags = 0x8080 | (self.wire[2] & 1) << 8 | rcode | (0x0200 if truncated else 0)
        header = self.wire[:2] + struct.pack("!HHHHH", flags, 1, len(answers), len(authority), 0)
        return header + self.question + b"".join(answers) + b"".join(authority)

    def truth(self, over_udp):
        if "wild" not in self.labels:
            return self.response(_NXDOMAIN, authority=[_soa()])
        if self.rdtype != _A:
            return self.response(authority=[_soa()])
        ttl = 1 if "short" in self.labels else 20
        address = socket.inet_aton(truth.address_of(self.name))
        if "alias" in self.labels and self.labels[0] != "target":
            target = _wire_name(f"target.{self.name}")
            return self.response(answers=[_record(b"\xc0\x0c", _CNAME, ttl, target), _record(target, _A, ttl, address)])
        if "big" not in self.labels:
            return self.response(answers=[_record(b"\xc0\x0c", _A, ttl, address)])
        if over_udp:
            return self.response(truncated=True)
        return self.response(answers=[_record(b"\xc0\x0c", _A, ttl, address)] +
                             [_record(b"\xc0\x0c", 16, ttl, bytes([200]) + bytes(200))] * 20)

    def lie(self, **change):
        forged = self.response(answers=[_record(b"\xc0\x0c", _A, 300, socket.inet_aton(truth.FORGED))])
        if "id" in change:
            forged = struct.pack("!H", change["id"]) + forged[2:]
        if change.get("name"):
            forged = forged[:12] + forged[12:].replace(self.question, b"\5wrong\7example\0" + self.question[-4:], 1)
        return forged


def _wire_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _record(owner, rdtype, ttl, rdata):
    return owner + struct.pack("!HHIH", rdtype, 1, ttl, len(rdata)) + rdata


def _soa():
    return _record(b"\0", _SOA, 5, _wire_name("ns.test") + _wire_name("host.test") + struct.pack("!5I", 1, 3600, 600, 86400, 5))


class _Server:
    """UDP, TCP and TLS of one upstream, on the event loop."""

    def __init__(self, address, mood, chance, tls):
        self.host, self.port, self.tls_port = address
        self._mood, self._chance, self._tls = mood, chance, tls
        self._udp, self._listeners = None, []
        self._tasks = set()
        self._in_pieces = set()  # connections with part of a message written

    @property
    def mood(self):
        return MOODS[_NAMES[self._mood.value]]

    def act(self, kind):
        return _draw(self._chance, self.mood[kind])

    async def follow_mood(self):
        """Opens and closes the sockets as the mood changes."""
        while True:
            wanted = _NAMES[self._mood.value] != "closed"
            if wanted != (self._udp is not None):
                with contextlib.suppress(OSError):
                    await (self._open() if wanted else self._close())
            await asyncio.sleep(0.05)

    async def _open(self):
        loop = asyncio.get_running_loop()
        for port, serve in ((self.port, self._serve_plain), (self.tls_port, self._serve_tls)):
            self._listeners.append(await asyncio.start_server(self._kept(serve), self.host, port, backlog=256,
                                                              reuse_address=True))
        self._udp, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), local_addr=(self.host, self.port))

    async def _close(self):
        self._udp.close()
        for listener in self._listeners:
            listener.close()
        self._udp, self._listeners = None, []

    def _kept(self, serve):
        """The loop itself keeps no reference to a running task."""
        async def run(reader, writer):
            task = asyncio.current_task()
            self._tasks.add(task)
            try:
                await serve(reader, writer)
            except (OSError, EOFError, ValueError, IndexError, struct.error, asyncio.TimeoutError, RuntimeError):
                pass  # the daemon may close, and we may have spoken rubbish
            finally:
                self._tasks.discard(task)
                writer.transport.abort()
        return run

    # --- UDP

    def on_datagram(self, wire, source):
        with contextlib.suppress(IndexError, struct.error):
            self._answer_datagram(_Query(wire), source)

    def _answer_datagram(self, query, source):
        act, chance = self.act("udp"), self._chance
        send = self._send_datagram
        if act in ("answer", "twice"):
            for _ in range(2 if act == "twice" else 1):
                send(query.truth(True), source)
        elif act == "slow":
            asyncio.get_running_loop().call_later(chance.uniform(0.05, 3), send, query.truth(True), source)
        elif act == "truncate":
            send(query.response(truncated=True), source)
        elif act in ("servfail", "refused", "formerr"):
            send(query.response({"servfail": _SERVFAIL, "refused": _REFUSED, "formerr": _FORMERR}[act]), source)
        elif act == "wrong_ids":
            known = struct.unpack("!H", query.wire[:2])[0]
            for _ in range(_FLOOD):
                send(query.lie(id=(known + chance.randrange(1, 65536)) % 65536), source)
        elif act == "wrong_name":
            send(query.lie(name=True), source)
        elif act == "wrong_port":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.bind((self.host, 0))
                other.sendto(query.lie(), source)
        elif act == "garbage":
            send(query.wire[:2] + chance.randbytes(chance.randrange(0, 600)), source)
        elif act == "cut":
            whole = query.truth(True)
            send(whole[:chance.randrange(0, len(whole))], source)

    def _send_datagram(self, wire, source):
        if self._udp is not None:
            self._udp.sendto(wire, source)

    # --- TCP and TLS

    async def _serve_plain(self, reader, writer):
        await self._serve(reader, writer)

    async def _serve_tls(self, reader, writer):
        act = self.act("hello")
        if act == "garbage":
            writer.write(self._chance.randbytes(self._chance.randrange(1, 300)))
            await asyncio.sleep(self._chance.uniform(0, 0.2))
        elif act == "half_hello":
            writer.write(bytes.fromhex("160303007a020000760303"))
            await self._end("late_close", writer)
        elif act == "shake":
            await asyncio.wait_for(writer.start_tls(self._tls), 5)
            await self._serve(reader, writer)
        else:
            await self._end(act, writer)

    async def _serve(self, reader, writer):
        act = self.act("accept")
        if act != "talk":
            await self._end(act, writer)
            return
        while True:
            size = struct.unpack("!H", await reader.readexactly(2))[0]
            query = _Query(await reader.readexactly(size))
            if not await self._answer(query, writer):
                return
            await writer.drain()

    async def _answer(self, query, writer):
        """Whether the connection goes on."""
        act, chance = self.act("stream"), self._chance
        whole = frame(query.truth(False))
        if act in ("answer", "twice"):
            writer.write(whole * (2 if act == "twice" else 1))
        elif act == "slow":
            asyncio.get_running_loop().call_later(chance.uniform(0.05, 3), self._write, writer, whole)
        elif act == "wrong_ids":
            known = struct.unpack("!H", query.wire[:2])[0]
            for _ in range(20):
                writer.write(frame(query.lie(id=(known + chance.randrange(1, 65536)) % 65536)))
        elif act == "garbage":
            writer.write(frame(chance.randbytes(chance.randrange(0, 300))))
        elif act == "cut":
            writer.write(frame(whole[2:chance.randrange(2, len(whole))]))
        elif act == "half":
            writer.write(whole[:chance.randrange(1, len(whole))])
            await self._end(chance.choice(("close", "reset", "late_close")), writer)
            return False
        elif act == "dribble":
            self._in_pieces.add(writer)
            try:
                for octet in whole[:60]:
                    writer.write(bytes([octet]))
                    await asyncio.sleep(0.002)
                writer.write(whole[60:])
            finally:
                self._in_pieces.discard(writer)
        elif act == "empty":
            writer.write(b"\0\0" * 50)
        elif act == "half_shut":
            with contextlib.suppress(OSError, NotImplementedError):
                writer.write_eof()
            await self._end("late_close", writer)
            return False
        elif act != "drop":
            await self._end(act, writer)
            return False
        return True

    def _write(self, writer, wire):
        """Not within another message, which would give that one's question an address of these octets."""
        if writer in self._in_pieces:
            asyncio.get_running_loop().call_later(0.01, self._write, writer, wire)
        elif not writer.is_closing():
            writer.write(wire)

    async def _end(self, act, writer):
        if act.startswith("late"):
            await asyncio.sleep(self._chance.uniform(*_LATE))
        elif act == "hang":
            await asyncio.sleep(_LONGEST_HANG)
        if act.endswith("reset"):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server):
        self._server = server

    def datagram_received(self, data, addr):
        self._server.on_datagram(data, addr)


def _serve_all(addresses, moods, seed, certificate, key):
    async def run():
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        servers = [_Server(address, mood, random.Random(f"{seed}-upstream-{i}"), tls)
                   for i, (address, mood) in enumerate(zip(addresses, moods))]
        await asyncio.gather(*(server.follow_mood() for server in servers))
    asyncio.run(run())


class UnrulyUpstreams:
    """`count` servers from construction to close(), all of mood "well" at first."""

    def __init__(self, count, seed, certificate, key):
        self._addresses = [("127.0.0.1", free_port(), free_port()) for _ in range(count)]
        self._moods = [_FORK.Value("i", 0) for _ in range(count)]
        self._process = _FORK.Process(target=_serve_all, daemon=True,
                                      args=(self._addresses, self._moods, seed, certificate, key))
        self._process.start()

    def __len__(self):
        return len(self._moods)

    def plain(self, i):
        """The server for UDP and TCP, as the configuration names it."""
        return f"{self._addresses[i][0]}:{self._addresses[i][1]}"

    def tls(self, i):
        return f"tls://{self._addresses[i][0]}:{self._addresses[i][2]}#localhost"

    def be(self, i, mood):
        self._moods[i].value = _NAMES.index(mood)

    def is_alive(self):
        return self._process.is_alive()

    def close(self):
        self._process.kill()
        self._process.join()
