# SPDX-License-Identifier: Apache-2.0
"""Messages of istiod's workload API (istio.workload.Address), written field by field."""

import ipaddress

from harness.fake_istiod import field, varint

PROTOCOLS = {"": 0, "HTTP": 1, "HTTP2": 2, "GRPC": 3, "TCP": 4, "TLS": 5}
FAMILIES = {"IPv4": 1, "IPv6": 2}  # both: DUAL
WORKLOAD_TYPES = {"deployment": 0, "cronjob": 1, "pod": 2, "job": 3}


def number(tag, value):
    return varint(tag << 3) + varint(int(value)) if value else b""


def message(tag, octets):
    """A field with a message, which may be empty."""
    return varint(tag << 3 | 2) + varint(len(octets)) + octets


def octets_of(address):
    return address if isinstance(address, bytes) else ipaddress.ip_address(address).packed


def _ports(tag, ports):
    """`ports`: [(service port, target port, protocol)]; the last ones may be left out."""
    encoded = [(*port, 0, "")[:3] if len(port) == 1 else (*port, "")[:3] for port in ports]
    return b"".join(message(tag, number(1, port) + number(2, target) + number(3, PROTOCOLS[protocol]))
                    for port, target, protocol in encoded)


def service(ns, hostname, addresses=(), ports=((80, 8080),), publishes_unhealthy=False, canonical=False, private=False,
            subject_alt_names=(), families=()):
    """(name, octets).  `addresses`: IP addresses, or (network, IP address, prefix length or None).  `families`: those of
    Kubernetes' ipFamilies."""
    networked = [one if isinstance(one, tuple) else ("", one, None) for one in addresses]
    encoded = b"".join(
        message(4, field(1, network) + field(2, octets_of(address)) +
                (varint(3 << 3) + varint(length) if length is not None else b""))
        for network, address, length in networked)
    # waypoint = 7 and extensions = 10 are there to be passed over.
    octets = (field(1, hostname.split(".")[0]) + field(2, ns) + field(3, hostname) + encoded + _ports(5, ports) +
              b"".join(field(6, name) for name in subject_alt_names) + message(7, number(3, 15008)) +
              (message(8, number(3, 1)) if publishes_unhealthy else b"") +
              number(9, sum(FAMILIES[family] for family in families)) + message(10, field(1, "extension")) +
              number(11, canonical) + number(14, private))
    return f"{ns}/{hostname}", message(2, octets)


def workload(uid, ns, addresses=(), services=(), hostname="", network="", healthy=True, host_network=False,
             kind="deployment", ports=((80, 8080),)):
    """(name, octets).  `services`: "namespace/hostname"."""
    entries = b"".join(message(22, field(1, name) + message(2, _ports(1, ports))) for name in services)
    octets = (field(1, uid.split("/")[-1]) + field(2, ns) +
              b"".join(field(3, octets_of(address)) for address in addresses) + field(4, network) +
              field(6, "cluster.local") + field(7, "default") + field(9, "node-1") + field(10, "app") +
              number(12, WORKLOAD_TYPES[kind]) + number(17, not healthy) + field(18, "east") + field(20, uid) +
              field(21, hostname) + entries + message(24, field(1, "r1") + field(2, "z1")) + number(25, host_network))
    return uid, message(1, octets)


def pod(name, ns, addresses, **keys):
    return workload(f"east//Pod/{ns}/{name}", ns, addresses, **keys)
