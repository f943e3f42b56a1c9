# SPDX-License-Identifier: Apache-2.0
"""State that survives a restart: persistent VIPs, and the last state of the registry."""

import ipaddress
import os
import shutil
import signal

import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD, THREADS
from harness.waiting import eventually

pytestmark = THREADS  # the cache and the snapshot are read and written by threads of their own


def entry(host, namespace="default"):
    return {"kind": "ServiceEntry", "metadata": {"name": host.replace(".", "-"), "namespace": namespace},
            "spec": {"hosts": [host], "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}], "resolution": "DNS"}}


HOSTS = [f"h{i}.example.org" for i in range(30)]


def vips(daemon, hosts=tuple(HOSTS)):
    """Host to its one VIP; fails while any host has none."""
    found = {}
    for host in hosts:
        addresses = daemon.ask(f"{host}.").addresses()
        assert len(addresses) == 1, f"{host}: {addresses}"
        found[host] = addresses[0]
    return found


@pytest.fixture
def options(workspace):
    return {"mesh": {"auto_allocate": "persistent", "vip_cidr_v4": "240.241.0.0/20"},
            "state_dir": str(workspace.path / "state")}


def test_persistent_vips_never_move(workspace, options):
    (workspace.path / "state").mkdir()
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS])
    upstream = workspace.upstream()
    daemon = workspace.daemon(options, upstreams=[upstream])
    first = vips(daemon)
    assert len(set(first.values())) == len(HOSTS)
    assert all(ipaddress.ip_address(vip) in ipaddress.ip_network("240.241.0.0/20") for vip in first.values())

    # Half of them go, others come: those that stay keep theirs, and nobody gets a released one.
    newcomers = [f"new{i}.example.org" for i in range(30)]
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS[::2] + newcomers])
    eventually(lambda: vips(daemon, newcomers), 2)
    kept = vips(daemon, HOSTS[::2])
    assert kept == {host: first[host] for host in HOSTS[::2]}
    assert not set(vips(daemon, newcomers).values()) & set(first.values())

    # Killed at any moment, it comes back with the same.
    before = vips(daemon, HOSTS[::2] + newcomers)
    daemon.kill()
    workspace.forget(daemon)
    daemon = workspace.daemon(options, upstreams=[upstream])
    assert vips(daemon, HOSTS[::2] + newcomers) == before

    # A host that returns has its own back.
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS + newcomers])
    eventually(lambda: vips(daemon), 2)
    assert vips(daemon) == first


def test_two_fresh_nodes_agree_on_persistent_vips(workspace, options):
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS])
    found = []
    for node in ("one", "two"):
        (workspace.path / node).mkdir()
        daemon = workspace.daemon({**options, "state_dir": str(workspace.path / node)}, upstreams=[workspace.upstream()])
        found.append(vips(daemon))
    assert found[0] == found[1]


def test_a_corrupt_state_is_said_and_moves_no_vip(workspace, options):
    """The snapshot and the cache are set aside.  The file of the VIPs stays: without it there are no VIPs."""
    state = workspace.path / "state"
    state.mkdir()
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS])
    upstream = workspace.upstream()
    options = {**options, "admin": {"listen": f"127.0.0.1:{free_port()}"}}
    daemon = workspace.daemon(options, upstreams=[upstream])
    first = vips(daemon)
    daemon.stop()
    workspace.forget(daemon)
    saved = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    assert state / "vips" in saved
    for path, content in saved.items():
        path.write_bytes(content[: len(content) // 2] + b"\0garbage")
    daemon = workspace.daemon(options, upstreams=[upstream])
    daemon.wait_for_log("vips is damaged or not a file of virtual addresses; no VIPs until it is restored, or removed")
    assert "persistent VIPs" in daemon.get("/readyz")[1]
    assert all(daemon.ask(f"{host}.").addresses() == [] for host in HOSTS)
    (state / "vips").write_bytes(saved[state / "vips"])
    daemon.reload()
    eventually(lambda: vips(daemon) == first, 5)
    assert "persistent VIPs" not in daemon.get("/readyz")[1]


def test_a_second_process_does_not_use_the_directory(workspace, options):
    """It answers, without VIPs, and takes the directory over when the first one ends."""
    (workspace.path / "state").mkdir(exist_ok=True)
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS])
    upstream = workspace.upstream()
    first = workspace.daemon(options, upstreams=[upstream])
    given = vips(first)
    before = (workspace.path / "state" / "vips").read_bytes()
    second = workspace.daemon({**options, "admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])
    second.wait_for_log(f"another process is using it .process {first.pid}.; give each process its own directory")
    assert f"process {first.pid}" in second.get("/readyz")[1]
    assert all(second.ask(f"{host}.").addresses() == [] for host in HOSTS)
    assert (workspace.path / "state" / "vips").read_bytes() == before
    first.stop()
    workspace.forget(first)
    eventually(lambda: vips(second) == given, 5)
    assert second.get("/readyz") == (200, '{"ready":true,"reasons":[]}\n')


def test_a_successor_waits_for_the_process_before_it(workspace, options):
    (workspace.path / "state").mkdir(exist_ok=True)
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS])
    upstream = workspace.upstream()
    first = workspace.daemon(options, upstreams=[upstream])
    given = vips(first)
    workspace.forget(first)
    workspace.own_process(first.process)
    first.process.send_signal(signal.SIGTERM)
    second = workspace.daemon(options, upstreams=[upstream])
    assert vips(second) == given
    assert "cannot use state_dir" not in second.process.log_tail(50)


