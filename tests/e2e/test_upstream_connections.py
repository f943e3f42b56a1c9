# SPDX-License-Identifier: Apache-2.0
"""Upstream connections that accept, say nothing and end: the daemon outlives them, and each client has its answer."""

import socket

import dns.message
import pytest

from harness.kube_api import make_certificates
from harness.ports import free_port
from harness.preset import THREADS
from harness.waiting import eventually

pytestmark = THREADS

ANY_NAME = ["*.example.test. 300 A 192.0.2.1"]
ROUNDS = 4


def admin():
    return {"listen": f"127.0.0.1:{free_port()}"}


def fails_and_lives(daemon):
    """Each question is answered, with SERVFAIL, and the daemon goes on."""
    for i in range(ROUNDS):
        assert daemon.ask(f"n{i}.example.test.", "A", timeout=6).rcode == "SERVFAIL"
    assert daemon.ask("localhost.", "A").addresses() == ["127.0.0.1"]
    assert daemon.get("/healthz")[0] == 200


@pytest.mark.slow("two rounds of the upstream's time limits")
@pytest.mark.parametrize("handshake", [True, False], ids=["after the handshake", "without a handshake"])
@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
def test_a_silent_tls_upstream_that_ends_its_connections(workspace, handshake, reset):
    certificates = make_certificates(workspace.path)
    when = {} if handshake else {"on": "accept"}
    server = workspace.upstream(certificates=certificates, rules=[{**when, "hang": 1.5, "reset": reset}])
    daemon = workspace.daemon({"upstream": {"tls": {"ca_file": str(certificates[0])}}, "admin": admin()},
                              upstreams=[server])
    fails_and_lives(daemon)
    eventually(lambda: server.ended >= 1, 10)
    fails_and_lives(daemon)


@pytest.mark.parametrize("hang", [1.2, 1.5, 1.8])
@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
def test_truncation_and_then_silence_over_tcp(workspace, hang, reset):
    upstream = workspace.upstream(ANY_NAME, [{"transport": "udp", "truncate": True},
                                             {"transport": "tcp", "hang": hang, "reset": reset}])
    daemon = workspace.daemon({"admin": admin()}, upstreams=[upstream])
    fails_and_lives(daemon)
    assert [each for each in upstream.received() if each.transport == "tcp"]


def test_one_client_cannot_take_all_of_a_tls_upstream(workspace):
    """800 queries fit on the connections of a worker: fewer than one client may have waiting."""
    certificates = make_certificates(workspace.path)
    upstream = workspace.upstream(ANY_NAME, [{"match": "*.silent.test.", "silent": True}], certificates=certificates)
    daemon = workspace.daemon({"upstream": {"tls": {"ca_file": str(certificates[0])}, "timeout": "4s"},
                               "server": {"workers": 1}}, upstreams=[upstream.server])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as greedy:
        greedy.bind(("127.0.0.9", 0))
        for i in range(1500):
            greedy.sendto(dns.message.make_query(f"n{i}.silent.test.", "A").to_wire(), daemon.server)
        eventually(lambda: len(upstream.received()) >= 300, 5)
        for i in range(20):
            answer = daemon.ask(f"n{i}.example.test.", "A", timeout=3)
            assert answer.addresses() == ["192.0.2.1"], answer.rcode
