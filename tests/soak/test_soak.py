# SPDX-License-Identifier: Apache-2.0
"""Everything at once, for as long as one likes: no lost answer, no growth.  `./dev soak SECONDS`"""

import pathlib
import re
import signal
import socket
import time

import yaml

from harness.daemon import merge
from harness.load import Load
from harness.memory import resident
from harness.moody_upstreams import MoodyUpstreams
from harness.ports import free_port
from harness.scenario import write_atomically
from harness.waiting import eventually, seconds

import load

STABLE = 500
CACHED = [f"cached-{i}.example.com." for i in range(500)]
FORWARDED = [(f"f{i}.short.example.net.", "192.0.2.99") for i in range(50)]
MISSING = "missing.example.net."
RECORDS = ["*. 300 A 192.0.2.99", "*.short.example.net. 1 A 192.0.2.99", f"{MISSING} 30 SOA ns.{MISSING} host.{MISSING} 1 3600 600 86400 30"]
_DENIES = {"match": f"*.{MISSING}", "rcode": "NXDOMAIN", "authority": RECORDS[-1:]}
MOODS = {"well": [_DENIES], "silent": [{"silent": True}], "servfail": [{"rcode": "SERVFAIL"}]}
CACHE = "512KiB"  # full when the daemon is warm: whatever grows after that is something else
WARM = 0.3  # of the time
# Memory that the daemon may use more at the end than when it was warm: allocators never give back all.
MAX_GROWTH_KIB = 8 * 1024


def stable_name(i):
    return f"stable-{i}.example.org.", f"10.1.{i // 250}.{i % 250 + 1}"


def entry(name, host, address):
    return {"kind": "ServiceEntry", "metadata": {"name": name},
            "spec": {"hosts": [host], "addresses": [address], "resolution": "STATIC"}}


def moving(generation):
    address = socket.inet_ntoa((0x0B000000 + generation).to_bytes(4, "big"))
    return [entry("moving", "moving.example.org", address),
            *[entry(f"g{generation}-{i}", f"g{generation}-{i}.example.org", "10.3.0.1") for i in range(20)]]


def dropped(daemon):
    """Queries that the daemon never saw, and answers that it could not send, by reason."""
    text = daemon.get("/metrics")[1]
    found = re.findall(r'^meshdns_(udp_socket_overflow_total|udp_dropped_total\{reason="\w+"\}) (\d+)$', text, re.M)
    return {name: int(count) for name, count in found if int(count)}


def cache_kib(daemon):
    text = daemon.get("/metrics")[1]
    return sum(int(octets) for octets in re.findall(r'^meshdns_cache_bytes{.*} (\d+)$', text, re.M)) // 1024


