# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: first not ready, then no new queries, then the end; nobody who has asked goes without an answer."""

import concurrent.futures
import signal
import time

import pytest

from harness.ports import free_port
from harness.preset import IS_SANITIZED, THREADS, at_most
from harness.waiting import eventually

pytestmark = THREADS

NAMES = [f"n{i}.example.org." for i in range(40)]


def ask_all(daemon, pool):
    """Half of them over UDP, half over TCP, all at once."""
    return [pool.submit(daemon.ask, name, "A", "tcp" if i % 2 else "udp") for i, name in enumerate(NAMES)]


def start(workspace, lameduck, delay):
    upstream = workspace.upstream(["*.example.org. A 192.0.2.1"], [{"match": "*.example.org.", "delay": delay}])
    daemon = workspace.daemon({"server": {"lameduck": lameduck}, "admin": {"listen": f"127.0.0.1:{free_port()}"}},
                              upstreams=[upstream])
    assert daemon.get("/readyz")[0] == 200
    return daemon, upstream


def expect_end(daemon, workspace):
    assert daemon.process.wait(5) == 0
    workspace.forget(daemon)
    assert daemon.process.sanitizer_reports() == []


def test_is_not_ready_while_it_answers_what_is_in_flight(workspace):
    daemon, upstream = start(workspace, "0s", 1.5)
    with concurrent.futures.ThreadPoolExecutor(len(NAMES)) as pool:
        asked = ask_all(daemon, pool)
        eventually(lambda: set(NAMES) <= {r.name for r in upstream.received()}, 3, 0.01)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait_for_log("stopping")
        assert daemon.get("/readyz") == (503, '{"ready":false,"reasons":["stopping"],"notReady":["stopping"],'
                                              '"effects":["this daemon is ending"]}\n')
        assert daemon.get("/healthz")[0] == 200
        assert "meshdns_ready 0" in daemon.get("/metrics")[1]
        assert not any(future.done() for future in asked), "all of that was before the first answer"
        assert [future.result().addresses() for future in asked] == [["192.0.2.1"]] * len(NAMES)
    expect_end(daemon, workspace)


def test_serves_on_as_a_lame_duck(workspace):
    daemon, _ = start(workspace, "1500ms", 0)
    stopped = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    eventually(lambda: daemon.get("/readyz")[0] == 503, 1, 0.01)
    with concurrent.futures.ThreadPoolExecutor(len(NAMES)) as pool:
        asked = ask_all(daemon, pool)
        assert [future.result().addresses() for future in asked] == [["192.0.2.1"]] * len(NAMES)
    expect_end(daemon, workspace)
    assert time.monotonic() - stopped >= 1.5


@pytest.mark.timing
def test_a_second_signal_cuts_the_lame_duck_short(workspace):
    daemon, _ = start(workspace, "5m", 0)
    daemon.process.send_signal(signal.SIGTERM)
    eventually(lambda: daemon.get("/readyz")[0] == 503, 1, 0.01)
    daemon.process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    expect_end(daemon, workspace)
    assert time.monotonic() - started < at_most(4)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_that_come_while_it_ends_change_nothing(workspace, number):
    """The last moments are short, so signals come without a pause until it has ended; under a sanitizer, whose handling of a
    signal takes longer than sending one, with a short pause, or nothing else would happen."""
    for _ in range(5):
        daemon, _ = start(workspace, "0s", 0)
        daemon.process.send_signal(signal.SIGTERM)
        while daemon.process.is_running():
            daemon.process.send_signal(number)
            time.sleep(0.001 if IS_SANITIZED else 0)
        expect_end(daemon, workspace)
