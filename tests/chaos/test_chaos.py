# SPDX-License-Identifier: Apache-2.0
"""All that the world can do to the daemon, at once and by chance, while probes check each answer.

Upstream servers misbehave, configurations and files change, clients and admin callers are hostile.  Whatever happens,
the daemon does not end, registry names are answered right, forwarded names are right or SERVFAIL in time, and at rest
the daemon holds no more than before.
"""

import contextlib
import importlib.util
import itertools
import os
import pathlib
import random
import shutil
import sys
import time

import pytest
import yaml

import clients
import truth
import turmoil
from harness.bpf import AnswerMaps
from harness.daemon import Daemon, merge
from harness.dns_client import Question, ask
from harness.kernel_fixture import made_or_skipped
from harness.kernel_node import KernelNode, pod_objects
from harness.kernel_program import LOADER
from harness.kube_api import make_certificates
from harness.load import Load
from harness.memory import MEBIBYTE, resident
from harness.namespaces import inside
from harness.ports import free_port
from harness.preset import IS_DEEP, IS_RELEASE
from harness.process import Process
from harness.routed_node import NODE_IPV4
from harness.scenario import write_atomically
from harness.seed import seed
from harness.waiting import eventually, seconds
from unruly_upstream import UnrulyUpstreams

UPSTREAMS = 3
LINK_SERVER = 2
LINK_DOMAINS = ["wild.example.net", *(f"{kind}.wild.example.net" for kind in ("plain", "alias", "big", "short"))]
WARM_SHARE = 0.4  # of the time, until memory is measured for the first time
MAX_MORE_FILES = 8
MAX_GROWTH = 24 * MEBIBYTE  # allocators never give back all
REST = 15  # seconds; longer than any connection, client's or upstream's, is kept idle


def servers(make):
    return [make(i) for i in range(UPSTREAMS)]


# Options that change how answers are made, kept or given, and the part of the configuration that turns each on.
OPTIONS = {
    "stale": lambda upstreams, scratch: {"cache": {"size": "8MiB", "serve_stale": "1h", "max_ttl": "1s"}},
    "prefetch": lambda upstreams, scratch: {"cache": {"size": "8MiB", "prefetch": True}},
    "nxdomain_cut": lambda upstreams, scratch: {"cache": {"nxdomain_cut": True}},
    "parallel": lambda upstreams, scratch: {"upstream": {"policy": "parallel"}},
    "tls": lambda upstreams, scratch: {"upstream": {"servers": servers(upstreams.tls)}},
    "zones": lambda upstreams, scratch: {"upstream": {"zones": {"wild.example.net": [upstreams.plain(0), upstreams.tls(1)]}}},
    "deny_answers": lambda upstreams, scratch: {"upstream": {"deny_answers": [truth.FORGED + "/32"]}},
    "cookies": lambda upstreams, scratch: {"server": {"cookies": {"mode": "on"}}, "upstream": {"cookies": "auto"}},
    "rate_limit": lambda upstreams, scratch: {"server": {"rate_limit": {"responses_per_second": 100, "slip": 1}}},
    "handover": lambda upstreams, scratch: {"server": {"handover": str(scratch / "handover.sock")},
                                            "log": {"level": "info"}},
    "dns64": lambda upstreams, scratch: {"dns64": {"prefix": "64:ff9b::/96"}},
    "search": lambda upstreams, scratch: {"mesh": {"search_shortcut": "all"},
                                          "client": {"default": {"search": ["default.svc.cluster.local", "example.net"]}}},
    "strict": lambda upstreams, scratch: {"mesh": {"claims": "strict"}},
    "networks": lambda upstreams, scratch: {"mesh": {"networks": "gateways"}, "client": {"default": {"network": "n1"}}},
    "locality": lambda upstreams, scratch: {"mesh": {"locality": "only"}, "client": {"default": {"locality": "r/z"}}},
    "kernel": lambda upstreams, scratch: {"server": {"kernel_answers": "auto", "kernel_maps": str(scratch / "bpf" / "meshdns")},
                                          "client": {"by_source_address": True}},
    # The last one: links need an empty list of servers, also beside `tls`.
    "links": lambda upstreams, scratch: {"upstream": {"servers": [], "zones": {
        zone: [upstreams.plain(0), upstreams.tls(1)] for zone in ("net", "org")}}},
}
PAIRS = list(itertools.combinations(OPTIONS, 2))


