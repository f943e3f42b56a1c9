# SPDX-License-Identifier: Apache-2.0
"""Signals that arrive while the daemon starts: none of them ends it but SIGTERM and SIGINT, which end it well.

The times count from the daemon's first instruction, when it has blocked the signals.  Before that, the kernel and the
dynamic loader have the process: then only its parent can see to it (docs/operations.md).
"""

import pathlib
import shutil
import signal
import time

import pytest
import yaml

from harness.daemon import ROOT, binary
from harness.preset import IS_DEEP, IS_SANITIZED, THREADS
from harness.process import Process
from harness.waiting import eventually

pytestmark = THREADS

ENTRY = """---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: e{number}, namespace: shop, creationTimestamp: 2024-01-01T00:00:00Z}}
spec:
  hosts: [h{number}.example.org]
  addresses: [192.0.2.1]
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  resolution: STATIC
"""
DELAYS_MS = (0, 1, 10, 100, 500) if IS_SANITIZED else (0, 0.3, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def is_held(pid, number):
    """Whether the process blocks, ignores or handles the signal."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def start(workspace, name, prefix=(), **change):
    home = workspace.path / name
    home.mkdir()
    path = home / "meshdns.yaml"
    path.write_text(yaml.safe_dump(workspace.config({"server": {"listen": ["127.0.0.1:0"]}, **change}, ["127.0.0.1:9"])))
    return workspace.own_process(Process([binary(), "run", "--config", path], name, cwd=ROOT, prefix=prefix))


def send_after(process, delay_ms, number):
    eventually(lambda: is_held(process.pid, signal.SIGHUP), 10, interval=0)
    until = time.monotonic() + delay_ms / 1000
    while time.monotonic() < until:
        pass
    process.send_signal(number)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE])
def test_survives_a_signal_at_any_time(workspace, number):
    for delay in DELAYS_MS:
        process = start(workspace, f"after-{delay}ms")
        send_after(process, delay, number)
        process.wait_for_line("ready:")
        if number == signal.SIGHUP:
            process.wait_for_line("reloading")
        assert process.stop() == 0, process.log_tail()


def test_survives_a_signal_before_its_first_instruction(workspace):
    """A parent that ignores SIGHUP hands that on; the daemon handles the signal all the same when it can."""
    for delay in DELAYS_MS:
        process = start(workspace, f"ignored-{delay}ms", prefix=["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"])
        send_after(process, delay, signal.SIGHUP)
        process.wait_for_line("ready:")
        process.send_signal(signal.SIGHUP)
        process.wait_for_line("reloading")
        assert process.stop() == 0, process.log_tail()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_well_at_any_time(workspace, number):
    for delay in DELAYS_MS:
        process = start(workspace, f"after-{delay}ms")
        send_after(process, delay, number)
        assert process.wait(3) == 0, f"{delay} ms: {process.log_tail()}"


def test_ends_well_while_a_source_is_silent(workspace):
    """A start waits for its sources: here for an API server that nobody answers for."""
    process = start(workspace, "silent", sources=[{"kubernetes": {"kubeconfig": str(workspace.path / "nothing")}}])
    send_after(process, 100, signal.SIGTERM)
    assert process.wait(3) == 0, process.log_tail()


def test_ends_well_while_a_large_source_is_read(workspace):
    """Seconds of reading are given up, not waited for."""
    tree = workspace.path / "tree"
    tree.mkdir()
    with (tree / "a.yaml").open("w") as file:
        file.writelines(ENTRY.format(number=number) for number in range(200_000))
    for name in ("b.yaml", "c.yaml"):
        shutil.copy(tree / "a.yaml", tree / name)
    for delay in (300, 1_500):
        process = start(workspace, f"large-{delay}ms", sources=[{"files": {"path": str(tree)}}])
        send_after(process, delay, signal.SIGTERM)
        assert process.wait(3) == 0, f"{delay} ms: {process.log_tail()}"
        assert not any("ready:" in line for line in process.log_lines()), process.log_tail()


@pytest.mark.slow("a daemon with a large source for each signal")
def test_ends_well_while_a_large_source_is_committed(workspace):
    """The commit of 440,000 hosts takes as long as their reading, and is given up, too.  A sanitizer's build is slow enough
    with a twentieth of them."""
    count = 22_000 if IS_SANITIZED else 440_000
    tree = workspace.path / "hosts"
    tree.mkdir()
    with (tree / "a.yaml").open("w") as file:
        for first in range(0, count, 220):
            hosts = ", ".join(f"h{number}.example.org" for number in range(first, first + 220))
            file.write(ENTRY.format(number=first).replace(f"[h{first}.example.org]", f"[{hosts}]"))
    sources = [{"files": {"path": str(tree)}}]
    whole = start(workspace, "whole", sources=sources)
    begun = time.monotonic()
    whole.wait_for_line(rf"\bready: listen=.*hosts={count}\b", 120)
    until_ready_ms = (time.monotonic() - begun) * 1000
    assert whole.stop() == 0, whole.log_tail()
    for part in range(1, 8) if IS_DEEP and not IS_SANITIZED else (2, 6):
        process = start(workspace, f"part-{part}", sources=sources)
        send_after(process, until_ready_ms * part / 8, signal.SIGTERM)
        assert process.wait(3) == 0, f"{part}/8 of {until_ready_ms:.0f} ms: {process.log_tail()}"


def test_is_ready_when_the_sources_are_read(workspace):
    """After five seconds the log says that names which need no source are answered; readiness comes later."""
    late = workspace.path / "late.yaml"
    process = start(workspace, "late", sources=[{"files": {"path": str(late)}}])
    line = process.wait_for_line("not ready yet: listen=", 15)
    assert "not read yet" in line and "WARN" in line
    assert not any("INFO ready:" in line for line in process.log_lines())
    late.write_text(ENTRY.format(number=1))
    assert "resources=1 hosts=1" in process.wait_for_line(r"\bready: listen=", 15)
    assert process.stop() == 0, process.log_tail()
