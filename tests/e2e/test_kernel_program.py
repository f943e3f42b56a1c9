# SPDX-License-Identifier: Apache-2.0
"""The kernel program and its loader without a daemon: the test fills the maps, and an echo stands where the daemon
would be.  A client that gets its own octets back has passed the program."""

import collections
import contextlib
import os
import random
import socket
import struct
import subprocess
import time

import pytest

from harness.bpf import VERSION, SampleRing, address_octets
from harness.frames import ethernet, ipv4_packet, ipv6_packet, packed, query_frame, udp_datagram
from harness.kernel_fixture import made_or_skipped
from harness.kernel_program import (AA, AD, CD, LOADER, PASSED, PORT, RD, REDIRECTED, TC, TYPE_A, TYPE_AAAA, TYPE_TXT,
                                    KernelProgram, address_record, opt_record, query, wire_name)
from harness.namespaces import inside
from harness.preset import IS_SANITIZED, ONE_THREAD
from harness.routed_node import BRIDGE_POD, NODE_IPV4, NODE_IPV6, PODS, node_mac, pod_mac
from harness.waiting import eventually

pytestmark = [ONE_THREAD, pytest.mark.root]
# The program is the same under every sanitizer; only the loader is built anew.
PROGRAM = pytest.mark.skipif(IS_SANITIZED, reason="no sanitizer sees the program in the kernel")

VIEW, OTHER_VIEW = "view of shop", "view of web"
A_SLOT, B_SLOT, CLIENT_SLOT = 11, 12, 20
EVEN, ODD = "api.example.org", "apis.example.org"  # sizes of the names in wire form: 17, 18
ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]
SOA = struct.pack("!HHHIH", 0xc00c, 6, 1, 30, 22) + b"\0\0" + struct.pack("!IIIII", 1, 2, 3, 4, 5)
OPT_REPLY = opt_record(1232)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with made_or_skipped(KernelProgram, tmp_path_factory.mktemp("kernel")) as made:
        yield made


@pytest.fixture
def filled(kernel):
    """The answers of both names; every test finds the maps as new."""
    maps = kernel.maps
    for pod in PODS:
        for address in PODS[pod]:
            maps.add_client(address, OTHER_VIEW if pod == "web" else VIEW, CLIENT_SLOT)
    for name in (EVEN, ODD):
        for opt in (False, True):
            for dnssec_ok in {False, opt}:
                fill(maps, name, opt, dnssec_ok)
    return kernel


def fill(maps, name, opt, dnssec_ok):
    tails = {TYPE_A: address_record(ADDRESSES[0]), TYPE_AAAA: address_record("2001:db8::1"), TYPE_TXT: SOA}
    for rtype, tail in tails.items():
        counts = (0, 1, int(opt)) if rtype == TYPE_TXT else (1, 0, int(opt))
        question = maps.question(VIEW, wire_name(name), rtype, opt, dnssec_ok)
        maps.add_answer(question, maps.answer(tail + OPT_REPLY * opt, counts, slots=(A_SLOT, B_SLOT)))


def expected(payload, tail, counts, flags=0x8400):
    """The reply to a query: its ID and question, RD and CD as they were asked."""
    identity, asked = struct.unpack_from("!HH", payload)
    end = payload.index(b"\0", 12) + 5
    return struct.pack("!HHHHHH", identity, flags | asked & (RD | CD), 1, *counts) + payload[12:end] + tail


# --- answers ---------------------------------------------------------------------------------------

