# SPDX-License-Identifier: Apache-2.0
"""A configuration that is broken, half-written or gone when it is read again."""

import re
import time

import pytest
import yaml

from harness.daemon import merge
from harness.dns_client import Question, open_udp, parse
from harness.ports import free_port
from harness.preset import THREADS
from harness.scenario import write_atomically
from harness.waiting import eventually

pytestmark = THREADS

ENTRY = {"kind": "ServiceEntry", "metadata": {"name": "api"},
         "spec": {"hosts": ["api.example.org"], "addresses": ["192.0.2.1"], "resolution": "STATIC"}}


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", ENTRY)
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})


def ttl(daemon):
    return daemon.ask("api.example.org.").section("answer")[0][1]


def metric(daemon, name):
    return float(re.search(rf"^meshdns_{name} (\S+)$", daemon.get("/metrics")[1], re.M).group(1))


def changed(daemon, seconds):
    return yaml.safe_dump(merge(daemon.config, {"mesh": {"ttl": {"vip": seconds}}}), sort_keys=False)


@pytest.mark.parametrize("text", [
    pytest.param("", id="empty"),
    pytest.param("\n  \n", id="blank"),
    pytest.param("server: {listen: [", id="cut in mid-word"),
    pytest.param("server:\n  listen: 7\n", id="of wrong types"),
    pytest.param("\0" * 100, id="zeros"),
    pytest.param("# " + "x" * (2 << 20), id="too large"),
    pytest.param(None, id="gone"),
])
def test_an_invalid_configuration_changes_nothing(daemon, text):
    if text is None:
        daemon.config_path.unlink()
    else:
        write_atomically(daemon.config_path, text)
    daemon.reload()
    daemon.wait_for_log("reload failed; the previous configuration stays in use")
    assert daemon.ask("api.example.org.").addresses() == ["192.0.2.1"]
    assert metric(daemon, "config_last_reload_ok") == 0
    assert any("config" in reason for reason in yaml.safe_load(daemon.get("/readyz")[1])["reasons"])

    write_atomically(daemon.config_path, changed(daemon, 77))
    daemon.reload()
    eventually(lambda: ttl(daemon) == 77)
    assert metric(daemon, "config_last_reload_ok") == 1


