# SPDX-License-Identifier: Apache-2.0
"""A DNS client for tests: one question, one transport, and the answer as it came over the wire."""

import socket
import struct
import time
from dataclasses import dataclass, field

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype

from harness.waiting import seconds

_ADDRESS_FAMILIES = {False: socket.AF_INET, True: socket.AF_INET6}


@dataclass
class Question:
    """A question, and how it is asked.  `source` binds the client's socket to that address."""
    name: str
    rdtype: str = "A"
    rdclass: str = "IN"
    edns: bool = True
    bufsize: int = 1232
    do: bool = False
    ad: bool = False
    cd: bool = False
    rd: bool = True
    options: list = field(default_factory=list)
    source: str = ""

    def to_message(self):
        message = dns.message.make_query(
            dns.name.from_text(self.name), self.rdtype, self.rdclass,
            use_edns=0 if self.edns else -1, payload=self.bufsize, want_dnssec=self.do,
            options=self.options or None)
        message.flags = 0
        for wanted, flag in ((self.rd, dns.flags.RD), (self.ad, dns.flags.AD), (self.cd, dns.flags.CD)):
            if wanted:
                message.flags |= flag
        return message

    def __str__(self):
        rdclass = "" if self.rdclass == "IN" else f"{self.rdclass} "
        return f"{self.name} {rdclass}{self.rdtype}"


@dataclass
class Answer:
    """One response: parsed (each record by itself, in the order of the wire), and its octets."""
    question: Question
    transport: str
    wire: bytes
    message: dns.message.Message
    elapsed: float

    @property
    def rcode(self):
        return dns.rcode.to_text(self.message.rcode())

    def has(self, flag):
        return bool(self.message.flags & flag)

    def section(self, name):
        """[(owner, ttl, type, rdata)] of "answer", "authority" or "additional", OPT left out."""
        return [(rrset.name, rrset.ttl, dns.rdatatype.to_text(rrset.rdtype), rdata)
                for rrset in getattr(self.message, name) for rdata in rrset]

    def extended_errors(self):
        return [int(option.code) for option in self.message.options
                if isinstance(option, dns.edns.EDEOption)]

    def extended_text(self):
        return " ".join(option.text or "" for option in self.message.options
                        if isinstance(option, dns.edns.EDEOption))

    def addresses(self):
        return [rdata.address for _, _, rdtype, rdata in self.section("answer")
                if rdtype in ("A", "AAAA")]

    def texts(self):
        return [b"".join(rdata.strings).decode("utf-8", "replace")
                for _, _, rdtype, rdata in self.section("answer") if rdtype == "TXT"]

    def __str__(self):
        return f"over {self.transport}, {len(self.wire)} octets:\n{self.message}"


def parse(question, transport, wire, started):
    try:
        message = dns.message.from_wire(wire, one_rr_per_rrset=True, raise_on_truncation=False)
    except dns.exception.DNSException as error:
        raise AssertionError(f"{question} over {transport}: the answer is malformed ({error!r}): "
                             f"{wire.hex()}") from error
    return Answer(question, transport, wire, message, time.monotonic() - started)


def open_udp(server, source=""):
    udp = socket.socket(_ADDRESS_FAMILIES[":" in server[0]], socket.SOCK_DGRAM)
    if source:
        udp.bind((source, 0))
    udp.connect(server)  # answers from any other address are not taken
    return udp


def open_tcp(server, source="", timeout=5.0):
    tcp = socket.socket(_ADDRESS_FAMILIES[":" in server[0]], socket.SOCK_STREAM)
    tcp.settimeout(seconds(timeout))
    if source:
        tcp.bind((source, 0))
    tcp.connect(server)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tcp


def frame(wire):
    return struct.pack("!H", len(wire)) + wire


def read_frame(tcp):
    """One length-prefixed message, or None where the server closed the connection."""
    head = _read_exactly(tcp, 2)
    return _read_exactly(tcp, struct.unpack("!H", head)[0]) if head else None


def _read_exactly(tcp, count):
    data = b""
    while len(data) < count:
        chunk = tcp.recv(count - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def ask_wire(server, wire, transport="udp", source="", timeout=5.0):
    """Sends octets as they are; the octets that come back, or None when nothing does."""
    try:
        if transport == "udp":
            with open_udp(server, source) as udp:
                udp.settimeout(seconds(timeout))
                udp.send(wire)
                return udp.recv(65535)
        with open_tcp(server, source, timeout) as tcp:
            tcp.sendall(frame(wire))
            return read_frame(tcp)
    except (socket.timeout, ConnectionError):
        return None


def ask(server, question, transport="udp", timeout=5.0):
    started = time.monotonic()
    query = question.to_message()
    wire = ask_wire(server, query.to_wire(), transport, question.source, timeout)
    assert wire is not None, f"{question} over {transport}: no answer within {timeout} s"
    answer = parse(question, transport, wire, started)
    assert answer.message.id == query.id, f"{question}: the answer has another ID\n{answer}"
    return answer
