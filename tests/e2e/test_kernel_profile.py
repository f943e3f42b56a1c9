# SPDX-License-Identifier: Apache-2.0
"""The seccomp profile of the component kernel-answers: the daemon works with it, and no program can be loaded."""

import ctypes
import errno
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from harness.preset import ONCE
from harness.sandbox import Comparison, add_rule, library, load, start

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPONENT = ROOT / "conf/kubernetes/components/kernel-answers/daemonset.yaml"
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
OPERATORS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7}

pytestmark = [ONCE, pytest.mark.skipif(library() is None, reason="needs libseccomp")]


def profile():
    """As the init container writes it."""
    pod = yaml.safe_load(COMPONENT.read_text())["spec"]["template"]["spec"]
    (script,) = pod["initContainers"][0]["args"]
    return json.loads(re.search(r"<<'PROFILE'\n(.*?)\nPROFILE\n", script, re.S).group(1))


def confine():
    """This process, as a container runtime does it."""
    made = profile()
    assert made["defaultAction"] == "SCMP_ACT_ALLOW"
    seccomp, filter_ = library(), start(ALLOW)
    for rule in made["syscalls"]:
        assert rule["action"] == "SCMP_ACT_ERRNO"
        comparisons = [Comparison(a["index"], OPERATORS[a["op"]], a["value"], a.get("valueTwo", 0)) for a in rule.get("args", [])]
        for name in rule["names"]:
            add_rule(seccomp, filter_, ERRNO | rule["errnoRet"], name, *comparisons)
    load(seccomp, filter_)


def refused_calls():
    """Returns the attempts that this process is refused."""
    libc, number = ctypes.CDLL(None, use_errno=True), library().seccomp_syscall_resolve_name
    attempts = {"bpf: make a map": ("bpf", 0), "bpf: load a program": ("bpf", 5), "bpf: pin": ("bpf", 6), "bpf: a link": ("bpf", 28),
                "bpf: open a pinned map": ("bpf", 7), "unshare": ("unshare", 0x10000000), "mount": ("mount",), "ptrace": ("ptrace",),
                "io_uring_setup": ("io_uring_setup",), "keyctl": ("keyctl",), "userfaultfd": ("userfaultfd",)}
    refused = []
    for what, (call, *arguments) in attempts.items():
        ctypes.set_errno(0)
        libc.syscall(number(call.encode()), *arguments, 0, 0, 0)
        if ctypes.get_errno() == errno.EPERM:
            refused.append(what)
    return refused


def test_the_profile_refuses_all_but_the_use_of_maps():
    done = subprocess.run([sys.executable, __file__, "refused"], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "tests")})
    assert json.loads(done.stdout) == ["bpf: make a map", "bpf: load a program", "bpf: pin", "bpf: a link", "unshare", "mount",
                                       "ptrace", "io_uring_setup", "keyctl", "userfaultfd"]


def test_the_daemon_answers_under_the_profile(workspace):
    upstream = workspace.upstream(["www.example.org. 60 A 192.0.2.1"])
    daemon = workspace.daemon({}, upstreams=[upstream], prefix=[sys.executable, __file__],
                              env={"PYTHONPATH": str(ROOT / "tests")})
    assert daemon.ask("www.example.org.").addresses() == ["192.0.2.1"]
    assert daemon.ask("www.example.org.", transport="tcp").addresses() == ["192.0.2.1"]


if __name__ == "__main__":
    confine()
    if sys.argv[1] == "refused":
        print(json.dumps(refused_calls()))
    else:
        os.execv(sys.argv[1], sys.argv[1:])
