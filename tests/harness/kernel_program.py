# SPDX-License-Identifier: Apache-2.0
"""The kernel program on a node with Pods: its loader, the daemon's side of its maps, and what Pods see."""

import contextlib
import os
import random
import re
import socket
import struct
import subprocess
import threading

from harness.bpf import AnswerMaps, Program, check_permission
from harness.daemon import binary
from harness.frames import query_frame, read_datagram
from harness.namespaces import inside
from harness.process import Process
from harness.routed_node import NODE_IPV4, NODE_IPV6, PODS, RoutedNode, node_mac, pod_mac

LOADER = binary().with_name("meshdns-kernel")
PORT = 53
TYPE_A, TYPE_TXT, TYPE_AAAA = 1, 16, 28
PASSED, REDIRECTED = -1, 7  # TC_ACT_UNSPEC, TC_ACT_REDIRECT
RD, AD, CD, AA, TC = 0x0100, 0x0020, 0x0010, 0x0400, 0x0200


@contextlib.contextmanager
def bpf_file_system(folder):
    folder.mkdir()
    subprocess.run(["mount", "-t", "bpf", "bpf", folder], check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


class NotPermittedError(Exception):
    """The kernel program cannot be tested here, and why."""


@contextlib.contextmanager
def node_with_bpf(folder):
    """A BPF file system and a node whose links take programs."""
    if os.geteuid() != 0:
        raise NotPermittedError("needs root")
    with contextlib.ExitStack() as stack:
        try:
            bpffs = stack.enter_context(bpf_file_system(folder / "bpf"))
            node = stack.enter_context(RoutedNode())
            node.tc("qdisc", "add", "dev", "br0", "clsact")
            node.tc("qdisc", "del", "dev", "br0", "clsact")
            check_permission()
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotPermittedError(f"needs bpf(2), network namespaces and clsact: {error}") from error
        yield bpffs, node


def wire_name(text):
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".") if label) + b"\0"


def opt_record(payload=1232, dnssec_ok=False, options=b"", version=0, flags=0):
    return struct.pack("!BHHBBHH", 0, 41, payload, 0, version, flags | 0x8000 * dnssec_ok, len(options)) + options


def query(name, rtype=TYPE_A, opt=b"", flags=RD, identity=None, rclass=1, counts=None):
    identity = random.randrange(65536) if identity is None else identity
    name = name if isinstance(name, bytes) else wire_name(name)
    return struct.pack("!HHHHHH", identity, flags, *(counts or (1, 0, 0, bool(opt)))) + name + \
        struct.pack("!HH", rtype, rclass) + opt


def address_record(address, ttl=30):
    """A record of the question's name, by a pointer to it."""
    data = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    return struct.pack("!HHHIH", 0xc00c, TYPE_AAAA if ":" in address else TYPE_A, 1, ttl, len(data)) + data


class Echo:
    """Sends back what passes the program: the client sees its own octets."""

    def __init__(self, node):
        with inside(node.name):
            self._sockets = [socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)]
        for each, address in zip(self._sockets, (NODE_IPV4, NODE_IPV6)):
            each.bind((address, PORT))
            threading.Thread(target=self._serve, args=(each,), daemon=True).start()

    @staticmethod
    def _serve(each):
        with contextlib.suppress(OSError):
            while True:
                octets, client = each.recvfrom(65535)
                if client is None:  # shut down
                    return
                each.sendto(octets, client)

    def close(self):
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class KernelProgram:
    def __init__(self, folder):
        self._stack = contextlib.ExitStack()
        try:
            self.bpffs, self.node = self._stack.enter_context(node_with_bpf(folder))
            self.maps_folder = self.bpffs / "meshdns"
            self.loader = self.start_loader()
            self._stack.callback(lambda: self.loader.is_running() and self.loader.stop())
            self.maps = AnswerMaps(self.maps_folder)
            self._stack.callback(lambda: self.maps.close())
            for address in (NODE_IPV4, NODE_IPV6):
                self.maps.serve(address, PORT)
            self._stack.enter_context(contextlib.closing(Echo(self.node)))
        except BaseException:
            self.close()
            raise

    def start_loader(self, *options, wait=True, env=None):
        with inside(self.node.name):
            loader = Process([LOADER, "run", "--maps", self.maps_folder, "--interfaces", "veth-*,br0", *options],
                             "meshdns-kernel", env=env)
        if wait:
            loader.wait_for_line("INFO ready|^<6>ready")
        return loader

    def command(self, *arguments):
        with inside(self.node.name):
            return subprocess.run([LOADER, *arguments, "--maps", self.maps_folder], capture_output=True, text=True,
                                  timeout=60, check=False)

    def filters(self, interface):
        return self.node.tc("filter", "show", "dev", interface, "ingress")

    def is_attached(self, interface):
        return "meshdns_answer:[" in self.filters(interface)

    def program(self):
        return Program(int(re.search(r"meshdns_answer:\[(\d+)\]", self.filters("veth-shop"))[1]))

    def ask(self, pod, payload, server=NODE_IPV4, limit=5.0):
        """The reply, from the program or from the echo behind it; None without any."""
        self.maps.beat(age=-1)  # on a busy machine the query may come late
        is_ipv6 = ":" in server
        with inside(self.node.pods[pod]):
            client = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
        with client:
            client.settimeout(limit)
            client.bind((PODS[pod][is_ipv6], 0))
            client.connect((server, PORT))
            client.send(payload)
            try:
                return client.recv(65535)
            except TimeoutError:
                return None

    @contextlib.contextmanager
    def raw_socket(self, pod):
        """Frames of the Pod's interface."""
        with inside(self.node.pods[pod]):
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        with raw:
            raw.bind(("eth0", 0))
            raw.settimeout(5)
            yield raw

    def ask_frame(self, pod, payload, server=NODE_IPV4):
        """As ask(), and the frame of the reply."""
        with self.raw_socket(pod) as raw:
            reply = self.ask(pod, payload, server)
            while True:
                frame, (_, _, kind, *_) = raw.recvfrom(65535)
                if kind != 4 and frame.endswith(reply):  # not PACKET_OUTGOING
                    return reply, read_datagram(frame)

    def frame(self, payload, pod="shop", is_ipv6=False, **udp):
        """A query of the Pod as a frame."""
        server = NODE_IPV6 if is_ipv6 else NODE_IPV4
        return query_frame((pod_mac(pod), node_mac(pod)), (PODS[pod][is_ipv6], server), (40000, PORT), payload, **udp)

    def interface(self, name):
        with inside(self.node.name):
            return socket.if_nametoindex(name)

    def counted(self, before):
        """The counters that moved since `before`, and how far."""
        return {name: value - before[name] for name, value in self.maps.counters().items() if value != before[name]}

    def close(self):
        self._stack.close()
