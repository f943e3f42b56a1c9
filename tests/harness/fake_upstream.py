# SPDX-License-Identifier: Apache-2.0
"""A scripted upstream: answers from a list of records, misbehaves where a rule says so, and remembers
every query.  UDP and TCP on one port of a loopback address, or TLS.

A rule is a mapping.  What it applies to:
    match: "www.example.org. A"   a name or "*.suffix", and perhaps a type; absent = every query
    on: accept                    connections instead of queries: only `say`, `hang` and `reset` happen
    transport: udp | tcp          absent = both; TLS is tcp
    when: edns | options          queries with OPT, or with an option in it; absent = all
    times: 2                      only the first two queries that match; absent = always
    share: 0.3                    only that part of them, by chance (the seed is fixed)
What happens then (absent = the zone's answer):
    drop: true                    no answer at all (over TCP: the connection is closed)
    silent: true                  no answer, and the connection stays
    say: "16030300"               these octets, without a length before them
    half: true                    the first part of the answer; needs hang
    half_shut: true               with hang: FIN at once
    hang: 1.5                     no answer; over TCP the connection is closed after so many seconds
    reset: true                   with hang: the connection is reset instead
    delay: 0.3                    seconds before the answer; here and for hang, [0.1, 3] is any time between
    copies: 2                     the answer, or what is forged, so many times
    dribble: true                 over TCP, octet by octet
    rcode: SERVFAIL               with empty sections
    truncate: true                TC=1 and no records
    answer / authority / additional: [records]   instead of the zone's
    forge: wrong_id | wrong_name | wrong_type | not_a_response | wrong_opcode | wrong_port | garbage
           | cut | cut_short | trailing   what leaves first
    then: true                    after a forged message also the true one, 60 ms later
    formerr_on_edns: true         FORMERR without OPT to queries with OPT
"""

import contextlib
import copy
import heapq
import itertools
import random
import selectors
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from harness.dns_client import frame
from harness.expectation import parse_record
from harness.ports import free_port

_DEFAULT_SOA = ". 60 SOA ns.upstream.test. hostmaster.upstream.test. 1 7200 1800 86400 60"
_DEFAULT_TTL = 300
_AFTER_A_FORGERY = 0.06  # seconds; long enough to be another datagram, short of any timeout
# Least time between two tries of one question.  The daemon waits at least 100 ms, counted from a time before it sends.
_LEAST_WAIT_OF_A_RETRY = 0.05
SO_TIMESTAMPNS = 35
_MAX_CHAIN = 64
_MIN_RECORD_SIZE = 12  # octets on the wire: a pointer and the fixed fields

FORGED = "203.0.113.66"  # the address in every lie
_DRIBBLED = 60  # octets that leave one by one
_PAUSE = 0.002  # seconds between them

_RULE_KEYS = {"match", "on", "transport", "times", "share", "drop", "silent", "say", "half", "half_shut", "hang", "reset", "delay",
              "copies", "dribble", "rcode", "truncate", "answer", "authority", "additional", "forge", "then",
              "formerr_on_edns", "when"}


@dataclass
class Received:
    """One query as it arrived."""
    name: str  # lower case
    rdtype: str
    transport: str
    id: int
    source_port: int
    wire: bytes
    message: dns.message.Message
    time: float  # monotonic, of arrival in the socket, also if it is read later

    def __str__(self):
        return f"{self.name} {self.rdtype}"


def without_retries(received):
    """Leaves out the queries over UDP that may be retries, which are legal where the machine is busy: the same question came
    so long before.  A question that is asked twice for another reason follows at once."""
    last, kept = {}, []
    for query in sorted(received, key=lambda query: query.time):
        before = last.get((str(query), query.transport))
        if query.transport != "udp" or before is None or query.time - before < _LEAST_WAIT_OF_A_RETRY:
            kept.append(query)
        last[str(query), query.transport] = query.time
    return kept


