# SPDX-License-Identifier: Apache-2.0
"""Ports, time limits, seeds and the queries that may be retries: the tests rely on them."""

import multiprocessing
import random
import socket
import time

from harness.dns_client import Question, open_udp
from harness.fake_upstream import SO_TIMESTAMPNS, Received, arrival, without_retries
from harness.ports import free_port
from harness.preset import ONCE, TREE
from harness.seed import contents, seed
from harness.waiting import eventually, seconds

pytestmark = [ONCE, TREE]


def take_ports(queue, is_over):
    queue.put([free_port() for _ in range(20)])
    is_over.wait()


def test_no_two_processes_get_the_same_port():
    fork = multiprocessing.get_context("fork")
    queue, is_over = fork.Queue(), fork.Event()
    processes = [fork.Process(target=take_ports, args=(queue, is_over)) for _ in range(4)]
    found = [free_port() for _ in range(20)]
    for process in processes:
        process.start()
    found += [port for _ in processes for port in queue.get(timeout=seconds(10))]
    is_over.set()
    for process in processes:
        process.join()
    assert len(set(found)) == 20 * 5


def test_time_limits_follow_the_load_of_the_moment(monkeypatch):
    monkeypatch.delenv("MESHDNS_TIME_FACTOR", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for load, expected in ((0.1, 3), (40.0, 30)):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, load, load))
        assert seconds(3) == expected
    monkeypatch.setenv("CI", "1")
    assert seconds(3) == 30
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.1, 0.1))
    assert seconds(3) == 12
    monkeypatch.setenv("MESHDNS_TIME_FACTOR", "1.5")
    assert seconds(3) == 4.5


def test_a_test_draws_the_same_for_the_same_tree(request):
    first = random.random()
    random.seed(f"{seed()}-{request.node.nodeid}")
    assert random.random() == first


def test_a_tree_without_history_has_a_seed_of_its_files(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("a")
    first = contents(tmp_path)
    (tmp_path / "tests/__pycache__").mkdir()
    (tmp_path / "tests/__pycache__/test_a.pyc").write_text("compiled")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/meshdnsd").write_text("built")
    assert contents(tmp_path) == first
    (tmp_path / "tests/test_a.py").write_text("b")
    second = contents(tmp_path)
    (tmp_path / "tests/test_a.py").rename(tmp_path / "tests/test_b.py")
    assert len({first, second, contents(tmp_path)}) == 3


def query(arrived, transport="udp", name="www.example.org."):
    return Received(name, "A", transport, 1, 1024, b"", None, arrived)


def test_only_the_same_query_over_udp_and_later_may_be_a_retry():
    first = query(1.0)
    assert without_retries([first, query(1.1)]) == [first]
    for other in (query(1.01), query(1.1, "tcp"), query(1.1, name="api.example.org.")):
        assert without_retries([first, other]) == [first, other]


def the_kernel_stamps_arrivals(receiver):
    """It begins some time after the first socket has asked for it, and stamps datagrams when they are read before."""
    with open_udp(receiver.getsockname()) as sender:
        sender.send(b"x")
        sent = time.monotonic()
        time.sleep(0.1)
        _, control, _, _ = receiver.recvmsg(1, 64)
        return arrival(control) < sent + 0.05


def test_a_query_has_the_time_of_its_arrival(workspace, monkeypatch):
    """Also if the upstream reads it later."""
    upstream = workspace.upstream()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        receiver.bind(("127.0.0.1", 0))
        eventually(lambda: the_kernel_stamps_arrivals(receiver))
    handled = []
    monkeypatch.setattr(upstream, "_handle", lambda *arguments: (time.sleep(0.5), handled.append(arguments[-1])))
    with open_udp((upstream.address, upstream.port)) as client:
        wire = Question("www.example.org.").to_message().to_wire()
        client.send(wire)
        client.send(wire)
        sent = time.monotonic()
        eventually(lambda: len(handled) == 2)
    assert max(handled) < sent + 0.25
