# SPDX-License-Identifier: Apache-2.0
"""An outage of every upstream, and a flood of names that nobody asked before.

Short here; MESHDNS_OUTAGE_SECONDS=60 MESHDNS_OUTAGE_QPS=5000 and MESHDNS_FLOOD_NAMES=1000000 give the figures of the
closing notes (run with -s)."""

import collections
import math
import os
import re
import subprocess
import time

from harness.memory import MEBIBYTE, resident
from harness.preset import ONE_THREAD, at_most
from harness.real_servers import Nsd, find_program
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

SECONDS = int(os.environ.get("MESHDNS_OUTAGE_SECONDS", "6"))
QUERIES_PER_SECOND = int(os.environ.get("MESHDNS_OUTAGE_QPS", "1000"))
FLOOD = int(os.environ.get("MESHDNS_FLOOD_NAMES", "30000"))
NAMES = 200


def dnsperf(daemon, names, *options):
    """Asks for `names`; what dnsperf counts: {"lost": ..., "NOERROR": ...}."""
    queries = daemon.config_path.with_name("queries")
    queries.write_text("".join(f"{name} A\n" for name in names))
    host, port = daemon.server
    done = subprocess.run([find_program("dnsperf"), "-s", host, "-p", str(port), "-d", queries,
                           "-t", str(math.ceil(seconds(5))), *options],
                          capture_output=True, text=True, check=True, timeout=SECONDS + 900)
    counts = {code: int(count) for code, count in re.findall(r"\b([A-Z]{4,}) (\d+) \(", done.stdout)}
    counts["lost"] = int(re.search(r"Queries lost: +(\d+)", done.stdout)[1])
    counts["sent"] = int(re.search(r"Queries sent: +(\d+)", done.stdout)[1])
    return counts


def test_an_outage_of_all_upstreams_is_bridged_with_stale_answers(workspace):
    upstream = workspace.upstream(["*.example.test. 1 A 192.0.2.1"])
    daemon = workspace.daemon({"upstream": {"timeout": "1s"}}, upstreams=[upstream])
    names = [f"n{i}.example.test" for i in range(NAMES)]
    for name in names:
        assert daemon.ask(name + ".").addresses() == ["192.0.2.1"]

    upstream.set(rules=[{"drop": True}])
    # The last name runs out last; an explanation does not count as a use.
    eventually(lambda: any("expired" in text for text in daemon.ask(names[-1] + ".", "TXT", rdclass="CH").texts()))
    counts = dnsperf(daemon, names, "-l", str(SECONDS), "-Q", str(QUERIES_PER_SECOND))
    print(f"outage of {SECONDS} s: {counts}")
    assert (counts["lost"], counts["NOERROR"]) == (0, counts["sent"])
    stale = daemon.ask(names[0] + ".")
    assert stale.addresses() == ["192.0.2.1"]
    assert 3 in stale.extended_errors(), "RFC 8914: stale answer"

    upstream.set(["*.example.test. 60 A 192.0.2.2"])
    upstream.forget()
    returned = time.monotonic()
    eventually(lambda: daemon.ask(names[0] + ".").addresses() == ["192.0.2.2"], 5.0, 0.02)
    recovered = time.monotonic() - returned
    dnsperf(daemon, names, "-l", "2", "-Q", str(QUERIES_PER_SECOND))
    asked = collections.Counter(received.name for received in upstream.received())
    print(f"fresh again {recovered:.2f} s after the upstream's return; queries per name at most {max(asked.values())}")
    # A busy machine adds a retry.  Without a cache, each name would be asked for ten times.
    assert max(asked.values()) <= 3, "the name, and perhaps the one that was on its way"
    for name in names:  # a refresh that a busy machine cut short is tried again at the next question
        eventually(lambda name=name: daemon.ask(name + ".").addresses() == ["192.0.2.2"])


def test_a_flood_of_random_names_pushes_out_no_hot_one(workspace, tmp_path):
    nsd = workspace.own(Nsd(tmp_path / "nsd", "example.test.", ["*.hot 300 A 192.0.2.1", "*.flood 300 A 192.0.2.9"]))
    size = 8
    daemon = workspace.daemon({"cache": {"size": f"{size}MiB"}, "server": {"workers": 2}}, upstreams=[nsd])
    hot = [f"n{i}.hot.example.test" for i in range(100)]
    dnsperf(daemon, hot, "-n", "20")
    before = resident(daemon.pid)
    portion = 5000
    for first in range(0, FLOOD, portion):
        counts = dnsperf(daemon, [f"r{i}.flood.example.test" for i in range(first, first + portion)], "-n", "1")
        assert counts["lost"] == 0
        dnsperf(daemon, hot, "-n", "1")
    grown = resident(daemon.pid) - before
    print(f"{FLOOD} names: {grown / MEBIBYTE:.1f} MiB more with a cache of {size} MiB")
    assert grown <= at_most(1.1 * size * MEBIBYTE)
    nsd.kill()
    workspace.forget(nsd)
    missed = [name for name in hot if daemon.ask(name + ".").addresses() != ["192.0.2.1"]]
    assert not missed, "hot names stay hits"
