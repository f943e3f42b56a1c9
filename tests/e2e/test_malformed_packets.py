# SPDX-License-Identifier: Apache-2.0
"""Any octets get the reaction that the RFCs demand, and the daemon continues.

Each case is the octets of one message.  `None` is the reaction "no answer at all".
"""

import random
import struct

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest

from harness.preset import ONE_THREAD
from harness.workspace import Workspace
from harness.dns_client import Question, ask_wire, open_tcp, open_udp, parse, read_frame
from harness.waiting import seconds

pytestmark = ONE_THREAD

ID = 0x1234
RD = 0x0100


def header(flags=RD, qd=1, an=0, ns=0, ar=0):
    return struct.pack("!6H", ID, flags, qd, an, ns, ar)


def name(text):
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".")) + b"\0"


API = name("api.example.org")
A_IN = struct.pack("!HH", 1, 1)
QUESTION = API + A_IN


def opt(version=0, size=1232, options=b"", owner=b"\0", flags=0):
    return owner + struct.pack("!HHBBHH", 41, size, 0, version, flags, len(options)) + options


def record(rdtype=1, rdata=b"\x0a\0\0\1"):
    return API + struct.pack("!HHIH", rdtype, 1, 60, len(rdata)) + rdata


LONG_LABELS = b"".join(b"\x3f" + b"a" * 63 for _ in range(4)) + b"\0"  # 257 octets
MANY_LABELS = b"\x01a" * 128 + b"\0"  # 257 octets, 128 labels

DROPPED = {
    "empty": b"",
    "one octet": b"\x12",
    "eleven octets": header()[:11],
    "a response": header(flags=0x8180) + QUESTION,
    "a response with an unknown opcode": header(flags=0xF800) + QUESTION,
    "a response without a question": header(flags=0x8180, qd=0),
}

FORMERR = {
    "no question": header(qd=0),
    "no question but OPT": header(qd=0, ar=1) + opt(),
    "two questions": header(qd=2) + QUESTION + QUESTION,
    "65535 questions": header(qd=65535) + QUESTION,
    "a question that is not there": header(),
    "a name without end": header() + API[:-1],
    "a label longer than the message": header() + b"\x3fapi",
    "a question without type": header() + API,
    "a question without class": header() + API + b"\0\1",
    "compression in the question, to the header": header() + b"\xc0\x00" + A_IN,
    "compression in the question, to itself": header() + b"\xc0\x0c" + A_IN,
    "compression in the question, forward": header() + b"\xc0\x12" + A_IN + API,
    "compression in the question, half a pointer": header() + b"\xc0",
    "a label of type 01": header() + b"\x41a\0" + A_IN,
    "a label of type 10": header() + b"\x81a\0" + A_IN,
    "a name of 257 octets": header() + LONG_LABELS + A_IN,
    "a name of 128 labels": header() + MANY_LABELS + A_IN,
    "two OPT": header(ar=2) + QUESTION + opt() + opt(),
    "OPT with an owner": header(ar=1) + QUESTION + opt(owner=API),
    "OPT cut": header(ar=1) + QUESTION + opt()[:-1],
    "OPT longer than the message": header(ar=1) + QUESTION + b"\0" + struct.pack("!HHIH", 41, 1232, 0, 400),
    "an option longer than OPT": header(ar=1) + QUESTION + opt(options=struct.pack("!HH", 65001, 9) + b"x"),
    "an option without length": header(ar=1) + QUESTION + opt(options=b"\xfd\xe9\0"),
    "an answer record that is not there": header(an=1) + QUESTION,
    "an additional record that is not there": header(ar=1) + QUESTION,
}

# Odd, but clear in what is asked: answered, or refused as malformed; never dropped, never SERVFAIL.
ANSWERED_OR_FORMERR = {
    "trailing octets": header() + QUESTION + b"\0\1\2\3",
    "trailing octets after OPT": header(ar=1) + QUESTION + opt() + b"\xff" * 40,
    "an answer record": header(an=1) + QUESTION + record(),
    "an authority record": header(ns=1) + QUESTION + record(),
    "an additional record": header(ar=1) + QUESTION + record(),
    "OPT in the answer section": header(an=1) + QUESTION + opt(),
    "OPT in the authority section": header(ns=1) + QUESTION + opt(),
    "a short client cookie": header(ar=1) + QUESTION + opt(options=struct.pack("!HH", 10, 3) + b"abc"),
}

