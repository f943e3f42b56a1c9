# SPDX-License-Identifier: Apache-2.0
"""A sentence that names a cause is true: each cause is made here, beside its neighbours."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

from harness.authority import Authority
from harness.daemon import binary, run_tool
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

NO_LISTENER = "Connection refused: no process listens"


def answered_by(say):
    """A server that sends `say` to one client."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        client, _ = server.accept()
        client.recv(1000)
        client.sendall(say)
        client.close()
    threading.Thread(target=serve, daemon=True).start()
    return server


def status_at(address):
    return run_tool("status", "--admin", address)


def test_says_why_nobody_answers_at_the_admin_endpoint(tmp_path):
    path = tmp_path / "admin.sock"
    port = free_port()

    def said(address):
        result = status_at(address)
        assert result.returncode == 2 and "localhost" not in result.stderr and "port 80" not in result.stderr, result
        return result.stderr
    assert said(f"unix:{path}") == f"meshdnsd: no running daemon answers: unix:{path}: No such file or directory\n"
    assert said(f"127.0.0.1:{port}") == f"meshdnsd: no running daemon answers: 127.0.0.1:{port}: {NO_LISTENER}\n"
    with socket.socket(socket.AF_UNIX) as left:  # by a process that has ended
        left.bind(str(path))
        left.close()
        assert said(f"unix:{path}") == f"meshdnsd: no running daemon answers: unix:{path}: {NO_LISTENER}\n"
    path.unlink()
    path.write_text("no socket\n")
    assert "Connection refused" in said(f"unix:{path}")
    # Somebody is there.
    with answered_by(b"220 mail.example.org\r\n") as server:
        assert "no process listens" not in said(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_says_that_the_admin_socket_is_for_others(workspace):
    with tempfile.TemporaryDirectory() as folder:  # those of pytest are for root alone
        os.chmod(folder, 0o755)
        path = f"{folder}/admin.sock"
        daemon = workspace.daemon({"admin": {"listen": f"unix:{path}"}})
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(binary())]
        result = subprocess.run([*as_nobody, "status", "--admin", f"unix:{path}"], capture_output=True, text=True, check=False,
                                cwd="/", timeout=seconds(20))
        assert result.returncode == 2
        assert result.stderr == (f"meshdnsd: no running daemon answers: unix:{path}: Permission denied: it is for root and the "
                                 "group meshdns\n")
        assert run_tool("status", "--config", daemon.config_path).returncode == 0
        # A configuration that only this user may not read does not keep the daemon from its start.
        private = pathlib.Path(folder, "private.yaml")
        private.write_text(f'admin: {{ listen: "unix:{folder}/none.sock" }}\n')
        private.chmod(0o600)
        result = subprocess.run([*as_nobody, "status", "--config", str(private)], capture_output=True, text=True, check=False,
                                cwd="/", timeout=seconds(20))
        assert result.returncode == 2 and "does not run" not in result.stderr, result.stderr
        assert result.stderr.startswith(f"meshdnsd: {private}: Permission denied\n")


def test_a_signal_in_place_of_a_request_has_its_reason(workspace):
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    done = run_tool("reload", "--config", daemon.config_path, "--pid", daemon.pid)
    assert (done.returncode, done.stdout) == (0, f"sent SIGHUP to process {daemon.pid}; the log has the result: a change over TCP "
                                              "needs the token of admin.token_file\n")


def test_a_file_that_is_too_large_has_its_true_limit(tmp_path):
    large = tmp_path / "large"
    large.write_text("x" * 5000)
    path = tmp_path / "meshdns.yaml"
    path.write_text(f"admin: {{ token_file: {large} }}\n")
    assert f"{large}: larger than 4 KiB\n" in run_tool("check", "--config", path).stdout


def test_says_what_the_configuration_has_against_a_start(tmp_path):
    def said(text, *command):
        path = tmp_path / "meshdns.yaml"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        result = run_tool(*command, "--config", path)
        assert result.returncode == 2
        return [line.replace(str(path), "PATH") for line in result.stderr.splitlines()]
    admin = f'admin: {{ listen: "unix:{tmp_path}/admin.sock" }}\n'
    last = f"meshdnsd: no running daemon answers: unix:{tmp_path}/admin.sock: No such file or directory"
    for command in (["status"], ["reload"], ["flush", "x.example.org"], ["log-level"], ["top", "--once"]):
        assert said(admin, *command) == [last]
        assert said(f"{admin}cache: {{ size: none }}\nbogus: 1\n", *command) == [
            'meshdnsd does not run: PATH:2: error: cache.size: "none" is not a size; write 64MiB, 512KiB, 1GiB or plain bytes',
            *said(f"{admin}\nbogus: 1\n", *command)]
    # The daemon may be at an address that the file had before.
    unknown = "meshdnsd may run at an address that cannot be read: PATH"
    for command in (["status"], ["reload"], ["flush", "x.example.org"], ["log-level"], ["top", "--once"]):
        assert said("", *command)[0] == f"{unknown}: error: is empty; for a configuration with all defaults, write a comment"
        assert said(None, *command)[0] == f"{unknown}: No such file or directory"
        assert said("admin: [\n", *command)[0].startswith(f"{unknown}:")
        assert said("admin: { listen: nonsense }\n", *command)[0].startswith(f"{unknown}:1: error: admin.listen: ")
        assert said("admin: { listne: 127.0.0.1:1 }\n", *command)[0].startswith(f"{unknown}:1: error: admin.listne: ")


