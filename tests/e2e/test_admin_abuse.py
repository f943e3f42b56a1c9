# SPDX-License-Identifier: Apache-2.0
"""The admin endpoint under clients that mean harm, and while the control thread is busy."""

import contextlib
import http.client
import json
import random
import re
import socket
import string
import threading
import time

import pytest

from harness.memory import MEBIBYTE, resident
from harness.ports import free_port
from harness.preset import IS_RELEASE, THREADS, at_most, fewer
from harness.supervisor import HangingThread
from harness.waiting import eventually, seconds

pytestmark = THREADS

CLIENTS = 400  # more than the endpoint holds
CHECKS = 100 if IS_RELEASE else 20  # a check waits for its turn behind all clients
MOST_CHECKS = 1  # seconds, as a probe of Kubernetes waits


def entries(count):
    return [{"kind": "ServiceEntry", "metadata": {"name": f"api-{i}", "namespace": "shop"},
             "spec": {"hosts": [f"api-{i}.example.org"], "addresses": [f"10.0.{i // 250}.{i % 250 + 1}"],
                      "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}
            for i in range(count)]


class SlowClients:
    """Clients that each hold a connection for as long as they can, and connect anew when it ends."""

    def __init__(self, daemon, count, begin, step):
        host, port = daemon.config["admin"]["listen"].rsplit(":", 1)
        self._address = (host, int(port))
        self._begin, self._step = begin, step
        self._sockets = [None] * count
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.connections = 0

    def _connect(self):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(1)
        client.connect(self._address)
        client.sendall(self._begin)
        client.setblocking(False)
        self.connections += 1
        return client

    def _run(self):
        while not self._done.is_set():
            for i, client in enumerate(self._sockets):
                try:
                    if client is None:
                        self._sockets[i] = self._connect()
                    elif self._step:
                        client.send(self._step)
                except BlockingIOError:
                    pass
                except OSError:
                    if client is not None:
                        client.close()
                    self._sockets[i] = None
            self._done.wait(0.02)

    def __enter__(self):
        self._thread.start()
        eventually(lambda: self.connections >= len(self._sockets), 10)
        return self

    def __exit__(self, *unused):
        self._done.set()
        self._thread.join()
        for client in self._sockets:
            if client is not None:
                client.close()


def check_times(daemon, path="/healthz"):
    """How long checks take, each on a connection of its own, sorted."""
    host, port = daemon.config["admin"]["listen"].rsplit(":", 1)
    times = []
    for _ in range(CHECKS):
        start = time.monotonic()
        connection = http.client.HTTPConnection(host, int(port), timeout=seconds(5))
        connection.request("GET", path)
        assert connection.getresponse().status == 200
        connection.close()
        times.append(time.monotonic() - start)
    return sorted(times)


@pytest.mark.timing
@pytest.mark.parametrize("begin, step", [
    pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"x", id="headers"),
    pytest.param(b"", b"", id="silent"),
    pytest.param(b"POST /cache/flush?zone=. HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", b"x", id="body"),
    pytest.param(b"GET /registry/services HTTP/1.1\r\nHost: localhost\r\n\r\n", b"", id="never-reads"),
    pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200, b"GET ", id="pipelines"),
])
def test_slow_clients_do_not_stop_health_checks(workspace, begin, step):
    workspace.write("many.yaml", *entries(2_000))
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    before = resident(daemon.pid)
    with SlowClients(daemon, CLIENTS, begin, step):
        for path in ("/healthz", "/readyz"):
            times = check_times(daemon, path)
            print(f"{path}: median {times[CHECKS // 2] * 1e3:.1f} ms, worst {times[-1] * 1e3:.1f} ms")
            assert times[CHECKS * 99 // 100 - 1] < at_most(MOST_CHECKS), f"{path}: {times[-5:]}"
        assert resident(daemon.pid) < before + at_most(100 * MEBIBYTE)
    assert daemon.ask("api-1.example.org.").addresses() == ["10.0.0.2"]
    eventually(lambda: daemon.get("/metrics")[0] == 200)


def test_a_spare_connection_is_no_slow_one(workspace):
    """Browsers open a connection before they need it."""
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    host, port = daemon.config["admin"]["listen"].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(seconds(30))
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b"", "it is closed in the end"
    assert "meshdns_admin_overdue_total 0" in daemon.get("/metrics")[1]
    assert "took too long" not in "\n".join(daemon.process.log_lines())


@pytest.mark.timing
def test_a_slow_request_ends_after_two_seconds(workspace):
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    host, port = daemon.config["admin"]["listen"].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(seconds(10))
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        start = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""
        assert 1.5 < time.monotonic() - start < at_most(3)
    daemon.wait_for_log("closed a connection that took too long")


def requests_for_the_control_thread(daemon):
    """Sockets with more requests than may wait for it."""
    waiting = [socket.create_connection(tuple(daemon.admin_url[7:].split(":"))) for _ in range(30)]
    for client in waiting:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return waiting


@pytest.mark.timing
def test_health_checks_do_not_wait_for_the_control_thread(workspace):
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    with contextlib.ExitStack() as held:
        held.enter_context(HangingThread(daemon.pid))
        for client in requests_for_the_control_thread(daemon):
            held.enter_context(client)
        times = check_times(daemon)
        assert times[CHECKS * 99 // 100 - 1] < at_most(MOST_CHECKS), times[-5:]


@pytest.mark.slow("the daemon's own limit of 30 s")
def test_health_is_answered_while_the_control_thread_hangs(workspace):
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    with HangingThread(daemon.pid):
        start = time.monotonic()
        waiting = requests_for_the_control_thread(daemon)
        check_times(daemon)
        assert daemon.get("/readyz")[0] == 200
        for client in waiting:
            client.settimeout(seconds(15))
            assert client.recv(100).startswith(b"HTTP/1.1 503 ")
            client.close()
        # A thread that is dead and not only busy is said, within 30 s and a second check.
        eventually(lambda: daemon.get("/healthz")[0] == 503, 40, 0.5)
        assert time.monotonic() - start > 25
        assert re.fullmatch(r"the control thread has been silent for \d+ s\n", daemon.get("/healthz")[1])
    eventually(lambda: daemon.get("/healthz") == (200, "ok\n"))


def test_explanations_for_random_clients_leave_nothing_behind(workspace):
    workspace.write("entries.yaml", *entries(10),
                    {"kind": "Sidecar", "metadata": {"name": "default", "namespace": "istio-system"},
                     "spec": {"egress": [{"hosts": ["./*", "shop/*"]}]}})
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    host, port = daemon.config["admin"]["listen"].rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=seconds(5))

    def explain(count):
        for _ in range(count):
            ns = "".join(random.choices(string.ascii_lowercase, k=60))
            connection.request("GET", f"/explain?name=api-1.example.org&type=A&from={ns}")
            response = connection.getresponse()
            text = response.read()
            assert response.status == 200 and ns.encode() in text

    explain(fewer(2_000))
    before = resident(daemon.pid)
    explain(6_000 if IS_RELEASE else 500)
    # Each of them kept 400 bytes and more: together more than the limit.
    assert resident(daemon.pid) < before + at_most(2 * MEBIBYTE)


def test_the_token_allows_changes_over_tcp(workspace):
    token = workspace.path / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    workspace.write("entries.yaml", *entries(1))
    address = f"127.0.0.1:{free_port()}"
    daemon = workspace.daemon({"admin": {"listen": address}})
    host, port = address.rsplit(":", 1)

    def post(path, **headers):
        connection = http.client.HTTPConnection(host, int(port), timeout=seconds(5))
        connection.request("POST", path, headers=headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    good = "Bearer 0123456789abcdef0123456789abcdef"
    for path in ("/cache/flush?zone=.", "/log/level?level=debug"):
        for headers in ({}, {"Authorization": good}):
            status, text = post(path, **headers)
            assert status == 403 and "admin.token_file" in text
    assert daemon.get_json("/log/level") == {"level": "info"}
    daemon.write_config({**daemon.config, "admin": {"listen": address, "token_file": str(token)}})
    daemon.reload()
    eventually(lambda: post("/cache/flush?zone=.", Authorization=good)[0] == 200)
    assert post("/log/level?level=debug", Authorization=good)[0] == 200
    for headers in ({}, {"Authorization": "Bearer 0123456789abcdef"}, {"Authorization": good[:-1] + "e"},
                    {"Authorization": "Basic " + good}):
        assert post("/log/level?level=info", **headers)[0] == 401, headers
    # A page from elsewhere does not get so far, token or not.
    assert post("/log/level?level=info", Authorization=good, Origin="http://example.org")[0] == 403
    assert daemon.get_json("/log/level") == {"level": "debug"}
    assert "0123456789abcdef" not in daemon.get("/config")[1] + daemon.get("/status")[1] + daemon.process.log_tail(500)


def test_the_unix_socket_needs_no_token(workspace):
    path = workspace.path / "admin.sock"
    daemon = workspace.daemon({"admin": {"listen": f"unix:{path}"}})
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds(5))
        client.connect(str(path))
        client.sendall(b"POST /cache/flush?zone=. HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with client.makefile("rb") as response:
            text = response.read()
    assert text.startswith(b"HTTP/1.1 200 ") and json.loads(text.split(b"\r\n\r\n")[1]) == {"removed": 0}
    daemon.wait_for_log("cache flushed")


@pytest.mark.parametrize("request_text, status", [
    (b"GET http://example.org/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
    (b"GET /healthz HTTP/1.1\r\nHost: [::1].evil.com\r\n\r\n", b"403"),
    (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1.evil.com\r\n\r\n", b"403"),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost:80@evil.com\r\n\r\n", b"403"),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\n\r\n", b"400"),
    (b"GET /healthz HTTP/1.1\r\n\r\n", b"400"),
    (b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
    (b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
    (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"413"),
    (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"4"),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-Y: z\r\n" * 4_000 + b"\r\n", b"4"),
    (b"NONSENSE\r\n\r\n", b""),
])
def test_odd_requests_get_an_error_and_the_next_one_an_answer(workspace, request_text, status):
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    host, port = daemon.config["admin"]["listen"].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(seconds(5))
        text = b""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            client.sendall(request_text)
            text = client.recv(100)
        if text or status in (b"200", b"403", b"404", b"405", b"413"):
            assert text.startswith(b"HTTP/1.1 " + status), text
    assert daemon.get("/healthz") == (200, "ok\n")
