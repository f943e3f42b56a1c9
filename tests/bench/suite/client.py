# SPDX-License-Identifier: Apache-2.0
"""A few questions before a measurement: a server with a wrong answer is not compared."""

import socket
import struct

from suite import data


def ask(port, name, timeout=0.5, tcp=False, source=None, address="127.0.0.1"):
    """(rcode, sorted A addresses) of a reply, or None without one."""
    query = data.message(name, message_id=0x4242)
    try:
        reply = _exchange_tcp((address, port), query, timeout) if tcp else _exchange_udp((address, port), query, timeout, source)
    except OSError:
        return None
    if reply is None or len(reply) < 12 or reply[:2] != query[:2]:
        return None
    return reply[3] & 15, sorted(_addresses(reply))


def _exchange_udp(server, query, timeout, source):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(timeout)
        if source:
            udp.bind((source, 0))
        udp.connect(server)
        udp.send(query)
        return udp.recv(65535)


def _exchange_tcp(server, query, timeout):
    with socket.create_connection(server, timeout) as tcp:
        tcp.sendall(struct.pack(">H", len(query)) + query)
        got = b""
        while len(got) < 2 or len(got) < 2 + struct.unpack(">H", got[:2])[0]:
            part = tcp.recv(65535)
            if not part:
                return None
            got += part
        return got[2:]


def _skip_name(reply, at):
    while True:
        length = reply[at]
        if length == 0:
            return at + 1
        if length >= 0xc0:
            return at + 2
        at += length + 1


def _addresses(reply):
    questions, answers = struct.unpack(">HH", reply[4:8])
    at = 12
    for _ in range(questions):
        at = _skip_name(reply, at) + 4
    for _ in range(answers):
        at = _skip_name(reply, at)
        rtype, _, _, size = struct.unpack(">HHIH", reply[at:at + 10])
        at += 10
        if rtype == data.TYPE_A:
            yield ".".join(map(str, reply[at:at + 4]))
        at += size
