# SPDX-License-Identifier: Apache-2.0
"""The state of the registry outlives the daemon: what a restart answers before its sources have been read."""

import json
import re
import shutil
import signal
import subprocess

import pytest

from harness.daemon import merge
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

CORRUPT = "the saved state is damaged; renamed its file and started without it"
RESTORED = "serving the saved state until all sources have been read"


def entry(host, address, name=None):
    return {"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": name or host.split(".")[0], "namespace": "default"},
            "spec": {"hosts": [host], "addresses": [address], "resolution": "STATIC",
                     "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}]}}


class Node:
    """One node over several runs: its resources, its state directory, its daemon."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.state = workspace.path / "state"
        self.state.mkdir()
        self.file = self.state / "snapshot"
        self.upstream = workspace.upstream()
        self.options = {"state_dir": str(self.state),
                        "admin": {"listen": f"127.0.0.1:{free_port('127.0.0.1')}"}}
        self.daemon = None

    def start(self, change=None, **options):
        self.daemon = self.workspace.daemon(merge(self.options, change or {}), upstreams=[self.upstream], **options)
        return self.daemon

    def written(self):
        """Waits until what the registry holds is on the disk."""
        eventually(lambda: self.metric("snapshot_write_timestamp_seconds") > 0, 15)

    def metric(self, name):
        text = self.daemon.get("/metrics")[1]
        return float(re.search(rf"^meshdns_{name}(?:{{.*}})? (\S+)$", text, re.M).group(1))

    def kill(self):
        self.daemon.kill()
        self.workspace.forget(self.daemon)

    def stop(self):
        self.daemon.stop()
        self.workspace.forget(self.daemon)

    def hide_resources(self):
        self.workspace.resources.rename(self.workspace.path / "hidden")

    def show_resources(self):
        (self.workspace.path / "hidden").rename(self.workspace.resources)

    def addresses(self, host):
        return self.daemon.ask(f"{host}.").addresses()

    def ready(self):
        status, text = self.daemon.get("/readyz")
        return status, json.loads(text)["reasons"]


@pytest.fixture
def node(workspace):
    return Node(workspace)


def test_answers_after_a_kill_though_the_source_is_missing(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    workspace.write("b.yaml", entry("b.example.org", "192.0.2.2"))
    node.start()
    node.written()
    assert node.metric("registry_from_snapshot") == 0
    node.kill()
    node.hide_resources()

    node.start()
    node.daemon.wait_for_log(RESTORED)
    answer = node.daemon.ask("a.example.org.", edns=True)
    assert answer.addresses() == ["192.0.2.1"]
    assert 3 in [code for code in answer.extended_errors()]
    status, reasons = node.ready()
    assert status == 200
    assert any("snapshot" in reason for reason in reasons)
    assert node.metric("registry_from_snapshot") == 1

    # The source is back: what it says is true, and nothing is marked any more.
    (workspace.path / "hidden" / "b.yaml").unlink()
    node.show_resources()
    eventually(lambda: node.metric("registry_from_snapshot") == 0, 15)
    answer = node.daemon.ask("a.example.org.", edns=True)
    assert answer.addresses() == ["192.0.2.1"] and not answer.extended_errors()
    assert node.ready() == (200, [])
    assert node.addresses("b.example.org") == []


def test_a_stop_writes_what_is_new(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.9"))
    eventually(lambda: node.addresses("a.example.org") == ["192.0.2.9"])
    node.stop()
    node.hide_resources()
    node.start()
    assert node.addresses("a.example.org") == ["192.0.2.9"]


def test_an_unchanged_state_is_not_written_again(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    node.stop()
    before = node.file.stat()
    node.start()
    eventually(lambda: node.metric("registry_from_snapshot") == 0)
    assert node.addresses("a.example.org") == ["192.0.2.1"]
    node.kill()
    assert node.file.stat().st_size == before.st_size


def test_deletions_and_changes_while_down_apply_at_the_first_sync(node, workspace):
    workspace.write("gone.yaml", entry("gone.example.org", "192.0.2.1"))
    workspace.write("shrunk.yaml", entry("kept.example.org", "192.0.2.2"), entry("cut.example.org", "192.0.2.3"))
    workspace.write("changed.yaml", entry("changed.example.org", "192.0.2.4"))
    node.start()
    node.written()
    node.kill()
    (workspace.resources / "gone.yaml").unlink()
    workspace.write("shrunk.yaml", entry("kept.example.org", "192.0.2.2"))
    workspace.write("changed.yaml", entry("changed.example.org", "192.0.2.5"))
    workspace.write("new.yaml", entry("new.example.org", "192.0.2.6"))
    node.start()

    def synced():
        assert node.metric("registry_from_snapshot") == 0
        return {host: node.addresses(f"{host}.example.org") for host in ("gone", "cut", "kept", "changed", "new")}

    assert eventually(synced, 15) == {"gone": [], "cut": [], "kept": ["192.0.2.2"], "changed": ["192.0.2.5"],
                                      "new": ["192.0.2.6"]}


def test_a_file_that_broke_while_down_is_served_as_it_was(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"), entry("b.example.org", "192.0.2.2"))
    workspace.write("c.yaml", entry("c.example.org", "192.0.2.3"))
    node.start()
    node.written()
    node.kill()
    good = (workspace.resources / "a.yaml").read_text()
    workspace.write_text("a.yaml", good + "\n--- {\n")
    workspace.write_text("c.yaml", "")
    node.start()
    eventually(lambda: node.metric("registry_from_snapshot") == 0, 15)
    assert [node.addresses(f"{x}.example.org") for x in "abc"] == [["192.0.2.1"], ["192.0.2.2"], ["192.0.2.3"]]
    workspace.write_text("a.yaml", good.replace("192.0.2.1", "192.0.2.7"))
    eventually(lambda: node.addresses("a.example.org") == ["192.0.2.7"])


def test_two_runs_without_the_source_are_like_one(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    node.stop()
    node.hide_resources()
    for end in (node.kill, node.stop, node.kill):
        node.start()
        assert node.addresses("a.example.org") == ["192.0.2.1"]
        assert node.ready()[0] == 200
        end()


def test_a_source_that_was_never_read_is_waited_for(node, workspace):
    """A state from before a source was configured does not speak for it."""
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    node.kill()
    node.start({"sources": [{"files": {"path": str(workspace.resources)}},
                            {"files": {"path": str(workspace.path / "missing")}}]})
    assert node.addresses("a.example.org") == ["192.0.2.1"]
    status, reasons = node.ready()
    assert status == 503 and any("missing: not read yet" in reason for reason in reasons)


@pytest.mark.slow("the daemon's own time for sources that are gone")
def test_other_sources_and_clusters_are_dropped(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    node.kill()
    path = str(workspace.resources)
    node.hide_resources()
    for sources in ([{"files": {"path": str(workspace.path / "other")}}],
                    [{"files": {"path": path, "cluster": "east"}}]):
        shutil.copy(node.file, node.state / "kept")
        node.start({"sources": sources}, wait=False)
        node.daemon.wait_for_log("a source of the saved state that is not in the configuration")
        node.daemon.wait_until_ready()
        assert node.addresses("a.example.org") == []
        assert node.ready()[0] == 503
        node.kill()
        shutil.copy(node.state / "kept", node.file)


def test_a_source_taken_out_of_the_configuration_takes_its_state_along(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    node.kill()
    node.hide_resources()
    node.start()
    assert node.addresses("a.example.org") == ["192.0.2.1"]
    node.daemon.write_config(merge(node.daemon.config, {"sources": []}))
    node.daemon.reload()
    eventually(lambda: node.addresses("a.example.org") == [])
    eventually(lambda: node.metric("registry_from_snapshot") == 0)


def flipped(octets):
    middle = len(octets) // 2
    return octets[:middle] + bytes([octets[middle] ^ 1]) + octets[middle + 1:]


@pytest.mark.parametrize("damage", [
    pytest.param(lambda o: b"", id="empty"),
    pytest.param(lambda o: o[:-1], id="the last octet is missing"),
    pytest.param(lambda o: o[: len(o) // 2], id="half"),
    pytest.param(flipped, id="a bit is flipped"),
    pytest.param(lambda o: o + b"x", id="an octet too many"),
    pytest.param(lambda o: b"\0" * len(o), id="zeros"),
    pytest.param(lambda o: b"#!/bin/sh\necho something else\n", id="something else"),
])
def test_a_damaged_state_is_set_aside_and_said(node, workspace, damage):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    node.kill()
    damaged = damage(node.file.read_bytes())
    node.file.write_bytes(damaged)
    node.start()
    node.daemon.wait_for_log(CORRUPT)
    assert (node.state / "snapshot.corrupt").read_bytes() == damaged
    # The source is there, and what it says is kept again.
    assert node.addresses("a.example.org") == ["192.0.2.1"]
    node.written()
    node.kill()
    node.hide_resources()
    node.start()
    assert node.addresses("a.example.org") == ["192.0.2.1"]


def test_a_state_of_another_version_is_not_used(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    node.kill()
    octets = node.file.read_bytes()
    node.file.write_bytes(octets.replace(b"meshdns-snapshot 1\n", b"meshdns-snapshot 7\n", 1))
    node.start()
    node.daemon.wait_for_log("cannot use the saved state.*another version")
    assert not (node.state / "snapshot.corrupt").exists()
    node.written()
    assert node.file.read_bytes().startswith(b"meshdns-snapshot 1\n")


@pytest.mark.parametrize("make", [
    pytest.param(lambda path: path.mkdir(), id="directory"),
    pytest.param(lambda path: subprocess.run(["mkfifo", path], check=True), id="fifo"),
    pytest.param(lambda path: path.symlink_to(path), id="link to itself"),
])
def test_an_irregular_file_costs_no_answer(node, workspace, make):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    make(node.file)
    node.start()
    assert node.addresses("a.example.org") == ["192.0.2.1"]
    node.daemon.wait_for_log("cannot read the saved state")


def test_a_directory_that_cannot_be_written_costs_no_answer(node, workspace):
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    shutil.rmtree(node.state)  # what is missing at the start is another matter: test_state
    workspace.write("b.yaml", entry("b.example.org", "192.0.2.2"))
    node.daemon.wait_for_log("cannot save the state", 15)
    eventually(lambda: node.metric("snapshot_write_failures_total") >= 1)
    assert node.addresses("a.example.org") == ["192.0.2.1"]
    node.state.mkdir(mode=0o700)
    node.stop()
    node.daemon.wait_for_log("INFO the state is saved again")


def test_a_disk_that_is_full_leaves_the_last_state(node, workspace):
    """RLIMIT_FSIZE stands for the disk: files may not grow beyond 4 KiB."""
    workspace.write("a.yaml", entry("a.example.org", "192.0.2.1"))
    node.start()
    node.written()
    node.kill()
    before = node.file.read_bytes()
    workspace.write("b.yaml", *[entry(f"b{i}.example.org", "192.0.2.2") for i in range(300)])
    node.start(prefix=["prlimit", "--fsize=4096"])
    node.daemon.wait_for_log("cannot save the state")
    assert node.addresses("b7.example.org") == ["192.0.2.2"]
    assert node.file.read_bytes() == before
    assert [path.name for path in node.state.iterdir() if path.name.startswith("snapshot")] == ["snapshot"]
    node.kill()
    node.hide_resources()
    node.start()
    assert node.addresses("a.example.org") == ["192.0.2.1"]


def test_killed_at_any_moment_it_comes_back_whole(node, workspace):
    """Every write is followed by a change, and the daemon is killed at moments that differ."""
    hosts = [f"h{i}.example.org" for i in range(200)]
    workspace.write("a.yaml", *[entry(host, "192.0.2.1") for host in hosts])
    node.start()
    node.written()
    for round_ in range(6):
        workspace.write("b.yaml", entry("b.example.org", f"192.0.2.{10 + round_}"))
        eventually(lambda: node.addresses("b.example.org") == [f"192.0.2.{10 + round_}"])
        node.daemon.process.send_signal(signal.SIGTERM if round_ % 2 else signal.SIGHUP)
        node.kill()
        node.hide_resources()
        node.start()
        node.daemon.wait_for_log(RESTORED)
        assert node.addresses(hosts[-1]) == ["192.0.2.1"]
        node.show_resources()
        eventually(lambda: node.metric("registry_from_snapshot") == 0, 15)
