# SPDX-License-Identifier: Apache-2.0
"""Watches of /registry/services and /registry/endpoints: the present state, then each change, in order."""

import json
import random
import socket
import threading
import time

import pytest

from harness.daemon import merge
from harness.ports import free_port
from harness.preset import THREADS, at_most, fewer
from harness.waiting import eventually, seconds

pytestmark = THREADS


class Watch:
    """Reads the lines of a watch, and applies them."""

    def __init__(self, daemon, path, timeout=20.0, receive_buffer=None):
        host, _, port = daemon.config["admin"]["listen"].rpartition(":")
        self.socket = socket.socket()
        self.socket.settimeout(seconds(timeout))
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((host, int(port)))
        # HTTP/1.0: the body comes without chunks and ends with the connection.
        self.socket.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline() not in (b"\r\n", b""):
            pass
        self.objects = {}
        self.events = []

    def close(self):
        self.file.close()
        self.socket.close()

    def line(self):
        """The next line; None at the end."""
        text = self.file.readline()
        return json.loads(text) if text else None

    def apply(self, event):
        self.events.append(event)
        if event["type"] in ("BOOKMARK", "ERROR"):
            return
        key = identity(event["object"])
        if event["type"] == "DELETED":
            assert key in self.objects, f"{key} was not there"
            del self.objects[key]
            return
        assert (key in self.objects) == (event["type"] == "MODIFIED"), (event["type"], key)
        self.objects[key] = event["object"]

    def read_until(self, condition):
        """Applies lines until one is true of `condition`; returns that one."""
        while True:
            event = self.line()
            assert event is not None, "the watch has ended"
            self.apply(event)
            if condition(event):
                return event

    def read_present_state(self):
        return self.read_until(lambda event: event["type"] == "BOOKMARK")


def identity(an_object):
    attributes = an_object.get("attributes", an_object)
    return an_object["hostname"], attributes["namespace"], attributes["uid"], attributes["provider"]


def entry(name, address, namespace="shop", **spec):
    return {"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [f"{name}.example.org"], "addresses": [address], "resolution": "STATIC",
                     "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
                     "endpoints": [{"address": address.replace("240.", "10.")}], **spec}}


def address_of(number):
    return f"240.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


SMALL = 65_536  # bytes of a client's buffer, which the kernel lets grow to many MB otherwise


def large_entries():
    """Resources whose list, some 8 MB, is more than a daemon's MiB and its kernel's buffers hold for a client."""
    names = [f"{number}{'x' * 200}" for number in range(30)]
    return [entry(f"host-{number}", address_of(number), subjectAltNames=names) for number in range(1, 1200)]


@pytest.fixture
def start(workspace):
    def run(*resources):
        workspace.write("resources.yaml", *(resources or (entry("first", "240.0.0.1"),)))
        daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
        # A slow machine answers before it has read a large source: the present state would be no list.
        eventually(lambda: daemon.get("/readyz")[0] == 200, 60, 0.1)
        return daemon
    return run


@pytest.fixture
def watch():
    watches = []

    def begin(daemon, path="/registry/services?watch", **options):
        watches.append(Watch(daemon, path, **options))
        return watches[-1]
    yield begin
    for each in watches:
        each.close()


def listing(daemon, path):
    return {identity(an_object): an_object for an_object in json.loads(daemon.get(path, 20.0)[1])}


def test_lists_all_fields(start):
    daemon = start(entry("first", "240.0.0.1", subjectAltNames=["spiffe://example.org/first"], exportTo=["."],
                         endpoints=[{"address": "10.0.0.1", "ports": {"http": 8080}, "labels": {"app": "a"},
                                     "network": "net-1", "locality": "region/zone", "serviceAccount": "first"},
                                    {"address": "10.0.0.2"}]))
    [service] = daemon.get_json("/registry/services")
    assert service == {
        "hostname": "first.example.org", "address": "240.0.0.1", "addresses": ["240.0.0.1"], "clusterVIPs": {},
        "ports": [{"name": "http", "port": 80, "protocol": "HTTP"}], "serviceAccounts": ["first"],
        "subjectAltNames": ["spiffe://example.org/first"], "meshExternal": True, "resolution": "ClientSideLB",
        "answer": "vips", "creationTime": None,
        "attributes": {"name": "first", "namespace": "shop", "uid": "istio://shop/services/first",
                       "provider": "ServiceEntry", "exportTo": ["shop"]}}
    [of_service] = daemon.get_json("/registry/endpoints")
    first, second = of_service["endpoints"]
    assert first == {
        "family": "TCP", "address": "10.0.0.1", "port": 8080, "servicePortName": "http", "ready": True,
        "health": "HEALTHY", "weight": 1, "locality": "region/zone", "labels": {"app": "a"}, "serviceAccount": "first",
        "network": "net-1", "cluster": "", "uid": "", "hostname": "", "pod": "", "node": ""}
    assert (second["address"], second["port"], second["labels"]) == ("10.0.0.2", 80, {})