def test_explain_tells_a_daemon_that_refuses_from_one_that_is_not_there(workspace):
    metrics = f"127.0.0.1:{free_port()}"
    daemon = workspace.daemon({"admin": {"listen": f"unix:{workspace.path}/admin.sock", "metrics_listen": metrics}})
    other = workspace.path / "other.yaml"
    other.write_text(f"admin: {{listen: '{metrics}'}}\n")
    refused = run_tool("explain", "--config", other, "www.example.org")
    assert f"the daemon at {metrics} refused (404): " in refused.stderr, refused.stderr
    assert "no daemon" not in refused.stderr and "status 404" not in refused.stderr
    workspace.forget(daemon)
    daemon.stop()
    alone = run_tool("explain", "--config", daemon.config_path, "www.example.org")
    assert f"no daemon to ask at unix:{workspace.path}/admin.sock: No such file or directory" in alone.stderr, alone.stderr


def kubeconfig(directory, context="here", cluster=(), user=()):
    path = directory / "kubeconfig"
    path.write_text(json.dumps({
        "current-context": context, "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{free_port()}", **dict(cluster)}}],
        "users": [{"name": "u", "user": dict(user)}]}))
    return path


# Faults of the access to the API server, and what the daemon says of them.
UNASKED = {
    "no kubeconfig": (lambda d: d / "missing", "{d}/missing: No such file or directory"),
    "a directory": (lambda d: d, "{d}: is not a regular file"),
    "no such context": (lambda d: kubeconfig(d, context="hre"), 'contexts: there is none named "hre"'),
    "no such authority": (lambda d: kubeconfig(d, cluster={"certificate-authority": "/nonexistent"}),
                          "cannot read /nonexistent: No such file or directory"),
    "no certificate": (lambda d: kubeconfig(d, cluster={"certificate-authority-data": "bm9uZQ=="}),
                       "certificate-authority-data: has no certificate in PEM"),
    "another key": (lambda d: kubeconfig(d, user={"client-certificate": str(d / "ca.crt"), "client-key": str(d / "other.key")}),
                    "{d}/other.key: is not the key of the certificate in {d}/ca.crt"),
    "no such token": (lambda d: kubeconfig(d, user={"tokenFile": "/nonexistent"}),
                      "the token file /nonexistent cannot be read: No such file or directory"),
}


@pytest.mark.parametrize("name", [*UNASKED, "nobody listens"])
def test_tells_a_server_that_is_not_asked_from_one_that_does_not_answer(workspace, name):
    directory = workspace.path
    if name == "another key":
        Authority(directory)
        Authority(directory, "other")
    make, message = UNASKED.get(name, (kubeconfig, None))
    path = make(directory)
    daemon = workspace.daemon({"sources": [{"kubernetes": {"kubeconfig": str(path)}}],
                               "admin": {"listen": f"unix:{directory}/admin.sock"}}, wait=False)
    said = "does not answer: " if message is None else "cannot be asked: "
    line = daemon.process.wait_for_line(f"the API server {said}", 15)
    assert (message or "").format(d=directory) in line, line
    lasting = "has not answered for" if message is None else "could not be asked for"
    eventually(lambda: lasting in run_tool("status", "--config", daemon.config_path).stdout, 15)
    if message is not None:  # the same as at the start
        checked = run_tool("check", "--config", daemon.config_path)
        assert checked.returncode == 1 and message.format(d=directory) in checked.stdout, checked.stdout


def test_names_a_tab_of_the_configuration(tmp_path):
    path = tmp_path / "meshdns.yaml"
    for text, line in (("server:\n\tworkers: 1\n", 2), ("server:\n  workers: 1\n\tnsid: x\n", 3)):
        path.write_text(text)
        result = run_tool("check", "--config", path)
        assert result.stdout.startswith(f"{path}:{line}: error: the line is indented with a tab; YAML allows spaces only\n"), result
    path.write_text("server:\n  workers: 1: 2\n")
    assert "with a tab" not in run_tool("check", "--config", path).stdout


def test_nothing_is_said_to_stay_in_use_that_never_was(workspace):
    workspace.write_text("broken.yaml", "kind: ServiceEntry\nspec: [")
    (workspace.resources / "dangling.yaml").symlink_to(workspace.path / "nothing")
    os.mkfifo(workspace.resources / "pipe.yaml")
    (workspace.resources / "large.yaml").write_text("# " + "x" * (65 << 20))
    missing = workspace.path / "missing"
    daemon = workspace.daemon({"admin": {"listen": f"unix:{workspace.path}/admin.sock"}, "sources": [
        {"files": {"path": str(workspace.resources)}}, {"files": {"path": str(missing)}}]})
    daemon.wait_for_log("not ready yet", 15)
    text = run_tool("status", "--config", daemon.config_path).stdout + daemon.process.log_tail(100)
    assert f"{missing} does not exist" in text and "dangling.yaml" in text and "large.yaml" in text, text
    assert "stays in use" in text and re.findall(r"last good [^;,]* stays? in use", text) == [], text
