# SPDX-License-Identifier: Apache-2.0
"""A server under measurement: its start on its core, its processes and memory, and its end by process ids."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time


PRIORITY = -15


class NotMeasurable(Exception):
    """The reason why a server is not measured."""


def find_program(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise NotMeasurable(f"{name} is not installed")
    return path


def free_port():
    """A port that is free for UDP and TCP."""
    for _ in range(100):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            udp.bind(("127.0.0.1", 0))
            port = udp.getsockname()[1]
            try:
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NotMeasurable("no free port")


def _children(pid):
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += [int(child), *_children(int(child))]
    return found


def prefer_over_others():
    """Raises the priority of a child process, in its own session, before it becomes a server or the load generator, if
    that is permitted.  If the kernel groups processes by session, the weight of the group counts."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        with open("/proc/self/autogroup", "w") as group:
            group.write(str(PRIORITY))
    except OSError:
        pass


def run_generator(command):
    """All that the load generator has said."""
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                         start_new_session=True, preexec_fn=prefer_over_others)
    if ran.returncode != 0:
        raise NotMeasurable(f"the load generator failed: {ran.stderr.strip()}")
    return json.loads(ran.stdout)


class Server:
    """`command` runs in the foreground and answers on 127.0.0.1 at `port`.  `core` None: on any."""

    def __init__(self, name, command, directory, port, core=None):
        self.name = name
        self.port = port
        self.log = directory / f"{name}.log"
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [*([] if core is None else ["taskset", "-c", str(core)]), *map(str, command)], cwd=directory, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=prefer_over_others)
        self.started = time.monotonic()

    @property
    def pids(self):
        return [self._process.pid, *_children(self._process.pid)]

    def is_running(self):
        return self._process.poll() is None

    def wait_until(self, answers, seconds=120.0):
        """Returns the seconds from the start until `answers()` is true; polls it."""
        while True:
            if answers():
                return time.monotonic() - self.started
            if not self.is_running():
                raise NotMeasurable(f"{self.name} has ended: {self.log_tail()}")
            if time.monotonic() - self.started > seconds:
                raise NotMeasurable(f"{self.name} does not answer after {seconds:.0f} s: {self.log_tail()}")
            time.sleep(0.002)

    def memory_mib(self):
        """Memory of its own, pages that its processes share counted once."""
        total = 0
        for pid in self.pids:
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        return total / 1024

    def log_tail(self):
        return self.log.read_text(errors="replace")[-600:].strip()

    def stop(self):
        """Ends the processes that this object started."""
        pids = self.pids if self.is_running() else []
        for send in (signal.SIGTERM, signal.SIGKILL):
            for pid in pids:
                try:
                    os.kill(pid, send)
                except ProcessLookupError:
                    pass
            try:
                self._process.wait(5 if send == signal.SIGTERM else 30)
                return
            except subprocess.TimeoutExpired:
                continue