def pairs_of_this_run():
    """All in `./dev test deep`; else a twelfth, another one for another tree."""
    return PAIRS if IS_DEEP else PAIRS[seed() % 12::12]


def start_links(workspace, scratch, seed, server):
    """Network links with LINK_DOMAINS, and how a daemon is started that finds them, and none of this machine's servers."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for a resolv.conf of its own")
    if not (shutil.which("dbus-daemon") and importlib.util.find_spec("dbus") and importlib.util.find_spec("gi")):
        pytest.skip("needs dbus-daemon, python3-dbus and python3-gi")
    address, resolv_conf = f"unix:path={scratch / 'bus'}", scratch / "resolv.conf"
    resolv_conf.write_text("nameserver 127.0.0.153\n")  # nobody
    env = {"DBUS_SYSTEM_BUS_ADDRESS": address}
    script = pathlib.Path(__file__).with_name("network_links.py")
    for arguments, sign in ((["dbus-daemon", "--session", "--nofork", "--print-address", "--address", address], "^unix:path="),
                            ([sys.executable, script, seed, server, *LINK_DOMAINS], "^ready")):
        process = workspace.own_process(Process(arguments, pathlib.Path(arguments[0]).name, env={**os.environ, **env}))
        process.wait_for_line(sign)
    mount = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
    return {"env": env, "prefix": ["unshare", "--mount", "sh", "-c", mount, "sh", str(resolv_conf)]}


@contextlib.contextmanager
def node_for(options, scratch):
    """A node where the kernel answers, else None.  All servers and loads that are started meanwhile are on it."""
    if "kernel" not in options:
        yield None
        return
    if not LOADER.exists():
        pytest.skip(f"needs {LOADER.name}")
    with made_or_skipped(KernelNode, scratch) as made, inside(made.node.name):
        yield made


class Chaos:
    """The daemon, its upstreams, and the loads that run on them.  `options`: keys of OPTIONS that stay on all the time.
    `node`: that of node_for(options)."""

    def __init__(self, workspace, seed, scratch, options=(), node=None):
        self.workspace = workspace
        self.node = node
        self.seed = seed
        self.chance = random.Random(seed)
        workspace.write("stable.yaml", *[truth.entry(name) for name in truth.stable_names()])
        certificate, key = make_certificates(scratch)
        self.upstreams = workspace.own(UnrulyUpstreams(UPSTREAMS, seed, certificate, key))
        self.resources = workspace.resources
        self.admin_port = free_port()
        self.base = {"server": {"tcp": {"idle_timeout": "2s"}}, "log": {"level": "error"},
                     "admin": {"listen": f"127.0.0.1:{self.admin_port}"}, "cache": {"size": "8MiB"},
                     "upstream": {"tls": {"ca_file": str(certificate)}}}
        if node:
            workspace.write("pods.yaml", *pod_objects(shop="shop"))
            self.base["server"]["listen"] = [f"127.0.0.1:{free_port()}", f"{NODE_IPV4}:53"]
        (scratch / "state").mkdir()
        self.base["state_dir"] = str(scratch / "state")
        self.fixed = {}
        for option in options:
            self.fixed = merge(self.fixed, OPTIONS[option](self.upstreams, scratch))
        self.start = start_links(workspace, scratch, seed, self.upstreams.plain(LINK_SERVER)) if "links" in options else {}
        self.daemon = workspace.daemon(merge(self.base, self.fixed), **self.start,
                                       upstreams=[self.upstreams.plain(i) for i in range(UPSTREAMS)])
        self.base = self.daemon.config
        self.loads = []
        self.counts = {}

    def begin(self, part):
        """`part` makes the steps differ from those of another part of the same run."""
        daemon, server = self.daemon, self.daemon.server
        extra = [f"127.0.0.1:{free_port()}", f"127.0.0.4:{server[1]}", f"[::1]:{free_port('::1')}"]
        steps = [
            (clients.registry_names, 100, server, truth.stable_names()),
            (clients.names_of_moving_files, 20, server, truth.moving_names()),
            (clients.forwarded_names, 20, server, truth.forwarded_names(), turmoil.longest_answer_time()),
            (clients.datagrams, 30, server), (clients.connections, 30, server), (clients.crowd, 5, server),
            (clients.admin_calls, 20, self.admin_port),
            (turmoil.reloads, 1, daemon.config_path, daemon.pid, self.base, self.upstreams, extra, self.fixed),
            (turmoil.file_changes, 5, self.resources), (turmoil.moods, 1, self.upstreams),
        ]
        self.loads = [Load(step, rate, *arguments, seed=f"{self.seed}-{part}") for step, rate, *arguments in steps]
        if self.node:
            with self.inside_pod():
                self.loads += [Load(step, 100, (NODE_IPV4, 53), names, seed=f"{self.seed}-{part}-pod") for step, names in
                               ((clients.registry_names, truth.stable_names(20)),
                                (clients.names_of_moving_files, truth.moving_names()))]

    def run_for(self, duration):
        """Lets it all happen for so long, and ends it early when something has gone wrong."""
        until = time.monotonic() + duration
        while time.monotonic() < until and self.daemon.process.is_running() and not any(l.has_ended for l in self.loads):
            time.sleep(0.1)
        return self.end()

    def end(self):
        problems = [problem for problem in [load.stop() for load in self.loads] if problem]
        for load in self.loads:
            self.counts[load.name] = self.counts.get(load.name, 0) + load.steps
        self.loads = []
        return problems

    def check(self, problems):
        process, where = self.daemon.process, f"MESHDNS_CHAOS_SEED={self.seed}\n{self.log()}"
        is_running = process.is_running()
        assert is_running, f"the daemon has ended by itself, exit code {process.exit_code}; {where}"
        assert not process.sanitizer_reports(), where
        assert self.upstreams.is_alive(), "the upstreams have ended"
        assert not problems, "\n".join(problems) + f"\n{where}"

    def log(self):
        """The end of the daemon's log, without the queries."""
        return "\n".join([line for line in self.daemon.process.log_lines() if " INFO query " not in line][-60:])

    def replace_daemon(self):
        """The next daemon takes the sockets over (server.handover)."""
        before, home = self.daemon, self.resources.parent / "next"
        home.mkdir()
        write_atomically(before.config_path, yaml.safe_dump(self.base))
        self.daemon = self.workspace.own(Daemon(self.base, home, **self.start))
        before.wait_for_log("the next daemon answers; this one waits for SIGTERM", 20)
        self.workspace.forget(before)
        before.stop()

    def rest(self):
        """Takes back what was changed; returns once every name is answered again and nothing is held for anybody."""
        self.take_back()
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > REST and self.files() <= self.files_at_first + MAX_MORE_FILES,
                   3 * REST, interval=0.2)

    def take_back(self):
        for i in range(UPSTREAMS):
            self.upstreams.be(i, "well")
        for file in self.resources.rglob("moving*"):
            if not file.is_dir() or file.is_symlink():
                file.unlink()
        write_atomically(self.daemon.config_path, yaml.safe_dump(self.base))
        self.daemon.reload()
        for name in (truth.stable_names()[0], *truth.forwarded_names(8)):
            eventually(lambda name=name: self._is_right(name), 30, interval=0.1)

    def _is_right(self, name):
        addresses = self.daemon.ask(name, timeout=6).addresses()
        assert addresses == [truth.address_of(name)], f"{name} at rest: {addresses}"

    def check_links(self):
        """The link's server is asked for names of its domains: at rest, nothing else leads to it."""
        server, names = self.upstreams.plain(LINK_SERVER), (f"l{i}.plain.wild.example.net." for i in itertools.count())

        def is_asked():
            asked = self.queries_to(server)
            self._is_right(next(names))
            return self.queries_to(server) > asked
        eventually(is_asked, 30, interval=0.1)

    def inside_pod(self):
        return inside(self.node.node.pods["shop"])

    def check_kernel(self):
        """The kernel answers, and has no answer of a file that is gone."""
        def is_kernels():
            before = self.kernel_answers()
            return self.addresses_for_pod(truth.stable_names()[0]) and self.kernel_answers() > before
        eventually(is_kernels, 30, interval=0.1)
        for name in truth.moving_names():
            eventually(lambda name=name: not self.addresses_for_pod(name), 10, interval=0.1)

    def addresses_for_pod(self, name):
        with self.inside_pod():
            return ask((NODE_IPV4, 53), Question(name), timeout=6).addresses()

    def kernel_answers(self):
        with contextlib.closing(AnswerMaps(self.node.maps)) as maps:
            return sum(count for name, count in maps.counters().items() if name.startswith("answered_ipv"))

    def queries_to(self, server):
        return sum(upstream["queries"] for upstream in self.daemon.get_json("/upstreams") if upstream["server"] == server)

    @property
    def process_files(self):
        return pathlib.Path("/proc") / str(self.daemon.pid)

    def files(self):
        return len(list((self.process_files / "fd").iterdir()))

    def resident(self):
        return resident(self.daemon.pid)

    def note_files(self):
        self.files_at_first = self.files()