def arrival(control):
    """The monotonic time of the kernel's timestamp."""
    for _, kind, data in control:
        if kind == SO_TIMESTAMPNS:
            whole, nanoseconds = struct.unpack("qq", data)
            return whole + nanoseconds / 1e9 - time.time() + time.monotonic()
    return time.monotonic()


def _rrset(owner, ttl, rdtype, rdata):
    return dns.rrset.from_rdata(owner, ttl, dns.rdata.from_text(
        dns.rdataclass.IN, rdtype, rdata, origin=dns.name.root, relativize=False))


class Zone:
    """Records by name and type; wildcards as in RFC 4592, without its exceptions."""

    def __init__(self, lines=()):
        self._records = {}
        for line in [_DEFAULT_SOA, *lines]:
            record = parse_record(line)
            ttl = _DEFAULT_TTL if record.ttl is None else record.ttl
            types = self._records.setdefault(record.owner, {})
            types.setdefault(record.rdtype, []).append((ttl, record.to_rdata()))

    def answer(self, response):
        question = response.question[0]
        wanted = dns.rdatatype.to_text(question.rdtype)
        name = question.name
        for _ in range(_MAX_CHAIN):
            types = self._types_at(name)
            if types is None:
                response.set_rcode(dns.rcode.NXDOMAIN)
                break
            if "CNAME" in types and wanted != "CNAME":
                ttl, rdata = types["CNAME"][0]
                response.answer.append(dns.rrset.from_rdata(name, ttl, rdata))
                name = rdata.target
                continue
            # A set of its own for each TTL: a careless upstream may have several.
            for ttl in dict.fromkeys(ttl for ttl, _ in types.get(wanted, [])):
                response.answer.append(dns.rrset.from_rdata_list(
                    name, ttl, [rdata for age, rdata in types[wanted] if age == ttl]))
            if wanted in types:
                return
            break
        response.authority.append(self._soa_above(name))

    def _types_at(self, name):
        if name in self._records and name != dns.name.root:
            return self._records[name]
        parent = name
        while parent != dns.name.root:
            parent = parent.parent()
            wildcard = dns.name.Name((b"*", *parent.labels))
            if wildcard in self._records:
                return self._records[wildcard]
        if any(owner.is_subdomain(name) for owner in self._records):
            return {}
        return None

    def _soa_above(self, name):
        while "SOA" not in self._records.get(name, {}):
            name = name.parent()
        ttl, rdata = self._records[name]["SOA"][0]
        return dns.rrset.from_rdata(name, ttl, rdata)


def one_of(weights, rules):
    """Rules of which one applies to each query, by chance: {name: weight}, and {name: rule}; a name without a rule is the
    true answer."""
    left, chosen = sum(weights.values()), []
    for name, weight in weights.items():
        chosen.append({**rules.get(name, {}), "share": weight / left})
        left -= weight
    return chosen


class _Rule:
    def __init__(self, spec, chance):
        unknown = set(spec) - _RULE_KEYS
        if unknown:
            raise ValueError(f"upstream rule: unknown keys {sorted(unknown)}; known are {sorted(_RULE_KEYS)}")
        self.spec = spec
        self.left = spec.get("times", None)
        self.chance = chance
        name, _, self.rdtype = spec.get("match", "*.").partition(" ")
        self.is_wildcard = name.startswith("*.")
        self.name = dns.name.from_text(name[2:] if self.is_wildcard else name)

    def takes(self, received):
        """Whether it is for this query, or for a connection that was accepted (None)."""
        if self.left == 0 or ("on" in self.spec) != (received is None) or received and not self._matches(received):
            return False
        if self.chance.random() >= self.spec.get("share", 1):
            return False
        if self.left is not None:
            self.left -= 1
        return True

    def _matches(self, received):
        if self.rdtype not in ("", received.rdtype) or self.spec.get("transport", received.transport) != received.transport:
            return False
        when = "edns" if self.spec.get("formerr_on_edns") else self.spec.get("when")
        if when and (received.message.edns < 0 or when == "options" and not received.message.options):
            return False
        name = received.message.question[0].name
        return name.is_subdomain(self.name) if self.is_wildcard else name == self.name


