# SPDX-License-Identifier: Apache-2.0
"""A pipe that nobody writes, in the place of a file: neither the start, nor a reload, nor the end waits for it."""

import os

import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD

pytestmark = ONE_THREAD

API = {"kind": "ServiceEntry", "metadata": {"name": "api"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}

# By the name of the pipe in {home}, the configuration that has it read or written.
CASES = {
    "hosts": {"hosts": {"file": "{home}/hosts"}},
    "cache": {"state_dir": "{home}"},
    "cache.new": {"state_dir": "{home}"},
    "snapshot": {"state_dir": "{home}"},
    "snapshot.new": {"state_dir": "{home}"},
    "vips": {"state_dir": "{home}", "mesh": {"auto_allocate": "persistent"}},
    "vips.new": {"state_dir": "{home}", "mesh": {"auto_allocate": "persistent"}},
    "tap": {"log": {"dnstap": "file:{home}/tap"}},
}


def filled_in(value, home):
    if isinstance(value, dict):
        return {key: filled_in(item, home) for key, item in value.items()}
    return value.format(home=home) if isinstance(value, str) else value


@pytest.mark.parametrize("pipe", CASES)
def test_a_pipe_in_a_files_place_is_not_waited_for(workspace, pipe):
    home = workspace.path / "home"
    home.mkdir()
    os.mkfifo(home / pipe)
    workspace.write("api.yaml", API)
    daemon = workspace.daemon({**filled_in(CASES[pipe], home), "admin": {"listen": f"127.0.0.1:{free_port()}"}})
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    before = daemon.log_position()
    daemon.reload()
    daemon.wait_for_log("reload", after=before)
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert daemon.get("/healthz") == (200, "ok\n")
    # The end of the test sees to it that the daemon ends, too.


def test_authorities_in_a_pipe_are_not_waited_for(workspace):
    os.mkfifo(workspace.path / "authorities")
    workspace.write("api.yaml", API)
    daemon = workspace.daemon({"upstream": {"servers": ["tls://127.0.0.1:853#dns.example"],
                                            "tls": {"ca_file": str(workspace.path / "authorities")}}})
    assert daemon.ask("outside.example.net.", timeout=10).rcode == "SERVFAIL"
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]


def test_a_kubeconfig_in_a_pipe_is_not_waited_for(workspace):
    os.mkfifo(workspace.path / "kubeconfig")
    workspace.write("api.yaml", API)
    daemon = workspace.daemon({"sources": [{"files": {"path": str(workspace.resources)}},
                                           {"kubernetes": {"kubeconfig": str(workspace.path / "kubeconfig")}}]},
                              wait=False)
    daemon.process.wait_for_line("kubeconfig: is not a regular file", 10)
    workspace.forget(daemon)
    daemon.kill()
