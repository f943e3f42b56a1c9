# SPDX-License-Identifier: Apache-2.0
"""A daemon takes over the sockets of the one that runs, and no query is lost (server.handover)."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from harness.daemon import run_tool
from harness.dns_client import Question, ask, frame, open_tcp, read_frame
from harness.ports import free_port
from harness.preset import DEEP, IS_RELEASE, THREADS
from harness.waiting import eventually, seconds

pytestmark = THREADS

NAME = "api.example.org."
API = {"kind": "ServiceEntry", "metadata": {"name": "api"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}
GREETING = b"meshdns-handover 1"


class Clients:
    """Ask without pause, and never a second time: a query without an answer is lost."""

    def __init__(self, server):
        self.server, self.lost, self.reconnected = server, [], 0
        kinds = (self._udp, self._udp_from_new_ports, self._tcp, self._tcp_connections)
        self._asked = {kind.__name__: 0 for kind in kinds}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(kind,)) for kind in kinds]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count=50):
        """Waits until each client has got so many answers more."""
        before = dict(self._asked)
        eventually(lambda: all(self._asked[kind] > before[kind] + count for kind in before), 10)

    def report(self):
        return f"{len(self.lost)} of {sum(self._asked.values())} lost: {self.lost[:5]}"

    def _run(self, kind):
        query = Question(NAME).to_message()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.connect(self.server)
            udp.settimeout(seconds(4))
            self_tcp = [None]
            while not self._over.is_set():
                query.id = (query.id + 1) % 65536
                wire = query.to_wire()
                try:
                    reply = kind(wire, udp, self_tcp)
                    assert reply and reply[:2] == wire[:2] and bytes([10, 0, 0, 7]) in reply, reply
                except (OSError, AssertionError) as failure:
                    self.lost.append(f"{kind.__name__}: {failure!r}")
                self._asked[kind.__name__] += 1
                time.sleep(0.001)
            if self_tcp[0]:
                self_tcp[0].close()

    def _udp(self, wire, udp, _):
        udp.send(wire)
        return udp.recv(4096)

    def _udp_from_new_ports(self, wire, *_):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.settimeout(seconds(4))
            udp.sendto(wire, self.server)
            return udp.recv(4096)

    def _tcp_connections(self, wire, *_):
        with open_tcp(self.server) as tcp:
            tcp.sendall(frame(wire))
            return read_frame(tcp)

    def _tcp(self, wire, _, kept):
        """One connection for many queries.  A server may close it; then the client asks over another one (RFC 7766,
        section 6.2.4)."""
        if kept[0]:
            try:
                kept[0].sendall(frame(wire))
                if reply := read_frame(kept[0]):
                    return reply
            except ConnectionError:
                pass
            kept[0].close()
            self.reconnected += 1
        kept[0] = open_tcp(self.server)
        kept[0].sendall(frame(wire))
        return read_frame(kept[0])


class Node:
    """The daemons of one node: one configuration, started several times."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.server = ("127.0.0.1", free_port())
        self.directory = workspace.path / "handover"
        self.directory.mkdir(mode=0o755)
        self.socket = self.directory / "handover.sock"
        self.admin = f"127.0.0.1:{free_port()}"
        workspace.write("api.yaml", API)

    def start(self, server=None, wait=True, prefix=(), **change):
        settings = {"server": {"listen": [f"{self.server[0]}:{self.server[1]}"], "handover": str(self.socket), **(server or {})},
                    "admin": {"listen": self.admin}, **change}
        return self.workspace.daemon(settings, upstreams=["127.0.0.1:9"], wait=wait, prefix=prefix)

    def start_with_own_socket(self, name, **change):
        """A daemon whose probes have a Unix socket of its own, and another one at the path that all daemons have."""
        own = self.workspace.path / f"own-{name}"
        own.mkdir(exist_ok=True)
        listen = [f"unix:{own}/admin.sock", f"unix:{self.workspace.path}/admin.sock", self.admin]
        return self.start(**{"wait": True, **change, "admin": {"listen": listen}})

    def start_one_that_waits(self):
        """It has a source that cannot be read."""
        daemon = self.start(wait=False, sources=[{"files": {"path": str(self.workspace.resources)}},
                                                 {"kubernetes": {"kubeconfig": str(self.workspace.path / "none")}}])
        daemon.wait_for_log("another daemon runs; it answers until this one has read all sources", 10)
        return daemon

    def end(self, daemon):
        self.workspace.forget(daemon)
        daemon.stop()

    def kill(self, daemon):
        self.workspace.forget(daemon)
        daemon.kill()

    def answers(self):
        for transport in ("udp", "tcp"):
            assert ask(self.server, Question(NAME), transport).addresses() == ["10.0.0.7"]


