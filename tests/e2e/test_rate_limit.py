# SPDX-License-Identifier: Apache-2.0
"""server.rate_limit: the answers to a client over its limit."""

import re
import socket

import dns.flags
import dns.message
import pytest

from harness.ports import free_port
from harness.preset import THREADS
from harness.waiting import eventually, seconds

pytestmark = THREADS

ENTRY = {"kind": "ServiceEntry", "metadata": {"name": "api"},
         "spec": {"hosts": ["api.example.org"], "addresses": ["192.0.2.1"], "resolution": "STATIC"}}
QUERIES = 300


@pytest.fixture
def start(workspace):
    workspace.write("api.yaml", ENTRY)

    def start(**limit):
        return workspace.daemon({"server": {"workers": 1, "rate_limit": limit},
                                 "admin": {"listen": f"127.0.0.1:{free_port()}"}})
    return start


def flood(daemon, source, count=QUERIES):
    """Sends `count` queries at once; (answered, truncated) of what comes back."""
    answered = truncated = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        udp.bind((source, 0))
        query = dns.message.make_query("api.example.org.", "A").to_wire()
        for _ in range(count):
            udp.sendto(query, daemon.server)
        udp.settimeout(seconds(0.5))
        while True:
            try:
                answer = dns.message.from_wire(udp.recv(4096))
            except TimeoutError:
                return answered, truncated
            if answer.flags & dns.flags.TC:
                assert not answer.answer
                truncated += 1
            else:
                assert answer.answer[0][0].address == "192.0.2.1"
                answered += 1


def metric(daemon, action):
    text = daemon.get("/metrics")[1]
    return float(re.search(rf'^meshdns_dns_rate_limited_total{{action="{action}"}} (\S+)$', text, re.M).group(1))


def test_a_flood_gets_its_rate_and_every_second_of_the_rest_truncated(start):
    daemon = start(responses_per_second=20, slip=2)
    answered, truncated = flood(daemon, "127.0.0.2")
    # One second's worth at once, and what the seconds of sending added.
    assert 20 <= answered < QUERIES / 2
    assert abs(truncated - (QUERIES - answered) / 2) <= 1
    assert metric(daemon, "truncate") == truncated
    assert metric(daemon, "drop") == QUERIES - answered - truncated
    daemon.wait_for_log(r"a client is over server.rate_limit.*client=127\.0\.0\.2")

    # Others do not notice, nor does who comes over TCP.
    assert daemon.ask("api.example.org.", source="127.0.0.3").addresses() == ["192.0.2.1"]
    for _ in range(50):
        assert daemon.ask("api.example.org.", transport="tcp", source="127.0.0.2").addresses() == ["192.0.2.1"]
    # After a second or so it is answered again.
    eventually(lambda: flood(daemon, "127.0.0.2", 1) == (1, 0), 10)


def test_without_slip_the_rest_is_dropped(start):
    answered, truncated = flood(start(responses_per_second=20, slip=0), "127.0.0.2")
    assert 20 <= answered < QUERIES / 2 and truncated == 0


def test_a_network_is_one_client(start):
    daemon = start(responses_per_second=20, slip=0, ipv4_prefix=24)
    answered = sum(flood(daemon, f"127.0.9.{i}", 60)[0] for i in (1, 2))
    assert answered < 120
    assert flood(daemon, "127.0.8.1", 10) == (10, 0)


def test_off_by_default(start):
    daemon = start()
    assert flood(daemon, "127.0.0.2") == (QUERIES, 0)
    assert metric(daemon, "drop") == metric(daemon, "truncate") == 0


def test_a_reload_turns_it_on_and_off(start):
    daemon = start()
    config = daemon.config
    position = daemon.log_position()
    daemon.write_config({**config, "server": {**config["server"], "rate_limit": {"responses_per_second": 20, "slip": 1}}})
    daemon.reload()
    daemon.wait_for_log("configuration changed.*server", after=position)
    eventually(lambda: flood(daemon, "127.0.0.2")[1] > 0)
    position = daemon.log_position()
    daemon.write_config(config)
    daemon.reload()
    daemon.wait_for_log("configuration changed.*server", after=position)
    eventually(lambda: flood(daemon, "127.0.0.2") == (QUERIES, 0))
