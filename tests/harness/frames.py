# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames with UDP datagrams, octet by octet."""

import socket
import struct
from dataclasses import dataclass


def checksum(octets):
    """RFC 1071, not inverted."""
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return total


def pseudo_header(source, target, size):
    return source + target + (struct.pack("!xBH", 17, size) if len(source) == 4 else struct.pack("!I3xB", size, 17))


def mac_octets(text):
    return bytes.fromhex(text.replace(":", ""))


def packed(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def udp_datagram(source, target, ports, payload, size=None, check=None):
    size = 8 + len(payload) if size is None else size
    header = struct.pack("!HHHH", *ports, size, 0)
    if check is None:
        check = checksum(pseudo_header(source, target, size) + header + payload) ^ 0xffff or 0xffff
    return header[:6] + struct.pack("!H", check) + payload


def ipv4_packet(source, target, content, protocol=17, options=b"", fragment=0, identity=0x1234, size=None):
    size = 20 + len(options) + len(content) if size is None else size
    header = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, 0, size, identity, fragment, 61, protocol, 0) + \
        source + target + options
    return header[:10] + struct.pack("!H", checksum(header) ^ 0xffff) + header[12:] + content


def ipv6_packet(source, target, content, next_header=17, size=None):
    size = len(content) if size is None else size
    return struct.pack("!IHBB", 0x60012345, size, next_header, 61) + source + target + content


def query_frame(macs, addresses, ports, payload, **udp):
    """`macs`, `addresses` and `ports` are pairs: from and to."""
    source, target = (packed(address) for address in addresses)
    datagram = udp_datagram(source, target, ports, payload, **udp)
    is_ipv4 = len(source) == 4
    packet = ipv4_packet(source, target, datagram) if is_ipv4 else ipv6_packet(source, target, datagram)
    return ethernet(macs, packet, 0x0800 if is_ipv4 else 0x86dd)


def ethernet(macs, packet, protocol):
    return mac_octets(macs[1]) + mac_octets(macs[0]) + struct.pack("!H", protocol) + packet


@dataclass
class Datagram:
    """A UDP datagram, as the frame has it."""
    macs: tuple
    addresses: tuple
    ports: tuple
    ip: bytes  # the header
    payload: bytes
    check: int
    is_complete: bool  # the checksum is that of the whole datagram
    is_partial: bool   # or that of the pseudo-header, for the device to complete


def read_datagram(frame):
    """Fails unless the headers are whole and agree."""
    protocol, = struct.unpack_from("!H", frame, 12)
    is_ipv4 = protocol == 0x0800
    header = frame[14:34] if is_ipv4 else frame[14:54]
    assert header[0] >> 4 == (4 if is_ipv4 else 6)
    assert not is_ipv4 or checksum(header) == 0xffff, "checksum of IPv4"
    source, target = (header[12:16], header[16:20]) if is_ipv4 else (header[8:24], header[24:40])
    datagram = frame[14 + len(header):]
    claimed, = struct.unpack_from("!H", header, 2 if is_ipv4 else 4)
    assert claimed == len(datagram) + (20 if is_ipv4 else 0)
    *ports, size, check = struct.unpack_from("!HHHH", datagram)
    assert size == len(datagram)
    pseudo = pseudo_header(source, target, size)
    family = socket.AF_INET if is_ipv4 else socket.AF_INET6
    return Datagram((frame[6:12].hex(":"), frame[:6].hex(":")),
                    tuple(socket.inet_ntop(family, address) for address in (source, target)), tuple(ports), header,
                    datagram[8:], check, checksum(pseudo + datagram) == 0xffff, check == checksum(pseudo))