class _OverUdp:
    """The way back to the sender of a datagram."""

    def __init__(self, server, source):
        self._server, self._source = server, source

    def send(self, wire):
        self._server.sendto(wire, self._source)

    say = send

    def send_from_elsewhere(self, wire):
        with socket.socket(self._server.family, socket.SOCK_DGRAM) as other:
            other.bind((self._server.getsockname()[0], 0))
            other.sendto(wire, self._source)

    def end(self, reset=False):
        pass


class _OverStream:
    """A client's connection, over TCP or TLS; nothing leaves it once `ends` is set."""

    def __init__(self, connection, source):
        self.connection, self.source = connection, source
        self.received = b""
        self.ends = False

    def send(self, wire):
        self.say(frame(wire))

    def say(self, octets):
        if not self.ends:
            self.connection.sendall(octets)

    def dribble(self, wire):
        octets = frame(wire)
        for i in range(min(_DRIBBLED, len(octets))):
            self.say(octets[i:i + 1])
            time.sleep(_PAUSE)
        self.say(octets[_DRIBBLED:])

    def take_messages(self):
        while len(self.received) >= 2 and len(self.received) >= 2 + struct.unpack("!H", self.received[:2])[0]:
            end = 2 + struct.unpack("!H", self.received[:2])[0]
            wire, self.received = self.received[2:end], self.received[end:]
            yield wire