@pytest.fixture
def node(workspace):
    return Node(workspace)


HAS_TAKEN_OVER = "the next daemon answers; this one waits for SIGTERM"


def test_no_query_is_lost_by_upgrades(node):
    """Also with another number of workers: some then have several sockets, or two have the same."""
    daemon = node.start({"workers": 2})
    with Clients(node.server) as clients:
        for workers in (1, 3, 2) if IS_RELEASE else (1, 2):
            successor = node.start({"workers": workers})
            daemon.wait_for_log(HAS_TAKEN_OVER)
            clients.wait_for_more()
            node.end(daemon)
            clients.wait_for_more()
            daemon = successor
    assert not clients.lost, clients.report()
    assert clients.reconnected >= 1, "the connections of the old daemons ended"
    assert daemon.get("/readyz")[0] == 200


def test_a_roll_back_loses_no_query(node):
    """The new daemon gets SIGTERM while the old one is still there."""
    first = node.start()
    with Clients(node.server) as clients:
        second = node.start()
        first.wait_for_log(HAS_TAKEN_OVER)
        clients.wait_for_more()
        node.end(second)
        first.wait_for_log("the next daemon has ended; answering again")
        clients.wait_for_more()
        eventually(lambda: first.get("/readyz")[0] == 200, 10)
        third = node.start()
        position = first.log_position()
        node.end(first)
        third.wait_for_log("the daemon that this one has replaced has ended")
        clients.wait_for_more()
    assert position > 0 and not clients.lost, clients.report()


def test_the_old_daemon_serves_on_if_the_new_one_is_killed(node):
    first = node.start()
    with Clients(node.server) as clients:
        node.kill(node.start_one_that_waits())
        first.wait_for_log("the next daemon ended before it answered; this one goes on")
        clients.wait_for_more()
        assert not clients.lost, clients.report()
        second = node.start()
        first.wait_for_log(HAS_TAKEN_OVER)
        node.kill(second)
        first.wait_for_log("the next daemon has ended; answering again")
        clients.wait_for_more()
        # Nothing but what the dead process had read: each client has one query in flight.
        assert len(clients.lost) <= 4, clients.report()
    eventually(lambda: first.get("/readyz")[0] == 200, 10)


def test_the_new_daemon_serves_if_the_old_one_is_killed(node):
    first = node.start()
    second = node.start()
    first.wait_for_log(HAS_TAKEN_OVER)
    with Clients(node.server) as clients:
        clients.wait_for_more()
        node.kill(first)
        second.wait_for_log("the daemon that this one has replaced has ended")
        clients.wait_for_more()
    # A TCP client asks again over a new connection.
    assert not clients.lost, clients.report()
    # Without the sockets, the next one opens its own.
    third = node.start_one_that_waits()
    node.kill(second)
    third.wait_until_ready()
    third.wait_for_log("does not hand over its sockets; opening new ones.*it closed the connection")
    node.answers()


def test_a_new_daemon_that_cannot_start_changes_nothing(node):
    daemon = node.start()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as taken, Clients(node.server) as clients:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        other = f"127.0.0.1:{taken.getsockname()[1]}"
        for broken, status in (({"server": {"no_such_key": 1}}, 78),
                               ({"server": {"listen": [f"{node.server[0]}:{node.server[1]}", other]}}, 1)):
            failing = node.start(**broken, wait=False)
            node.workspace.forget(failing)
            assert failing.process.wait(20) == status, failing.process.log_tail()
            clients.wait_for_more()
        daemon.wait_for_log("the next daemon ended before it answered")
    assert not clients.lost, clients.report()
    assert daemon.get("/readyz")[0] == 200


