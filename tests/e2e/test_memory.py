# SPDX-License-Identifier: Apache-2.0
"""Under a memory limit: the cache's default follows it, and a flood of names stays within it.

MESHDNS_FLOOD_NAMES=1000000 gives the figures of docs/performance.md."""

import os
import pathlib
import re
import subprocess

import pytest

from harness.memory import MEBIBYTE, resident
from harness.ports import free_port
from harness.preset import IS_RELEASE, ONE_THREAD
from harness.real_servers import Nsd, find_program

pytestmark = ONE_THREAD

FLOOD = int(os.environ.get("MESHDNS_FLOOD_NAMES", "150000"))
LIMIT = 128 * MEBIBYTE


@pytest.fixture
def memory_group():
    """A control group of our own with a limit; skips where none can be made."""
    made = None
    for line in pathlib.Path("/proc/self/cgroup").read_text("ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        mount = pathlib.Path("/sys/fs/cgroup/memory" if "memory" in controllers.split(",") else "/sys/fs/cgroup")
        name = "memory.limit_in_bytes" if "memory" in controllers.split(",") else "memory.max"
        if controllers and "memory" not in controllers.split(","):
            continue
        group = mount / path.lstrip("/") / f"meshdns-test-{os.getpid()}"
        try:
            group.mkdir()
            made = group
            (group / name).write_text(str(LIMIT))
            break
        except OSError:
            if made:
                made.rmdir()
                made = None
    if made is None:
        pytest.skip("no control group with a memory limit can be made here")
    yield made
    made.rmdir()


def start_in(workspace, group, upstreams):
    command = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    return workspace.daemon({"server": {"workers": 2}, "admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=upstreams, prefix=["sh", "-c", command, "sh"])


@pytest.mark.skipif(not IS_RELEASE, reason="measures the release build")
def test_a_flood_of_names_stays_within_a_limit(workspace, tmp_path, memory_group):
    nsd = workspace.own(Nsd(tmp_path / "nsd", "example.test.", ["*.flood 300 A 192.0.2.9"]))
    daemon = start_in(workspace, memory_group, [nsd])
    try:
        daemon.wait_for_log(r"memory cache\.size=32MiB auto=true cgroup_limit=128MiB")
        queries = tmp_path / "queries"
        queries.write_text("".join(f"r{i:09}.{'x' * 60}.flood.example.test A\n" for i in range(FLOOD)))
        host, port = daemon.server
        done = subprocess.run([find_program("dnsperf"), "-s", host, "-p", str(port), "-d", queries, "-n", "1", "-t", "5"],
                              capture_output=True, text=True, check=True, timeout=900)
        peak = resident(daemon.pid)
        print(f"{FLOOD} names: {peak / MEBIBYTE:.1f} MiB resident")
        assert int(re.search(r"NOERROR (\d+)", done.stdout)[1]) >= 0.99 * FLOOD
        used = int(re.search(r'^meshdns_cache_bytes\{type="positive"\} (\S+)', daemon.get("/metrics")[1], re.M)[1])
        assert used > 0.8 * 32 * MEBIBYTE, "the flood fills the cache"
        assert peak <= 32 * MEBIBYTE + 64 * MEBIBYTE
        assert daemon.ask("www.flood.example.test.").addresses() == ["192.0.2.9"]
    finally:
        daemon.stop()  # before its group is removed
        workspace.forget(daemon)


@pytest.mark.skipif(not IS_RELEASE, reason="measures the release build")
def test_an_idle_cache_costs_no_memory(workspace):
    """Its table of pointers is 4 MiB at the default size, and is not touched before it is needed."""
    with_cache = workspace.daemon({"cache": {"size": "512MiB"}, "server": {"workers": 1}})
    large = resident(with_cache.pid)
    with_cache.stop()
    workspace.forget(with_cache)
    without = workspace.daemon({"cache": {"size": "1MiB"}, "server": {"workers": 1}})
    assert large - resident(without.pid) < 8 * MEBIBYTE
