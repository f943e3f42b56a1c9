# SPDX-License-Identifier: Apache-2.0
"""A worker that hangs costs its share of the queries and no more, and the log reports it."""

import contextlib
import re
import select
import time

from harness.dns_client import Question, open_udp
from harness.ports import free_port
from harness.preset import THREADS
from harness.supervisor import HangingThread, threads
from harness.waiting import eventually, seconds

pytestmark = THREADS

API = {"kind": "ServiceEntry", "metadata": {"name": "api"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}
CLIENTS = 200


def answers_of(server, clients):
    """How many of so many sockets get an answer.  The kernel deals them to the workers by their ports."""
    question = Question("api.example.org.").to_message().to_wire()
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(open_udp(server)) for _ in range(clients)]
        for udp in sockets:
            udp.send(question)
        answered = 0
        waiting = sockets
        give_up = time.monotonic() + seconds(1)
        while waiting and time.monotonic() < give_up:
            readable = select.select(waiting, [], [], 0.1)[0]
            answered += len([udp.recv(4096) for udp in readable])
            waiting = [udp for udp in waiting if udp not in readable]
        return answered


def test_a_worker_that_hangs_costs_its_share_and_is_said(workspace):
    workspace.write("api.yaml", API)
    admin = {"admin": {"listen": f"127.0.0.1:{free_port()}"}, "server": {"workers": 2}}
    daemon = workspace.daemon(admin)
    assert answers_of(daemon.server, CLIENTS) == CLIENTS
    with HangingThread(threads(daemon.pid)["worker-1"]):
        # Half of them, by chance; 40 of 200 lies nine standard deviations below.
        assert CLIENTS * 0.2 < answers_of(daemon.server, CLIENTS)
        # Soon the others get it all, over TCP as well.
        eventually(lambda: answers_of(daemon.server, CLIENTS) == CLIENTS, 10)
        for _ in range(20):
            assert daemon.ask("api.example.org.", transport="tcp", timeout=1).addresses() == ["10.0.0.7"]
        assert re.search(r"^meshdns_workers_avoided 1$", daemon.get("/metrics")[1], re.M)
        eventually(lambda: daemon.get("/healthz") == (503, "worker 1 hangs\n"), 15)
        # Nothing else waits for the worker: changes of the registry are in the others' answers.
        workspace.write("web.yaml", {**API, "metadata": {"name": "web"},
                                     "spec": {**API["spec"], "hosts": ["web.example.org"]}})
        metrics = daemon.get("/metrics")[1]
        assert re.search(r'^meshdns_\w*stuck\w*(\{[^}]*\})? 1', metrics, re.M), "no metric says so"
    # The worker answers the queries in its socket when it continues, and gets its share again.
    eventually(lambda: re.search(r"^meshdns_workers_avoided 0$", daemon.get("/metrics")[1], re.M), 10)
    assert answers_of(daemon.server, CLIENTS) == CLIENTS
    eventually(lambda: daemon.get("/healthz") == (200, "ok\n"), 15)
