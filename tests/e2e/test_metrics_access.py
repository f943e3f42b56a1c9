# SPDX-License-Identifier: Apache-2.0
"""TLS and passwords of admin.metrics_listen."""

import base64
import contextlib
import http.client
import json
import random
import shutil
import socket
import ssl
import threading
import time
import warnings

import pytest
import yaml

from harness.authority import Authority
from harness.daemon import merge, run_tool
from harness.ports import free_port
from harness.preset import THREADS, at_most
from harness.process import Process
from harness.waiting import eventually, seconds

pytestmark = [THREADS, pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")]

NAME = "subjectAltName=IP:127.0.0.1"
PASSWORD = "correct horse"
# As `htpasswd -nB -C 4 prometheus` prints it.
FAST = "prometheus:$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e"
# With the usual cost of 10: a check takes 60 ms and more.
SLOW = "prometheus:$2b$10$abcdefghijklmnopqrstuu23JPZtHcGhwXSF41f93o/7vBdDut3Xu"
# As `openssl passwd -6` prints it.
OTHER_PASSWORD = "battery staple"
OTHER = ("prometheus:$6$saltsalt$CYKCUk3wfgAfOLU1N7LBdAOcnz7MHa8PPC6Qvzg2SE3emUjQnShp9I47xqbIijxhGRW/PXlgS02HgDVtAuivQ/")


class Scraped:
    """A daemon with an address for metrics, and the files that protect it."""

    def __init__(self, workspace):
        self.workspace, self.port = workspace, free_port()
        self.authority = Authority(workspace.path)
        self.cert_file, self.key_file = workspace.path / "metrics.crt", workspace.path / "metrics.key"
        self.password_file = workspace.path / "passwords"
        self.tls = {"metrics_cert_file": str(self.cert_file), "metrics_key_file": str(self.key_file)}
        self.passwords = {"metrics_password_file": str(self.password_file)}

    def start(self, **admin):
        self.daemon = self.workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}",
                                                       "metrics_listen": f"127.0.0.1:{self.port}", **admin}},
                                            upstreams=[self.workspace.upstream([])])
        return self

    def new_certificate(self, name="metrics-1"):
        cert, key = self.authority.issue(name, NAME)
        cert.rename(self.cert_file)
        key.rename(self.key_file)

    def connect(self, **options):
        context = ssl.create_default_context(cafile=self.authority.certificate)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=seconds(10), context=context, **options)

    def get(self, path="/metrics", password=None, user="prometheus", over=None):
        """(status, headers, text)"""
        headers = {}
        if password is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        connection = over or self.connect()
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        answer = response.status, response.headers, response.read().decode()
        if not over:
            connection.close()
        return answer

    def status(self, *arguments, **options):
        return self.get(*arguments, **options)[0]

    def subject(self):
        connection = self.connect()
        connection.connect()
        certificate = connection.sock.getpeercert()
        connection.close()
        return dict(pair for (pair,) in certificate["subject"])["commonName"]

    def degraded(self):
        return self.daemon.get_json("/readyz").get("degraded", [])


@pytest.fixture
def scraped(workspace):
    return Scraped(workspace)


def test_serves_over_tls_only_to_clients_with_the_password(scraped):
    scraped.new_certificate()
    scraped.password_file.write_text(f"# of the monitoring\n\n{FAST}\nother{OTHER[10:]}\n")
    scraped.start(**scraped.tls, **scraped.passwords)
    status, headers, _ = scraped.get()
    assert status == 401 and headers["WWW-Authenticate"].startswith('Basic realm="meshdns"')
    for refused in ({"password": "wrong"}, {"password": ""}, {"password": PASSWORD, "user": "nobody"},
                    {"password": OTHER_PASSWORD}, {"password": PASSWORD, "user": "other"}):
        assert scraped.status(**refused) == 401, refused
    assert scraped.status(password=OTHER_PASSWORD, user="other") == 200
    status, _, text = scraped.get(password=PASSWORD)
    assert status == 200 and "meshdns_ready 1" in text
    with contextlib.closing(scraped.connect()) as connection:  # one connection, several requests
        assert [scraped.status(password=p, over=connection) for p in (PASSWORD, "wrong", PASSWORD)] == [200, 401, 200]
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        plain = http.client.HTTPConnection("127.0.0.1", scraped.port, timeout=seconds(5))
        plain.request("GET", "/healthz")
        plain.getresponse()
    scraped.daemon.wait_for_log("admin.metrics_listen: refused a wrong user name or password")


