# SPDX-License-Identifier: Apache-2.0
"""The module for istiod under the system call rules of the systemd unit."""

import shutil
import subprocess
import sys

import pytest

from harness import sandbox
from harness.daemon import ROOT, binary
from harness.istiod_mesh import Mesh
from harness.preset import IS_RELEASE, ONE_THREAD

UNIT = ROOT / "systemd" / "meshdnsd.service"
SANDBOX = [sys.executable, sandbox.__file__, UNIT]

pytestmark = [
    ONE_THREAD,
    pytest.mark.skipif(not shutil.which("openssl") or not (binary().parent / "meshdns-istiod.so").exists(),
                       reason="needs openssl and the module"),
    pytest.mark.skipif(not shutil.which("systemd-analyze") or sandbox.library() is None,
                       reason="needs systemd-analyze and libseccomp"),
    pytest.mark.skipif(not IS_RELEASE, reason="sanitizers need more system calls"),
]


@pytest.mark.parametrize("code", [
    "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)",
    "import os; os.chroot('/')",
    "import os; os.nice(-1)",
], ids=["memory", "privileged", "resources"])
def test_the_rules_are_in_force(code):
    result = subprocess.run([*SANDBOX, sys.executable, "-c", code], capture_output=True, text=True)
    assert "PermissionError" in result.stderr or "not permitted" in result.stderr, result


def test_istiod_is_a_source_in_the_sandbox(mesh):
    istiod = mesh.istiod(table={"api.example.org": {"ips": ["10.0.0.7"]}})
    daemon = mesh.workspace.daemon(mesh.config([mesh.entry(istiod)]), upstreams=[mesh.upstream], prefix=SANDBOX)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"], 10)
    status = open(f"/proc/{daemon.pid}/status").read()
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
    assert "meshdns-istiod.so" in open(f"/proc/{daemon.pid}/maps").read()
    mesh.end(istiod)
    mesh.istiod(table={"api.example.org": {"ips": ["10.0.0.8"]}}, port=istiod.port)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"], 40)


@pytest.fixture
def mesh(workspace):
    return Mesh(workspace)
