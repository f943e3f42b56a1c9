# SPDX-License-Identifier: Apache-2.0
"""dnsperf on a list of names, at a rate that this machine keeps at the moment."""

import os
import pathlib
import re
import signal
import subprocess

from harness.real_servers import find_program
from harness.waiting import seconds


def _command(server, path, options, prefix):
    return [*prefix, find_program("dnsperf"), "-s", server[0], "-p", str(server[1]), "-d", str(path), *map(str, options)]


def _count(what, output):
    match = re.search(rf"{what}:?\s+(\d+)", output)
    return int(match[1]) if match else 0


def write_queries(path, names):
    path.write_text("".join(f"{name} A\n" for name in names))


def rate_to_keep(server, path, least, most, prefix=()):
    """Asks for one second as fast as the daemon and dnsperf can, and returns a quarter of that: other processes may take
    their part of the machine later.  100 queries wait at most, so that no socket is full."""
    output = subprocess.run(_command(server, path, ["-l", 1, "-c", 8], prefix), capture_output=True, text=True, check=True,
                            timeout=seconds(30)).stdout
    rate = min(most, max(least, _count("Queries completed", output) // 4))
    print(f"{rate} queries per second, of {least} to {most}")
    return rate


class Dnsperf:
    """Asks for the names of the file `path` until stop().  The process of `prefix` becomes dnsperf."""

    def __init__(self, server, path, rate, *options, prefix=()):
        self._process = subprocess.Popen(_command(server, path, ["-Q", rate, *options], prefix), stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True)
        self.output = ""

    def _drops(self):
        """Answers that found no room in the sockets of dnsperf, which had no processor time: the daemon has not lost them."""
        process = pathlib.Path("/proc") / str(self._process.pid)
        try:
            links = map(os.readlink, (process / "fd").iterdir())
            own = {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}
            rows = [line.split() for line in (process / "net/udp").read_text().splitlines()[1:]]
        except OSError:  # dnsperf has ended
            return 0
        return sum(int(row[-1]) for row in rows if row[9] in own)

    def stop(self):
        """Returns the numbers of queries: "sent", "completed", "lost" by others than dnsperf, "dropped" by its sockets, and
        "noerror".  `output` has the text."""
        dropped = self._drops()
        self._process.send_signal(signal.SIGINT)
        self.output = self._process.communicate(timeout=seconds(30))[0]
        counts = {what: _count(f"Queries {what}", self.output) for what in ("sent", "completed", "lost")}
        return {**counts, "lost": max(counts["lost"] - dropped, 0), "dropped": dropped,
                "noerror": _count("NOERROR", self.output)}

    def close(self):
        self._process.kill()
        self._process.wait()