ANSWERED = {
    "plain": header() + QUESTION,
    "RD clear": header(flags=0) + QUESTION,
    "TC set": header(flags=RD | 0x0200) + QUESTION,
    "AA and RA set": header(flags=RD | 0x0480) + QUESTION,
    "Z set": header(flags=RD | 0x0040) + QUESTION,
    "AD and CD set": header(flags=RD | 0x0030) + QUESTION,
    "an rcode set": header(flags=RD | 0x0005) + QUESTION,
    "OPT": header(ar=1) + QUESTION + opt(),
    "OPT of size 0": header(ar=1) + QUESTION + opt(size=0),
    "OPT of size 65535": header(ar=1) + QUESTION + opt(size=65535),
    "OPT with unknown flags": header(ar=1) + QUESTION + opt(flags=0x7FFF),
    "an unknown option": header(ar=1) + QUESTION + opt(options=struct.pack("!HH", 65001, 4) + b"spam"),
    "a hundred unknown options": header(ar=1) + QUESTION + opt(options=struct.pack("!HH", 65001, 0) * 100),
    "a client cookie": header(ar=1) + QUESTION + opt(options=struct.pack("!HH", 10, 8) + b"12345678"),
    "padding": header(ar=1) + QUESTION + opt(options=struct.pack("!HH", 12, 100) + b"\0" * 100),
    "a client subnet": header(ar=1) + QUESTION + opt(options=bytes.fromhex("00080007000118 00c63364".replace(" ", ""))),
    "keepalive": header(ar=1) + QUESTION + opt(options=struct.pack("!HH", 11, 0)),
    "upper case": header() + name("API.EXAMPLE.ORG") + A_IN,
}

