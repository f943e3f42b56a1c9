"""What survives a restart: persistent VIPs, and the last state of the registry."""

import ipaddress

import pytest

from harness.waiting import eventually


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


def test_a_corrupt_state_is_set_aside_and_said(workspace, options):
    state = workspace.path / "state"
    state.mkdir()
    workspace.write("hosts.yaml", *[entry(host) for host in HOSTS])
    upstream = workspace.upstream()
    daemon = workspace.daemon(options, upstreams=[upstream])
    vips(daemon)
    daemon.stop()
    workspace.forget(daemon)
    files = [path for path in state.rglob("*") if path.is_file()]
    assert files, "nothing was written"
    for path in files:
        path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2] + b"\0garbage")
    daemon = workspace.daemon(options, upstreams=[upstream])
    vips(daemon)
    daemon.wait_for_log(r"(?i)(corrupt|checksum|damaged|cannot be read|unreadable)")


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
    daemon.wait_for_log("the cache of the last run is back")
    for i in range(2, 51, 2):
        answer = daemon.ask(f"n{i}.example.com.")
        assert answer.addresses() == [f"192.0.2.{i}"]
        assert all(0 < ttl <= 300 for _, ttl, _, _ in answer.section("answer"))
    assert not [r for r in upstream.received()[asked:] if r.name.endswith("example.com.")]


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
        daemon.wait_for_log("the cache of the last run is not used")
        assert list(state.glob("cache.bad-*"))


def test_a_directory_that_cannot_be_written_costs_no_answer(workspace):
    daemon = workspace.daemon({"state_dir": str(workspace.path / "missing")},
                              upstreams=[workspace.upstream(RECORDS)])
    warm(daemon)
    daemon.stop()
    workspace.forget(daemon)
    assert "the cache is not kept" in daemon.process.log_tail(20)