def test_other_addresses_are_opened_and_old_ones_end_with_the_old_daemon(node):
    old, new = free_port(), free_port()
    common = f"127.0.0.1:{node.server[1]}"
    first = node.start({"listen": [common, f"127.0.0.1:{old}"]})
    second = node.start({"listen": [common, f"127.0.0.1:{new}"]})
    second.wait_for_log(rf"listens on other addresses; opening those that it does not have.*handed_over=\"?{common}")
    node.end(first)
    second.wait_for_log("the daemon that this one has replaced has ended")
    node.answers()
    assert ask(("127.0.0.1", new), Question(NAME)).addresses() == ["10.0.0.7"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old), 5)


def test_sigterm_waits_for_the_next_daemon_if_it_is_there(node):
    """Kubernetes may end the old Pod before the new one is ready."""
    first = node.start()
    waiting = node.start_one_that_waits()
    first.process.send_signal(signal.SIGTERM)
    first.wait_for_log("the next daemon is not ready yet; waiting for it")
    assert first.get("/readyz")[0] == 503
    node.answers()
    node.end(waiting)
    node.workspace.forget(first)
    assert first.process.wait(10) == 0
    assert not any("took over" in line for line in waiting.process.log_lines())


def test_connections_end_when_they_are_idle(node):
    first = node.start()
    wire = Question(NAME).to_message().to_wire()
    with open_tcp(node.server) as tcp:
        def ask_over_it():
            tcp.sendall(frame(wire))
            reply = read_frame(tcp)
            assert reply and bytes([10, 0, 0, 7]) in reply
        ask_over_it()
        node.start()
        first.wait_for_log(HAS_TAKEN_OVER)
        first.process.send_signal(signal.SIGTERM)
        first.wait_for_log("stopping")
        for _ in range(10):
            ask_over_it()  # a daemon that ends without another one closes it after the first answer
            time.sleep(0.02)
        assert read_frame(tcp) is None, "the end of the connection, without a reset"
    node.workspace.forget(first)
    assert first.process.wait(10) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to create a network namespace")
def test_sockets_of_another_network_namespace_are_refused(node):
    first = node.start()
    second = node.start(wait=False, prefix=("unshare", "--net"))
    second.wait_for_log("opening new ones.*its sockets belong to another network namespace")
    second.wait_until_ready()
    first.wait_for_log("the next daemon ended before it answered; this one goes on")
    node.answers()


class Impostor:
    """Accepts at the path of the handover and sends `greeting`, or nothing."""

    def __init__(self, path, greeting):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(path))
        self._socket.listen()
        self._greeting = greeting
        self._connections = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        try:
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                if self._greeting:
                    connection.send(self._greeting)
        except OSError:
            pass

    def close(self):
        for closing in [*self._connections, self._socket]:
            closing.close()


@pytest.mark.parametrize("greeting,reason", [
    (b"", "no answer within 5 s"),
    (b"meshdns-handover 9", "it speaks another version of the handover"),
    (b"busy: another process is taking over", "another process is taking over"),
], ids=["silent", "another version", "busy"])
def test_the_new_daemon_says_why_it_opens_its_own_sockets(node, greeting, reason):
    node.workspace.own(Impostor(node.socket, greeting))
    daemon = node.start(wait=False)
    daemon.wait_for_log(f"cannot take over the sockets of the daemon that runs; opening new ones.*{reason}", 10)
    daemon.wait_until_ready()
    node.answers()


