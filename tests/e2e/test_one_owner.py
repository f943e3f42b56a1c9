# SPDX-License-Identifier: Apache-2.0
"""An address belongs to one daemon: a second one does not start on it, and takes no queries from the first."""

import pathlib
import re
import signal
import time

import pytest
import yaml

from harness.daemon import ROOT, binary, merge
from harness.dns_client import Question, ask, open_udp
from harness.ports import free_port
from harness.preset import IS_RELEASE, ONE_THREAD, at_most
from harness.process import Process
from harness.scenario import write_atomically
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

API = {"kind": "ServiceEntry", "metadata": {"name": "api"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


def start(workspace, name, listen, **change):
    """A daemon that need not become ready."""
    home = workspace.path / name
    home.mkdir()
    config = merge(workspace.config({"server": {"listen": listen}}, ["127.0.0.1:9"]), change)
    path = home / "meshdns.yaml"
    path.write_text(yaml.safe_dump(config))
    return workspace.own_process(Process([binary(), "run", "--config", path], name, cwd=ROOT))


def is_ready(process):
    return any("ready:" in line for line in process.log_lines())


def answers(server, count=1):
    for _ in range(count):
        for transport in ("udp", "tcp"):
            answer = ask(server, Question("api.example.org."), transport, timeout=2)
            assert answer.addresses() == ["10.0.0.7"]


def v4(host, port):
    return f"{host}:{port}"


# Addresses of the first daemon, addresses that the second one wants, and where a client asks both.
OVERLAPS = {
    "the same address": ("127.0.0.1:{port}", "127.0.0.1:{port}", "127.0.0.1"),
    "the wildcard first": ("0.0.0.0:{port}", "127.0.0.1:{port}", "127.0.0.1"),
    "the wildcard second": ("127.0.0.1:{port}", "0.0.0.0:{port}", "127.0.0.1"),
    "both wildcards": ("0.0.0.0:{port}", "0.0.0.0:{port}", "127.0.0.1"),
    "IPv6": ("[::1]:{port}", "[::1]:{port}", "::1"),
    "both families, then IPv4": ("[::]:{port}", "0.0.0.0:{port}", "127.0.0.1"),
    "IPv4, then both families": ("127.0.0.1:{port}", "[::]:{port}", "127.0.0.1"),
}


@pytest.mark.parametrize("first,second,host", OVERLAPS.values(), ids=[name.replace(" ", "-") for name in OVERLAPS])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_daemon_on_the_address_does_not_start(workspace, first, second, host, workers):
    workspace.write("api.yaml", API)
    port = free_port("::1" if host == "::1" else "127.0.0.1")
    daemon = workspace.daemon({"server": {"listen": [first.format(port=port)], "workers": workers}},
                              upstreams=["127.0.0.1:9"])
    other = start(workspace, "second", [second.format(port=port)])
    answers((host, port), 20)
    assert other.wait(10) == 1
    assert not is_ready(other)
    assert re.search(rf"cannot listen on .*:{port} \(UDP\): Address already in use; "
                     rf"process {daemon.pid} \(meshdnsd\) is using this port", other.log_tail()), other.log_tail()
    answers((host, port), 20)


@pytest.mark.slow("starts twenty pairs of daemons")
def test_one_of_two_daemons_that_start_at_once_gets_the_address(workspace):
    """20 times, on an address each; sanitizers take seconds to start and stop a daemon."""
    workspace.write("api.yaml", API)
    for i in range(20 if IS_RELEASE else 5):
        port = free_port("127.0.6.1")  # which no other test uses
        both = [start(workspace, f"{name}-{i}", [f"127.0.6.1:{port}"]) for name in ("a", "b")]
        loser = eventually(lambda: next((p for p in both if not p.is_running()), False), 15)
        winner = both[0] if loser is both[1] else both[1]
        winner.wait_for_line("ready:")
        assert loser.wait() == 1 and not is_ready(loser), loser.log_tail()
        answers(("127.0.6.1", port), 3)
        assert winner.stop() == 0


def test_waits_for_the_daemon_that_it_replaces(workspace):
    """One that drains for 2 s, since it owes an answer, has its addresses until then."""
    workspace.write("api.yaml", API)
    silent = workspace.upstream(rules=[{"drop": True}])
    admin = {"admin": {"listen": f"127.0.0.1:{free_port()}"}, "upstream": {"timeout": "30s"}}
    daemon = workspace.daemon(admin, upstreams=[silent])
    with open_udp(daemon.server) as client:
        client.send(Question("slow.example.net.").to_message().to_wire())
        eventually(lambda: silent.received("slow.example.net."))
        daemon.process.send_signal(signal.SIGTERM)
        other = start(workspace, "next", [v4(*daemon.server)], **admin)
        workspace.forget(daemon)
        assert daemon.process.wait(10) == 0
        other.wait_for_line("ready:")
    answers(daemon.server)
    assert other.stop() == 0


@pytest.mark.timing
def test_sigterm_ends_a_daemon_that_waits_for_an_address(workspace):
    daemon = workspace.daemon(upstreams=["127.0.0.1:9"])
    other = start(workspace, "second", [v4(*daemon.server)])
    other.wait_for_line("waiting for another process to release an address")
    began = time.monotonic()
    assert other.stop(limit=seconds(3)) == 0, other.log_tail()
    assert time.monotonic() - began < at_most(3)


def listen_on(daemon, addresses):
    config = merge(daemon.config, {"server": {"listen": addresses}})
    write_atomically(pathlib.Path(daemon.config_path), yaml.safe_dump(config))
    position = daemon.log_position()
    daemon.reload()
    return position


def test_a_reload_onto_an_address_of_another_daemon_is_refused(workspace):
    workspace.write("api.yaml", API)
    first = workspace.daemon(upstreams=["127.0.0.1:9"])
    second = workspace.daemon(upstreams=["127.0.0.1:9"])
    position = listen_on(second, [v4(*first.server)])
    second.wait_for_log(rf"cannot listen on {re.escape(v4(*first.server))}.*process {first.pid} ", after=position)
    answers(first.server, 20)
    answers(second.server, 20)
    # The second daemon gets the address that the first one gives up.
    workspace.forget(first)
    first.stop()
    second.wait_for_log(rf"listening address={re.escape(v4(*first.server))}", limit=15, after=position)
    answers(first.server)


def test_an_address_may_come_back_at_once_and_widen_to_all(workspace):
    """Its old sockets may still be open, for the last replies."""
    workspace.write("api.yaml", API)
    silent = workspace.upstream(rules=[{"drop": True}])
    daemon = workspace.daemon({"upstream": {"timeout": "30s"}}, upstreams=[silent])
    host, port = daemon.server
    other_port = free_port()
    with open_udp(daemon.server) as client:
        client.send(Question("slow.example.net.").to_message().to_wire())
        eventually(lambda: silent.received("slow.example.net."))
        for addresses in ([f"{host}:{other_port}"], [f"{host}:{port}"], [f"0.0.0.0:{port}"],
                          [f"{host}:{port}", f"0.0.0.0:{port}"], ["[::]:%d" % port], [f"{host}:{port}"]):
            position = listen_on(daemon, addresses)
            daemon.wait_for_log("listening address", after=position)
            answers((host, int(addresses[0].rpartition(":")[2])), 5)
    assert not any("cannot listen" in line for line in daemon.process.log_lines())