class Gauges:
    """The daemon's memory and files, sampled about once a second."""

    def __init__(self, pid):
        self._process = pathlib.Path("/proc") / str(pid)
        self.samples = []  # (seconds, RSS in KiB, files)
        self._started = time.monotonic()

    def rss_kib(self):
        return resident(self._process.name) // 1024

    def files(self):
        return len(list((self._process / "fd").iterdir()))

    def sample(self):
        self.samples.append((time.monotonic() - self._started, self.rss_kib(), self.files()))

    def rss_by_tenths(self):
        step = -(-len(self.samples) // 10)
        return [rss for _, rss, _ in self.samples[step - 1::step]]

    def warm(self, share):
        return [s for s in self.samples if s[0] >= share * self.samples[-1][0]]


def slope(points):
    """Of the line through the points by least squares: per second."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    return (sum((x - mean_x) * (y - mean_y) for x, y in points) /
            max(sum((x - mean_x) ** 2 for x, _ in points), 1e-9))


def mean(values):
    return sum(values) / len(values)


def flap(upstreams, second):
    """Of two upstreams at most one is unwell, each in turn."""
    phase = second // 5 % 6
    upstreams.be(0, {1: "silent", 3: "servfail"}.get(phase, "well"))
    upstreams.be(1, {2: "servfail", 4: "silent"}.get(phase, "well"))


def test_everything_at_once(workspace, soak_seconds, tmp_path):
    workspace.write("stable.yaml", *[entry(f"stable-{i}", stable_name(i)[0][:-1], stable_name(i)[1])
                                     for i in range(STABLE)])
    workspace.write("moving.yaml", *moving(0))
    upstreams = workspace.own(MoodyUpstreams(2, MOODS, RECORDS))
    (tmp_path / "state").mkdir()
    daemon = workspace.daemon({"log": {"level": "warn"}, "admin": {"listen": f"127.0.0.1:{free_port()}"},
                               "cache": {"size": CACHE}, "mesh": {"authoritative": True},
                               "server": {"tcp": {"idle_timeout": f"{load.IDLE_TIMEOUT}s"}}, "state_dir": str(tmp_path / "state")},
                              upstreams=[upstreams.plain(i) for i in range(2)])
    gauges = Gauges(daemon.pid)
    files_at_rest = gauges.files()
    local = [stable_name(i) for i in range(STABLE)]
    perf = [load.Dnsperf(daemon.server, [name for name, _ in local], tmp_path / "local", 3000, soak_seconds + 600),
            load.Dnsperf(daemon.server, CACHED, tmp_path / "cached", 1000, soak_seconds + 600)]
    loads = [Load(load.right_answers, 200, daemon.server, local),
             Load(load.right_answers, 100, daemon.server, FORWARDED),
             Load(load.never_older, 100, daemon.server),
             Load(load.unknown_names, 20, daemon.server, MISSING),
             Load(load.unknown_names, 20, daemon.server, "shop.svc.cluster.local."),
             Load(load.garbage, 200, daemon.server),
             Load(load.tcp_churn, 30, daemon.server, *local[7])]
    began = time.monotonic()
    ticks = 0
    cache_when_warm = None
    try:
        while time.monotonic() - began < soak_seconds:
            daemon.reload()
            if cache_when_warm is None and time.monotonic() - began > WARM * soak_seconds:
                cache_when_warm = cache_kib(daemon)
            if ticks % 2 == 0:
                workspace.write("moving.yaml", *moving(ticks // 2))
            if ticks % 10 == 0:
                flap(upstreams, ticks // 10)
                gauges.sample()
            ticks += 1
            time.sleep(max(0.0, began + ticks / 10 - time.monotonic()))
    finally:
        problems = [problem for problem in (l.stop() for l in loads) if problem]
        results = [p.stop() for p in perf]

    warm = gauges.warm(WARM)
    quarter = max(len(warm) // 4, 1)
    growth = mean([rss for _, rss, _ in warm[-quarter:]]) - mean([rss for _, rss, _ in warm[:quarter]])
    print(f"\n{soak_seconds} s, {ticks} reloads, {ticks // 2} changes of the registry")
    for which, (sent, lost, failed, _) in zip(("local", "cached"), results):
        print(f"  {which}: {sent} queries, {lost} lost, {failed} not answered well")
    for one in loads:
        print(f"  {one.name}: {one.steps} steps")
    print(f"  RSS: {warm[0][1]} KiB when warm, {warm[-1][1]} KiB at the end, "
          f"{3600 * slope([(t, rss) for t, rss, _ in warm]) / 1024:+.1f} MiB/h; each tenth of the time: "
          f"{', '.join(str(rss) for rss in gauges.rss_by_tenths())}; the cache: "
          f"{cache_when_warm} KiB when warm, {cache_kib(daemon)} KiB at the end")
    print(f"  files: {files_at_rest} at rest, {min(f for *_, f in warm)} to {max(f for *_, f in warm)} under load, "
          f"{3600 * slope([(t, files) for t, _, files in warm]):+.0f}/h")

    print(f"  dropped: {dropped(daemon) or 'nothing'}")
    assert problems == []
    assert all(one.steps > soak_seconds for one in loads), "a load was not one"
    for sent, lost, failed, output in results:
        assert (lost, failed) == (0, 0) and sent > 0, output
    assert growth < MAX_GROWTH_KIB
    # The idle timeout closes connections that clients have left open, and upstream sockets.
    eventually(lambda: gauges.files() <= files_at_rest + 8, 30)


def test_a_thousand_reloads_at_20k_qps(workspace, tmp_path):
    """Half of them with another registry, half with another configuration."""
    workspace.write("stable.yaml", *[entry(f"stable-{i}", stable_name(i)[0][:-1], stable_name(i)[1])
                                     for i in range(STABLE)])
    workspace.write("moving.yaml", *moving(0))
    daemon = workspace.daemon({"log": {"level": "warn"}, "admin": {"listen": f"127.0.0.1:{free_port()}"}},
                              upstreams=["127.0.0.1:9"])
    local = [stable_name(i) for i in range(STABLE)]
    gauges = Gauges(daemon.pid)
    perf = load.Dnsperf(daemon.server, [name for name, _ in local], tmp_path / "local", 20000, 900)
    checkers = [Load(load.right_answers, 200, daemon.server, local),
                Load(load.never_older, 200, daemon.server)]
    began = time.monotonic()
    try:
        for i in range(1000):
            if i % 2:
                workspace.write("moving.yaml", *moving(i // 2))
            else:
                config = merge(daemon.config, {"mesh": {"ttl": {"vip": i % 60 + 1}}})
                write_atomically(daemon.config_path, yaml.safe_dump(config))
            daemon.process.send_signal(signal.SIGHUP)
            if i % 50 == 0:
                gauges.sample()
            time.sleep(0.03)
        took = time.monotonic() - began
        wanted = moving(499)[0]["spec"]["addresses"]
        eventually(lambda: daemon.ask("moving.example.org.").addresses() == wanted, 10)
    finally:
        problems = [problem for problem in (c.stop() for c in checkers) if problem]
        sent, lost, failed, output = perf.stop()
    print(f"\n1000 reloads in {took:.1f} s, {sent} queries ({sent / took:.0f}/s), {lost} lost, {failed} not answered "
          f"well; RSS {gauges.samples[1][1]} to {gauges.samples[-1][1]} KiB; dropped: {dropped(daemon) or 'nothing'}")
    assert problems == []
    assert (lost, failed) == (0, 0), output
    assert all(checker.steps > 100 for checker in checkers)
    assert sent / took > 20000 / seconds(2), output
