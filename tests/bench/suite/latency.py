# SPDX-License-Identifier: Apache-2.0
"""Latencies at several rates, and CPU where each query wakes the server, without the times at which the machine stood still.

A virtual machine that stops for some milliseconds, or does something else on a core, decides the 99th percentile of each
server that is measured at that moment.  The rule for such times is the same for all servers, and does not look at
latencies:

- A stall is a time of at least 0.5 ms in which the generator, which never sleeps, did not run, or a thread that precedes
  all others on the server's core was woken late.
- Queries that were due from 1 ms before a stall until 10 ms and twice its length after it do not count: at half of its
  maximum rate, a server needs the length of the stall to answer what has come meanwhile.
- A measurement that loses more than a half of its queries so does not count.  It is made once more.

All servers are measured in turn in each round, at one rate after the other.
"""

import array
import bisect
import dataclasses
import statistics

from suite import workloads
from suite.measure import SERVER_CORE, Bench, in_turn, say
from suite.table import table

BEFORE_US = 1_000
AFTER_US = 10_000
AFTER_LENGTHS = 2
MOST_LEFT_OUT = 0.5
RATES = (5_000, 20_000, 30_000)
SERVERS = ("echo", "meshdnsd", "nsd", "knot", "dnsdist")
WORKLOADS = ("vip-10k", "vip-100k")
QUANTILES = (0.5, 0.99, 0.999)


@dataclasses.dataclass
class Calm:
    """The latencies of one measurement without those of stalls, in us."""

    quantiles: tuple
    rate: float
    left_out: float  # the part of the queries that does not count
    cpu_us: float    # of the server per query, of all queries


def merge(stalls_us):
    """Ranges of due times that do not count, in order, without overlap."""
    ranges = []
    for begin, end in sorted((b - BEFORE_US, e + AFTER_US + AFTER_LENGTHS * (e - b)) for b, e in stalls_us):
        if ranges and begin <= ranges[-1][1]:
            ranges[-1][1] = max(ranges[-1][1], end)
        else:
            ranges.append([begin, end])
    return ranges


def calm(samples, stalls_us):
    """`samples`: due time in us and latency in ns, alternating.  Returns the latencies that count, sorted, and the part of
    the others."""
    due, latencies = samples[::2], samples[1::2]
    ranges = merge(stalls_us)
    ends = [end for _, end in ranges]

    def counts(time):
        i = bisect.bisect_left(ends, time)
        return i == len(ranges) or time < ranges[i][0]

    kept = sorted(latency for time, latency in zip(due, latencies) if not ranges or counts(time))
    return kept, 1 - len(kept) / max(1, len(due))


def quantile(ordered, share):
    """The least of the ordered values that `share` of them do not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class LatencyBench(Bench):
    """Fills `by_rate` of each row: a list of Calm for each of RATES, and for "half" of the server's maximum."""

    watches = True  # false when the system has refused to watch the server's core

    def _all_rounds(self, workload, rows, able, path):
        most = {}
        for name, server in able.items():
            rows[name].saturated.append(self._load(workload, server, path, 1.0, 0)[0])
            most[name] = rows[name].saturated[-1].qps
        for turn in range(self.rounds):
            for rate in (*RATES, "half"):
                for name in in_turn(able, turn):
                    calm_one = self._measure_calm(workload, able[name], path, most[name] / 2 if rate == "half" else rate)
                    if calm_one:
                        rows[name].by_rate.setdefault(rate, []).append(calm_one)

    def _measure_calm(self, workload, server, path, rate):
        for _ in range(2):
            found = self._measure_once(workload, server, path, rate)
            if found:
                return found
        say(f"   {server.name} at {rate:.0f} queries/s: left out, the machine stood still too often")
        return None

    def _measure_once(self, workload, server, path, rate):
        file = self.scratch / "samples"
        sample, seen = self._load(workload, server, path, self.seconds, round(rate),
                                  ["--samples", file, "--watch-core", SERVER_CORE])
        self.watches = self.watches and seen["watching"]
        samples = array.array("I", file.read_bytes())
        kept, left_out = calm(samples, seen["stalls_us"])
        if not kept or left_out > MOST_LEFT_OUT:
            return None
        return Calm(tuple(quantile(kept, share) / 1000 for share in QUANTILES), sample.qps, left_out, sample.cpu_us)


def run(bench, names=WORKLOADS):
    """A report in Markdown."""
    chosen = [w for w in workloads.ALL if w.name in names]
    rows = bench.run(chosen)
    out = []
    for workload in chosen:
        out += section(workload, [r for r in rows if r.workload == workload.name])
    if not bench.watches:
        out.append("The system did not permit a thread that watches the server's core: only stalls of the generator's core "
                   "are left out.")
    return "\n".join(out)


def section(workload, rows):
    head = ["server", *(f"{rate} queries/s" for rate in RATES), "half of its maximum", "left out"]
    lines = []
    for row in sorted((r for r in rows if r.by_rate), key=_p99_at_last_rate):
        halves = row.by_rate.get("half", [])
        half = f"{statistics.median(c.rate for c in halves):.0f}: {cells(halves)}" if halves else ""
        left_out = statistics.mean(c.left_out for several in row.by_rate.values() for c in several)
        lines.append([row.server, *(cells(row.by_rate.get(rate, [])) for rate in RATES), half, f"{left_out:.0%}"])
    out = [f"### {workload.name}: {workload.title}: p50, p99 (least to most of the rounds), p99.9 in us", "", *table(head, lines)]
    out += cpu_table(rows)
    return out + [f"{r.server} was not measured: {r.why_not.splitlines()[0]}" for r in rows if r.why_not] + [""]


def cpu_table(rows):
    """CPU us per query at the rates, where a server is woken for each query, and its ratio to the echo server."""
    medians = {row.server: {rate: statistics.median(c.cpu_us for c in several) for rate, several in row.by_rate.items()}
               for row in rows if row.by_rate}
    echo = medians.get("echo", {})

    def cell(own, rate):
        if rate not in own:
            return ""
        return f"{own[rate]:.2f}" + (f" ({own[rate] / echo[rate]:.2f})" if rate in echo else "")

    head = ["server", *(f"CPU us per query at {rate} queries/s (to echo)" for rate in RATES)]
    return table(head, [[server, *(cell(own, rate) for rate in RATES)] for server, own in medians.items()])


def _p99_at_last_rate(row):
    of_row = row.by_rate.get(RATES[-1], [])
    return statistics.median(c.quantiles[1] for c in of_row) if of_row else float("inf")


def cells(measured):
    """The medians of the rounds."""
    if not measured:
        return ""
    p50, p99, p999 = (sorted(c.quantiles[i] for c in measured) for i in range(3))
    return (f"{statistics.median(p50):.0f}, {statistics.median(p99):.0f} ({p99[0]:.0f} to {p99[-1]:.0f}), "
            f"{statistics.median(p999):.0f}")