REFUSED = {
    "AXFR": header() + API + struct.pack("!HH", 252, 1),
    "IXFR": header(ns=1) + API + struct.pack("!HH", 251, 1) + record(
        6, b"\0\0" + struct.pack("!5I", 1, 2, 3, 4, 5)),
    "class ANY": header() + API + struct.pack("!HH", 1, 255),
    "class NONE": header() + API + struct.pack("!HH", 1, 254),
    "class HS": header() + API + struct.pack("!HH", 1, 4),
    "class 0": header() + API + struct.pack("!HH", 1, 0),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("malformed"))
    workspace.write("api.yaml", {
        "kind": "ServiceEntry", "metadata": {"name": "api"},
        "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}})
    upstream = workspace.upstream()
    daemon = workspace.daemon(upstreams=[upstream])
    daemon.upstream = upstream
    yield daemon
    workspace.close()


def still_answers(server):
    for transport in ("udp", "tcp"):
        assert server.ask("api.example.org.", "A", transport).addresses() == ["10.0.0.7"]


def react(server, wire, transport):
    return ask_wire(server.server, wire, transport, timeout=3)


def reply_of(server, wire, transport):
    answer = react(server, wire, transport)
    assert answer is not None, "no reaction"
    assert answer[:2] == wire[:2], "another ID"
    flags = struct.unpack("!H", answer[2:4])[0]
    assert flags & 0x8000, "QR is clear"
    assert not flags & 0x0040, "Z is set"
    return answer


TRANSPORTS = pytest.mark.parametrize("transport", ["udp", "tcp"])


@TRANSPORTS
@pytest.mark.parametrize("case", DROPPED)
def test_drops(server, case, transport):
    """Followed at once by a good query on the same socket: the first answer must be the second's."""
    good = Question("api.example.org.").to_message()
    wire = DROPPED[case]
    if transport == "udp":
        with open_udp(server.server) as udp:
            udp.settimeout(seconds(3))
            udp.send(wire)
            udp.send(good.to_wire())
            answers = [udp.recv(4096)]
    else:
        with open_tcp(server.server) as tcp:
            tcp.sendall(struct.pack("!H", len(wire)) + wire + struct.pack("!H", len(good.to_wire())) + good.to_wire())
            try:
                answers = [a for a in [read_frame(tcp)] if a is not None]
            except ConnectionError:
                answers = []
    # Over TCP the server may also close on who sends such things.
    assert all(answer[:2] == struct.pack("!H", good.id) for answer in answers)
    still_answers(server)


@TRANSPORTS
@pytest.mark.parametrize("case", FORMERR)
def test_says_formerr(server, case, transport):
    wire = FORMERR[case]
    answer = reply_of(server, wire, transport)
    assert answer[3] & 0xF == dns.rcode.FORMERR, answer.hex()
    assert len(answer) <= max(len(wire), 12) + len(opt()), "an error larger than its cause"
    assert struct.unpack("!H", answer[6:8])[0] == 0, "answer records in an error"
    still_answers(server)


@TRANSPORTS
@pytest.mark.parametrize("case", ANSWERED_OR_FORMERR)
def test_answers_or_says_formerr(server, case, transport):
    answer = reply_of(server, ANSWERED_OR_FORMERR[case], transport)
    assert answer[3] & 0xF in (dns.rcode.NOERROR, dns.rcode.FORMERR), answer.hex()
    if answer[3] & 0xF == dns.rcode.NOERROR:
        assert b"\x0a\0\0\7" in answer
        assert b"\xff" * 40 not in answer


@TRANSPORTS
@pytest.mark.parametrize("case", ANSWERED)
def test_answers(server, case, transport):
    wire = ANSWERED[case]
    answer = dns.message.from_wire(reply_of(server, wire, transport))
    assert answer.rcode() == dns.rcode.NOERROR
    assert [rdata.address for rrset in answer.answer for rdata in rrset] == ["10.0.0.7"]
    assert answer.flags & dns.flags.RA and answer.flags & dns.flags.AA
    assert not answer.flags & (dns.flags.AD | dns.flags.TC)
    assert bool(answer.flags & dns.flags.RD) == bool(wire[2] & 1)
    assert (answer.edns >= 0) == (wire[11] == 1)
    if answer.edns >= 0:
        assert answer.edns == 0
        assert b"spam" not in answer.to_wire()
        # Only what is known is ever answered; keepalive only over TCP (RFC 7828).
        kinds = {option.otype for option in answer.options}
        assert kinds <= ({dns.edns.OptionType.COOKIE, 11} if transport == "tcp" else {dns.edns.OptionType.COOKIE})


@TRANSPORTS
@pytest.mark.parametrize("case", REFUSED)
def test_refuses(server, case, transport):
    answer = reply_of(server, REFUSED[case], transport)
    assert answer[3] & 0xF == dns.rcode.REFUSED, answer.hex()
    assert struct.unpack("!H", answer[6:8])[0] == 0
    assert server.upstream.received("api.example.org.") == [], "it was forwarded"


@TRANSPORTS
@pytest.mark.parametrize("opcode", [1, 2, 3, 4, 5, 6, 7, 15])
def test_does_not_implement_other_opcodes(server, opcode, transport):
    wire = header(flags=opcode << 11 | RD) + QUESTION
    answer = reply_of(server, wire, transport)
    assert answer[3] & 0xF == dns.rcode.NOTIMP
    assert answer[2] >> 3 & 0xF == opcode
    assert server.upstream.received("api.example.org.") == []


AXFR, IXFR, ANY, CHAOS = 252, 251, 255, 3
NO_QUESTION_TYPES = {0, 41, 249, 250, 253, 254}  # 0, OPT, TKEY, TSIG, MAILB, MAILA
TYPES = sorted(NO_QUESTION_TYPES | {24, AXFR, IXFR, ANY, 65535})
CLASSES = [0, 1, 2, CHAOS, 4, 254, 255, 65535]


def expected_rcodes(opcode, qclass, qtype):
    if opcode != 0:
        return {dns.rcode.NOTIMP}
    if qclass == CHAOS:  # names of the server alone
        return {dns.rcode.REFUSED, dns.rcode.FORMERR, dns.rcode.NXDOMAIN, dns.rcode.NOERROR}
    if qclass != 1:
        return {dns.rcode.REFUSED, dns.rcode.FORMERR}
    if qtype in NO_QUESTION_TYPES:
        return {dns.rcode.FORMERR, dns.rcode.REFUSED}
    return {dns.rcode.REFUSED} if qtype in (AXFR, IXFR) else {dns.rcode.NOERROR}


@TRANSPORTS
def test_no_opcode_class_or_meta_type_reaches_an_upstream(server, transport):
    """Each with the record of its type in the additional section, too: UPDATE, TKEY and signatures are not taken."""
    with (open_udp if transport == "udp" else open_tcp)(server.server) as sock:
        sock.settimeout(seconds(3))
        for opcode in range(16):
            for qclass in CLASSES:
                for qtype in TYPES:
                    wire = header(flags=opcode << 11 | RD, ar=int(qtype in (24, 249, 250)))
                    wire += API + struct.pack("!HH", qtype, qclass)
                    if qtype in (24, 249, 250):
                        wire += record(qtype, b"\0" * 18)
                    if transport == "udp":
                        sock.send(wire)
                        answer = sock.recv(4096)
                    else:
                        sock.sendall(struct.pack("!H", len(wire)) + wire)
                        answer = read_frame(sock)
                    case = (opcode, qclass, qtype, answer.hex())
                    assert answer[:2] == wire[:2] and answer[2] & 0xF8 == 0x80 | opcode << 3, case
                    assert answer[3] & 0xF in expected_rcodes(opcode, qclass, qtype), case
    # SIG is a type of records, which the registry does not have.
    assert {query.rdtype for query in server.upstream.received("api.example.org.")} <= {"SIG"}
    still_answers(server)


# NSID, cookie, keepalive, padding, error reporting, client subnet, and one that nobody knows.
REPEATED = {"nsid": (3, b""), "cookie": (10, b"12345678"), "keepalive": (11, b""), "padding": (12, b""),
            "report channel": (18, b"\0"), "subnet": (8, bytes.fromhex("0001180000c63364"[:14])), "unknown": (65001, b"")}


@pytest.mark.parametrize("option", REPEATED)
def test_an_option_thousands_of_times_costs_no_more_than_its_octets(server, option):
    code, data = REPEATED[option]
    one = struct.pack("!HH", code, len(data)) + data
    for count in (2, 5_000):
        wire = header(ar=1) + QUESTION + opt(options=one * count)
        answer = reply_of(server, wire, "tcp")
        assert answer[3] & 0xF in (dns.rcode.NOERROR, dns.rcode.FORMERR)
        assert len(answer) < 400, "an option is answered once"
    still_answers(server)


@TRANSPORTS
@pytest.mark.parametrize("version", [1, 2, 255])
def test_says_badvers_to_unknown_edns_versions(server, version, transport):
    answer = dns.message.from_wire(reply_of(server, header(ar=1) + QUESTION + opt(version=version), transport))
    assert answer.rcode() == dns.rcode.BADVERS
    assert answer.edns == 0
    assert answer.answer == []


def test_any_is_one_small_rrset(server):
    answer = parse(Question("api.example.org.", "ANY"), "udp",
                   reply_of(server, header(ar=1) + API + struct.pack("!HH", 255, 1) + opt(), "udp"), 0)
    assert answer.rcode == "NOERROR"
    assert len({(owner, rdtype) for owner, _, rdtype, _ in answer.section("answer")}) == 1
    assert len(answer.wire) < 200


def test_answers_after_an_empty_and_an_endless_tcp_message(server):
    for octets in (b"\0\0", b"\0\0" * 50, b"\0", b"\xff\xff" + b"\0" * 100, b"\xff\xff" + b"\xc0\x0c" * 32767 + b"\0"):
        with open_tcp(server.server) as tcp:
            tcp.sendall(octets)
        still_answers(server)


def test_survives_ten_thousand_random_messages(server):
    """Random octets, and good queries with random octets changed; the seed is fixed."""
    rng = random.Random(20260101)
    good = [*ANSWERED.values(), *FORMERR.values(), *ANSWERED_OR_FORMERR.values(), *REFUSED.values()]
    with open_udp(server.server) as udp:
        udp.setblocking(False)
        for i in range(10000):
            if i % 4 == 0:
                wire = rng.randbytes(rng.randrange(0, 600))
            else:
                wire = bytearray(rng.choice(good))
                for _ in range(rng.randrange(1, 6)):
                    wire[rng.randrange(len(wire))] = rng.randrange(256)
            try:
                udp.send(bytes(wire))
            except BlockingIOError:
                pass
            while True:
                try:
                    udp.recv(4096)
                except BlockingIOError:
                    break
            if i % 500 == 0:
                still_answers(server)
    still_answers(server)