class FakeUpstream:
    """Serves from its own thread from construction to close().  Without `tcp`, connections are refused; with `certificates`,
    a certificate and its key, it speaks TLS only.  `zone` stands for the records: it has answer(response)."""

    def __init__(self, records=(), rules=(), address="127.0.0.1", port=None, tcp=True, certificates=None, zone=None, seed=1):
        self.address = address
        self._listens_on_tcp = tcp
        self._tls = None
        if certificates:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*certificates)
        self.port = port or free_port(address)
        self.ended = 0  # connections
        self._lock = threading.Lock()
        self._received = []
        self._chance = random.Random(seed)
        self._zone, self._rules = zone or Zone(records), self.parse_rules(rules)
        self._selector = selectors.DefaultSelector()
        self._due = []  # heap of (time, tie, action)
        self._tie = itertools.count()
        self._wake_read, self._wake_write = socket.socketpair()
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
        self._clients = set()
        self._open()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _open(self):
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        self._udp = socket.socket(family, socket.SOCK_DGRAM)
        self._udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._udp.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._tcp = socket.socket(family, socket.SOCK_STREAM)
        self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._tcp.bind((self.address, self.port))
        if not self._tls:
            self._udp.bind((self.address, self.port))
            self._selector.register(self._udp, selectors.EVENT_READ, self._on_datagram)
        if self._listens_on_tcp:
            self._tcp.listen(256)
            self._selector.register(self._tcp, selectors.EVENT_READ, self._on_connection)

    @property
    def server(self):
        """As upstream.servers has it; a certificate is for the address."""
        return f"tls://{self.address}:{self.port}#{self.address}" if self._tls else f"{self.address}:{self.port}"

    def parse_rules(self, rules):
        # Each rule that applies to a share has a chance of its own: what other rules draw does not change it.
        return [_Rule(rule, random.Random(self._chance.random())) for rule in rules]

    def set(self, records=(), rules=()):
        """Replaces what is answered from the next query on."""
        zone, parsed = Zone(records), self.parse_rules(rules)
        with self._lock:
            self._zone, self._rules = zone, parsed

    def current_rules(self):
        return self._rules

    def received(self, name=None, rdtype=None):
        """Returns the queries that arrived so far, for that name (in any case) and type if given."""
        with self._lock:
            return [r for r in self._received
                    if (name is None or r.name == name.lower())
                    and (rdtype is None or r.rdtype == rdtype)]

    def answer_from_zone(self, response):
        """Fills in what the records alone say, no rule applied."""
        with self._lock:
            self._zone.answer(response)

    def listen(self, wanted):
        """Opens or closes the sockets soon; meanwhile the kernel refuses."""
        self._wants_to_listen = wanted
        if wanted != self._listens:
            self._wake_write.send(b"x")

    def forget(self):
        with self._lock:
            self._received.clear()

    def close(self):
        if self._thread.is_alive():
            self._stopping = True
            self._wake_write.send(b"x")
            self._thread.join(5)
        self._shut()
        self._wake_read.close()
        self._wake_write.close()

    # The rest runs on the serving thread.

    _stopping = False
    _wants_to_listen = _listens = True

    def _on_wake(self):
        self._wake_read.recv(64)
        if self._stopping or self._wants_to_listen == self._listens:
            return
        if self._listens:
            self._shut()
        else:
            self._open()
        self._listens = not self._listens

    def _shut(self):
        for server in (self._udp, self._tcp):
            with contextlib.suppress(KeyError):
                self._selector.unregister(server)
            server.close()
        for client in list(self._clients):
            self._end(client)

    def _serve(self):
        while not self._stopping:
            timeout = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            for key, _ in self._selector.select(timeout):
                self._do_quietly(key.data)
            while self._due and self._due[0][0] <= time.monotonic():
                self._do_quietly(heapq.heappop(self._due)[2])

    @staticmethod
    def _do_quietly(action):
        try:
            action()
        except OSError:
            pass  # the client has gone, or the sockets have been closed

    def _after(self, delay, action):
        if delay:
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._tie), action))
        else:
            self._do_quietly(action)

    def _seconds(self, value):
        return self._chance.uniform(*value) if isinstance(value, (list, tuple)) else value

    def _take(self, received):
        """The first rule that applies says what is to happen."""
        with self._lock:
            if received:
                self._received.append(received)
            return next((rule.spec for rule in self.current_rules() if rule.takes(received)), {}), self._zone

    def _on_datagram(self):
        wire, control, _, source = self._udp.recvmsg(65535, 256)
        self._handle(wire, "udp", source, _OverUdp(self._udp, source), arrival(control))

    def _on_connection(self):
        connection, source = self._tcp.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        spec, _ = self._take(None)
        if self._tls and not spec:
            connection.setblocking(False)  # part of a handshake, or of a record, is no data yet
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        client = _OverStream(connection, source)
        self._clients.add(client)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._on_stream(client))
        if spec:
            self._hang(spec, client)

    def _on_stream(self, client):
        try:
            data = client.connection.recv(65535)
            while self._tls and data and isinstance(client.connection, ssl.SSLSocket) and client.connection.pending():
                data += client.connection.recv(65535)
        except ssl.SSLWantReadError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(client)
        elif not client.ends:
            client.received += data
            for wire in client.take_messages():
                self._handle(wire, "tcp", client.source, client, time.monotonic())

    def _hang(self, spec, client, answer=b""):
        with contextlib.suppress(OSError):
            client.say(bytes.fromhex(spec.get("say", "")))
            if spec.get("half"):
                client.say(frame(answer)[:self._chance.randrange(1, len(answer))])
            if spec.get("half_shut"):
                client.connection.shutdown(socket.SHUT_WR)
        client.ends = True
        self._after(self._seconds(spec.get("hang", 0)), lambda: self._end(client, spec.get("reset", False)))

    def _end(self, client, reset=False):
        if client in self._clients:
            self._clients.remove(client)
            client.ends = True
            self._selector.unregister(client.connection)
            if reset:
                client.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.connection.close()
            self.ended += 1

    def _handle(self, wire, transport, source, client, arrived):
        try:
            query = dns.message.from_wire(wire)
        except Exception:  # whatever a fuzzed daemon might send
            return
        if not query.question:
            return
        question = query.question[0]
        received = Received(question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype),
                            transport, query.id, source[1], wire, query, arrived)
        spec, zone = self._take(received)
        if spec.get("silent") or transport == "udp" and (spec.get("drop") or "hang" in spec):
            return
        if spec.get("drop") or "hang" in spec:
            self._hang(spec, client, self._response(query, spec, zone, transport) if spec.get("half") else b"")
            return
        copies = range(spec.get("copies", 1))
        delay = self._seconds(spec.get("delay", 0))
        if "forge" in spec:
            self._after(delay, lambda: [self._send_forged(spec["forge"], query, client) for _ in copies])
            if not spec.get("then"):
                return
            delay += _AFTER_A_FORGERY
        self._after(delay, lambda: [self._send(spec, client, self._response(query, spec, zone, transport)) for _ in copies])

    @staticmethod
    def _send(spec, client, wire):
        if "say" in spec:
            client.say(bytes.fromhex(spec["say"]))
        elif spec.get("dribble"):
            client.dribble(wire)
        else:
            client.send(wire)

    @staticmethod
    def _response(query, spec, zone, transport):
        response = dns.message.make_response(query, recursion_available=True)
        response.flags |= dns.flags.AA  # as an authority: a forwarder must not pass it on
        if spec.get("formerr_on_edns"):
            response.use_edns(-1)
            response.set_rcode(dns.rcode.FORMERR)
        elif "rcode" in spec:
            response.set_rcode(dns.rcode.from_text(spec["rcode"]))
        elif spec.get("truncate"):
            response.flags |= dns.flags.TC
        elif not {"answer", "authority", "additional"} & set(spec):
            zone.answer(response)
        for section in ("answer", "authority", "additional"):
            for line in spec.get(section, []):
                record = parse_record(line)
                getattr(response, section).append(_rrset(
                    record.owner, _DEFAULT_TTL if record.ttl is None else record.ttl,
                    record.rdtype, record.rdata))
        limit = 65535 if transport == "tcp" else max(512, query.payload if query.edns >= 0 else 512)
        try:
            if sum(len(rrset) for rrset in response.answer) * _MIN_RECORD_SIZE > limit:
                raise dns.exception.TooBig
            return response.to_wire(max_size=limit)
        except dns.exception.TooBig:
            short = dns.message.make_response(query, recursion_available=True)
            short.flags |= dns.flags.TC
            return short.to_wire()

    def _send_forged(self, forgery, query, client):
        """A lie: FORGED for whatever was asked, with one thing about the message wrong."""
        lie = dns.message.make_response(query, recursion_available=True)
        lie.question = copy.deepcopy(query.question)  # the true answer still needs its own
        question = query.question[0]
        lie.answer.append(_rrset(question.name, 300, "A", FORGED))
        if forgery == "wrong_id":
            lie.id = (lie.id + self._chance.randrange(1, 65536)) % 65536
        elif forgery == "wrong_name":
            wrong = dns.name.from_text("wrong.example.net.")
            lie.question[0].name = wrong
            lie.answer[0].name = wrong
        elif forgery == "wrong_type":
            lie.question[0].rdtype = dns.rdatatype.TXT
        elif forgery == "not_a_response":
            lie.flags &= ~dns.flags.QR
        elif forgery == "wrong_opcode":
            lie.set_opcode(dns.opcode.NOTIFY)
        wire = lie.to_wire()
        if forgery == "garbage":
            wire = wire[:2] + self._chance.randbytes(self._chance.randrange(600))
        elif forgery == "cut":
            wire = wire[:-2]
        elif forgery == "cut_short":
            wire = wire[:self._chance.randrange(len(wire))]
        elif forgery == "trailing":
            wire += b"\x00\x01\x02"
        if forgery == "wrong_port":
            client.send_from_elsewhere(wire)
        else:
            client.send(wire)