def test_chaos(workspace, chaos_seconds, chaos_seed, tmp_path):
    chaos = Chaos(workspace, chaos_seed, tmp_path)
    chaos.note_files()
    try:
        chaos.begin("warm")
        chaos.check(chaos.run_for(WARM_SHARE * chaos_seconds))
        chaos.rest()
        warm, warm_files = chaos.resident(), chaos.files()
        chaos.begin("on")
        chaos.check(chaos.run_for((1 - WARM_SHARE) * chaos_seconds))
        chaos.rest()
    finally:
        chaos.end()
        print(f"{chaos_seconds} s; steps: " + ", ".join(f"{name} {count}" for name, count in chaos.counts.items()))
    print(f"RSS {warm // 1024} KiB when warm, {chaos.resident() // 1024} KiB at the end; files {chaos.files_at_first} at first, "
          f"{warm_files} when warm, {chaos.files()} at the end")
    assert all(count >= chaos_seconds / seconds(2) for count in chaos.counts.values()), "a load was not one"
    if IS_RELEASE:
        assert chaos.resident() - warm < MAX_GROWTH


@pytest.mark.parametrize("pair", pairs_of_this_run(), ids="-".join)
def test_two_options_at_once(workspace, chaos_seconds, chaos_seed, tmp_path, pair):
    """Some seconds of the same for each two options that change how answers are made, kept or given."""
    tmp_path.chmod(0o755)  # a handover's directory
    with node_for(pair, tmp_path) as node:
        chaos = Chaos(workspace, chaos_seed, tmp_path, pair, node)
        chaos.base = merge(chaos.base, chaos.fixed)
        try:
            chaos.begin("one")
            chaos.check(chaos.run_for(min(2.5, chaos_seconds / 20)))
            if "handover" in pair:
                chaos.replace_daemon()
            chaos.begin("two")
            chaos.check(chaos.run_for(min(2.5, chaos_seconds / 20)))
            chaos.take_back()
            if "links" in pair:
                chaos.check_links()
            if "kernel" in pair:
                print(f"answers of the kernel under faults: {chaos.kernel_answers()}")
                chaos.check_kernel()
        finally:
            chaos.end()
