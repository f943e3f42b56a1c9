# SPDX-License-Identifier: Apache-2.0
"""The cost of a query while the registry changes, beside that of a registry at rest and of the echo server."""

import dataclasses
import json
import pathlib
import subprocess
import tempfile

from suite import data, servers
from suite.measure import NotMeasurable, say
from suite.process import Server, free_port, prefer_over_others
from suite.table import table

LOAD = 100_000
CHANGES = 1_000
AT_REST = 1  # the measuring program has to change something
LOAD_OPTIONS = ("--rate", LOAD, "--burst", 32, "--sockets", 16, "--warm-up", 1)
CHANGES_RUN = pathlib.Path(__file__).resolve().parents[1] / "changes" / "run"


@dataclasses.dataclass
class Cost:
    server: str
    services: int
    changes: float   # per second
    cpu_us: float    # per query, with the control thread's
    until_ms: tuple  # p50, p99, p99.9 from a change to its answers
    control_us: float  # of CPU per change


def measure(programs, seconds, services):
    """A Cost for the echo server, and two for each number of Services."""
    say("== changes")
    costs = [_measure_echo(programs, seconds)]
    with tempfile.TemporaryDirectory() as home:
        for rate in (AT_REST, CHANGES):
            file = pathlib.Path(home) / "results"
            command = [CHANGES_RUN, "--daemon", programs / "meshdnsd", "--program", programs / "bench_changes", "--load-program",
                       programs / "bench_load", "--lists", "streamed", "--workers", 1, "--load", LOAD, "--rate", rate,
                       "--seconds", seconds, "--services", ",".join(map(str, services)), "--json", file]
            ran = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False, start_new_session=True,
                                 preexec_fn=prefer_over_others)
            if ran.returncode != 0:
                raise NotMeasurable("the measurement of changes has failed")
            costs += [cost_of(result) for result in json.loads(file.read_text())]
            say(ran.stdout.strip())
    return costs


def _measure_echo(programs, seconds):
    with tempfile.TemporaryDirectory() as home:
        directory = pathlib.Path(home)
        place = servers.Place(directory=directory, port=free_port(), programs=programs)
        data.write_queries(directory / "queries", (f"svc-{i}.ns-{i % 100}.svc.cluster.local" for i in range(10_000)))
        server = Server("echo", servers.echo(place), directory, place.port)
        try:
            command = [programs / "bench_load", "127.0.0.1", place.port, directory / "queries", *LOAD_OPTIONS, "--seconds",
                       seconds, "--pids", ",".join(map(str, server.pids))]
            ran = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True,
                                 start_new_session=True, preexec_fn=prefer_over_others)
            return Cost("echo", 0, 0, cpu_per_query(json.loads(ran.stdout)), (), 0)
        finally:
            server.stop()


def cpu_per_query(load):
    return load["cpu_seconds"] * 1e6 / max(1, load["answered"])


def cost_of(result):
    """A Cost from a result of tests/bench/changes/run."""
    changes = result["changes"]
    return Cost("meshdnsd", result["services"], result["rate"], cpu_per_query(result["load"]),
                tuple(float(changes[key]) for key in ("p50_ms", "p99_ms", "p999_ms")), float(changes["control_us_per_change"]))


def section(costs):
    """The table in Markdown."""
    echo = next(c for c in costs if c.server == "echo")
    lines = []
    for cost in sorted(costs, key=lambda c: (c.services, c.changes)):
        is_changing = cost.changes > AT_REST
        lines.append([cost.server, f"{cost.services or ''}", f"{cost.changes:.0f}" if cost.services else "",
                      f"{cost.cpu_us:.2f}", f"{cost.cpu_us / echo.cpu_us:.2f}",
                      ", ".join(f"{t:.2f}" for t in cost.until_ms) if is_changing else "",
                      f"{cost.control_us:.0f}" if is_changing else ""])
    return [f"### changes: {LOAD} queries a second in bursts of 32, while EndpointSlices change", "",
            *table(["server", "Services", "changes per second", "CPU us per query, changes included", "to echo",
                    "p50, p99, p999 in ms until the answers have a change", "CPU us per change"], lines)]
