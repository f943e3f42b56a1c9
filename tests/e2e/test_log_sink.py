# SPDX-License-Identifier: Apache-2.0
"""A log that nobody reads, or that is gone, costs no answer."""

import fcntl
import os
import subprocess

import pytest
import yaml

from harness.daemon import binary
from harness.dns_client import Question, ask
from harness.ports import free_port
from harness.preset import THREADS
from harness.waiting import eventually

pytestmark = THREADS

ENTRY = {"kind": "ServiceEntry", "metadata": {"name": "api"},
         "spec": {"hosts": ["api.example.org"], "addresses": ["192.0.2.1"], "resolution": "STATIC"}}


@pytest.fixture
def config(workspace):
    workspace.write("api.yaml", ENTRY)
    port = free_port()
    path = workspace.path / "meshdns.yaml"
    path.write_text(yaml.safe_dump(workspace.config(
        {"server": {"listen": [f"127.0.0.1:{port}"]}, "log": {"level": "debug", "queries": {"class": "all"}}})))
    return path, ("127.0.0.1", port)


def answers(server):
    try:
        return ask(server, Question("api.example.org."), timeout=1.0).addresses() == ["192.0.2.1"]
    except OSError:
        return False


def serve(config, server, stderr):
    daemon = subprocess.Popen([binary(), "run", "--config", config], stderr=stderr)
    try:
        eventually(lambda: answers(server), 15)
        for _ in range(2000):
            assert ask(server, Question("api.example.org."), timeout=5.0).addresses() == ["192.0.2.1"]
    finally:
        daemon.terminate()
        assert daemon.wait(30) == 0


def test_a_pipe_that_is_full_costs_no_answer(config):
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    try:
        serve(*config, write_end)
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_reader_that_is_gone_costs_no_answer(config):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        serve(*config, write_end)
    finally:
        os.close(write_end)


def test_a_disk_that_is_full_costs_no_answer(config):
    with open("/dev/full", "wb") as full:
        serve(*config, full)