@ONE_THREAD
@pytest.mark.parametrize("name", ["cache", "snapshot", "vips"])
@pytest.mark.parametrize("kind", ["link", "link.new", "fifo.new", "directory.new"])
def test_no_file_of_the_directory_leads_out_of_it(workspace, options, name, kind):
    state = workspace.path / "state"
    state.mkdir()
    precious = workspace.path / "precious"
    precious.write_text("precious")
    place = state / (name + (".new" if kind.endswith(".new") else ""))
    if kind.startswith("link"):
        place.symlink_to(precious)
    elif kind.startswith("fifo"):
        os.mkfifo(place)
    else:
        place.mkdir()
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS])
    daemon = workspace.daemon(options, upstreams=[workspace.upstream()])
    if name != "vips" or kind in ("link.new", "fifo.new"):
        vips(daemon)
    daemon.stop()
    workspace.forget(daemon)
    assert precious.read_text() == "precious"
    if kind in ("link.new", "fifo.new"):
        assert (state / name).is_file() and not (state / name).is_symlink()
    if kind == "link":
        assert f"{name}: it is a symbolic link" in daemon.process.log_tail(60) or name == "vips"


@ONE_THREAD
@pytest.mark.parametrize("mode,owner,message", [
    (0o777, 0, "other users can write to it"), (0o700, 1, "belongs to another user"),
])
def test_a_directory_that_others_can_change_is_not_used(workspace, options, mode, owner, message):
    state = workspace.path / "state"
    state.mkdir()
    state.chmod(mode)
    if owner:
        if os.geteuid() != 0:
            pytest.skip("needs root")
        os.chown(state, owner, -1)
    daemon = workspace.daemon(options, upstreams=[workspace.upstream()])
    daemon.wait_for_log(message)
    daemon.stop()
    workspace.forget(daemon)
    assert not list(state.iterdir())


RECORDS = [f"n{i}.example.com. {'5' if i % 2 else '300'} A 192.0.2.{i}" for i in range(1, 51)]


def warm(daemon):
    for i in range(1, 51):
        assert daemon.ask(f"n{i}.example.com.").addresses() == [f"192.0.2.{i}"]


def test_the_cache_is_warm_after_a_restart(workspace):
    (workspace.path / "state").mkdir()
    options = {"state_dir": str(workspace.path / "state")}
    upstream = workspace.upstream(RECORDS)
    daemon = workspace.daemon(options, upstreams=[upstream])
    warm(daemon)
    daemon.stop()
    workspace.forget(daemon)
    asked = len(upstream.received())
    upstream.set([], [{"drop": True}])
    daemon = workspace.daemon({**options, "upstream": {"timeout": "300ms"}}, upstreams=[upstream])
    daemon.wait_for_log("restored the cache of the last run")
    for i in range(2, 51, 2):
        answer = daemon.ask(f"n{i}.example.com.")
        assert answer.addresses() == [f"192.0.2.{i}"]
        assert all(0 < ttl <= 300 for _, ttl, _, _ in answer.section("answer"))
    assert not [r for r in upstream.received()[asked:] if r.name.endswith("example.com.")]


