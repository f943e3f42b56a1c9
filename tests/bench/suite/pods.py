# SPDX-License-Identifier: Apache-2.0
"""Servers of a node, asked from the network namespace of a Pod: CPU of the whole machine, and round trips.

The client has a number of queries in flight and sleeps until replies come, as clients do.  So its own work counts, and
that of the kernel on both sides of the veth pair.  Two Pods have links of the same kind.  The program that answers in the
kernel is attached to one of them; the other one asks the servers.

Server and client have a core each.  With `one_core`, they share one: then nothing wakes up another core, and the time
until a reply is that of the work alone.
"""

import contextlib
import dataclasses
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from harness.bpf import AnswerMaps  # noqa: E402
from harness.kernel_program import NotPermittedError, node_with_bpf  # noqa: E402
from harness.namespaces import inside  # noqa: E402
from harness.routed_node import NODE_IPV4, pod_mac  # noqa: E402
from suite import client, data, servers  # noqa: E402
from suite.measure import LOAD_CORE, SERVER_CORE, in_turn, say  # noqa: E402
from suite.process import NotMeasurable, Server, free_port, run_generator  # noqa: E402
from suite.table import spread, table  # noqa: E402

KERNEL = "meshdnsd, in the kernel"
SERVERS = ("echo", "meshdnsd", "nsd", "knot", "unbound", "dnsdist")
IN_FLIGHT = (1, 8, 64)
WORLDS = ((1, 1), (10_000, 1), (100_000, 1), (10_000, 10), (10_000, 100))  # names and views
LARGE_WORLD = 100_000
ADDRESSES = 100
# The Pod whose link has the program, and the other one, with their first addresses.
PODS = {"shop": "10.62.1.1", "web": "10.62.2.1"}
ANSWERS_IN_KERNEL = 0.995
WARM_UP_S = 60


@dataclasses.dataclass
class Sample:
    machine_us: float  # CPU of all cores per query
    p50_us: float
    p99_us: float
    lost: int
    in_kernel: float = 0.0  # the part of the queries


@dataclasses.dataclass
class Row:
    server: str
    names: int
    views: int
    in_flight: int
    one_core: bool
    samples: list = dataclasses.field(default_factory=list)


class Pods:
    """The node, its two Pods with an address for each view, and the loader of the program."""

    def __init__(self, programs, scratch):
        self._stack = contextlib.ExitStack()
        try:
            bpffs, self.node = self._stack.enter_context(node_with_bpf(scratch))
            for pod, first in PODS.items():
                self._add_addresses(pod, data.Clients(first, ADDRESSES))
            self.maps = bpffs / "meshdns"
            with inside(self.node.name):
                loader = Server("meshdns-kernel", [programs / "meshdns-kernel", "run", "--maps", self.maps, "--interfaces",
                                                   "veth-shop", "--answers", 2 * LARGE_WORLD], scratch, 0)
            self._stack.callback(loader.stop)
            loader.wait_until(lambda: re.search(r"\bready\b", loader.log_tail()))
        except NotPermittedError as reason:
            self.close()
            raise NotMeasurable(str(reason)) from reason
        except BaseException:
            self.close()
            raise

    def _add_addresses(self, pod, clients):
        addresses = [clients.address(i) for i in range(clients.namespaces)]
        self._ip(self.node.pods[pod], [f"addr add {a}/32 dev eth0" for a in addresses])
        self._ip(self.node.name, [line for a in addresses for line in (
            f"route add {a}/32 dev veth-{pod}",
            f"neigh add {a} lladdr {pod_mac(pod)} dev veth-{pod} nud permanent")])

    @staticmethod
    def _ip(namespace, commands):
        subprocess.run(["ip", "-n", namespace, "-batch", "-"], input="\n".join(commands), text=True, check=True,
                       capture_output=True)

    def answered(self):
        """Number of answers of the program."""
        with contextlib.closing(AnswerMaps(self.maps)) as maps:
            return sum(value for name, value in maps.counters().items() if name.startswith("answered_ipv"))

    def close(self):
        self._stack.close()


