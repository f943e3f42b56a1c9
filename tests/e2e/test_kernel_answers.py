# SPDX-License-Identifier: Apache-2.0
"""Answers in the kernel (server.kernel_answers), from Pods' network namespaces: the daemon, the loader and the program."""

import contextlib
import json
import re
import select
import signal
import socket
import time

import pytest

from harness.dns_client import Question
from harness.kernel_fixture import made_or_skipped
from harness.kernel_node import KernelDaemon, KernelNode, pod_objects
from harness.namespaces import inside
from harness.preset import THREADS
from harness.routed_node import NODE_IPV4, NODE_IPV6
from harness.waiting import eventually, seconds

pytestmark = [THREADS, pytest.mark.root]


def entry(name, host, addresses, namespace="shop", export_to="*", **spec):
    return {"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [host], "addresses": addresses, "resolution": "STATIC", "exportTo": [export_to], **spec}}


def endpoints(*addresses):
    return {"endpoints": [{"address": address} for address in addresses]}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with made_or_skipped(KernelNode, tmp_path_factory.mktemp("kernel")) as made:
        yield made


@pytest.fixture
def world(workspace):
    workspace.write("pods.yaml", *pod_objects(shop="shop", web="web", bridged="shop"))
    workspace.write("mesh.yaml",
                    entry("api", "api.example.org", ["10.0.0.7", "fd00::7"]),
                    entry("wild", "*.wild.example.org", ["10.0.0.8"]),
                    entry("many", "many.example.org", [], **endpoints("10.1.0.1", "10.1.0.2", "10.1.0.3")),
                    entry("own", "own.example.org", ["10.0.0.9"], export_to="."),
                    entry("own-of-web", "own.example.org", ["10.0.0.10"], namespace="web", export_to="."))
    return workspace


@pytest.fixture
def running(node, world):
    return KernelDaemon(node, world).wait_until_open()


def without_id(answer):
    return answer.wire[2:]


@pytest.mark.parametrize(("name", "rdtype"), [("api.example.org", "A"), ("API.Example.org", "AAAA"),
                                              ("api.example.org", "HTTPS"), ("a.b.wild.example.org", "A"),
                                              ("own.example.org", "A")])
def test_the_kernel_answers_as_the_daemon_does(running, name, rdtype):
    for options in ({}, {"edns": False}, {"do": True}, {"rd": False}, {"cd": True, "ad": True}):
        for pod, server in (("shop", None), ("bridged", None), ("web", NODE_IPV6)):
            where = {"server": server} if server else {}
            first, second = running.ask_kernel(pod, name, rdtype, **options, **where)
            assert without_id(second) == without_id(first), (options, pod)


def test_addresses_take_turns_in_the_kernel(running):
    running.ask_kernel("shop", "many.example.org")
    before = running.count()
    firsts = [running.ask("shop", "many.example.org").addresses()[0] for _ in range(30)]
    assert {firsts.count(first) for first in firsts} == {10}
    assert running.count() == before + 30


def test_each_client_sees_its_own(running):
    shop = running.ask_kernel("shop", "own.example.org")[1]
    web = running.ask_kernel("web", "own.example.org")[1]
    assert (shop.addresses(), web.addresses()) == (["10.0.0.9"], ["10.0.0.10"])


def test_a_change_is_in_the_next_answer(world, running):
    """The answer over TCP is the daemon's: as soon as that is new, the kernel's is not old."""
    running.ask_kernel("shop", "api.example.org")
    other = running.ask_kernel("shop", "a.wild.example.org")[1]
    for number in range(20, 40):
        address = f"10.0.0.{number}"
        world.write("mesh.yaml", entry("api", "api.example.org", [address]), entry("wild", "*.wild.example.org", ["10.0.0.8"]))
        eventually(lambda: running.ask("shop", "api.example.org", transport="tcp").addresses() == [address], 5)
        for _ in range(3):
            assert running.ask("shop", "api.example.org").addresses() == [address]
    before = running.count()
    again = running.ask("shop", "a.wild.example.org")
    assert without_id(again) == without_id(other)
    assert running.count() == before + 1


def test_a_pod_that_moves_to_another_namespace_sees_the_other_names(world, running):
    assert running.ask_kernel("shop", "own.example.org")[1].addresses() == ["10.0.0.9"]
    world.write("pods.yaml", *pod_objects(shop="web", web="web"))
    eventually(lambda: running.ask("shop", "own.example.org", transport="tcp").addresses() == ["10.0.0.10"], 5)
    assert running.ask("shop", "own.example.org").addresses() == ["10.0.0.10"]


def test_nothing_is_answered_for_a_daemon_that_hangs_or_has_ended(node, world, running):
    running.ask_kernel("shop", "api.example.org")
    running.daemon.process.send_signal(signal.SIGSTOP)
    try:
        def is_silent():
            try:
                return not running.ask("shop", "api.example.org", timeout=0.3)
            except AssertionError:  # no answer
                return True
        eventually(is_silent, 5)
    finally:
        running.daemon.process.send_signal(signal.SIGCONT)
    running.ask_kernel("shop", "api.example.org")
    world.forget(running.daemon)
    running.daemon.stop()
    with pytest.raises((OSError, AssertionError)):  # nobody listens
        running.ask("shop", "api.example.org", timeout=0.5)
    following = KernelDaemon(node, world).wait_until_open()
    following.ask_kernel("shop", "api.example.org")


def test_it_is_explained_and_counted(world, running):
    running.ask_kernel("shop", "api.example.org")
    told = running.ask("shop", "api.example.org", "TXT", rdclass="CH").texts()
    assert any(re.fullmatch(r"A: answered in the kernel, entry of generation \d+", text) for text in told), told
    assert '"kernel":"answered in the kernel' in running.get("/explain?name=api.example.org&from=10.61.0.11")[1]
    metrics = running.get("/metrics")[1]
    assert "meshdns_kernel_answers 1" in metrics
    assert 'meshdns_kernel_passed_total{reason="absent"}' in metrics
    for _ in range(300):
        running.ask("shop", "api.example.org")
    eventually(lambda: "api.example.org" in running.get("/top")[1], 5)
    eventually(lambda: 0 < json.loads(running.get("/status")[1])["kernelShare"] <= 1, 5)


def test_the_query_log_has_its_answers(node, world):
    running = KernelDaemon(node, world, {"log": {"queries": {"class": "all"}}}).wait_until_open()
    running.ask_kernel("shop", "Api.example.org", do=True)
    line = running.daemon.wait_for_log("source=kernel")
    assert "name=Api.example.org." in line and "do=true" in line and "identity=\"Pod shop/shop\"" in line, line
    assert "bufsize=1232" in line and "rcode=NOERROR" in line and "flags=qr,aa,rd,ra" in line, line


def test_lookups_of_endpoint_names_are_none_of_its_answers(node, world):
    """They lead through an alias of an upstream server to a name that the kernel answers."""
    with inside(node.node.name):
        upstream = world.upstream(["lb.example.net. 1 CNAME api.example.org."])
    world.write("front.yaml", entry("front", "front.example.org", [], resolution="DNS", **endpoints("lb.example.net")))
    running = KernelDaemon(node, world, {"upstream": {"servers": [upstream.server]}}).wait_until_open()
    of_others = running.count()  # the program is that of all tests
    running.ask_kernel("shop", "api.example.org")
    running.ask_kernel("shop", "front.example.org")
    answered, entries = running.count(), running.counts()

    def lookups():
        return float(re.search(r"(?m)^meshdns_resolver_lookups_total (\S+)$", running.get("/metrics")[1]).group(1))

    before = lookups()
    eventually(lambda: lookups() >= before + 4, 15)
    assert (running.count(), running.counts()) == (answered, entries)
    eventually(lambda: running.counted() == answered - of_others, 5)  # the daemon reads the counters once a second


def test_what_the_program_cannot_keep_turns_it_off(node, world):
    running = KernelDaemon(node, world, {"log": {"dnstap": f"file:{world.path / 'tap'}"}}, mode="on")
    assert "dnstap" in running.daemon.wait_for_log("not answering in the kernel")
    before = running.count()
    for _ in range(3):
        running.ask("shop", "api.example.org")
    assert running.count() == before
    eventually(lambda: "kernel answers: log.dnstap" in running.get("/readyz")[1], 5)


def flood(running, pod, count, is_for_kernel):
    """Sends `count` queries at once; (answered, truncated) of what comes back.  `is_for_kernel(i)`: the others have options
    of IP, with which the program leaves them to the daemon."""
    wire = Question("api.example.org.").to_message().to_wire()
    answers = []
    with contextlib.ExitStack() as stack:
        udp = []
        for options in (b"", b"\1\1\1\1"):
            with inside(running.node.pods[pod]):
                udp.append(stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
            udp[-1].setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, options)
            udp[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            udp[-1].connect((NODE_IPV4, 53))
        for i in range(count):
            udp[not is_for_kernel(i)].send(wire)
        while ready := select.select(udp, [], [], seconds(0.3))[0]:
            answers += [each.recv(4096) for each in ready]
    truncated = sum(1 for answer in answers if answer[2] & 2)
    return len(answers) - truncated, truncated


@pytest.mark.parametrize("is_for_kernel", [lambda i: True, lambda i: i % 2], ids=["all in the kernel", "half of them"])
def test_kernel_and_daemon_keep_the_rate_limit_together(node, world, is_for_kernel):
    limit = {"responses_per_second": 40, "slip": 2}
    running = KernelDaemon(node, world, {"server": {"workers": 2, "rate_limit": limit}}, mode="on").wait_until_open()
    for pod in ("web", "shop"):
        running.ask_kernel(pod, "api.example.org")
    before, started = running.count(), time.monotonic()
    answered, truncated = flood(running, "shop", 200, is_for_kernel)
    of_kernel = running.count() - before
    # Earlier questions have been paid for, and the seconds since then add their rate.
    passed = time.monotonic() - started
    assert 40 - 10 <= answered <= 40 * (1 + passed) + 1, (answered, passed)
    # Each worker counts its refusals by itself.
    assert abs(truncated - (200 - answered) / 2) <= 2
    # Between the kernel and a worker there may be time for one answer more.
    assert 0 < of_kernel <= answered and (of_kernel > answered / 2 or not is_for_kernel(0))
    assert running.counts()["passed_limit"] > 0
    assert flood(running, "web", 20, is_for_kernel) == (20, 0), "another client does not notice"
    eventually(lambda: flood(running, "shop", 1, lambda i: True) == (1, 0), 5)


def test_a_reload_voids_all_entries(world, running):
    running.ask_kernel("shop", "api.example.org")
    config = running.daemon.config
    config["server"]["allow"] = ["192.0.2.0/24"]
    running.daemon.write_config(config)
    running.daemon.reload()
    running.daemon.wait_for_log("configuration changed.*server")
    eventually(lambda: running.ask("shop", "api.example.org").rcode == "REFUSED", 5)
    assert {running.ask("shop", "api.example.org").rcode for _ in range(10)} == {"REFUSED"}


def test_without_maps_the_daemon_answers(node, world):
    running = KernelDaemon(node, world, {"server": {"kernel_maps": str(node.bpffs / "none")}}, mode="on")
    line = running.daemon.wait_for_log("not answering in the kernel")
    assert "none/control: No such file or directory" in line, line
    assert running.ask("shop", "api.example.org").addresses() == ["10.0.0.7"]
