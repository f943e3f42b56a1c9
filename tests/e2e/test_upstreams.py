# SPDX-License-Identifier: Apache-2.0
"""Forwarding, cache and endpoint sets in front of real DNS servers of the distribution."""

import selectors
import time

import dns.edns
import pytest

from harness.dns_client import Question, ask, open_udp
from harness.fake_upstream import without_retries
from harness.preset import THREADS, at_most
from harness.real_servers import Knot, Nsd, Unbound
from harness.waiting import eventually

pytestmark = THREADS


def service_entry(name, host, **spec):
    return {"kind": "ServiceEntry", "metadata": {"name": name},
            "spec": {"hosts": [host], "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}], **spec}}


def addresses(daemon, name, rdtype="A", transport="udp"):
    return sorted(daemon.ask(name, rdtype, transport).addresses())


@pytest.fixture(params=[Nsd, Knot], ids=["nsd", "knot"])
def authority_kind(request):
    return request.param


def test_forwards_to_a_real_resolver(workspace, tmp_path):
    nsd = workspace.own(Nsd(tmp_path / "nsd", "example.test.", [
        "www 60 A 192.0.2.1", "www 60 AAAA 2001:db8::1", "alias 60 CNAME www",
        "*.wild 60 A 192.0.2.9", "text 60 TXT \"hello world\"", "mail 60 MX 10 www",
        "odd 60 TYPE65280 \\# 4 0a000001", *[f"many 60 A 10.7.{i // 250}.{i % 250 + 1}" for i in range(700)]]))
    unbound = workspace.own(Unbound(tmp_path / "unbound", {"example.test.": nsd.server}))
    daemon = workspace.daemon(upstreams=[unbound])
    for transport in ("udp", "tcp"):
        assert addresses(daemon, "www.example.test.", transport=transport) == ["192.0.2.1"]
        assert addresses(daemon, "www.example.test.", "AAAA", transport) == ["2001:db8::1"]
        assert addresses(daemon, "alias.example.test.", transport=transport) == ["192.0.2.1"]
        assert addresses(daemon, "a.b.wild.example.test.", transport=transport) == ["192.0.2.9"]
        assert daemon.ask("text.example.test.", "TXT", transport).texts() == ["hello world"]
        assert daemon.ask("missing.example.test.", "A", transport).rcode == "NXDOMAIN"
        nodata = daemon.ask("text.example.test.", "A", transport)
        assert (nodata.rcode, nodata.section("answer")) == ("NOERROR", [])
        assert [r[2] for r in nodata.section("authority")] == ["SOA"]
    assert daemon.ask("mail.example.test.", "MX").section("answer")[0][3].preference == 10
    odd = daemon.ask("odd.example.test.", "TYPE65280").section("answer")
    assert odd[0][3].data == bytes.fromhex("0a000001")
    # Far more than any datagram holds: the daemon itself has to ask over TCP.
    assert len(addresses(daemon, "many.example.test.", transport="tcp")) == 700
    assert daemon.ask("many.example.test.").has(0x0200), "TC is due over UDP"


def test_cached_answers_outlive_their_upstream(workspace, tmp_path):
    nsd = workspace.own(Nsd(tmp_path / "nsd", "example.test.", ["www 300 A 192.0.2.1"], ttl=300))
    daemon = workspace.daemon({"upstream": {"timeout": "500ms"}}, upstreams=[nsd])
    first = daemon.ask("www.example.test.")
    assert first.addresses() == ["192.0.2.1"]
    assert daemon.ask("missing.example.test.").rcode == "NXDOMAIN"
    nsd.kill()
    workspace.forget(nsd)
    for transport in ("udp", "tcp"):
        again = daemon.ask("WWW.example.test.", "A", transport)
        assert again.addresses() == ["192.0.2.1"]
        assert again.section("answer")[0][1] <= first.section("answer")[0][1]
        assert not again.has(0x0400), "an answer from the cache is not authoritative"
        assert daemon.ask("missing.example.test.", "A", transport).rcode == "NXDOMAIN"
    lost = daemon.ask("never-asked.example.test.")
    assert lost.rcode == "SERVFAIL"
    assert set(lost.extended_errors()) & {22, 23}, lost


def test_endpoint_sets_follow_the_zone(workspace, tmp_path, authority_kind):
    workspace.write("entries.yaml",
                    service_entry("dns", "dns.example.test", resolution="DNS"),
                    service_entry("union", "union.mesh.test", resolution="DNS",
                                  endpoints=[{"address": "a.example.test"}, {"address": "b.example.test"}]),
                    service_entry("rr", "rr.example.test", resolution="DNS_ROUND_ROBIN"))
    authority = workspace.own(authority_kind(tmp_path / "authority", "example.test.", [
        "dns 1 A 192.0.2.1", "a 1 A 192.0.2.11", "b 1 A 192.0.2.12", "b 1 AAAA 2001:db8::12",
        "rr 1 A 192.0.2.21"]))
    daemon = workspace.daemon(upstreams=[authority])
    assert addresses(daemon, "dns.example.test.") == ["192.0.2.1"]
    assert addresses(daemon, "union.mesh.test.") == ["192.0.2.11", "192.0.2.12"]
    assert addresses(daemon, "union.mesh.test.", "AAAA") == ["2001:db8::12"]
    assert addresses(daemon, "rr.example.test.") == ["192.0.2.21"]

    authority.set(["dns 1 A 192.0.2.2", "a 1 A 192.0.2.13", "b 1 A 192.0.2.14", "rr 1 A 192.0.2.22"])

    def has_followed():
        assert addresses(daemon, "dns.example.test.") == ["192.0.2.2"]
        assert addresses(daemon, "union.mesh.test.") == ["192.0.2.13", "192.0.2.14"]
        assert addresses(daemon, "union.mesh.test.", "AAAA") == []
        assert addresses(daemon, "rr.example.test.") == ["192.0.2.22"]

    eventually(has_followed, 6.0)
    authority.kill()
    workspace.forget(authority)
    # For two TTLs the names cannot be refreshed; the last good addresses stay.
    until = time.monotonic() + 2
    while time.monotonic() < until:
        has_followed()
        time.sleep(0.05)


@pytest.mark.timing
def test_fails_over_between_real_upstreams(workspace, tmp_path):
    first = workspace.own(Nsd(tmp_path / "first", "example.test.", [f"n{i} 60 A 192.0.2.1" for i in range(40)]))
    second = workspace.own(Knot(tmp_path / "second", "example.test.", [f"n{i} 60 A 192.0.2.2" for i in range(40)]))
    daemon = workspace.daemon({"upstream": {"policy": "sequential", "timeout": "2s"}}, upstreams=[first, second])
    assert addresses(daemon, "n0.example.test.") == ["192.0.2.1"]
    first.kill()
    workspace.forget(first)
    for i in range(1, 20):
        answer = daemon.ask(f"n{i}.example.test.")
        assert answer.addresses() == ["192.0.2.2"], answer
        assert answer.elapsed < at_most(1.0)


@pytest.mark.timing
def test_resolv_conf_is_the_default_without_ourselves(workspace, tmp_path):
    """With no upstream configured, /etc/resolv.conf decides; an address of our own in it is left out, so
    that a query never comes back to us."""
    daemon = workspace.daemon({"upstream": {"servers": [], "timeout": "500ms"}})
    answer = daemon.ask("no-such-name-here.example.")
    assert answer.rcode in ("NXDOMAIN", "NOERROR", "SERVFAIL", "REFUSED")
    assert answer.elapsed < at_most(3.0)


def test_one_thousand_askers_of_a_cold_name_cost_one_upstream_query(workspace):
    upstream = workspace.upstream(["cold.example.test. 300 A 192.0.2.1"],
                                  [{"match": "cold.example.test.", "delay": 0.08}])
    daemon = workspace.daemon(upstreams=[upstream])
    sockets = [open_udp(daemon.server) for _ in range(1000)]
    try:
        for udp in sockets:
            udp.send(Question("cold.example.test.").to_message().to_wire())
        answered = set()
        with selectors.DefaultSelector() as selector:
            for udp in sockets:
                selector.register(udp, selectors.EVENT_READ)
            deadline = time.monotonic() + 5
            while len(answered) < 1000 and time.monotonic() < deadline:
                for key, _ in selector.select(0.2):
                    key.fileobj.recv(4096)
                    answered.add(key.fileobj)
    finally:
        for udp in sockets:
            udp.close()
    assert len(answered) == 1000
    received = upstream.received("cold.example.test.", "A")
    print(f"1,000 clients: {len(received)} upstream queries")
    assert len(without_retries(received)) == 1


def chi_square(values, low, high):
    """Of 16 classes of equal size: below 45 but once in 10,000 times if the values are uniform."""
    classes = [0] * 16
    for value in values:
        classes[(value - low) * 16 // (high - low)] += 1
    expected = len(values) / 16
    return sum((count - expected) ** 2 / expected for count in classes)


def test_source_ports_and_ids_are_fresh_for_every_upstream_query(workspace):
    """An off-path attacker must guess both (RFC 5452)."""
    upstream = workspace.upstream(["*.example.test. 0 A 192.0.2.1"])
    daemon = workspace.daemon(upstreams=[upstream])
    for i in range(2000):
        ask(daemon.server, Question(f"n{i}.example.test."))
    received = [r for r in upstream.received() if r.name.startswith("n") and r.rdtype == "A"]
    # More are retries, where the machine is slower than the wire.
    assert 2000 <= len(received) <= 3000
    ids = [r.id for r in received]
    ports = [r.source_port for r in received]
    print(f"{len(received)} queries: {len(set(ids))} IDs, chi-square of their 16 classes {chi_square(ids, 0, 65536):.1f}; "
          f"{len(set(ports))} ports, {chi_square(ports, 32768, 65536):.1f} (below 45 but once in 10,000 times)")
    # 2,000 draws from 2^16 repeat 30 times, from 2^15 60 times; from a counter or a few far more often, or never.
    assert len(set(ids)) >= 0.96 * len(received)
    assert len(set(ports)) >= 0.93 * len(received)
    assert chi_square(ids, 0, 65536) < 45
    assert chi_square(ports, 32768, 65536) < 45
    steps = [(b - a) % 65536 for a, b in zip(ids, ids[1:])]
    assert len(set(steps)) >= 0.95 * len(received), "IDs go up in steps"


def test_no_more_than_1232_octets_are_asked_for_or_promised(workspace):
    """The limit holds for any size that the client can take (RFC 9715)."""
    upstream = workspace.upstream(["*.example.test. 300 A 192.0.2.1"])
    daemon = workspace.daemon(upstreams=[upstream])
    for size in (512, 1232, 4096, 65535):
        answer = daemon.ask(f"to{size}.example.test.", bufsize=size)
        assert answer.addresses() == ["192.0.2.1"]
        assert answer.message.payload == 1232
    assert {r.message.payload for r in upstream.received() if r.name.endswith("example.test.")} == {1232}


def test_client_options_and_extra_records_never_reach_the_upstream(workspace):
    """The upstream query is built anew from the question."""
    upstream = workspace.upstream(["www.example.test. 60 A 192.0.2.1"])
    daemon = workspace.daemon(upstreams=[upstream])
    ecs = dns.edns.ECSOption("198.51.100.0", 24)
    secret = dns.edns.GenericOption(65001, b"secret")
    assert daemon.ask("www.example.test.", options=[ecs, secret], bufsize=4096).addresses() == ["192.0.2.1"]
    query = upstream.received("www.example.test.")[0]
    assert b"secret" not in query.wire
    assert 8 not in [option.otype for option in query.message.options]
    assert query.message.payload == 1232
    assert not query.message.additional and not query.message.answer


def test_an_upstream_server_may_have_a_name(workspace):
    upstream = workspace.upstream(["www.example.org. 60 A 192.0.2.1"])
    port = upstream.server.rsplit(":", 1)[1]
    state = workspace.path / "state"
    state.mkdir(mode=0o700)
    (state / "servers").write_text("dns.example.org 127.0.0.1\n")
    daemon = workspace.daemon({"upstream": {"servers": [f"localhost:{port}"]}}, upstreams=[upstream])
    eventually(lambda: daemon.ask("www.example.org.", "A").addresses() == ["192.0.2.1"], 5)
    # The address that an earlier run has found; nobody knows the name now.
    daemon = workspace.daemon({"state_dir": str(state), "upstream": {"servers": [f"dns.example.org:{port}"]}}, upstreams=[upstream])
    assert daemon.ask("www.example.org.", "A").addresses() == ["192.0.2.1"]