def test_sockets_that_are_not_those_of_the_address_are_refused(node):
    """The new daemon ends, and answers nothing from them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening, socket.socket(socket.AF_INET) as strange:
        strange.bind(("127.0.0.1", 0))
        strange.listen()
        listening.bind(str(node.socket))
        listening.listen()
        daemon = node.start(wait=False)
        node.workspace.forget(daemon)
        node.workspace.own_process(daemon.process)
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(seconds(10))
            connection.send(GREETING)
            address = f"{node.server[0]}:{node.server[1]}"
            assert connection.recv(4096).decode() == f"sockets\n{address}"
            socket.send_fds(connection, [address.encode()], [strange.fileno()])
            connection.send(b"end")
            assert connection.recv(4096) == b""
        assert daemon.process.wait(10) == 1
        assert "are not those of " + address in daemon.process.log_tail()


def greeting_of(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(seconds(5))
        client.connect(str(path))
        return client.recv(4096)


def test_garbage_and_a_second_process_change_nothing(node):
    daemon = node.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(str(node.socket))
        assert client.recv(4096) == GREETING
        assert greeting_of(node.socket) == b"busy: another process is taking over"
        client.send(b"serving")  # without the sockets
        assert client.recv(4096) == b""
    daemon.wait_for_log("the next daemon ended before it answered")
    assert not any(HAS_TAKEN_OVER in line for line in daemon.process.log_lines())
    eventually(lambda: greeting_of(node.socket) == GREETING)
    node.answers()


def test_a_directory_that_others_can_write_to_is_not_used(node):
    node.directory.chmod(0o777)
    daemon = node.start()
    daemon.wait_for_log(f"no later daemon can take over from this one.*other users can write to the directory {node.directory}")
    assert not node.socket.exists()
    eventually(lambda: "other users can write to the directory" in daemon.get("/readyz")[1])
    node.answers()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_another_user_gets_no_sockets(node):
    daemon = node.start()
    assert node.socket.stat().st_mode & 0o777 == 0o600
    node.socket.chmod(0o666)  # somebody else's mistake: the daemon looks at the peer itself
    for directory in [node.directory, *node.directory.parents]:
        if directory.stat().st_mode & 0o001 == 0:
            directory.chmod(directory.stat().st_mode | 0o011)
    script = ("import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(20);"
              "s.connect(sys.argv[1]); print(s.recv(4096))")
    seen = subprocess.run([sys.executable, "-c", script, str(node.socket)], user=65534, group=65534, extra_groups=[],
                          capture_output=True, text=True, check=False, cwd="/", timeout=seconds(30))
    assert seen.stdout.strip() in ("b''", "") and GREETING.decode() not in seen.stdout, seen
    daemon.wait_for_log("refused to hand the sockets over.*runs as user 65534")
    assert greeting_of(node.socket) == GREETING


def probe(daemon, question):
    """Exit status and text, as the kubelet gets them."""
    done = run_tool("status", question, "--admin", daemon.config["admin"]["listen"][0], "--config", "/nonexistent")
    assert (done.stdout + done.stderr).count("\n") == 1, done
    return done.returncode, done.stdout + done.stderr


def test_each_daemon_has_probes_of_its_own(node):
    """A new daemon that never becomes ready says so itself, and the one that answers does not hear of it."""
    first = node.start_with_own_socket("first")
    assert probe(first, "--ready") == (0, "ready\n") and probe(first, "--live") == (0, "live\n")
    waiting = node.start_with_own_socket("second", wait=False, sources=[
        {"kubernetes": {"kubeconfig": str(node.workspace.path / "none")}}])
    waiting.wait_for_log("still reading the sources; the other daemon answers meanwhile", 30)
    assert probe(waiting, "--live") == (0, "live\n")
    code, text = probe(waiting, "--ready")
    assert code == 1 and re.match(r"not ready: kubernetes:.*not read yet", text), text
    # The path that both have leads to the one that answers.
    assert run_tool("status", "--ready", "--admin", first.config["admin"]["listen"][1]).returncode == 0
    with Clients(node.server) as clients:
        clients.wait_for_more()
        assert probe(first, "--ready")[0] == 0
        node.kill(waiting)
        first.wait_for_log("the next daemon ended before it answered")
        clients.wait_for_more()
    assert not clients.lost, clients.report()
    assert [probe(waiting, question)[0] for question in ("--live", "--ready")] == [1, 1]
    assert probe(first, "--ready")[0] == 0


@DEEP
@pytest.mark.slow("a silence of the control thread counts after 30 s")
def test_a_daemon_that_waits_long_lives(node):
    node.start_with_own_socket("first")
    waiting = node.start_with_own_socket("second", wait=False, sources=[
        {"kubernetes": {"kubeconfig": str(node.workspace.path / "none")}}])
    waiting.wait_for_log("still reading the sources; the other daemon answers meanwhile", 30)
    until = time.monotonic() + 35
    while time.monotonic() < until:
        assert probe(waiting, "--live") == (0, "live\n")
        time.sleep(0.5)


def test_a_daemon_that_has_handed_over_lives_and_is_not_ready(node):
    first = node.start_with_own_socket("first")
    shared = first.config["admin"]["listen"][1]
    second = node.start_with_own_socket("second")
    first.wait_for_log(HAS_TAKEN_OVER)
    eventually(lambda: probe(first, "--ready") == (1, "not ready: the next daemon answers in place of this one\n"), 10)
    assert probe(first, "--live")[0] == 0 and probe(second, "--ready")[0] == 0
    # The path and the port that both have lead to the one that answers.
    assert [run_tool("status", "--ready", "--admin", each).returncode for each in (shared, node.admin)] == [0, 0]
    node.end(second)
    first.wait_for_log("the next daemon has ended; answering again")
    eventually(lambda: probe(first, "--ready")[0] == 0, 10)
    for each in (shared, node.admin):
        eventually(lambda each=each: run_tool("status", "--ready", "--admin", each).returncode == 0, 10)
    third = node.start_with_own_socket("third")
    first.wait_for_log(HAS_TAKEN_OVER, after=first.log_position() - 1)
    node.end(first)
    third.wait_for_log("the daemon that this one has replaced has ended")
    assert probe(third, "--ready")[0] == 0 and run_tool("status", "--ready", "--admin", shared).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to create a namespace of processes")
def test_a_path_leads_to_the_next_daemon_also_from_another_pod(node):
    """Containers do not see each other's processes."""
    first = node.start_with_own_socket("first")
    shared = first.config["admin"]["listen"][1]
    second = node.start_with_own_socket("second", prefix=("unshare", "--pid", "--fork", "--kill-child"))
    first.wait_for_log(HAS_TAKEN_OVER)
    eventually(lambda: run_tool("status", "--ready", "--admin", shared).returncode == 0, 10)
    assert probe(first, "--ready")[0] == 1 and probe(second, "--ready")[0] == 0
    node.kill(second)
    first.wait_for_log("the next daemon has ended; answering again")
    eventually(lambda: run_tool("status", "--ready", "--admin", shared).returncode == 0, 10)
    assert probe(first, "--ready")[0] == 0


def test_a_daemon_that_waits_shows_each_page_and_takes_no_reload(node):
    node.start_with_own_socket("first")
    waiting = node.start_with_own_socket("second", wait=False, sources=[
        {"kubernetes": {"kubeconfig": str(node.workspace.path / "none")}}])
    waiting.wait_for_log("still reading the sources; the other daemon answers meanwhile", 30)
    own = waiting.config["admin"]["listen"][0]
    for command in (["status", "--json"], ["top", "--json"], ["flush", "--zone", "."], ["log-level", "debug"]):
        done = run_tool(*command, "--admin", own)
        assert done.stdout.startswith("{"), done
    refused = run_tool("reload", "--admin", own)
    assert refused.returncode == 1 and "the daemon is starting" in refused.stderr, refused
    for page in ("/", "/metrics", "/status", "/registry/services", "/registry/findings", "/changes", "/resolver", "/cache",
                 "/config", "/explain?name=a.example.org", "/reload"):
        done = subprocess.run(["curl", "-sS", "-f", "-o", "/dev/null", "--unix-socket", own.removeprefix("unix:"),
                               f"http://localhost{page}"], capture_output=True, text=True, timeout=seconds(10), check=False)
        assert done.returncode == 0, (page, done.stderr)
