# SPDX-License-Identifier: Apache-2.0
"""The wall clock jumps: the daemon measures all times on the monotonic clock."""

import pytest

from harness.daemon import Daemon
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually
from harness.wall_clock import WallClock, needs_wall_clock

pytestmark = [ONE_THREAD, needs_wall_clock]

API = {"kind": "ServiceEntry", "metadata": {"name": "api"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


def ttl(daemon, name):
    return daemon.ask(name).section("answer")[0][1]


@pytest.mark.parametrize("jump", ["+1h", "-1h", "+1d", "-1d", "+3650d"])
def test_a_jump_of_the_wall_clock_expires_nothing_and_stops_nothing(workspace, jump):
    clock = WallClock(workspace.path / "offset")
    workspace.write("api.yaml", API)
    upstream = workspace.upstream(["*.example.net. 300 A 192.0.2.1"])
    state = workspace.path / "state"
    state.mkdir()
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "state_dir": str(state)}, [upstream],
                              env=clock.environment())
    assert daemon.ask("kept.example.net.").addresses() == ["192.0.2.1"]
    upstream.forget()
    before = daemon.log_position()

    clock.set(jump)
    daemon.reload()  # the log has the other time
    daemon.wait_for_log("reloaded|reload", after=before)
    # Cache entries stay, with the lifetime that they had.
    assert 200 < ttl(daemon, "kept.example.net.") <= 300
    assert upstream.received("kept.example.net.") == []
    # Timers run, towards the upstreams and in the daemon itself.
    assert daemon.ask("fresh.example.net.").addresses() == ["192.0.2.1"]
    upstream.set(rules=[{"drop": True}])
    assert daemon.ask("silent.example.net.", timeout=15).rcode == "SERVFAIL"
    workspace.write("web.yaml", {**API, "metadata": {"name": "web"},
                                 "spec": {**API["spec"], "hosts": ["web.example.org"]}})
    eventually(lambda: daemon.ask("web.example.org.").addresses() == ["10.0.0.7"], 5)
    assert daemon.get("/healthz") == (200, "ok\n")
    status, ready = daemon.get("/readyz")
    assert status == 200, ready

    # The state that it leaves is of use to the next run, whatever the clock says then.
    workspace.forget(daemon)
    daemon.stop()
    clock.set("+0")
    home = workspace.path / "next"
    home.mkdir()
    again = workspace.own(Daemon(daemon.config, home, env=clock.environment()))
    assert again.ask("api.example.org.").addresses() == ["10.0.0.7"]
    if jump.startswith("+"):  # else the answer seems to be from long ago
        eventually(lambda: again.ask("kept.example.net.").addresses() == ["192.0.2.1"], 5)
        assert ttl(again, "kept.example.net.") <= 300
