# SPDX-License-Identifier: Apache-2.0
"""Few file descriptors: TCP clients leave enough for everything else."""

import contextlib
import os
import re

import pytest

from harness.dns_client import Question, frame, open_tcp, open_udp, read_frame
from harness.ports import free_port
from harness.preset import IS_SANITIZED, THREADS
from harness.waiting import eventually

pytestmark = THREADS

LIMIT = 256
RESERVE = 64
SILENT = 4
UPSTREAM_TIMEOUT = 2.0  # at its default
ANY_NAME = ["*.example.test. 300 A 192.0.2.1"]
API = {"kind": "ServiceEntry", "metadata": {"name": "api"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


@pytest.fixture
def upstream(workspace):
    return workspace.upstream(ANY_NAME, [{"match": "*.silent.example.test.", "drop": True}])


@pytest.fixture
def daemon(workspace, upstream):
    """With LIMIT descriptors in all, and no way to have more."""
    workspace.write("api.yaml", API)
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream],
                            prefix=["bash", "-c", f"ulimit -n {LIMIT} && exec \"$@\"", "bash"])


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


def connect_many(stack, daemon, count):
    """Clients of several addresses that ask once, hear the answer and stay, as long as they may."""
    wire = frame(Question("api.example.org.").to_message().to_wire())
    for i in range(count):
        with contextlib.suppress(OSError):
            tcp = stack.enter_context(open_tcp(daemon.server, source=f"127.0.1.{i % 20 + 1}"))
            tcp.sendall(wire)
            read_frame(tcp)


def ask_silent_names(udp, count, batch):
    for i in range(count):
        udp.send(Question(f"{batch}{i}.silent.example.test.").to_message().to_wire())


def silent_names(upstream):
    return {received.name for received in upstream.received() if "silent" in received.name}


def everything_works(workspace, daemon, round_number):
    assert daemon.ask(f"n{round_number}.example.test.").addresses() == ["192.0.2.1"]
    assert daemon.ask("api.example.org.", transport="tcp").addresses() == ["10.0.0.7"]
    assert daemon.get("/readyz")[0] == 200
    workspace.write("more.yaml", {**API, "metadata": {"name": "more"}, "spec": {
        **API["spec"], "hosts": [f"more{round_number}.example.org"]}})
    eventually(lambda: daemon.ask(f"more{round_number}.example.org.").addresses() == ["10.0.0.7"], 10)


def test_tcp_clients_leave_descriptors_for_everything_else(workspace, daemon, upstream):
    with contextlib.ExitStack() as stack:
        connect_many(stack, daemon, 2 * LIMIT)
        assert descriptors(daemon) <= LIMIT - RESERVE
        # Each of these holds a socket, and each time that it is asked again another one.
        udp = stack.enter_context(open_udp(daemon.server))
        ask_silent_names(udp, SILENT, "first")
        eventually(lambda: len(silent_names(upstream)) == SILENT)
        everything_works(workspace, daemon, 1)
    everything_works(workspace, daemon, 2)


def test_silent_upstreams_leave_descriptors_to_files_and_admin(workspace, daemon, upstream):
    """Questions that cannot be asked are SERVFAIL at once, all else continues, and soon everything is as before."""
    with open_udp(daemon.server) as udp:
        ask_silent_names(udp, 2 * LIMIT, "flood")
        eventually(lambda: descriptors(daemon) >= LIMIT - 40)
        assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
        assert daemon.get("/readyz")[0] == 200
        metrics = daemon.get("/metrics")[1]
        assert int(re.search(r"^meshdns_forward_shortages_total (\d+)", metrics, re.M).group(1)) > 0
        assert daemon.ask("honest.example.test.").rcode in ("NOERROR", "SERVFAIL")
    eventually(lambda: descriptors(daemon) < LIMIT / 2, UPSTREAM_TIMEOUT + 1)
    everything_works(workspace, daemon, 1)
    # It did not become the name's failure.
    assert daemon.ask("honest.example.test.").addresses() == ["192.0.2.1"]
    # The upstream was silent for these names only.
    assert "upstream server is down" not in workspace.log()


@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizers need descriptors of their own to end")
@pytest.mark.parametrize("limit", range(4, 36))
def test_starts_or_says_what_it_has_no_descriptor_for(workspace, limit):
    """Every call of the start fails at one of these limits; none of them may leave a daemon that hears nothing."""
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, wait=False,
                              prefix=["bash", "-c", f"ulimit -n {limit} && exec \"$@\"", "bash"])
    eventually(lambda: not daemon.process.is_running() or "ready:" in daemon.process.log_tail(), 10)
    if daemon.process.is_running():  # it may do without the admin endpoint
        daemon.wait_until_ready()
        eventually(lambda: daemon.ask("localhost.").addresses() == ["127.0.0.1"], 5)
    else:
        assert daemon.process.wait(5) != 0
        daemon.wait_for_log("[Tt]oo many open files|cannot start the HTTP server")
        workspace.forget(daemon)