def test_filters_by_namespace_and_host(start, workspace, watch):
    daemon = start(entry("first", "240.0.0.1"), entry("second", "240.0.0.2", "office"))
    assert [service["hostname"] for service in daemon.get_json("/registry/services?namespace=office")] == \
        ["second.example.org"]
    office = watch(daemon, "/registry/services?watch&namespace=office")
    first = watch(daemon, "/registry/endpoints?watch=1&host=first.example.org")
    office.read_present_state()
    first.read_present_state()
    workspace.write("resources.yaml", entry("first", "240.0.0.3"), entry("second", "240.0.0.4", "office"))
    assert office.read_until(lambda event: event["type"] == "MODIFIED")["object"]["address"] == "240.0.0.4"
    assert first.read_until(lambda event: event["type"] == "MODIFIED")["object"]["addresses"] == ["240.0.0.3"]
    assert {key[0] for key in office.objects} == {"second.example.org"}
    assert {key[0] for key in first.objects} == {"first.example.org"}


def test_tells_the_present_state_and_then_each_change(start, workspace, watch):
    daemon = start()
    services = watch(daemon)
    services.read_present_state()
    assert [event["type"] for event in services.events] == ["ADDED", "BOOKMARK"]
    workspace.write("other.yaml", entry("second", "240.0.0.2"))
    event = services.read_until(lambda event: event["type"] == "ADDED")
    assert event["object"]["hostname"] == "second.example.org"
    # The answers are at least as new as the line.
    assert "240.0.0.2" in str(daemon.ask("second.example.org."))
    workspace.write("other.yaml", entry("second", "240.0.0.3"))
    event = services.read_until(lambda event: event["type"] == "MODIFIED")
    assert event["object"]["addresses"] == ["240.0.0.3"]
    assert "240.0.0.3" in str(daemon.ask("second.example.org."))
    (workspace.resources / "other.yaml").unlink()
    event = services.read_until(lambda event: event["type"] == "DELETED")
    assert identity(event["object"])[:3] == ("second.example.org", "shop", "istio://shop/services/second")
    assert services.objects == listing(daemon, "/registry/services")


def test_tells_what_answers_show(start, workspace, watch):
    """A client that sees a new answer finds it in the list at once, and in the watch."""
    daemon = start()
    services = watch(daemon)
    services.read_present_state()
    for number in range(2, 22):
        workspace.write("resources.yaml", entry("first", address_of(number)))
        eventually(lambda address=address_of(number): address in str(daemon.ask("first.example.org.")), 5, 0.005)
        [service] = daemon.get_json("/registry/services?host=first.example.org")
        assert service["addresses"] == [address_of(number)]
        services.read_until(lambda event, address=address_of(number): event["object"].get("addresses") == [address])


def test_changes_come_in_order(start, workspace, watch):
    daemon = start()
    services = watch(daemon)
    services.read_present_state()
    wanted = []
    for number in range(2, 102):
        workspace.write(f"{number}.yaml", entry(f"host-{number}", address_of(number)))
        wanted.append(f"host-{number}.example.org")
        services.read_until(lambda event, host=wanted[-1]: event["object"].get("hostname") == host)
    assert [event["object"]["hostname"] for event in services.events if event["type"] == "ADDED"][1:] == wanted


@pytest.mark.parametrize("page", ["services", "endpoints"])
def test_applying_thousands_of_changes_gives_the_list(start, workspace, watch, page):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    daemon = start()
    changes = watch(daemon, f"/registry/{page}?watch", timeout=60.0)
    changes.read_present_state()
    reader = threading.Thread(target=changes.read_until, daemon=True,
                              args=[lambda event: event["object"].get("hostname") == "last.example.org"])
    reader.start()
    files = {}
    made = 0
    while made < fewer(10_000):
        name = f"{chance.randrange(8)}.yaml"
        entries = files.setdefault(name, {})
        for _ in range(500):
            number = chance.randrange(300)
            exported = chance.choice([["*"], ["."], ["office"]])
            key = f"host-{number}-{chance.randrange(2)}"
            if chance.random() < 0.3:
                entries.pop(key, None)
            else:
                resource = entry(f"e-{name[0]}-{key}", address_of(chance.randrange(1, 1 << 20)), exportTo=exported)
                resource["spec"]["hosts"] = [f"host-{number}.example.org"]
                entries[key] = resource
            made += 1
        workspace.write(name, *(entries.values() or [entry("empty", "240.0.0.9")]))
    workspace.write("zlast.yaml", entry("last", "240.0.0.99"))
    reader.join(seconds(60.0))
    assert not reader.is_alive(), changes.events[-3:]

    # The files are read in no order; a list is compared once nothing changes any more.
    def agree():
        wanted = listing(daemon, f"/registry/{page}")
        changes.socket.settimeout(seconds(20.0))
        while changes.objects != wanted:
            changes.read_until(lambda event: event["type"] != "BOOKMARK")
        return wanted == listing(daemon, f"/registry/{page}")
    eventually(agree, 60)
    assert len(changes.objects) > 100


