# SPDX-License-Identifier: Apache-2.0
"""Free ports of the loopback addresses, the same for UDP and TCP."""

import random
import socket

# Below the kernel's range for outgoing sockets, so that no client takes one between check and use.
_FIRST, _LAST = 20000, 32000


def is_free(port, address="127.0.0.1"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(family, kind) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


def free_port(address="127.0.0.1"):
    for _ in range(1000):
        port = random.randint(_FIRST, _LAST)
        if is_free(port, address):
            return port
    raise RuntimeError(f"no free port between {_FIRST} and {_LAST} on {address}")
