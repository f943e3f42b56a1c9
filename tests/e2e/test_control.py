# SPDX-License-Identifier: Apache-2.0
"""The commands that ask or change the running daemon, as an operator types them."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
import yaml

from harness.daemon import binary, merge, run_tool
from harness.ports import free_port
from harness.preset import IS_SANITIZED, THREADS
from harness.process import Process
from harness.waiting import eventually, seconds

pytestmark = THREADS

RECORDS = ["www.example.net. 300 A 192.0.2.80", "www.example.com. 300 A 192.0.2.81"]
MISTAKE = {"cache": {"size": "none"}}


@pytest.fixture
def daemon(workspace):
    return workspace.daemon({"admin": {"listen": f"unix:{workspace.path}/admin.sock"}},
                            upstreams=[workspace.upstream(RECORDS)])


def control(daemon, command, *arguments):
    return run_tool(command, "--config", daemon.config_path, *arguments)


def test_shows_the_state(daemon):
    daemon.ask("www.example.net.")
    shown = control(daemon, "status")
    assert (shown.returncode, shown.stderr) == (0, "")
    server = re.escape(daemon.config["upstream"]["servers"][0])
    assert re.match(rf"ready\nsources\n  .*: read, \d+ changes?\nupstream servers\n  {server}: up, .* quer(?:y|ies), ", shown.stdout)
    assert "cache\n  1 entry" in shown.stdout
    document = json.loads(control(daemon, "status", "--json").stdout)
    assert document["readiness"]["ready"] and document["upstreams"][0]["queries"] >= 1


def test_a_degraded_daemon_begins_with_what_is_lost(daemon, workspace):
    assert control(daemon, "status", "--strict").returncode == 0
    workspace.write_text("broken.yaml", "kind: ServiceEntry\nspec: [")
    eventually(lambda: control(daemon, "status").stdout.startswith("degraded: objects with errors"))
    shown = control(daemon, "status")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.match(r"degraded: objects with errors are not in use, or not as written; changes of files:.* may be missing\n"
                    r"  1 error in resources .*broken\.yaml", shown.stdout)
    assert control(daemon, "status", "--strict").returncode == 3
    assert control(daemon, "status", "--strict", "--json").returncode == 3


def test_a_daemon_that_does_not_run_is_another_exit_status(daemon, workspace):
    workspace.forget(daemon)
    daemon.stop()
    for command in (["status"], ["reload"], ["flush", "a.example.org"], ["log-level"], ["dependencies"]):
        result = control(daemon, *command)
        assert (result.returncode, result.stdout) == (2, ""), command
        assert f"no running daemon answers: unix:{workspace.path}/admin.sock" in result.stderr


def test_a_reload_waits_for_its_result(daemon):
    good = daemon.config
    daemon.write_config(merge(good, {"log": {"level": "debug"}}))
    done = control(daemon, "reload")
    assert (done.returncode, done.stdout, done.stderr) == (0, "reloaded\n", "")
    assert '"debug"' in control(daemon, "log-level").stdout
    daemon.write_config(merge(good, MISTAKE))
    refused = control(daemon, "reload")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert re.match(rf"{daemon.config_path}:\d+: error: cache.size: ", refused.stderr)
    assert "the previous one stays in use" in refused.stderr
    assert '"debug"' in control(daemon, "log-level").stdout
    daemon.write_config("cache: [")
    assert run_tool("reload", "--admin", good["admin"]["listen"]).returncode == 1
    daemon.write_config(good)
    assert control(daemon, "reload").returncode == 0
    assert '"info"' in control(daemon, "log-level").stdout


def test_a_reload_may_move_the_endpoint_and_says_what_cannot_be_bound(daemon, workspace):
    before = daemon.config["admin"]["listen"]
    moved = merge(daemon.config, {"admin": {"listen": f"unix:{workspace.path}/moved.sock"}})
    daemon.write_config(moved)
    # The file names the new address, at which nobody answers yet.
    done = control(daemon, "reload", "--admin", before)
    assert (done.returncode, done.stdout) == (0, "reloaded\n"), done.stderr
    assert control(daemon, "status").returncode == 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        daemon.write_config(merge(moved, {"server": {"listen": [*moved["server"]["listen"], taken]}}))
        unbound = control(daemon, "reload")
    assert unbound.returncode == 1 and taken in unbound.stderr and "cannot be used yet" in unbound.stderr


def test_a_reload_without_an_endpoint_checks_the_file_and_signals(workspace):
    daemon = workspace.daemon()  # admin.listen is off
    good = daemon.config
    position = daemon.log_position()
    daemon.write_config(merge(good, MISTAKE))
    refused = control(daemon, "reload", "--pid", daemon.pid)
    assert refused.returncode == 1 and "error: cache.size: " in refused.stderr
    daemon.write_config(merge(good, {"log": {"level": "debug"}}))
    done = control(daemon, "reload", "--pid", daemon.pid)
    assert (done.returncode, done.stdout) == (0, f"sent SIGHUP to process {daemon.pid}; the log has the result: no running daemon "
                                              "answers: admin.listen is off; give --admin ADDRESS\n")
    daemon.wait_for_log("configuration changed section=log", after=position)
    assert not any("reload failed" in line for line in daemon.process.log_lines())


def test_flushes_and_explains(daemon):
    for name in ("www.example.net.", "www.example.com."):
        daemon.ask(name)
    explained = control(daemon, "explain", "www.example.net", "A")
    assert "1 record" in explained.stdout and explained.stderr == "explained by the running daemon\n", explained
    assert json.loads(control(daemon, "flush", "www.example.net").stdout) == {"removed": 1}
    assert json.loads(control(daemon, "flush", "--zone", ".").stdout) == {"removed": 1}


def test_shows_the_cache(daemon):
    server = daemon.config["upstream"]["servers"][0]
    nothing = control(daemon, "cache", "www.example.net")
    assert (nothing.returncode, nothing.stdout.startswith("the cache has no such entry")) == (0, True)
    for name in ("www.example.net.", "www.example.com.", "absent.example.net."):
        daemon.ask(name)
    daemon.ask("www.example.net.", do=True)
    daemon.ask("www.example.net.", "TXT")
    shown = control(daemon, "cache", "WWW.example.net.")
    assert (shown.returncode, shown.stderr) == (0, "")
    plain, with_do, nodata = re.findall(r"^www.*(?:\n  .*)*", shown.stdout, re.M)
    assert re.fullmatch(rf"www.example.net. A: 1 record, for \d+ s more \(answered \d+ s ago by {server} over UDP\), \d+ bytes\n"
                        r"  www.example.net. \d+ IN A 192.0.2.80", plain)
    assert with_do.startswith("www.example.net. A DO: 1 record")
    assert nodata.startswith("www.example.net. TXT: no records of this type, for")
    below = json.loads(control(daemon, "cache", "--zone", "example.net", "--json").stdout)
    assert [(e["name"], e["type"], e["kind"], e["rcode"], e["server"]) for e in below["entries"]] == [
        ("absent.example.net.", "all", "negative", "NXDOMAIN", server), *(
            ("www.example.net.", kind, "positive" if kind == "A" else "negative", "NOERROR", server) for kind in ("A", "A", "TXT"))]
    assert (below["found"], below["complete"], below["enabled"]) == (4, True, True)
    sizes = [entry["bytes"] for entry in json.loads(control(daemon, "cache", "--top", "--json").stdout)["entries"]]
    assert len(sizes) == 5 and sizes == sorted(sizes, reverse=True)
    assert re.search(r"^positive: 3 entries, \d+ bytes, ", control(daemon, "cache").stdout, re.M)
    assert json.loads(control(daemon, "cache", "--json").stdout)["positive"]["entries"] == 3
    for wrong in (["www.example.net", "--top"], ["--zone", ".", "--top"], ["a.example.org", "--zone", "."]):
        assert control(daemon, "cache", *wrong).returncode == 2
    daemon.write_config(merge(daemon.config, {"cache": {"size": 0}}))
    assert control(daemon, "reload").returncode == 0
    for question in ([], ["--top"]):
        assert control(daemon, "cache", *question).stdout == "the cache is off (cache.size is 0)\n"


def commands():
    return re.findall(r"^  ([a-z-]+) ", run_tool("--help").stdout.split("Subcommands:")[1], re.M)


def test_every_command_prints_json(daemon, workspace):
    workspace.write("api.yaml", {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
                                 "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}})
    daemon.ask("www.example.net.")
    invocations = {
        "check": [[], [workspace.resources], ["--diff", workspace.resources, workspace.resources]],
        "explain": [["www.example.net"], ["www.example.net", "--offline"], ["--connect", "10.0.0.7:80"],
                    ["api.example.org", "--offline", "--from", "203.0.113.9"]],
        "status": [[]], "top": [[]], "reload": [[], ["--pid", daemon.pid]], "log-level": [[], ["info"]],
        "cache": [[], ["www.example.net"], ["--zone", "."], ["--top"]], "flush": [["www.example.net"], ["--zone", "."]],
        "dependencies": [[], ["--hidden"], ["--forget", "--all"]]}
    assert set(commands()) == {*invocations, "run", "help"}
    for command, each in invocations.items():
        for arguments in each:
            shown = control(daemon, command, "--json", *arguments)
            assert (shown.returncode, isinstance(json.loads(shown.stdout), dict)) == (0, True), (command, arguments, shown)
    daemon.write_config(merge(daemon.config, MISTAKE))
    refused = control(daemon, "reload", "--json")
    assert refused.returncode == 1 and "cache.size" in json.loads(refused.stdout)["findings"][0]
    offline = control(daemon, "reload", "--json", "--admin", "127.0.0.1:1", "--pid", daemon.pid)
    assert offline.returncode == 1 and "cache.size" in json.loads(offline.stdout)["findings"][0]


def test_changes_over_tcp_need_the_token(workspace):
    token = workspace.path / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}", "token_file": str(token)}})
    assert control(daemon, "log-level", "warn").returncode == 0
    other = workspace.path / "other"
    other.write_text("fedcba9876543210fedcba9876543210\n")
    for command in (["flush", "a.example.org"], ["reload"]):
        refused = control(daemon, *command, "--token-file", other)
        assert refused.returncode == 1 and "refused (401)" in refused.stderr, command
    assert control(daemon, "reload").returncode == 0


def test_a_list_has_a_socket_for_changes_and_a_port_for_readers(workspace):
    own, port = workspace.path / "admin.sock", f"127.0.0.1:{free_port()}"
    daemon = workspace.daemon({"admin": {"listen": [port, f"unix:{own}"]}})
    # Without the token, the port refuses what the socket takes.
    for command in (["flush", "a.example.org"], ["log-level", "warn"], ["reload"]):
        assert control(daemon, *command).returncode == 0, command
        refused = control(daemon, *command, "--admin", port)
        assert refused.returncode == 1 and "refused (403)" in refused.stderr, command
        assert control(daemon, "status", "--admin", port).returncode == 0
    assert control(daemon, "explain", "a.example.org").stderr == "explained by the running daemon\n"
    # The port answers if the socket does not.
    daemon.write_config(merge(daemon.config, {"admin": {"listen": [f"unix:{workspace.path}/none.sock", port]}}))
    assert control(daemon, "status").returncode == 0
    assert control(daemon, "explain", "a.example.org").stderr.startswith("explained from the files; no daemon to ask at unix:")
    # A reload opens and closes addresses, and keeps the others.
    assert control(daemon, "reload", "--admin", f"unix:{own}").returncode == 0
    assert not own.exists() and control(daemon, "flush", "--zone", ".").returncode == 0
    daemon.write_config(merge(daemon.config, {"admin": {"listen": [port, f"unix:{workspace.path}/no/such"]}}))
    refused = control(daemon, "reload", "--admin", f"unix:{workspace.path}/none.sock")
    assert refused.returncode == 1 and f"admin.listen: cannot bind unix:{workspace.path}/no/such" in refused.stderr
    assert control(daemon, "status").returncode == 0


def test_a_probe_says_one_line(workspace):
    own = f"unix:{workspace.path}/own.sock"
    daemon = workspace.daemon({"admin": {"listen": own}, "sources": [
        {"kubernetes": {"kubeconfig": str(workspace.path / "none")}}]})
    # The configuration is not read.
    daemon.config_path.write_text("admin: [")
    for options in (["--admin", own, "--config", daemon.config_path], ["--admin", own]):
        live, ready = (run_tool("status", question, *options) for question in ("--live", "--ready"))
        assert (live.returncode, live.stdout, live.stderr) == (0, "live\n", "")
        assert (ready.returncode, ready.stdout) == (1, "")
        assert re.fullmatch(r"not ready: kubernetes:.*: not read yet.*\n", ready.stderr), ready
    daemon.write_config(workspace.config({"admin": {"listen": own}}))
    assert control(daemon, "reload").returncode == 0
    eventually(lambda: control(daemon, "status", "--ready").returncode == 0)
    for wrong in (["--ready", "--live"], ["--ready", "--json"], ["--live", "--json"]):
        assert control(daemon, "status", *wrong).returncode == 2
    workspace.forget(daemon)
    daemon.stop()
    for question in ("--ready", "--live"):
        gone = run_tool("status", question, "--admin", own)
        assert (gone.returncode, gone.stdout) == (1, "") and gone.stderr.count("\n") == 1
        assert f"no running daemon answers: {own}" in gone.stderr
        assert run_tool("status", question, "--admin", "nonsense").returncode == 1


def test_a_probe_of_a_stopped_daemon_ends_before_the_kubelet_does(workspace):
    """Its limit is below timeoutSeconds of the manifests, 5 s, for all addresses together."""
    own, port = f"unix:{workspace.path}/own.sock", f"127.0.0.1:{free_port()}"
    daemon = workspace.daemon({"admin": {"listen": [port, own]}})
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        for question in ("--ready", "--live"):
            probe = run_tool("status", question, "--admin", own)
            assert (probe.returncode, probe.stdout) == (1, "")
            assert probe.stderr == f"meshdnsd: no running daemon answers: {own}: no reply within 3s\n"
            probe = control(daemon, "status", question)
            assert (probe.returncode, probe.stdout) == (1, "")
            assert probe.stderr == ("meshdnsd: no running daemon answers: "
                                    f"{own}: no reply within 1500ms; {port}: no reply within 1500ms\n")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert control(daemon, "status", "--ready").returncode == 0


class ReadOnlyRoot:
    """A root directory that cannot be written, with the program and its libraries and no shell: an image from scratch.  Only
    `shared` is as it is outside."""

    SCRIPT = 'mount --bind "$1" "$1" && mount --bind "$2" "$1$2" && mount -o remount,bind,ro "$1" && ' \
        'root=$1 && shift 2 && exec chroot "$root" /meshdnsd "$@"'

    def __init__(self, path, shared):
        self._root, self._shared = path, shared
        for file in re.findall(r"/\S+", subprocess.run(["ldd", binary()], check=True, capture_output=True, text=True).stdout):
            if os.path.isfile(file):
                self._copy(file, path / file.lstrip("/"))
        self._copy(binary(), path / "meshdnsd")
        (path / str(shared).lstrip("/")).mkdir(parents=True)

    @staticmethod
    def _copy(source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def command(self, *arguments):
        return ["unshare", "--mount", "sh", "-c", self.SCRIPT, "sh", str(self._root), str(self._shared), *map(str, arguments)]

    def run(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False, timeout=seconds(20))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or IS_SANITIZED, reason="needs root, and a program without a sanitizer")
def test_each_command_works_with_a_read_only_root_and_no_shell(workspace, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    root = ReadOnlyRoot(tmp_path / "root", shared)
    config = workspace.config({"admin": {"listen": [f"unix:{shared}/admin.sock"]}, "sources": []}, ["127.0.0.1:9"])
    path = shared / "meshdns.yaml"
    path.write_text(yaml.safe_dump(config))
    daemon = workspace.own_process(Process(root.command("run", "--config", path), "meshdnsd"))
    daemon.wait_for_line(r"\bready:", 15)
    for command in (["status"], ["status", "--ready"], ["status", "--live"], ["status", "--json"], ["reload"],
                    ["flush", "a.example.org"], ["flush", "--zone", "."], ["log-level"], ["log-level", "debug"],
                    ["top", "--once"], ["top", "--json"], ["cache"], ["cache", "--top"], ["check"], ["explain", "a.example.org"],
                    ["explain", "--offline", "a.example.org"], ["explain", "--connect", "10.0.0.1:80"]):
        done = root.run(*command, "--config", path)
        assert done.returncode == 0 and done.stdout, (command, done)
    assert "explained by the running daemon" in root.run("explain", "a.example.org", "--config", path).stderr
    assert daemon.stop(signal.SIGTERM) == 0


def test_lines_for_the_journal_have_a_priority_and_no_time(workspace):
    """Without the journal's socket they go to the stream that systemd reads."""
    daemon = workspace.daemon(prefix=["bash", "-c", 'JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec "$@"', "bash"])
    daemon.write_config(merge(daemon.config, MISTAKE))
    daemon.reload()
    line = daemon.wait_for_log("reload failed")
    assert line.startswith("<3>ERROR reload failed"), line
    assert any(line.startswith("<6>INFO ready: ") for line in daemon.process.log_lines())