def test_probes_need_no_password(scraped):
    """A kubelet sends none, and does not check the certificate."""
    scraped.new_certificate()
    scraped.password_file.write_text(FAST)
    scraped.start(**scraped.tls, **scraped.passwords)
    assert scraped.get("/healthz")[::2] == (200, "ok\n")
    status, _, text = scraped.get("/readyz")
    assert status == 200 and json.loads(text)["ready"]


def test_old_versions_of_tls_are_refused(scraped):
    scraped.new_certificate()
    scraped.start(**scraped.tls)
    for version, is_served in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                               (ssl.TLSVersion.TLSv1_3, True)):
        context = ssl.create_default_context(cafile=scraped.authority.certificate)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):
            context.minimum_version, context.maximum_version = version, version
        with socket.create_connection(("127.0.0.1", scraped.port), timeout=seconds(10)) as client:
            try:
                with context.wrap_socket(client, server_hostname="127.0.0.1") as session:
                    assert is_served and session.version() == version.name.replace("_", ".")
            except ssl.SSLError:
                assert not is_served, version


def test_takes_over_a_certificate_that_was_renewed(scraped):
    scraped.new_certificate()
    scraped.start(**scraped.tls)
    assert scraped.subject() == "metrics-1"
    scraped.new_certificate("metrics-2")
    eventually(lambda: scraped.subject() == "metrics-2", 10, 0.1)
    # The wrong key: the daemon keeps what it has, and says so.
    _, key = scraped.authority.issue("stranger", NAME)
    good = scraped.key_file.read_bytes()
    key.rename(scraped.key_file)
    complaint = f"{scraped.key_file}: is not the key of the first certificate in {scraped.cert_file}"
    scraped.daemon.wait_for_log("cannot use a changed file of admin.metrics_listen; the previous one stays in use", 10)
    eventually(lambda: scraped.degraded() == [f"admin.metrics_cert_file: {complaint}; the previous files stay in use"])
    assert scraped.subject() == "metrics-2"
    scraped.key_file.write_bytes(good)
    eventually(lambda: not scraped.degraded(), 10, 0.1)


def test_takes_over_passwords_that_were_changed(scraped):
    scraped.new_certificate()
    scraped.password_file.write_text(FAST)
    scraped.start(**scraped.tls, **scraped.passwords)
    assert scraped.status(password=PASSWORD) == 200
    scraped.password_file.write_text(OTHER)
    eventually(lambda: scraped.status(password=OTHER_PASSWORD) == 200, 10, 0.1)
    assert scraped.status(password=PASSWORD) == 401
    scraped.password_file.write_text("prometheus:secret")
    eventually(lambda: scraped.degraded(), 10, 0.1)
    assert scraped.degraded() == [
        f"admin.metrics_password_file: {scraped.password_file}: line 1: the hash is neither bcrypt nor SHA-512 crypt; make it "
        "with `htpasswd -nB NAME`; the previous files stay in use"]
    assert scraped.status(password=OTHER_PASSWORD) == 200


def test_a_missing_file_closes_the_address_and_takes_no_dns_away(scraped):
    scraped.start(**scraped.tls)
    assert scraped.daemon.ask("localhost.").addresses() == ["127.0.0.1"]
    (reason,) = eventually(scraped.degraded, 10, 0.1)
    assert reason == (f"admin.metrics_cert_file: {scraped.cert_file}: No such file or directory; "
                      "admin.metrics_listen is closed")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", scraped.port)).close()
    scraped.new_certificate()
    eventually(lambda: not scraped.degraded(), 10, 0.1)
    assert scraped.status() == 200


def test_a_reload_turns_tls_on_and_off(scraped):
    scraped.start()
    config = scraped.daemon.config

    def plain_status():
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", scraped.port, timeout=seconds(5))) as connection:
            try:
                connection.request("GET", "/healthz")
                return connection.getresponse().status
            except (ConnectionError, http.client.HTTPException):
                return None

    def tls_status():
        try:
            return scraped.status("/healthz")
        except (ConnectionError, ssl.SSLError):
            return None
    assert plain_status() == 200
    scraped.new_certificate()
    scraped.daemon.write_config(merge(config, {"admin": scraped.tls}))
    scraped.daemon.reload()
    eventually(lambda: tls_status() == 200, 5)
    assert plain_status() is None
    scraped.daemon.write_config(config)
    scraped.daemon.reload()
    eventually(lambda: plain_status() == 200, 5)


