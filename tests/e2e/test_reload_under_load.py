# SPDX-License-Identifier: Apache-2.0
"""Two hundred reloads under load, fewer under a sanitizer: no query lost, no wrong answer."""

import math
import threading
import time

import dns.message
import pytest

from harness.daemon import merge
from harness.dns_client import Question, frame, open_tcp, open_udp, read_frame
from harness.dnsperf import Dnsperf, rate_to_keep, write_queries
from harness.preset import THREADS, fewer
from harness.waiting import eventually, seconds

pytestmark = THREADS

RELOADS = max(40, fewer(200))
HOSTS = 200
MOST_QUERIES_PER_SECOND = 3000


def stable(i):
    return {"kind": "ServiceEntry", "metadata": {"name": f"stable-{i}"},
            "spec": {"hosts": [f"stable-{i}.example.org"], "addresses": [f"10.1.0.{i + 1}"],
                     "resolution": "STATIC"}}


def moving(generation):
    """An entry whose address tells the generation, and bystanders that come and go with it."""
    return [{"kind": "ServiceEntry", "metadata": {"name": "moving"},
             "spec": {"hosts": ["moving.example.org"], "resolution": "STATIC",
                      "addresses": [f"10.2.{generation // 250}.{generation % 250 + 1}"]}},
            *[{"kind": "ServiceEntry", "metadata": {"name": f"g{generation}-{i}"},
               "spec": {"hosts": [f"g{generation}-{i}.example.org"], "addresses": ["10.3.0.1"],
                        "resolution": "STATIC"}} for i in range(20)]]


class Checker:
    """Asks without pause and keeps what was wrong: a lost query, or an answer that no generation gave."""

    def __init__(self, server, transport):
        self.problems = []
        self.asked = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server, transport))
        self._thread.start()

    def stop(self):
        self._stopping.set()
        self._thread.join()

    def _run(self, server, transport):
        socket = open_udp(server) if transport == "udp" else open_tcp(server)
        socket.settimeout(seconds(5))
        last = 0
        with socket:
            while not self._stopping.is_set() and not self.problems:
                i = self.asked % HOSTS
                self._expect(socket, transport, f"stable-{i}.example.org.", f"10.1.0.{i + 1}")
                last = self._expect_not_older(socket, transport, last)

    def _exchange(self, socket, transport, name):
        query = Question(name).to_message()
        try:
            if transport == "udp":
                socket.send(query.to_wire())
                wire = socket.recv(4096)
            else:
                socket.sendall(frame(query.to_wire()))
                wire = read_frame(socket)
        except OSError as error:
            self.problems.append(f"{name} over {transport}: {error!r}")
            return []
        self.asked += 1
        if wire is None:
            self.problems.append(f"{name} over {transport}: the connection was closed")
            return []
        answer = dns.message.from_wire(wire)
        if answer.id != query.id or answer.question != query.question:
            self.problems.append(f"{name} over {transport}: an answer to something else: {answer}")
        return [rdata.address for rrset in answer.answer for rdata in rrset]

    def _expect(self, socket, transport, name, address):
        found = self._exchange(socket, transport, name)
        if found != [address] and not self.problems:
            self.problems.append(f"{name} over {transport}: {found}, not {address}")

    def _expect_not_older(self, socket, transport, last):
        found = self._exchange(socket, transport, "moving.example.org.")
        if self.problems:
            return last
        octets = found[0].split(".") if len(found) == 1 else []
        generation = int(octets[2]) * 250 + int(octets[3]) - 1 if octets[:2] == ["10", "2"] else -1
        # Two workers may see a new snapshot a moment apart, and one client may reach both.
        if generation < last - 1:
            self.problems.append(f"moving.example.org. over {transport}: {found} after generation {last}")
        return max(last, generation)


@pytest.mark.slow("two hundred reloads")
def test_two_hundred_reloads_lose_no_query_and_give_no_wrong_answer(workspace, tmp_path):
    workspace.write("stable.yaml", *[stable(i) for i in range(HOSTS)])
    workspace.write("moving.yaml", *moving(0))
    daemon = workspace.daemon({"mesh": {"ttl": {"vip": 1}}}, upstreams=[workspace.upstream()])
    write_queries(tmp_path / "queries", [f"stable-{i}.example.org" for i in range(HOSTS)])
    # Paced, so that it does not take the machine from the daemon.
    rate = rate_to_keep(daemon.server, tmp_path / "queries", 200, MOST_QUERIES_PER_SECOND)
    load = workspace.own(Dnsperf(daemon.server, tmp_path / "queries", rate, "-l", 300, "-c", 8, "-t", math.ceil(seconds(5))))
    checkers = [Checker(daemon.server, transport) for transport in ("udp", "tcp")]
    try:
        for i in range(1, RELOADS + 1):
            if i % 2:  # a file
                workspace.write("moving.yaml", *moving(i))
                wanted = [f"10.2.{i // 250}.{i % 250 + 1}"]
                eventually(lambda: daemon.ask("moving.example.org.").addresses() == wanted, 3, 0.002)
            else:  # the configuration, by SIGHUP
                daemon.write_config(merge(daemon.config, {"mesh": {"ttl": {"vip": i}}}))
                daemon.reload()
                eventually(lambda: daemon.ask("moving.example.org.").section("answer")[0][1] == i, 3, 0.002)
            assert not any(checker.problems for checker in checkers)
        # A storm of signals on top, which may be coalesced.
        for _ in range(50):
            daemon.reload()
            time.sleep(0.002)
    finally:
        for checker in checkers:
            checker.stop()
        result = load.stop()
    assert [p for checker in checkers for p in checker.problems] == []
    assert all(checker.asked > RELOADS for checker in checkers)
    assert result["lost"] == 0, load.output
    assert result["noerror"] == result["completed"] > rate / 4, load.output
