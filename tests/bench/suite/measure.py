# SPDX-License-Identifier: Apache-2.0
"""Starts the servers of a workload side by side and measures them in turn.

The servers share one core and the generator has the other.  While one is measured the rest sleep; rounds are
interleaved, so that whatever else the machine does meets all of them, and ratios are taken within a round.
"""

import dataclasses
import pathlib
import random
import shutil
import statistics
import sys

from suite import client, data, servers
from suite.process import NotMeasurable, Server, free_port, run_generator

SERVER_CORE = 0
LOAD_CORE = 1


@dataclasses.dataclass
class Sample:
    qps: float
    cpu_us: float
    p50_us: float
    p99_us: float
    p999_us: float
    lost: int


@dataclasses.dataclass
class Row:
    """The results of one server in one workload, a sample for each round."""

    server: str
    workload: str
    saturated: list = dataclasses.field(default_factory=list)
    at_rate: list = dataclasses.field(default_factory=list)
    at_half: list = dataclasses.field(default_factory=list)       # of the maximum that it has just reached
    echo_at_half: list = dataclasses.field(default_factory=list)  # the echo at that rate, right after
    by_rate: dict = dataclasses.field(default_factory=dict)       # of suite.latency
    why_not: str = ""


def in_turn(names, turn):
    """The names, beginning with another one at each turn."""
    names = list(names)
    return names[turn % len(names):] + names[:turn % len(names)] if names else []


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    """`programs` is the build directory, `scratch` is emptied."""

    def __init__(self, programs, scratch, wanted_servers, rounds, seconds, rate):
        self.programs = pathlib.Path(programs)
        self.scratch = pathlib.Path(scratch)
        self.wanted_servers = wanted_servers
        self.rounds = rounds
        self.seconds = seconds
        self.rate = rate
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        self._running = []

    # --- worlds -------------------------------------------------------------------------------------------------------

    def run(self, workloads):
        """Rows of all workloads; those that share their servers are measured while these run."""
        rows = []
        groups = {}
        for workload in workloads:
            groups.setdefault((workload.role, workload.names), []).append(workload)
        for (role, names), group in groups.items():
            say(f"== {role}, {names} names")
            world = data.World(names)
            try:
                running = self._start(role, world, group)
                for workload in group:
                    rows += self._measure(workload, world, running)
            finally:
                self.stop_all()
        return rows

    def _start(self, role, world, group):
        candidates = servers.OF_ROLE.get(role, servers.LOCAL)
        asked = {name for w in group for name in (w.only or candidates)}
        files = self._zone_files(role, world)
        running = {}
        upstream = 0
        certificate = None
        if role in servers.OF_ROLE or asked & set(self.wanted_servers) & servers.BEHIND_NSD:
            upstream = self._start_upstream(files)
        if role == "tls":
            try:
                upstream, certificate = self._start_tls_front(upstream)
            except NotMeasurable as reason:
                say(f"   no upstream over TLS: {reason}")
                return {name: reason for name in candidates if name in self.wanted_servers}
        for name, make in candidates.items():
            if name not in self.wanted_servers or name not in asked:
                continue
            try:
                running[name] = self._start_one(name, make, role, world, files, upstream, certificate)
            except NotMeasurable as reason:
                say(f"   {name}: {reason}")
                running[name] = reason
        return running

    def _zone_files(self, role, world):
        files = self.scratch / f"zones-{role}-{world.names}"
        files.mkdir()
        if role in servers.OF_ROLE:
            data.write_upstream_zone_file(files / f"{data.UPSTREAM}.zone", world.names)
        else:
            data.write_zone_file(files / f"{data.ZONE}.zone", world)
            data.write_empty_zone_file(files / f"{data.CLUSTER}.zone", data.CLUSTER)
        return files

    # On the generator's core: its CPU is not the server's.
    def _start_upstream(self, files):
        place = self._place(f"upstream-of-{files.name}", files=files)
        server = Server("upstream", servers.knot(place), place.directory, place.port, LOAD_CORE)
        self._running.append(server)
        server.wait_until(lambda: client.ask(place.port, f"ns.{next(files.glob('*.zone')).stem}") is not None)
        return place.port

    # The same.  Its TLS port is behind that for UDP.
    def _start_tls_front(self, upstream):
        place = self._place("tls-front", upstream=upstream)
        server = Server("tls-front", servers.tls_front(place), place.directory, place.port, LOAD_CORE)
        self._running.append(server)
        server.wait_until(lambda: client.ask(place.port, data.cached_host(0)) is not None)
        return place.port + 1, place.directory / "certificate.pem"

    def _start_one(self, name, make, role, world, files, upstream, certificate):
        cache = role in servers.OF_ROLE or name in servers.BEHIND_NSD
        place = self._place(f"{name}-{role}-{world.names}", world=None if cache else world, files=files,
                            upstream=upstream if cache else 0, clients=data.CLIENTS if role == "clients" else None,
                            certificate=certificate)
        server = Server(name, make(place), place.directory, place.port, SERVER_CORE)
        self._running.append(server)
        question = data.cached_host(world.names - 1) if role in servers.OF_ROLE else data.host(world.names - 1)
        source = data.CLIENTS.first if role == "clients" else None
        server.wait_until(lambda: _answers(name, client.ask(place.port, question, 0.1, source=source)))
        return server

    def _place(self, label, **fields):
        directory = self.scratch / label
        directory.mkdir()
        return servers.Place(directory=directory, port=free_port(), programs=self.programs, **fields)

    def stop_all(self):
        for server in self._running:
            server.stop()
        self._running.clear()

    # --- one workload -------------------------------------------------------------------------------------------------

    def _measure(self, workload, world, running):
        names = getattr(data.Questions(world.names), workload.questions)()
        path = self.scratch / f"{workload.name}.queries"
        data.write_queries(path, names)
        rows = {}
        for name, server in running.items():
            if workload.only and name not in workload.only:
                continue
            rows[name] = Row(name, workload.name)
            if isinstance(server, NotMeasurable):
                rows[name].why_not = str(server)
            elif name != "echo":
                rows[name].why_not = self._refute(workload, world, server, names)
        able = {name: running[name] for name, row in rows.items() if not row.why_not}
        for name, server in able.items():
            self._load(workload, server, path, 0.5 if workload.role == "local" else 1.5, 0)
        self._all_rounds(workload, rows, able, path)
        for row in rows.values():
            say(f"   {workload.name:14}{row.server:16}" + (row.why_not or _brief(row)))
        path.unlink()
        return list(rows.values())

    def _all_rounds(self, workload, rows, able, path):
        for turn in range(self.rounds):
            for name in in_turn(able, turn):
                self._round(workload, rows[name], able, path)

    def _round(self, workload, row, able, path):
        server = able[row.server]
        row.saturated.append(self._load(workload, server, path, self.seconds, 0)[0])
        if not workload.rate:
            return
        row.at_rate.append(self._load(workload, server, path, self.seconds, self.rate)[0])
        if row.server == "meshdnsd" and "echo" in able:
            half = round(row.saturated[-1].qps / 2)
            row.at_half.append(self._load(workload, server, path, self.seconds, half)[0])
            row.echo_at_half.append(self._load(workload, able["echo"], path, self.seconds, half)[0])

    def _refute(self, workload, world, server, names):
        """Returns the reason why the server is not measured; "" if a sample of its answers is correct."""
        for name in random.Random(data.SEED).sample(names, min(20, len(names))):
            wanted_rcode, wanted = workload.expect(world, name)
            source = data.CLIENTS.first if workload.role == "clients" else None
            if source and name.startswith("own-"):
                wanted = [data.own_address(0, int(name.split(".")[0][4:]))]
            got = client.ask(server.port, name, 2.0, tcp=workload.tcp, source=source)
            if got != (wanted_rcode, wanted):
                return f"answers {name} with {_shorten(got)}, not {_shorten((wanted_rcode, wanted))}"
        return ""

    _skipped = {}

    def _load(self, workload, server, path, seconds, rate, options=()):
        """A Sample of the server, and all that the load generator has said."""
        command = ["taskset", "-c", str(LOAD_CORE), self.programs / "bench_load", "127.0.0.1", server.port, path,
                   "--seconds", seconds, "--pids", ",".join(map(str, server.pids)), *workload.options]
        if rate:
            command += ["--rate", rate]
        command += options
        if workload.questions == "missed":  # each run asks for names that none before it has asked this server for
            command += ["--skip", self._skipped.get(server.port, 0)]
        seen = run_generator(command)
        self._skipped[server.port] = self._skipped.get(server.port, 0) + seen["sent"] * 2
        answered = max(seen["answered"], 1)
        return Sample(qps=seen["answered"] / seen["seconds"], cpu_us=seen["cpu_seconds"] * 1e6 / answered,
                      p50_us=seen["p50_us"], p99_us=seen["p99_us"], p999_us=seen["p999_us"], lost=seen["lost"]), seen


def _answers(name, reply):
    return reply is not None and (name == "echo" or reply[1] != [])


def _shorten(reply):
    return "nothing" if reply is None else f"rcode {reply[0]} and {len(reply[1])} addresses"


def _brief(row):
    cpu = sorted(s.cpu_us for s in row.saturated)
    qps = statistics.median(s.qps for s in row.saturated)
    lost = sum(s.lost for s in row.saturated)
    text = f"{qps:9.0f} qps {statistics.median(cpu):6.2f} us ({cpu[0]:.2f} to {cpu[-1]:.2f})"
    if row.at_rate:
        text += f"  p99 {statistics.median(s.p99_us for s in row.at_rate):.0f} us"
    if row.at_half:
        text += "  at half of the maximum {:.0f}, the echo {:.0f}".format(
            *(statistics.median(s.p99_us for s in samples) for samples in (row.at_half, row.echo_at_half)))
    return text + (f"  {lost} lost" if lost else "")
