# SPDX-License-Identifier: Apache-2.0
"""Acts as systemd does for a service: notifications, watchdog, sockets."""

import ctypes
import os
import shutil
import socket
import threading
import time

from harness.waiting import eventually, seconds

_PTRACE_SEIZE, _PTRACE_INTERRUPT, _PTRACE_DETACH = 0x4206, 0x4207, 17
_libc = ctypes.CDLL(None, use_errno=True)


class NotifySocket:
    """Receives what the daemon says by sd_notify(3), each message as a mapping."""

    def __init__(self, path):
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._messages = []
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                text = self._socket.recv(4096).decode()
            except OSError:
                return
            message = dict(line.split("=", 1) for line in text.splitlines())
            with self._lock:
                self._messages.append((time.monotonic(), message))

    def messages(self, key, since=0.0):
        """The values of `key` that came after `since`, by time.monotonic()."""
        with self._lock:
            return [message[key] for at, message in self._messages if at >= since and key in message]

    def times(self, key, since=0.0):
        """When `key` came after `since`."""
        with self._lock:
            return [at for at, message in self._messages if at >= since and key in message]

    def wait_for(self, key, value=None, since=0.0, limit=10):
        def found():
            values = self.messages(key, since)
            return values and (value is None or value in values)
        eventually(found, limit)
        return self.messages(key, since)[-1]

    def close(self):
        self._socket.close()


class Sockets:
    """A UDP and a TCP socket of one address that outlive the daemons which answer on them."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._sockets = []
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            made = socket.socket(socket.AF_INET, kind)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, int(port)))
            self._sockets.append(made)
        self.udp, self.tcp = self._sockets
        self.udp_buffer = self._enlarge()
        self.tcp.listen(1024)

    def _enlarge(self):
        """As ReceiveBuffer= of the socket unit, which needs CAP_NET_ADMIN; returns what the kernel gave."""
        so_rcvbufforce = 33
        try:
            self.udp.setsockopt(socket.SOL_SOCKET, so_rcvbufforce, 8 << 20)
        except PermissionError:
            self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        return self.udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    def options(self):
        """How a Daemon has to be started to get them: as file descriptors 3 and 4 (sd_listen_fds(3))."""
        files = [made.fileno() for made in self._sockets]
        # Above what the program's own copies could collide with.
        moves = " ".join(f"{3 + i}<&{file}" for i, file in enumerate(files))
        script = f'exec {moves}; LISTEN_FDS={len(files)} LISTEN_PID=$$ exec "$@"'
        return {"prefix": [shutil.which("bash"), "-c", script, "bash"], "pass_fds": files}

    def close(self):
        for made in self._sockets:
            made.close()


def threads(pid):
    """{name: thread id} of a process."""
    names = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as comm:
            names[comm.read().strip()] = int(task)
    return names


class HangingThread:
    """Stops one thread of a child process as a debugger does, so that it seems to hang."""

    def __init__(self, thread_id):
        self._id = thread_id
        self._done = threading.Event()
        self._stopped = threading.Event()
        self.error = 0
        # The thread that begins to trace must be the one that ends it.
        self._tracer = threading.Thread(target=self._trace, daemon=True)

    def _trace(self):
        if _libc.ptrace(_PTRACE_SEIZE, self._id, None, None) != 0:
            self.error = ctypes.get_errno()
            self._stopped.set()
            return
        _libc.ptrace(_PTRACE_INTERRUPT, self._id, None, None)
        os.waitpid(self._id, 0x40000000)  # __WALL
        self._stopped.set()
        self._done.wait()
        _libc.ptrace(_PTRACE_DETACH, self._id, None, None)

    def __enter__(self):
        self._tracer.start()
        assert self._stopped.wait(seconds(5)) and not self.error, os.strerror(self.error)
        return self

    def __exit__(self, *unused):
        self._done.set()
        self._tracer.join()