@PROGRAM
@pytest.mark.parametrize("offload", [True, False], ids=["checksum by the device", "checksum in the packet"])
@pytest.mark.parametrize("server", [NODE_IPV4, NODE_IPV6])
@pytest.mark.parametrize("pod", ["shop", BRIDGE_POD])
def test_replies_are_those_of_the_maps(filled, pod, server, offload):
    """Their headers are those that a socket of the node sends.  The receiver drops what has a wrong checksum."""
    filled.node.set_checksum_offload(pod, offload)
    before = filled.maps.counters()
    asked = 0
    for name in ("ApI.eXample.ORG", "aPiS.exampLE.org"):
        for rtype, tail, counts in ((TYPE_A, address_record(ADDRESSES[0]), (1, 0)),
                                    (TYPE_AAAA, address_record("2001:db8::1"), (1, 0)), (TYPE_TXT, SOA, (0, 1))):
            for opt in (b"", opt_record(), opt_record(dnssec_ok=True), opt_record(100)):
                payload = query(name, rtype, opt, flags=random.choice([0, RD, RD | AD, CD]))
                want = expected(payload, tail + OPT_REPLY * bool(opt), (*counts, int(bool(opt))))
                reply, datagram = filled.ask_frame(pod, payload, server)
                assert reply == want, (name, rtype, opt)
                asked += 1
                is_ipv6 = server == NODE_IPV6
                assert datagram.addresses == (server, PODS[pod][is_ipv6])
                assert datagram.macs == (node_mac(pod), pod_mac(pod))
                assert datagram.is_partial if offload else datagram.is_complete, hex(datagram.check)
                header = datagram.ip
                assert (header[:4], header[7]) == (b"\x60\0\0\0", 64) if is_ipv6 else \
                    (header[:2], header[4:9]) == (b"\x45\0", b"\0\0\x40\0\x40")
    family = "ipv6" if server == NODE_IPV6 else "ipv4"
    assert filled.counted(before) == {f"answered_{family}_a": asked / 3, f"answered_{family}_aaaa": asked / 3,
                                      f"answered_{family}_other": asked / 3, "answered_do": asked / 4}


@PROGRAM
def test_a_query_without_checksum_gets_a_reply_without(filled):
    program = filled.program()
    frame = filled.frame(query(EVEN), check=0)
    filled.maps.beat()
    with inside(filled.node.name):
        action, reply = program.run(frame, filled.interface("veth-shop"))
    assert (action, reply[40:42]) == (REDIRECTED, b"\0\0")
    program.close()


@PROGRAM
@pytest.mark.parametrize("count", [2, 3, 4, 17])
@pytest.mark.parametrize("name", [EVEN, ODD])
def test_every_record_is_first_as_often(filled, name, count):
    records = [address_record(f"10.0.1.{i}") for i in range(count)]
    maps = filled.maps
    maps.add_answer(maps.question(VIEW, wire_name(name), TYPE_A, True),
                    maps.answer(b"".join(records) + OPT_REPLY, (count, 0, 1), records=(count, 16)))
    payload = query(name, opt=opt_record())
    firsts = collections.Counter()
    for _ in range(2 * count):
        reply = filled.ask("shop", payload)
        tail = reply[len(payload) - len(OPT_REPLY):]
        first = records.index(tail[:16])
        assert reply == expected(payload, b"".join(records[first:] + records[:first]) + OPT_REPLY, (count, 0, 1))
        firsts[first] += 1
    assert set(firsts.values()) == {2}


@PROGRAM
def test_long_answers_are_for_clients_that_take_them(filled):
    name = b"".join(bytes([31]) + b"x" * 31 for _ in range(3)) + bytes([30]) + b"x" * 30 + b"\0"
    assert len(name) == 128
    maps = filled.maps
    tail = bytes(288)
    for flags in (0, 1):
        maps.add_answer(maps.question(VIEW, name, TYPE_A, flags), maps.answer(tail, (18, 0, 0)))
    for opt in (b"", opt_record()):
        payload = query(name, opt=opt)
        assert filled.ask("shop", payload) == expected(payload, tail, (18, 0, 0))
    before = maps.counters()
    route = ["route", "replace", PODS["shop"][0], "dev", "veth-shop"]
    filled.node.ip(*route, "mtu", "lock", "400")
    assert filled.ask("shop", payload) == payload
    filled.node.ip(*route)
    assert filled.counted(before) == {"passed_size": 1}