def test_a_prefix_that_is_denied_later_holds_for_the_cache_on_disk(workspace):
    """DNS rebinding: what the last run believed is no excuse."""
    (workspace.path / "state").mkdir()
    options = {"state_dir": str(workspace.path / "state")}
    upstream = workspace.upstream(["inside.example.test. 3600 A 10.0.0.1", "www.example.test. 3600 A 192.0.2.1"])
    daemon = workspace.daemon(options, upstreams=[upstream])
    assert daemon.ask("inside.example.test.").addresses() == ["10.0.0.1"]
    assert daemon.ask("www.example.test.").addresses() == ["192.0.2.1"]
    daemon.stop()
    workspace.forget(daemon)
    asked = len(upstream.received())
    daemon = workspace.daemon({**options, "upstream": {"deny_answers": ["10.0.0.0/8"]}}, upstreams=[upstream])
    daemon.wait_for_log("restored the cache of the last run")
    assert daemon.ask("www.example.test.").addresses() == ["192.0.2.1"]
    assert not [r for r in upstream.received()[asked:] if r.name == "www.example.test."]
    denied = daemon.ask("inside.example.test.")
    assert denied.rcode == "SERVFAIL" and not denied.addresses() and 15 in denied.extended_errors()


def test_cached_answers_of_servers_that_are_asked_no_more_are_not_used(workspace):
    (workspace.path / "state").mkdir()
    options = {"state_dir": str(workspace.path / "state")}
    old = workspace.upstream(["db.corp.test. 3600 A 203.0.113.9", "www.example.test. 3600 A 192.0.2.1"])
    corp = workspace.upstream(["db.corp.test. 60 A 10.1.2.3"])
    zoned = {**options, "upstream": {"zones": {"corp.test": [corp.server]}}}
    daemon = workspace.daemon(options, upstreams=[old])
    daemon.wait_for_log(f'upstream servers in use.*servers="?{old.server}"? from=upstream.servers zones=none')
    assert daemon.ask("db.corp.test.").addresses() == ["203.0.113.9"]
    assert daemon.ask("www.example.test.").addresses() == ["192.0.2.1"]
    assert f" s ago by {old.server} over UDP)" in str(daemon.ask("db.corp.test.", "TXT", rdclass="CH"))
    daemon.stop()
    workspace.forget(daemon)
    daemon = workspace.daemon(zoned, upstreams=[old])
    daemon.wait_for_log("restored the cache of the last run")
    asked = len(old.received())
    assert daemon.ask("db.corp.test.").addresses() == ["10.1.2.3"]
    assert daemon.ask("www.example.test.").addresses() == ["192.0.2.1"]
    assert not [r for r in old.received()[asked:] if r.name == "www.example.test."]
    assert f"(answered before the start by {old.server})" in str(daemon.ask("www.example.test.", "TXT", rdclass="CH"))


@pytest.mark.parametrize("damage", [b"", b"garbage" * 1000, None])
def test_a_damaged_cache_is_set_aside(workspace, damage):
    state = workspace.path / "state"
    state.mkdir()
    options = {"state_dir": str(state)}
    upstream = workspace.upstream(RECORDS)
    daemon = workspace.daemon(options, upstreams=[upstream])
    warm(daemon)
    daemon.stop()
    workspace.forget(daemon)
    file = state / "cache"
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 1
    file.write_bytes(bytes(octets) if damage is None else damage)
    daemon = workspace.daemon(options, upstreams=[upstream])
    warm(daemon)
    if damage != b"":
        daemon.wait_for_log("cannot use the saved cache; starting with an empty cache")
        assert list(state.glob("cache.bad-*"))


def test_a_directory_that_cannot_be_written_costs_no_answer(workspace):
    state = workspace.path / "missing" / "state"
    daemon = workspace.daemon({"state_dir": str(state), "admin": {"listen": f"127.0.0.1:{free_port()}"}},
                              upstreams=[workspace.upstream(RECORDS)])
    warm(daemon)
    daemon.wait_for_log("cannot use state_dir; .*does not exist and cannot be created")
    assert f"state_dir: {state}: does not exist" in daemon.get("/readyz")[1]
    state.parent.mkdir()  # then it is created and used
    daemon.wait_for_log("now using state_dir", 10)
    eventually(lambda: daemon.get("/readyz") == (200, '{"ready":true,"reasons":[]}\n'), 5)
    assert state.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(state.parent)
    daemon.stop()
    workspace.forget(daemon)


def test_a_directory_that_does_not_exist_is_created(workspace):
    state = workspace.path / "state"
    daemon = workspace.daemon({"state_dir": str(state)})
    assert state.stat().st_mode & 0o777 == 0o700
    workspace.forget(daemon)
    daemon.stop()
    assert (state / "snapshot").exists()
