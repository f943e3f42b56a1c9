# SPDX-License-Identifier: Apache-2.0
"""Scenarios on a node whose kernel answers for the daemon: each question over UDP comes from a Pod, and what the kernel
answers is compared with what the daemon answers.

The Pod asks with the loopback addresses that the scenarios have, so that none needs a change."""

import collections
import contextlib
import pathlib
import socket
import struct
import time

import dns.flags

from harness.bpf import AnswerMaps
from harness.daemon import base_config, merge
from harness.dns_client import ask, parse
from harness.namespaces import inside
from harness.routed_node import NODE_IPV4, PODS
from harness.scenario import ScenarioRun
from harness.waiting import seconds

POD = "shop"
_DEFAULT_SOURCE = "127.0.0.1"
# The program leaves packets with options of IP to the daemon: these say nothing.
_NO_OPERATIONS = b"\1\1\1\1"
# Reasons that may keep the program from answering for good, if they are there several times: an answer that is given while a
# change is under way is not offered.
_FOR_GOOD = {"other", "client", "absent", "size"}
_TRIES = 3
# An entry of before a change stays if the new answer is none for the kernel; but a worker may offer that after a second only.
_SOON = 1.5
_HEADER, _RECORD_HEAD = 12, 12  # octets; the head of a record whose owner is a pointer


def let_pods_ask_from_loopback(node):
    """Replies to 127.0.0.0/8 leave the node by the link of POD, and the Pod takes them."""
    for namespace in (node.name, node.pods[POD]):
        with inside(namespace):
            pathlib.Path("/proc/sys/net/ipv4/conf/all/route_localnet").write_text("1", encoding="ascii")
    node.ip("route", "add", "127.0.0.0/8", "via", PODS[POD][0], "dev", f"veth-{POD}", "table", "100", "onlink")
    node.ip("rule", "add", "pref", "20", "lookup", "local")
    node.ip("rule", "add", "pref", "10", "from", NODE_IPV4, "lookup", "100")
    node.ip("rule", "del", "pref", "0")


class Tally(collections.Counter):
    """Questions by who answered them: `kernel`, `daemon: WHY` (answers of the registry that the kernel did not give), and
    `others` (forwarded, refused, aliases)."""

    def __str__(self):
        return ", ".join(f"{who} {count}" for who, count in sorted(self.items()))


def settled(answer):
    """The octets without the ID, and the records of the answer section in order."""
    wire = answer.wire
    count, = struct.unpack_from("!H", wire, 6)
    at = answer_at = wire.index(b"\0", _HEADER) + 5
    records = []
    for _ in range(count):
        size, = struct.unpack_from("!H", wire, at + _RECORD_HEAD - 2)
        records.append(wire[at:at + _RECORD_HEAD + size])
        at += _RECORD_HEAD + size
    return wire[2:answer_at], sorted(records), wire[at:]


class KernelScenarioRun(ScenarioRun):
    """`client`: that whose daemon has the maps; the daemons of other clients answer without the kernel.

    REQUIRES: run() is called inside the namespace of the node."""

    def __init__(self, node, maps, tally, scenario, directory, client=""):
        super().__init__(scenario, directory)
        self._node, self._maps, self._tally, self._client = node, maps, tally, client

    def _base_config(self, client):
        upstreams = [upstream.server for upstream in self.upstreams]
        config = base_config(self.resources, upstreams, NODE_IPV4)
        if client != self._client:
            return config
        return merge(config, {"server": {"kernel_answers": "on", "kernel_maps": str(self._node.maps)}})

    def _ask_once(self, daemon, question, transport="udp"):
        question.source = question.source or _DEFAULT_SOURCE
        with inside(self._node.node.pods[POD]):
            return ask(daemon.server, question, transport)

    def _ask_past_the_kernel(self, daemon, question):
        wire, started = question.to_message().to_wire(), time.monotonic()
        with inside(self._node.node.pods[POD]):
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with udp:
            udp.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, _NO_OPERATIONS)
            udp.settimeout(seconds(5))
            udp.bind((question.source, 0))
            udp.connect(daemon.server)
            udp.send(wire)
            return parse(question, "udp", udp.recv(65535), started)

    def _ask_and_count(self, daemon, question):
        """(the answer, whether it is the kernel's, else why not)."""
        before = self._maps.counters()
        answer = self._ask_once(daemon, question)
        moved = [name for name, count in self._maps.counters().items() if count != before[name]]
        is_kernels = any(name.startswith("answered_ipv") for name in moved)
        why = " ".join(name.removeprefix("passed_") for name in moved if name.startswith("passed_"))
        return answer, is_kernels, why

    def _ask(self, daemon, question, transport):
        if question.rdclass == "CH":  # an explanation tells of the kernel, too, and then may not fit into a datagram
            return self._ask_once(daemon, question, "tcp")
        if transport != "udp" or daemon is not self.daemons[self._client]:
            return self._ask_once(daemon, question, transport)
        answer, is_kernels, why = self._ask_and_count(daemon, question)
        is_of_registry = answer.has(dns.flags.AA) and all(rdtype != "CNAME" for _, _, rdtype, _ in answer.section("answer"))
        assert is_of_registry or not is_kernels, f"the kernel answered {question}\n{answer}"
        if not is_of_registry:
            self._tally["others"] += 1
            return answer
        deadline, tries = time.monotonic() + _SOON, 0
        while tries < _TRIES:
            before = settled_or_whole(self._ask_past_the_kernel(daemon, question))
            answer, is_kernels, why = self._ask_and_count(daemon, question)
            if is_kernels:
                after = settled_or_whole(self._ask_past_the_kernel(daemon, question))
                assert settled(answer) in (before, after), (
                    f"{question}: the kernel's answer differs from the daemon's\n{answer}\n{settled(answer)}\n{before}\n{after}")
                self._tally["kernel"] += 1
                return answer
            tries += why in _FOR_GOOD or answer.rcode == "NXDOMAIN"
            if time.monotonic() > deadline:
                assert why == "old", f"{question}: the kernel still passes it on: {why or 'not served'}"
                break
        self._tally[f"daemon: {why}"] += 1
        return answer


def settled_or_whole(answer):
    """An answer that the kernel would not give may have other records."""
    try:
        return settled(answer)
    except (struct.error, ValueError):
        return answer.wire[2:]


@contextlib.contextmanager
def maps_of(node):
    with contextlib.closing(AnswerMaps(node.maps)) as maps:
        yield maps