def write_in_pieces_with_a_signal_between(daemon, text):
    """As a writer that truncates; how long it took, in seconds."""
    pieces = [text[i:i + len(text) // 6 + 1] for i in range(0, len(text), len(text) // 6 + 1)]
    began = time.monotonic()
    with open(daemon.config_path, "w", encoding="utf-8") as file:
        daemon.reload()
        for piece in pieces:
            file.write(piece)
            file.flush()
    return time.monotonic() - began


def test_a_configuration_that_is_being_written_is_waited_for(workspace):
    """Each of the pieces alone would be a valid configuration, which takes sources and listeners away.  A writer
    whom a busy machine has kept waiting between two pieces proves nothing."""
    workspace.write("api.yaml", ENTRY)
    for _ in range(5):
        daemon = workspace.daemon()
        if write_in_pieces_with_a_signal_between(daemon, changed(daemon, 77)) < 0.02:
            eventually(lambda: ttl(daemon) == 77)
            assert "no longer listening" not in daemon.process.log_tail(1000)
            return
    pytest.skip("the machine is too busy to write a file in 20 ms")


def test_a_storm_of_signals_is_a_few_reloads(daemon):
    before = metric(daemon, "config_reloads_total")
    for i in range(300):
        write_atomically(daemon.config_path, changed(daemon, i + 1))
        daemon.reload()
    eventually(lambda: ttl(daemon) == 300)
    assert 1 <= metric(daemon, "config_reloads_total") - before < 300


def test_a_file_of_two_sources_stays_when_one_of_them_goes(workspace):
    workspace.write("api.yaml", ENTRY)
    sources = [{"files": {"path": str(workspace.resources)}}, {"files": {"path": str(workspace.resources / "api.yaml")}}]
    daemon = workspace.daemon({"sources": sources})
    position = daemon.log_position()
    write_atomically(daemon.config_path, yaml.safe_dump(merge(daemon.config, {"sources": sources[:1]})))
    daemon.reload()
    daemon.wait_for_log("configuration changed.*sources", after=position)
    assert daemon.ask("api.example.org.").addresses() == ["192.0.2.1"]


def test_dns64_may_be_switched_off_while_the_addresses_of_ipv4_are_asked_for(workspace):
    upstream = workspace.upstream(["v4.example.com. A 192.0.2.33"], [{"match": "v4.example.com. A", "delay": 2}])
    daemon = workspace.daemon({"dns64": {"prefix": "64:ff9b::/96"}, "upstream": {"timeout": "20s"}}, upstreams=[upstream])
    question = Question("v4.example.com.", "AAAA")
    with open_udp(daemon.server) as client:
        client.settimeout(20)
        client.send(question.to_message().to_wire())
        eventually(lambda: upstream.received("v4.example.com.", "A"))
        position = daemon.log_position()
        write_atomically(daemon.config_path, yaml.safe_dump(merge(daemon.config, {"dns64": {"prefix": ""}})))
        daemon.reload()
        daemon.wait_for_log("configuration changed.*dns64", after=position)
        answer = parse(question, "udp", client.recv(4096), 0)
    assert (answer.rcode, answer.addresses()) == ("NOERROR", [])


def replace_as_the_kubelet_does(daemon, version, text):
    """meshdns.yaml -> ..data/meshdns.yaml, ..data -> ..VERSION; a new version replaces ..data alone."""
    home = daemon.config_path.parent
    (home / f"..{version}").mkdir()
    (home / f"..{version}" / daemon.config_path.name).write_text(text)
    for name, target in (("..data", f"..{version}"), (daemon.config_path.name, f"..data/{daemon.config_path.name}")):
        if (home / name).is_symlink() and name != "..data":
            continue
        (home / "link").symlink_to(target)
        (home / "link").rename(home / name)


def replace_as_an_editor_does(daemon, text):
    daemon.config_path.rename(daemon.config_path.with_suffix(".yaml~"))
    daemon.config_path.write_text(text)


def test_a_changed_configuration_is_noticed_by_choice(workspace):
    workspace.write("api.yaml", ENTRY)
    daemon = workspace.daemon({"server": {"watch_config": True}})
    daemon.config_path.write_text(changed(daemon, 77))
    eventually(lambda: ttl(daemon) == 77, 5)
    replace_as_the_kubelet_does(daemon, "v1", changed(daemon, 78))
    eventually(lambda: ttl(daemon) == 78, 5)
    replace_as_the_kubelet_does(daemon, "v2", changed(daemon, 79))
    eventually(lambda: ttl(daemon) == 79, 5)
    replace_as_an_editor_does(daemon, changed(daemon, 80))
    eventually(lambda: ttl(daemon) == 80, 5)
    assert not [line for line in daemon.process.log_lines() if "reload failed" in line]


def test_a_changed_configuration_with_a_mistake_changes_nothing_and_is_told_once(workspace):
    workspace.write("api.yaml", ENTRY)
    hosts = workspace.path / "hosts"
    hosts.write_text("")
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "server": {"watch_config": True},
                               "hosts": {"file": str(hosts)}, "mesh": {"ttl": {"vip": 79}}})
    write_atomically(daemon.config_path, "server: {listen: [")
    daemon.wait_for_log("reload failed; the previous configuration stays in use")
    assert ttl(daemon) == 79
    write_atomically(daemon.config_path, "server: {listen: [")
    # Each of these takes the daemon's next second, and the configuration is looked at every second.
    for change in (hosts.unlink, lambda: hosts.write_text(""), hosts.unlink):
        change()
        eventually(lambda: ("hosts.file" in daemon.get("/readyz")[1]) != hosts.exists(), 5)
    assert len([line for line in daemon.process.log_lines() if "reload failed" in line]) == 1
    daemon.config_path.unlink()
    eventually(lambda: "config: cannot read" in daemon.get("/readyz")[1], 5)
    write_atomically(daemon.config_path, changed(daemon, 80))
    eventually(lambda: ttl(daemon) == 80, 5)
    eventually(lambda: '"degraded":["hosts.file' in daemon.get("/readyz")[1], 5)
    assert len([line for line in daemon.process.log_lines() if "reload failed" in line]) == 1

