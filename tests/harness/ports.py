# SPDX-License-Identifier: Apache-2.0
"""Free ports of the loopback addresses, the same for UDP and TCP.

Each process that asks for ports has a block of its own, which it keeps locked until it ends.  So no two processes ever get
the same port: neither workers of pytest, nor several runs on one machine."""

import fcntl
import os
import pathlib
import socket
import threading

# Below the kernel's range for outgoing sockets, so that no client takes one between check and use.
_FIRST, _LAST = 20000, 32000
# Enough for one test.  A process uses a port again after all others of its block.
_BLOCK_SIZE = 200
# One file for each block.  It is not in $TMPDIR, which runs may set to different directories.
_LOCKS = pathlib.Path("/tmp/meshdns-test-ports")


class _Block:
    """The ports of this process, in turn.  The lock ends with the last process that has its descriptor."""

    def __init__(self):
        self._ports = self._lock()
        self._next = 0

    def _lock(self):
        if not _LOCKS.exists():
            _LOCKS.mkdir(exist_ok=True)
            _LOCKS.chmod(0o1777)  # also for runs of other users
        for first in range(_FIRST, _LAST, _BLOCK_SIZE):
            path = _LOCKS / str(first)
            # A file of another user must not be opened with O_CREAT (fs.protected_regular).
            self._descriptor = os.open(path, os.O_RDONLY | (0 if path.exists() else os.O_CREAT), 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return range(first, first + _BLOCK_SIZE)
            except BlockingIOError:
                os.close(self._descriptor)
        raise RuntimeError(f"other processes have all blocks of ports: {_LOCKS}")

    def free_port(self, address):
        for _ in self._ports:
            port = self._ports[self._next]
            self._next = (self._next + 1) % _BLOCK_SIZE
            if is_free(port, address):
                return port
        raise RuntimeError(f"no free port in {self._ports} on {address}")


def _begin():
    global _block, _mutex
    _block, _mutex = None, threading.Lock()


_begin()
os.register_at_fork(after_in_child=_begin)  # a forked process takes a block of its own


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
    """Returns a port that is free for UDP and TCP, and that no other process of the tests gets."""
    global _block
    with _mutex:
        _block = _block or _Block()
        return _block.free_port(address)