@pytest.mark.timing
def test_clients_without_a_handshake_or_a_password_hold_up_nobody(scraped):
    """Silent ones, ones that send rubbish, and more wrong passwords than may wait."""
    scraped.new_certificate()
    scraped.password_file.write_text(SLOW)
    scraped.start(**scraped.tls, **scraped.passwords)
    assert scraped.status(password=PASSWORD) == 200
    outcomes, lock = [], threading.Lock()

    def guess():
        for number in range(3):
            with contextlib.suppress(OSError, http.client.HTTPException):
                status = scraped.status(password=f"guess {number}")
                with lock:
                    outcomes.append(status)
    guessing = [threading.Thread(target=guess) for _ in range(24)]
    with contextlib.ExitStack() as held:
        for number in range(60):
            source = (f"127.0.0.{2 + number % 2}", 0)  # one address has 32 connections at most
            client = held.enter_context(socket.create_connection(("127.0.0.1", scraped.port), source_address=source))
            client.sendall(random.randbytes(20) if number % 3 == 0 else b"\x16\x03\x01\x02\x00" if number % 3 == 1 else b"")
        for thread in guessing:
            thread.start()
        while any(thread.is_alive() for thread in guessing):
            begin = time.monotonic()
            assert scraped.status("/healthz") == 200
            assert scraped.status(password=PASSWORD) == 200, "who was right before waits for nobody"
            assert time.monotonic() - begin < at_most(3)
        assert set(outcomes) <= {401, 503} and outcomes.count(401) > 3
        # All of them are gone after two seconds.
        client.settimeout(seconds(10))
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_a_client_with_connections_without_end_takes_none_of_others(scraped, tls):
    """Silent ones, ones that send an octet now and then, and handshakes that end early, all from one address."""
    scraped.new_certificate()
    scraped.start(**(scraped.tls if tls else {}))
    greedy = ("127.0.0.2", 0)

    def status_of(connection):
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        response.read()
        return response.status

    def connect():
        if tls:
            return scraped.connect()
        return http.client.HTTPConnection("127.0.0.1", scraped.port, timeout=seconds(10))

    with contextlib.ExitStack() as held:
        kept = held.enter_context(contextlib.closing(connect()))
        assert status_of(kept) == 200
        begin, silent = time.monotonic(), []
        while time.monotonic() - begin < 1.5:
            with contextlib.suppress(OSError):
                client = held.enter_context(socket.create_connection(("127.0.0.1", scraped.port), source_address=greedy))
                client.sendall(b"G" if len(silent) % 3 == 0 else b"\x16\x03\x01\x02\x00\x01\x00" if len(silent) % 3 == 1 else b"")
                if len(silent) % 3 == 2:
                    client.shutdown(socket.SHUT_WR)
                silent.append(client)
            for one in silent[-40::7]:
                with contextlib.suppress(OSError):
                    one.sendall(b"E")
            if len(silent) % 20 == 0:
                assert status_of(kept) == 200, "the connection of another client stays"
                with contextlib.closing(connect()) as fresh:
                    assert status_of(fresh) == 200
        assert len(silent) > 32 + 20


def test_a_certificate_needs_its_key(workspace):
    config = workspace.path / "half.yaml"
    config.write_text(json.dumps({"admin": {"metrics_cert_file": "/etc/meshdns/metrics.crt"}}))
    result = run_tool("check", "--config", config)
    assert result.returncode == 1
    assert "metrics_cert_file and metrics_key_file go together" in result.stdout + result.stderr


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs the package prometheus")
def test_prometheus_scrapes_over_tls_with_a_password(scraped):
    scraped.new_certificate()
    scraped.password_file.write_text(SLOW)
    scraped.start(**scraped.tls, **scraped.passwords)
    web, path = free_port(), scraped.workspace.path
    job = {"static_configs": [{"targets": [f"127.0.0.1:{scraped.port}"]}], "scheme": "https",
           "tls_config": {"ca_file": str(scraped.authority.certificate)}}
    login = {"basic_auth": {"username": "prometheus", "password": PASSWORD}}
    config = path / "prometheus.yaml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [
        {"job_name": "right", **job, **login}, {"job_name": "nobody", **job}]}))
    scraped.workspace.own_process(Process(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={path / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{web}"], "prometheus"))

    def up():
        connection = http.client.HTTPConnection("127.0.0.1", web, timeout=seconds(5))
        try:
            connection.request("GET", "/api/v1/query?query=up")
            result = json.load(connection.getresponse())["data"]["result"]
        except (OSError, ValueError, KeyError):
            return None
        finally:
            connection.close()
        return {series["metric"]["job"]: series["value"][1] for series in result}
    eventually(lambda: up() == {"right": "1", "nobody": "0"}, 20, 0.2)
