# SPDX-License-Identifier: Apache-2.0
"""The meaning of names during the chaos, so that each side can tell a correct answer from a wrong one.

The address of a name is a function of its text: the upstreams answer with it, files claim it, and probes expect it.
"""

import socket
import struct
import zlib

FORGED = "203.0.113.66"  # the address in every forged answer; no client may ever see it


def address_of(name):
    """The only address that the name may have: in 198.18.0.0/15.  The target of an alias has that of the alias."""
    digest = zlib.crc32(name.lower().rstrip(".").removeprefix("target.").encode())
    return socket.inet_ntoa(struct.pack("!I", 0xC6120000 | digest & 0x1FFFF))


def stable_names(count=200):
    return [f"stable-{i}.example.org." for i in range(count)]


def moving_names(count=60):
    """Names of files that come and go."""
    return [f"moving-{i}.example.org." for i in range(count)]


def forwarded_names(count=40):
    """Names that only upstream servers know; label `alias` makes an alias, `big` an answer too long for UDP."""
    kinds = ("plain", "alias", "big", "short")
    return [f"f{i}.{kinds[i % len(kinds)]}.wild.example.net." for i in range(count)]


def entry(name):
    """A ServiceEntry that gives the name its address."""
    label = name.split(".")[0]
    return {"kind": "ServiceEntry", "metadata": {"name": label},
            "spec": {"hosts": [name.rstrip(".")], "addresses": [address_of(name)], "resolution": "STATIC"}}


def resolved_entry(name, endpoint):
    """A ServiceEntry whose endpoint the daemon looks up itself."""
    label = "dns-" + name.split(".")[0]
    return {"kind": "ServiceEntry", "metadata": {"name": label},
            "spec": {"hosts": [f"{label}.example.org"], "resolution": "DNS",
                     "endpoints": [{"address": endpoint.rstrip(".")}]}}