def test_an_idle_watch_has_bookmarks(start, watch):
    daemon = start()
    services = watch(daemon)
    services.read_present_state()
    assert services.line()["type"] == "BOOKMARK"


def test_refuses_too_many_watches_and_goes_on(start, watch):
    daemon = start()
    open_watches = [watch(daemon) for _ in range(16)]
    assert all(each.status == 200 for each in open_watches)
    for each in open_watches:
        each.read_present_state()
    refused = watch(daemon)
    assert refused.status == 503 and "too many watches" in str(refused.line())
    open_watches[0].close()
    eventually(lambda: watch(daemon).status == 200, 15, 0.5)
    # Other pages have their connections, too.
    for _ in range(100):
        assert daemon.get("/readyz")[0] == 200


def test_the_vips_cannot_be_watched(start):
    status, text = start().get("/registry/vips?watch")
    assert status == 400 and "has no parameter" in text


def test_a_slow_reader_gets_a_last_line(start, workspace, watch):
    daemon = start(*large_entries())
    slow = watch(daemon, receive_buffer=SMALL)
    fast = watch(daemon)
    reading = threading.Thread(target=fast.read_present_state)
    reading.start()
    eventually(lambda: "meshdns_admin_watches 1\n" in daemon.get("/metrics")[1], 30, 0.2)
    last = None
    while (line := slow.line()) is not None:
        last = line
        assert last["type"] != "BOOKMARK", "the slow reader got everything; the other one was cut off"
    assert last["type"] == "ERROR" and last["object"]["reason"] == "SlowReader", last
    reading.join()
    workspace.write("other.yaml", entry("other", "240.9.9.9"))
    fast.read_until(lambda event: event["object"].get("hostname") == "other.example.org")


@pytest.mark.slow("the daemon's own limit for a reader")
def test_a_reader_that_never_reads_is_cut_off(start, watch):
    daemon = start(*large_entries())
    slow = watch(daemon, receive_buffer=SMALL)

    def overdue():
        return any(line.startswith("meshdns_admin_overdue_total ") and not line.endswith(" 0")
                   for line in daemon.get("/metrics")[1].splitlines())
    eventually(overdue, 30, 0.5)
    with pytest.raises((ConnectionError, AssertionError)):
        slow.read_until(lambda event: event["type"] == "NEVER")


def test_watches_end_with_the_daemon(start, watch):
    daemon = start()
    services = watch(daemon)
    services.read_present_state()
    daemon.process.send_signal(15)
    last = None
    while (line := services.line()) is not None:
        last = line
    assert last["type"] == "ERROR" and last["object"]["reason"] == "Stopping", last


def test_a_reload_of_the_mesh_settings_is_a_change(start, watch):
    daemon = start(entry("first", "240.0.0.1"), entry("second", "240.0.0.2", "office"))
    services = watch(daemon)
    services.read_present_state()
    daemon.write_config(merge(daemon.config, {"mesh": {"namespaces": ["shop"]}}))
    daemon.reload()
    event = services.read_until(lambda event: event["type"] == "DELETED")
    assert event["object"]["hostname"] == "second.example.org"
    assert {key[0] for key in services.objects} == {"first.example.org"}


@pytest.mark.timing
def test_a_long_list_does_not_hold_up_other_pages(start, watch):
    """Many services are written bit by bit: others are answered meanwhile, and the list is whole and in order."""
    daemon = start(*[entry(f"host-{number}", address_of(number)) for number in range(1, 10_001)])
    slow = watch(daemon, "/registry/services")
    assert slow.status == 200
    read_by = time.monotonic() + 3.0  # a list that nobody reads is cut off after five seconds
    while time.monotonic() < read_by:
        began = time.monotonic()
        assert daemon.get("/resolver")[0] == 200
        assert time.monotonic() - began < at_most(1.0)
    hosts = [service["hostname"] for service in slow.line()]
    assert len(hosts) == 10_000 and hosts == sorted(hosts)
