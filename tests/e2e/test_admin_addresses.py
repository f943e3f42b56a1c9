# SPDX-License-Identifier: Apache-2.0
"""Addresses of the admin endpoints: which a start refuses, which it does without, and whom a command believes."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import tempfile

import pytest

from harness.daemon import merge, run_tool
from harness.ports import free_port
from harness.preset import THREADS
from harness.process import Process
from harness.waiting import eventually

pytestmark = THREADS

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}

# A start has one of these ends.
REFUSED, UNBOUND, SERVED = "the start is refused", "it serves without one of them", "it serves all"

# D: a directory; L: a link to it; P: a free port, S: that of server.listen.
TABLE = {
    "a file": (UNBOUND, {"listen": "unix:D/file"}),
    "a directory": (UNBOUND, {"listen": "unix:D/sub"}),
    "a dangling link": (UNBOUND, {"listen": "unix:D/dangling"}),
    "below a file": (UNBOUND, {"listen": "unix:D/file/admin.sock"}),
    "no directory": (UNBOUND, {"listen": "unix:D/none/admin.sock"}),
    "a good one beside a bad one": (UNBOUND, {"listen": ["unix:D/none/admin.sock", "unix:D/admin.sock"]}),
    "metrics without a directory": (UNBOUND, {"listen": "unix:D/a", "metrics_listen": "unix:D/none/b"}),
    "the address of another machine": (UNBOUND, {"listen": ["192.0.2.1:P", "unix:D/admin.sock"]}),
    "metrics at the address of another machine": (UNBOUND, {"listen": "unix:D/a", "metrics_listen": "192.0.2.1:P"}),
    "one path twice": (REFUSED, {"listen": ["unix:D/a", "unix:D/a"]}),
    "a detour": (REFUSED, {"listen": ["unix:D/a", "unix:D/sub/../a"]}),
    "a detour by nothing": (REFUSED, {"listen": ["unix:D/a", "unix:D/none/../a"]}),
    "a double slash": (REFUSED, {"listen": ["unix:D/a", "unix:D//a"]}),
    "a double slash at the beginning": (REFUSED, {"listen": ["unix:D/a", "unix:/D/a"]}),
    "a directory by its link": (REFUSED, {"listen": ["unix:D/a", "unix:L/a"]}),
    "two names by a link": (SERVED, {"listen": ["unix:D/a", "unix:L/b"]}),
    "one port twice": (REFUSED, {"listen": ["127.0.0.1:P", "127.0.0.1:P"]}),
    "all addresses": (REFUSED, {"listen": ["127.0.0.1:P", "0.0.0.0:P"]}),
    "all addresses first": (REFUSED, {"listen": ["0.0.0.0:P", "127.0.0.1:P"]}),
    "all IPv6 addresses": (REFUSED, {"listen": ["[::1]:P", "[::]:P"]}),
    "both families": (REFUSED, {"listen": ["[::]:P", "0.0.0.0:P"]}),
    "both families beside one address": (REFUSED, {"listen": ["[::]:P", "127.0.0.1:P"]}),
    "two addresses": (SERVED, {"listen": ["127.0.0.1:P", "127.0.0.2:P"]}),
    "one address for each family": (SERVED, {"listen": ["0.0.0.0:P", "[::1]:P"]}),
    "any port twice": (SERVED, {"listen": "127.0.0.1:0", "metrics_listen": "127.0.0.1:0"}),
    "metrics at the same port": (REFUSED, {"listen": "127.0.0.1:P", "metrics_listen": "127.0.0.1:P"}),
    "metrics at all addresses": (REFUSED, {"listen": "127.0.0.1:P", "metrics_listen": "[::]:P"}),
    "metrics at the same path": (REFUSED, {"listen": "unix:D/a", "metrics_listen": "unix:L/a"}),
    "the port of DNS": (REFUSED, {"listen": "127.0.0.1:S"}),
    "the port of DNS at all addresses": (REFUSED, {"listen": "0.0.0.0:S"}),
    "metrics at the port of DNS": (REFUSED, {"listen": "127.0.0.1:P", "metrics_listen": "0.0.0.0:S"}),
    "the port of DNS at another address": (SERVED, {"listen": "127.0.0.2:S"}),
    "the path of the handover": (REFUSED, {"listen": "unix:D/handover.sock"}),
}


def admin_config(row, directory, config):
    """The section `row` with the paths and ports of this test."""
    port = config["server"]["listen"][0].rpartition(":")[2]
    link = directory.parent / "link"
    text = json.dumps(row).replace(":P", f":{free_port()}").replace(":S", f":{port}")
    return json.loads(text.replace("unix:/D", f"unix:/{directory}").replace("unix:D", f"unix:{directory}")
                      .replace("unix:L", f"unix:{link}"))


def became_of(daemon):
    """Returns the end of a start."""
    line = daemon.process.wait_for_line(r"\bready:|error: ", 15)
    if "error: " in line:
        assert daemon.process.wait(15) == 78
        return REFUSED
    failures = [line for line in daemon.process.log_lines() if "listen: cannot bind" in line]
    return UNBOUND if failures else SERVED


def became_of_check(path):
    """Returns the end of a start as `meshdnsd check` foresees it."""
    result = run_tool("check", "--config", path)
    findings = [line for line in result.stdout.splitlines() if "admin." in line]
    if result.returncode == 1:
        assert len(findings) == 1 and ": error: admin." in findings[0], result.stdout
        return REFUSED
    assert result.returncode == 0 and "error:" not in result.stdout, result.stdout
    return UNBOUND if findings else SERVED


@pytest.mark.parametrize("name", TABLE)
def test_check_foresees_what_becomes_of_the_addresses(workspace, name):
    expected, row = TABLE[name]
    directory = workspace.path / "directory"
    (directory / "sub").mkdir(parents=True)
    (directory / "file").write_text("precious\n")
    (directory / "dangling").symlink_to(directory / "nothing")
    (workspace.path / "link").symlink_to(directory)
    config = workspace.config()
    config["admin"] = admin_config(row, directory, config)
    if "handover" in name:
        config["server"]["handover"] = f"{directory}/handover.sock"
    daemon = workspace.daemon(config, wait=False)
    # At the same time as the start, and while it has the addresses.
    assert became_of_check(daemon.config_path) == expected
    assert became_of(daemon) == expected, daemon.process.log_tail()
    assert became_of_check(daemon.config_path) == expected
    assert (directory / "file").read_text() == "precious\n" and (directory / "dangling").is_symlink()
    if expected == REFUSED:
        workspace.forget(daemon)


def unbound(document):
    """The reasons of a page /readyz."""
    return [reason for reason in document["reasons"] if reason.startswith("not bound: ")]


@contextlib.contextmanager
def socket_of_nobody(path):
    """Another user listens at the path, and says nothing."""
    script = "import signal, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); " \
        "print('bound', flush=True); signal.pause()"
    process = Process(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script, path], "nobody",
                      cwd="/")
    try:
        process.wait_for_line("bound")
        yield process
    finally:
        process.kill()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_a_path_that_another_user_has_keeps_no_daemon_from_its_start(workspace):
    workspace.write("api.yaml", API)
    with tempfile.TemporaryDirectory() as folder:  # those of pytest are for root alone
        os.chmod(folder, 0o1777)
        path, port = f"{folder}/admin.sock", f"127.0.0.1:{free_port()}"
        with socket_of_nobody(path):
            daemon = workspace.daemon({"admin": {"listen": [f"unix:{path}", port]}}, upstreams=[workspace.upstream()])
            daemon.wait_for_log(rf"ERROR admin\.listen: cannot bind unix:{path}: Address already in use")
            assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
            shown = run_tool("status", "--json", "--config", daemon.config_path)
            assert shown.returncode == 0, shown.stderr
            readiness = json.loads(shown.stdout)["readiness"]
            assert len(unbound(readiness)) == 1 and path in unbound(readiness)[0]
            assert readiness["effects"] == ["some addresses are not served"]
            # It is not taken for the daemon.
            for command in (["status"], ["status", "--ready"], ["reload"], ["flush", "--zone", "."]):
                refused = run_tool(*command, "--admin", f"unix:{path}")
                assert refused.returncode in (1, 2) and refused.stdout == "", refused
                assert f"unix:{path}: is not asked: the process there is of user 65534, who is neither root nor meshdns nor you, " \
                    "and every user may write to a directory of the path\n" in refused.stderr, refused.stderr
        # It has gone: the daemon takes the path.
        eventually(lambda: run_tool("status", "--admin", f"unix:{path}").returncode == 0, 15)
        daemon.config = merge(daemon.config, {"admin": {"listen": port}})
        eventually(lambda: unbound(daemon.get_json("/readyz")) == [])
        workspace.forget(daemon)
        daemon.stop()


def test_the_only_address_comes_when_it_can(workspace):
    workspace.write("api.yaml", API)
    path = workspace.path / "later" / "admin.sock"
    daemon = workspace.daemon({"admin": {"listen": f"unix:{path}"}}, upstreams=[workspace.upstream()])
    daemon.wait_for_log(rf"ERROR admin\.listen: cannot bind unix:{path}: No such file or directory")
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    path.parent.mkdir()
    eventually(lambda: run_tool("status", "--config", daemon.config_path).stdout.startswith("ready\n"), 15)


def test_keys_exchange_their_ports_in_one_reload(workspace):
    workspace.write("api.yaml", API)
    ports = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    upstream = workspace.upstream()

    def with_ports(admin, metrics, server):
        return workspace.config({"admin": {"listen": admin, "metrics_listen": metrics}, "server": {"listen": [server]}}, [upstream])
    daemon = workspace.daemon(with_ports(*ports))
    for order in ((1, 0, 2), (2, 0, 1), (1, 2, 0)):
        daemon.write_config(with_ports(*(ports[i] for i in order)))
        daemon.reload()
        host, _, port = daemon.config["server"]["listen"][0].rpartition(":")
        daemon.server = (host, int(port))

        def has_moved():
            with contextlib.suppress(OSError):
                # Both addresses have /readyz, whichever of the keys has them.
                return daemon.get("/status")[0] == 200 and daemon.get_json("/readyz") == {"ready": True, "reasons": []} and \
                    run_tool("status", "--ready", "--admin", daemon.config["admin"]["metrics_listen"]).returncode == 0
            return False
        eventually(has_moved, 20)
        for transport in ("udp", "tcp"):
            assert daemon.ask("api.example.org.", "A", transport).addresses() == ["10.0.0.7"]


def test_a_client_of_an_address_that_stays_hears_through_reloads(workspace):
    """From one address to several and back."""
    workspace.write("api.yaml", API)
    port = free_port()
    one, several = f"127.0.0.1:{port}", [f"unix:{workspace.path}/a", f"127.0.0.1:{port}", f"unix:{workspace.path}/b"]
    daemon = workspace.daemon({"admin": {"listen": one}})
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as watch:
        connection.sendall(b"GET /registry/services?watch HTTP/1.0\r\nHost: localhost\r\n\r\n")
        while b"api.example.org" not in watch.readline():
            pass
        for number, listen in enumerate((several, one)):
            daemon.write_config(merge(daemon.config, {"admin": {"listen": listen}}))
            daemon.reload()
            eventually(lambda there=listen is several: pathlib.Path(several[0].removeprefix("unix:")).exists() == there)
            host = f"new-{number}.example.org"
            workspace.write(f"{host}.yaml", merge(API, {"metadata": {"name": host}, "spec": {"hosts": [host]}}))
            while host.encode() not in (line := watch.readline()):
                assert line, "the stream has ended"
            assert run_tool("status", "--config", daemon.config_path).returncode == 0


def test_two_daemons_at_one_path_serve_it_in_turn(workspace):
    path = f"unix:{workspace.path}/admin.sock"
    first, second = (workspace.daemon({"admin": {"listen": path}}) for _ in range(2))
    second.wait_for_log(rf"ERROR admin\.listen: cannot bind {path}: Address already in use")

    def process_there():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path.removeprefix("unix:"))
            return int.from_bytes(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
    assert process_there() == first.pid
    workspace.forget(first)
    first.stop()

    def is_of_second():
        with contextlib.suppress(OSError):
            return process_there() == second.pid
        return False
    eventually(is_of_second, 15)
    assert run_tool("status", "--config", second.config_path).returncode == 0
