# SPDX-License-Identifier: Apache-2.0
"""The kernel's limits of inotify: the daemon says which one is reached, and polls."""

import shutil
import subprocess

import pytest

from harness.preset import ONE_THREAD
from harness.waiting import eventually

UNSHARE = ["unshare", "--user", "--map-root-user"]


def may_limit_inotify():
    script = "test -w /proc/sys/user/max_inotify_instances"
    return shutil.which("unshare") and subprocess.run([*UNSHARE, "sh", "-c", script], check=False).returncode == 0


pytestmark = [ONE_THREAD, pytest.mark.skipif(not may_limit_inotify(), reason="needs user namespaces of its own")]


def entry(address):
    return {"kind": "ServiceEntry", "metadata": {"name": "api"},
            "spec": {"hosts": ["api.example.org"], "addresses": [address], "resolution": "STATIC"}}


@pytest.mark.parametrize("limit, sysctl", [
    ("max_inotify_instances", "fs.inotify.max_user_instances"),
    ("max_inotify_watches", "fs.inotify.max_user_watches"),
])
def test_polls_and_names_the_limit(workspace, limit, sysctl):
    """The limit of a user namespace of its own is 0, as if other programs had taken all that the sysctl allows."""
    workspace.write("api.yaml", entry("10.0.0.7"))
    script = f'echo 0 >/proc/sys/user/{limit} && exec "$@"'
    daemon = workspace.daemon(prefix=[*UNSHARE, "sh", "-c", script, "sh"])
    line = daemon.process.wait_for_line("cannot be watched with inotify", 5)
    assert sysctl in line and "polled" in line
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    workspace.write("api.yaml", entry("10.0.0.8"))
    eventually(lambda: daemon.ask("api.example.org.").addresses() == ["10.0.0.8"], 5)
