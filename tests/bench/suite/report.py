# SPDX-License-Identifier: Apache-2.0
"""Prints the results as tables in Markdown."""

import statistics

from suite import changes, workloads
from suite.table import spread, table


def _thousands(values):
    return spread([v / 1000 for v in values], 0)


def _ratio(row, echo):
    """Median of the rounds' ratios to the echo's CPU per query."""
    if echo is None or not echo.saturated:
        return "-"
    return f"{statistics.median(a.cpu_us / b.cpu_us for a, b in zip(row.saturated, echo.saturated)):.2f}"


def _latencies(samples):
    return ", ".join(f"{statistics.median(getattr(s, k) for s in samples):.0f}" for k in ("p50_us", "p99_us", "p999_us"))


def _half(row):
    """Compares the latencies at half of the maximum with the echo's."""
    rate = statistics.median(s.qps for s in row.at_half)
    p99 = statistics.median(a.p99_us / b.p99_us for a, b in zip(row.at_half, row.echo_at_half))
    least, echo_least = (min(s.p99_us for s in samples) for samples in (row.at_half, row.echo_at_half))
    return (f"At half of its maximum ({rate / 1000:.0f},000 queries/s) the latencies of {row.server} are "
            f"{_latencies(row.at_half)} us (p50, p99, p999), those of the echo {_latencies(row.echo_at_half)} us.  In the "
            f"median round, its p99 is {p99:.2f} times the p99 of the echo.  In the least disturbed rounds, they are {least:.0f} and {echo_least:.0f} us.")


def workload_section(workload, rows, rate):
    echo = next((r for r in rows if r.server == "echo" and r.saturated), None)
    measured = sorted((r for r in rows if r.saturated), key=lambda r: statistics.median(s.cpu_us for s in r.saturated))
    head = ["server", "1,000 queries/s", "CPU us per query", "to echo"]
    if workload.rate:
        head += [f"p50, p99, p999 in us at {rate} queries/s"]
    lines = []
    for row in measured:
        line = [row.server, _thousands([s.qps for s in row.saturated]), spread([s.cpu_us for s in row.saturated], 2),
                _ratio(row, echo)]
        if workload.rate:
            line.append(_latencies(row.at_rate))
        lost = sum(s.lost for s in row.saturated + row.at_rate)
        if lost:
            line[0] += f" ({lost} lost)"
        lines.append(line)
    out = [f"### {workload.name}: {workload.title}", "", *table(head, lines)]
    out += [line for row in measured if row.at_half for line in (_half(row), "")]
    for row in rows:
        if row.why_not:
            out.append(f"{row.server} was not measured: {row.why_not.splitlines()[0]}")
    return out + [""]


def footprint_section(footprints, names):
    lines = [[f.server, *([f"{f.empty_mib:.1f}", f"{f.data_mib:.1f}"] if f.full_mib else ["", ""]),
              f"{f.start_seconds:.2f}"] for f in footprints if not f.why_not]
    return [f"### memory and start: {names} names", "",
            *table(["server", "MiB with 10 names", "more MiB with all names", "seconds until the last name is answered"],
                    lines)]


def markdown(rows, footprints, costs, rate, names, machine):
    out = [f"{machine}", ""]
    for workload in workloads.ALL:
        of_workload = [r for r in rows if r.workload == workload.name]
        if of_workload:
            out += workload_section(workload, of_workload, rate)
    if footprints:
        out += footprint_section(footprints, names)
    if costs:
        out += changes.section(costs)
    return "\n".join(out)