class PodBench:
    def __init__(self, programs, scratch, wanted, rounds, seconds):
        self.programs = programs
        self.scratch = scratch
        self.wanted = [name for name in SERVERS if name in wanted]
        self.rounds = rounds
        self.seconds = seconds
        self.left_out = []
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True, exist_ok=True)

    def run(self, worlds=WORLDS):
        rows = []
        with contextlib.closing(Pods(self.programs, self.scratch)) as self.pods:
            for names, views in worlds:
                say(f"== {names} names, {views} views")
                with contextlib.ExitStack() as stack:
                    rows += self._measure(names, views, self._start(names, views, stack))
        return rows

    # --- servers ------------------------------------------------------------------------------------------------------

    def _start(self, names, views, stack):
        """The servers by their names, each with the Pod that asks it."""
        world = data.World(names)
        home = self.scratch / f"{names}-{views}"
        files = home / "zones"
        files.mkdir(parents=True)
        data.write_zone_file(files / f"{data.ZONE}.zone", world)
        data.write_empty_zone_file(files / f"{data.CLUSTER}.zone", data.CLUSTER)
        running = {}
        with inside(self.pods.node.name):
            upstream = free_port()
            if "dnsdist" in self.wanted:
                upstream = self._start_one("upstream", servers.nsd, "127.0.0.1", "web", home, stack, files=files).port
            for name in (*self.wanted, KERNEL):
                make = servers.LOCAL["meshdnsd" if name == KERNEL else name]
                pod = "shop" if name == KERNEL else "web"
                fields = {"files": files, "world": world, "upstream": 0}
                if name in servers.BEHIND_NSD:
                    fields |= {"world": None, "upstream": upstream}
                if name in ("meshdnsd", KERNEL):
                    fields["clients"] = data.Clients(PODS[pod], views)
                if name == KERNEL:
                    fields["kernel_maps"] = self.pods.maps
                try:
                    running[name] = self._start_one(name, make, NODE_IPV4, pod, home, stack, **fields), pod
                except NotMeasurable as reason:
                    self.left_out.append(f"{name} was not measured: {str(reason).splitlines()[0]}")
        return running

    def _start_one(self, name, make, address, pod, home, stack, **fields):
        directory = home / re.sub("[^a-z]", "", name)
        directory.mkdir()
        place = servers.Place(directory=directory, port=free_port(), programs=self.programs, address=address, **fields)
        server = Server("server", make(place), directory, place.port, SERVER_CORE)
        stack.callback(server.stop)
        server.address = address
        last = data.host(fields["world"].names - 1 if fields.get("world") else 0)

        def answers():
            with inside(self.pods.node.pods[pod] if address == NODE_IPV4 else self.pods.node.name):
                got = client.ask(server.port, last, 0.1, address=address)
            return got is not None and (name == "echo" or got[1] != [])

        server.wait_until(answers)
        return server

    # --- measurements -------------------------------------------------------------------------------------------------

    def _measure(self, names, views, running):
        path = self.scratch / "queries"
        data.write_queries(path, data.Questions(names).of_views(views))
        running = {name: found for name, found in running.items() if self._is_right(name, *found, names, views)}
        for name, (server, pod) in running.items():
            self._warm_up(name, server, pod, path, views)
        rows = []
        for one_core in (False, True):
            for in_flight in IN_FLIGHT:
                here = {name: Row(name, names, views, in_flight, one_core) for name in running}
                for turn in range(self.rounds):
                    for name in in_turn(running, turn):
                        here[name].samples.append(self._load(*running[name], path, views, in_flight, one_core, self.seconds))
                for row in here.values():
                    say(f"   {'one core ' if one_core else 'two cores'} {in_flight:3} in flight  {row.server:24}"
                        f"{_median(row, 'machine_us'):6.2f} us of CPU, {_median(row, 'p50_us'):6.1f} us round trip")
                rows += here.values()
        return rows

    def _is_right(self, name, server, pod, names, views):
        clients = data.Clients(PODS[pod], views)
        for index in range(0 if name == "echo" else min(20, names)):
            wanted = 0, [data.address(0, index)]
            with inside(self.pods.node.pods[pod]):
                got = client.ask(server.port, data.host(index), 2.0, source=clients.address(index % views), address=NODE_IPV4)
            if got != wanted:
                self.left_out.append(f"{name} was not measured: it answers {data.host(index)} with {got}, not {wanted}")
                return False
        return True

    def _warm_up(self, name, server, pod, path, views):
        """Until caches know what is asked: the daemon offers so many answers a second to the kernel at most."""
        begin = time.monotonic()
        while True:
            seen = self._load(server, pod, path, views, 64, False, 1.0)
            if name != KERNEL or seen.in_kernel >= ANSWERS_IN_KERNEL:
                return
            if time.monotonic() - begin > WARM_UP_S:
                say(f"   only {seen.in_kernel:.3f} of the answers come from the kernel")
                return

    def _load(self, server, pod, path, views, in_flight, one_core, seconds):
        core = SERVER_CORE if one_core else LOAD_CORE
        command = ["taskset", "-c", core, self.programs / "bench_load", NODE_IPV4, server.port, path, "--sleeps",
                   "--sockets", 1, "--window", in_flight, "--seconds", seconds, "--warm-up", 0.2,
                   *data.Clients(PODS[pod], views).option]
        before = self.pods.answered()
        with inside(self.pods.node.pods[pod]):
            seen = run_generator(command)
        answered = max(seen["answered"], 1)
        return Sample(seen["machine_cpu_seconds"] * 1e6 / answered, seen["p50_us"], seen["p99_us"], seen["lost"],
                      # the counter has the warm-up, too
                      min(1.0, (self.pods.answered() - before) / answered))


def _median(row, field):
    return statistics.median(getattr(sample, field) for sample in row.samples)


def _ratio(row, echo, field):
    return statistics.median(getattr(a, field) / getattr(b, field) for a, b in zip(row.samples, echo.samples))


def _spread(row, field):
    return spread([getattr(sample, field) for sample in row.samples], 1)


def section(rows):
    """Tables in Markdown, one for each world and placement."""
    out = []
    for names, views, one_core in dict.fromkeys((row.names, row.views, row.one_core) for row in rows):
        here = [row for row in rows if (row.names, row.views, row.one_core) == (names, views, one_core)]
        out += [f"### {names:,} {'name' if names == 1 else 'names'}, {views} {'view' if views == 1 else 'views'}, "
                f"{'client and server on one core' if one_core else 'client and server on a core each'}", ""]
        lines = []
        for row in here:
            echo = next((r for r in here if r.server == "echo" and r.in_flight == row.in_flight), None)
            ratios = [f"{_ratio(row, echo, field):.2f}" if echo else "-" for field in ("machine_us", "p50_us")]
            lost = sum(sample.lost for sample in row.samples)
            lines.append([str(row.in_flight), row.server + (f" ({lost} lost)" if lost else ""), _spread(row, "machine_us"),
                          ratios[0], _spread(row, "p50_us"), ratios[1], f"{_median(row, 'p99_us'):.1f}"])
        out += table(["in flight", "server", "CPU us per query, whole machine", "to echo", "round trip in us, p50", "to echo",
                      "p99"], lines)
    return out