@PROGRAM
def test_samples_are_whole(filled):
    ring = SampleRing(filled.maps_folder / "samples")
    program = filled.program()
    payload = query("ApI.Example.org", opt=opt_record(dnssec_ok=True), identity=0x4711)
    cpu = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpu)})  # the program counts for each CPU by itself
    try:
        filled.maps.beat(sample_every=3)
        with inside(filled.node.name):
            for _ in range(3):
                _, frame = program.run(filled.frame(payload), filled.interface("veth-shop"))
    finally:
        os.sched_setaffinity(0, cpu)
    sample = ring.take()
    assert sample[8:40] == address_octets(PODS["shop"][0]) + address_octets(NODE_IPV4)
    assert struct.unpack_from("!HHHHH", sample, 40) == (40000, PORT, TYPE_A, 0x4711, RD)
    assert struct.unpack_from("<BBHHIBBH", sample, 50) == (3, 0, len(payload), len(frame) - 42, 3, 17, 1, 1232)
    assert sample[64:192] == wire_name("ApI.Example.org").ljust(128, b"\0")
    ring.close()
    program.close()


# --- the limit of answers ----------------------------------------------------------------------------

@PROGRAM
def test_a_client_over_its_limit_is_left_to_the_daemon(filled, monkeypatch):
    maps, payload, echoed = filled.maps, query(EVEN), 0
    paid_by_another = struct.pack("Q", 9 << 48 | (1 << 48) - 1)
    maps.add_client(PODS["shop"][0], VIEW, CLIENT_SLOT, account=(700, 7))
    maps.add_client(PODS["neighbour"][0], VIEW, CLIENT_SLOT, account=(701, 8))
    maps.maps["accounts"].update(struct.pack("I", 700), bytes(8))
    maps.maps["accounts"].update(struct.pack("I", 701), paid_by_another)
    maps.beat(age=-1, price_us=1_000_000 // 5)
    monkeypatch.setattr(maps, "beat", lambda **_: None)
    before, started = maps.counters(), time.monotonic()
    for _ in range(50):
        echoed += filled.ask("shop", payload) == payload
    at_most = 5 + (time.monotonic() - started) * 5 + 1
    assert 5 <= 50 - echoed <= at_most
    account, = struct.unpack("Q", maps.maps["accounts"].lookup(struct.pack("I", 700)))
    assert account >> 48 == 7
    assert filled.ask("neighbour", payload) == payload, "the account is another client's"
    assert maps.maps["accounts"].lookup(struct.pack("I", 701)) == paid_by_another
    assert filled.counted(before) == {"answered_ipv4_a": 50 - echoed, "passed_limit": echoed + 1}
    monkeypatch.undo()
    assert filled.ask("shop", payload) != payload, "without a limit"


# --- what passes -----------------------------------------------------------------------------------

PASSES = {
    "an answer of another view": (lambda maps: None, "web", "passed_absent"),
    "an unknown client": (lambda maps: maps.maps["clients"].delete(address_octets(PODS["shop"][0])), "shop", "passed_client"),
    "a client whose generation moved": (lambda maps: maps.move(CLIENT_SLOT), "shop", "passed_client"),
    "a client whose time has ended": (lambda maps: maps.add_client(PODS["shop"][0], VIEW, CLIENT_SLOT, life=0.0), "shop",
                                      "passed_client"),
    "a name whose generation moved": (lambda maps: maps.move(B_SLOT), "shop", "passed_old"),
    "everything moved": (lambda maps: maps.move(0), "shop", "passed_client"),
    "no daemon": (lambda maps: maps.sleep(), "shop", "passed_asleep"),
    "a daemon that hangs": (lambda maps: maps.beat(age=2.1), "shop", "passed_asleep"),
    "a heartbeat of another clock": (lambda maps: maps.beat(age=-30), "shop", "passed_asleep"),
}


@PROGRAM
@pytest.mark.parametrize("case", PASSES)
def test_what_may_be_old_passes(filled, case, monkeypatch):
    change, pod, counter = PASSES[case]
    filled.maps.beat(age=-1)
    change(filled.maps)
    monkeypatch.setattr(filled.maps, "beat", lambda **_: None)
    before = filled.maps.counters()
    payload = query(EVEN)
    assert filled.ask(pod, payload) == payload
    assert filled.counted(before) == {counter: 1}


@PROGRAM
def test_a_new_generation_is_answered_once_the_entry_is_new(filled):
    payload = query(EVEN)
    filled.maps.move(A_SLOT)
    assert filled.ask("shop", payload) == payload
    fill(filled.maps, EVEN, False, False)
    assert filled.ask("shop", payload) == expected(payload, address_record(ADDRESSES[0]), (1, 0, 0))


@PROGRAM
@pytest.mark.parametrize("victim, liar, sender", [("web", "shop", "shop"), ("web", "shop", "web"),
                                                  ("neighbour", BRIDGE_POD, BRIDGE_POD)])
def test_nobody_gets_the_answer_to_a_forged_query(filled, victim, liar, sender):
    """The daemon's reply goes to the owner of the address, as without the program.  `sender` has the MAC address."""
    forged = query_frame((pod_mac(sender), node_mac(liar)), (PODS[victim][0], NODE_IPV4), (40000, PORT), query(EVEN))
    before = filled.maps.counters()
    filled.maps.beat()
    filled.maps.add_client(PODS[victim][0], VIEW, CLIENT_SLOT)
    with filled.raw_socket(victim) as seen, filled.raw_socket(liar) as raw:
        raw.send(forged)
        frame = next(frame for frame, (_, _, kind, *_) in iter(lambda: seen.recvfrom(65535), None)
                     if kind == 0 and frame[34:36] == struct.pack("!H", PORT))
        assert frame[42:] == forged[42:]  # the echo
        raw.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, (_, _, kind, *_) = raw.recvfrom(65535)
                assert kind == 4 or frame[34:36] != struct.pack("!H", PORT)  # a frame for another station, too
    assert filled.counted(before) == {"passed_route": 1}


def malformed():
    """Messages that are not of the simple form."""
    good = query(EVEN, opt=opt_record())
    for name, changed in {
            "a response": query(EVEN, flags=0x8100), "another opcode": query(EVEN, flags=0x2100),
            "truncated": query(EVEN, flags=RD | TC), "Z": query(EVEN, flags=RD | 0x40),
            "authoritative": query(EVEN, flags=RD | AA), "an rcode": query(EVEN, flags=RD | 3),
            "class CH": query(EVEN, rclass=3), "no question": query(EVEN, counts=(0, 0, 0, 0)),
            "two questions": query(EVEN, counts=(2, 0, 0, 0)), "an answer": query(EVEN, counts=(1, 1, 0, 0)),
            "an authority": query(EVEN, counts=(1, 0, 1, 0)), "no OPT": query(EVEN, counts=(1, 0, 0, 1)),
            "two OPT": query(EVEN, opt=opt_record() * 2, counts=(1, 0, 0, 2)),
            "an OPT that is not counted": query(EVEN, opt=opt_record(), counts=(1, 0, 0, 0)),
            "an option": query(EVEN, opt=opt_record(options=b"\0\3\0\0")),
            "another version": query(EVEN, opt=opt_record(version=1)),
            "other flags": query(EVEN, opt=opt_record(flags=0x4000)), "late flags": query(EVEN, opt=opt_record(flags=1)),
            "an extended rcode": good[:-6] + b"\1" + good[-5:],
            "another record": query(EVEN, opt=b"\0\0\1" + opt_record()[3:]),
            "a record of a name": query(EVEN, opt=b"\1" + opt_record()[1:]),
            "octets behind it": query(EVEN) + b"\0", "octets behind OPT": good + b"\0",
            "compression": query(b"\xc0\x0c"), "a long label": query(b"\x40" + b"x" * 64 + b"\0"),
            "a label over the end": query(b"\x3fabc\0"), "labels behind the root": query(b"\1a\0\1b\0"),
            "a long name": query(b"".join(b"\x1f" + b"x" * 31 for _ in range(4)) + b"\0"), "nothing": b""}.items():
        yield name, changed
    for size in range(len(good)):
        yield f"{size} octets", good[:size]


@PROGRAM
def test_messages_of_other_forms_pass_untouched(filled):
    with_good_frame = {"as it is": (REDIRECTED, filled.frame(query(EVEN)))}
    frames = with_good_frame | {name: (PASSED, filled.frame(message)) for name, message in malformed()}
    run_frames(filled, frames)


@PROGRAM
@pytest.mark.parametrize("is_ipv6", [False, True])
def test_packets_of_other_forms_pass_untouched(filled, is_ipv6):
    payload, pod, server = query(EVEN), PODS["shop"][is_ipv6], (NODE_IPV4, NODE_IPV6)[is_ipv6]
    macs = pod_mac("shop"), node_mac("shop")
    ends = packed(pod), packed(server)
    datagram = udp_datagram(*ends, (40000, PORT), payload)
    kind = 0x86dd if is_ipv6 else 0x0800
    packet = ipv6_packet if is_ipv6 else ipv4_packet
    plain = packet(*ends, datagram)
    frames = {
        "as it is": (REDIRECTED, ethernet(macs, plain, kind)),
        "VLAN": (PASSED, ethernet(macs, b"\0\5" + struct.pack("!H", kind) + plain, 0x8100)),
        "another port": (PASSED, query_frame(macs, (pod, server), (40000, 5353), payload)),
        "another address": (PASSED, query_frame(macs, (pod, PODS["web"][is_ipv6]), (40000, PORT), payload)),
        "source port 0": (PASSED, query_frame(macs, (pod, server), (0, PORT), payload)),
        "for another station": (PASSED, ethernet((macs[0], pod_mac("web")), plain, kind)),
        "for all stations": (PASSED, ethernet((macs[0], "ff:ff:ff:ff:ff:ff"), plain, kind)),
        "a short datagram": (PASSED, query_frame(macs, (pod, server), (40000, PORT), payload, size=8 + len(payload) - 1)),
        "a long datagram": (PASSED, query_frame(macs, (pod, server), (40000, PORT), payload, size=9 + len(payload))),
        "no datagram": (PASSED, query_frame(macs, (pod, server), (40000, PORT), payload, size=7)),
        "octets behind the packet": (PASSED, ethernet(macs, plain + b"\0", kind)),
        "a packet that ends too soon": (PASSED, ethernet(macs, plain[:-1], kind)),
        "TCP": (PASSED, ethernet(macs, packet(*ends, datagram, 6), kind)),
        "another type": (PASSED, ethernet(macs, plain, 0x0806)),
        "the other family": (PASSED, ethernet(macs, plain, 0x86dd ^ 0x0800 ^ kind)),
    }
    if is_ipv6:
        frames |= {
            "no checksum": (PASSED, query_frame(macs, (pod, server), (40000, PORT), payload, check=0)),
            "options": (PASSED, ethernet(macs, packet(*ends, b"\x11\0\1\4\0\0\0\0" + datagram, 60), kind)),
            "a fragment": (PASSED, ethernet(macs, packet(*ends, b"\x11\0\0\0\0\0\0\1" + datagram, 44), kind)),
        }
    else:
        frames |= {
            "options": (PASSED, ethernet(macs, packet(*ends, datagram, options=b"\1\1\1\0"), kind)),
            "the first fragment": (PASSED, ethernet(macs, packet(*ends, datagram, fragment=0x2000), kind)),
            "another fragment": (PASSED, ethernet(macs, packet(*ends, datagram, fragment=1), kind)),
            "another size": (PASSED, ethernet(macs, packet(*ends, datagram, size=20 + len(datagram) - 1), kind)),
        }
    run_frames(filled, frames)


def run_frames(kernel, frames):
    program = kernel.program()
    with contextlib.closing(program), inside(kernel.node.name):
        interface = socket.if_nametoindex("veth-shop")
        for name, (action, frame) in frames.items():
            kernel.maps.beat()
            got = program.run(frame, interface)
            assert got[0] == action, name
            assert action != PASSED or got[1] == frame, name


@PROGRAM
def test_the_daemon_gets_unusual_packets(filled):
    """Through the Pod's link, in fragments, with options: the socket of the node gets the very octets."""
    macs, payload = (pod_mac("shop"), node_mac("shop")), query(EVEN)
    four, six = ((packed(PODS["shop"][i]), packed((NODE_IPV4, NODE_IPV6)[i])) for i in (0, 1))
    datagrams = [udp_datagram(*ends, (40000, PORT), payload) for ends in (four, six)]
    cases = {
        "IP options": [ethernet(macs, ipv4_packet(*four, datagrams[0], options=b"\1\1\1\0"), 0x0800)],
        "fragments": [ethernet(macs, ipv4_packet(*four, datagrams[0][:24], fragment=0x2000), 0x0800),
                      ethernet(macs, ipv4_packet(*four, datagrams[0][24:], fragment=3), 0x0800)],
        "IPv6 options": [ethernet(macs, ipv6_packet(*six, b"\x11\0\1\4\0\0\0\0" + datagrams[1], 60), 0x86dd)],
        "IPv6 fragments": [
            ethernet(macs, ipv6_packet(*six, b"\x11\0\0\1\0\0\0\7" + datagrams[1][:24], 44), 0x86dd),
            ethernet(macs, ipv6_packet(*six, b"\x11\0\0\x18\0\0\0\7" + datagrams[1][24:], 44), 0x86dd)],
    }
    filled.maps.beat()
    for name, frames in cases.items():
        with filled.raw_socket("shop") as raw:
            for frame in frames:
                raw.send(frame)
            offset = 54 if "IPv6" in name else 34
            reply = next(frame for frame, (_, _, kind, *_) in iter(lambda: raw.recvfrom(65535), None)
                         if kind == 0 and frame[offset:offset + 2] == struct.pack("!H", PORT))
            assert reply[offset + 8:] == payload, name


@PROGRAM
def test_tagged_frames_are_not_answered(filled):
    """The kernel takes the tag off before the program runs."""
    before = filled.maps.counters()
    packet = ipv4_packet(packed(PODS["shop"][0]), packed(NODE_IPV4),
                         udp_datagram(packed(PODS["shop"][0]), packed(NODE_IPV4), (40000, PORT), query(EVEN)))
    with filled.raw_socket("shop") as raw:
        filled.maps.beat()
        raw.send(ethernet((pod_mac("shop"), node_mac("shop")), b"\0\5\x08\0" + packet, 0x8100))
    assert filled.ask("shop", query(EVEN, TYPE_AAAA)) is not None  # behind the tagged one
    assert filled.counted(before) == {"answered_ipv4_aaaa": 1}


# --- the loader ------------------------------------------------------------------------------------

def test_new_interfaces_get_the_program(kernel):
    kernel.node.ip("link", "add", "veth-new", "type", "veth", "peer", "name", "other")
    eventually(lambda: kernel.is_attached("veth-new"))
    kernel.node.ip("link", "set", "other", "name", "veth-other")
    eventually(lambda: kernel.is_attached("veth-other"))
    kernel.node.ip("link", "set", "veth-other", "name", "other")
    eventually(lambda: not kernel.is_attached("other"))
    kernel.node.ip("link", "set", "veth-new", "master", "br0")
    eventually(lambda: not kernel.is_attached("veth-new"))
    kernel.node.ip("link", "set", "veth-new", "nomaster")
    eventually(lambda: kernel.is_attached("veth-new"))
    kernel.node.ip("link", "del", "veth-new")
    assert kernel.is_attached("br0") and not kernel.is_attached(f"veth-{BRIDGE_POD}")


def test_a_removed_filter_comes_back(kernel):
    kernel.node.tc("filter", "del", "dev", "veth-web", "ingress", "pref", "53")
    eventually(lambda: kernel.is_attached("veth-web"))
    kernel.node.tc("qdisc", "del", "dev", "veth-web", "clsact")
    eventually(lambda: kernel.is_attached("veth-web"))


def test_filters_of_others_stay(kernel):
    """And those in our place are not replaced."""
    rule = ["bpf", "bytecode", "1,6 0 0 0,", "flowid", "1:1"]
    kernel.node.ip("link", "add", "taken", "type", "veth", "peer", "name", "its-peer")
    kernel.node.tc("qdisc", "add", "dev", "taken", "clsact")
    kernel.node.tc("filter", "add", "dev", "taken", "ingress", "pref", "53", "handle", "0x6d646e73", *rule)
    kernel.node.tc("filter", "add", "dev", "veth-web", "ingress", "pref", "7", *rule)
    before = len(kernel.loader.log_lines())
    kernel.node.ip("link", "set", "taken", "name", "veth-taken")
    kernel.loader.wait_for_line("cannot attach.*veth-taken.*another program has our place", after=before)
    assert "bytecode" in kernel.filters("veth-taken") and not kernel.is_attached("veth-taken")

    assert kernel.loader.stop() == 0
    assert not kernel.is_attached("veth-shop") and "clsact" not in kernel.node.tc("qdisc", "show", "dev", "veth-shop")
    assert "bytecode" in kernel.filters("veth-web") and not kernel.is_attached("veth-web")
    kernel.node.tc("qdisc", "del", "dev", "veth-web", "clsact")
    kernel.node.ip("link", "del", "veth-taken")

    kernel.loader = kernel.start_loader()
    assert "took over the maps" in kernel.loader.log_lines()[0]
    assert kernel.is_attached("veth-shop") and kernel.is_attached("veth-web")


def test_the_loader_keeps_one_capability(kernel):
    with open(f"/proc/{kernel.loader.pid}/status", encoding="ascii") as file:
        status = dict(line.split(":\t", 1) for line in file)
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff")} == {1 << 12}  # CAP_NET_ADMIN
    assert status["NoNewPrivs"] == "1\n"


def test_a_second_loader_waits_for_the_first(kernel):
    """As the Pods of an upgrade do."""
    second = kernel.start_loader(wait=False)
    second.wait_for_line("INFO waiting for another meshdns-kernel to end")
    assert "stop it first" in kernel.command("detach").stderr
    assert kernel.loader.stop() == 0
    second.wait_for_line("INFO ready")
    assert kernel.is_attached("veth-shop")
    kernel.loader = second

    third = kernel.start_loader(wait=False)
    third.wait_for_line("INFO waiting")
    assert third.stop() == 0


def test_maps_of_another_layout_are_made_anew_and_given_to_the_group(kernel, tmp_path):
    kernel.maps.move(0, by=5)
    kernel.loader.stop()
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)
        kernel.loader = kernel.start_loader("--answers", "1000", "--user", "65534:65533",
                                            env=os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert systemd.recv(100) == b"READY=1"
    assert "made the maps" in kernel.loader.log_lines()[0]
    kernel.maps.close()
    kernel.maps = type(kernel.maps)(kernel.maps_folder)
    for address in (NODE_IPV4, NODE_IPV6):
        kernel.maps.serve(address, PORT)
    assert (kernel.maps.version(), kernel.maps.generation(0)) == (VERSION, 0)
    modes = {path.name: (path.stat().st_gid, oct(path.stat().st_mode & 0o777)) for path in kernel.maps_folder.iterdir()}
    assert len(modes) == 8 and set(modes.values()) == {(65533, "0o660")}
    assert oct(kernel.maps_folder.stat().st_mode & 0o777) == "0o710"


def test_status_shows_interfaces_and_counters(kernel):
    kernel.maps.beat()
    shown = dict(line.split(None, 1) for line in kernel.command("status").stdout.splitlines())
    assert shown["interfaces"].split() == sorted(["veth-shop", "veth-web", "br0"], key=kernel.interface)
    assert (shown["version"], shown["served"]) == (str(VERSION), "2")
    assert shown["heartbeat"].endswith("ms ago")
    assert {name for name in shown if name.startswith(("answered_", "passed_"))} == set(kernel.maps.counters())


def test_mistakes_are_explained(kernel, tmp_path):
    def run(*arguments, prefix=()):
        done = subprocess.run([*prefix, LOADER, "run", *arguments], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stderr

    code, text = run("--maps", kernel.bpffs / "x", prefix=["setpriv", "--reuid", "65534", "--clear-groups"])
    assert code == 1 and "missing capabilities: CAP_BPF CAP_PERFMON CAP_NET_ADMIN; run meshdns-kernel as root" in text
    code, text = run("--maps", tmp_path)
    assert code == 1 and "no BPF file system" in text
    code, text = run("--user", "nobody-has-this-name")
    assert code == 1 and "no such user" in text
    assert run("--answers", "0")[0] == 2


def test_detach_removes_all(kernel):
    """The last test of this loader."""
    kernel.loader.kill()
    assert kernel.is_attached("veth-shop")
    assert kernel.command("detach").returncode == 0
    assert not kernel.is_attached("veth-shop") and not kernel.maps_folder.exists()
    assert kernel.command("detach").returncode == 0
    assert kernel.command("status").returncode == 1
