# SPDX-License-Identifier: Apache-2.0
"""The path between the daemon and the Kubernetes API: HTTP/2, compression, proxies, paths that go dead, clocks that jump."""

import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import time
import zlib

import pytest

from harness.connect_proxy import ConnectProxy
from harness.kube_api import Fault, endpoint_slice, make_certificates, service, service_entry
from harness.kube_cluster import RECOVERY, Asker, Cluster, addresses, collection, sources, wait_for, wait_for_rcode
from harness.memory import MEBIBYTE, peak_resident
from harness.namespaces import Node, available, inside
from harness.ports import free_port
from harness.preset import ONE_THREAD, at_most
from harness.process import Process
from harness.relay import Relay
from harness.waiting import eventually
from harness.wall_clock import WallClock, needs_wall_clock

pytestmark = ONE_THREAD


# --- HTTP/2 ----------------------------------------------------------------------------------------------


class Http2Front:
    """nghttpx speaks HTTP/2 and TLS with the daemon, and HTTP/1.1 with the API behind it."""

    def __init__(self, workspace, api, certificates, requests_per_connection=100):
        certificate, key = certificates
        self.workspace, self.port, self.process = workspace, free_port(), None
        self.command = ["nghttpx", f"--frontend=127.0.0.1,{self.port}", f"--backend=127.0.0.1,{api.port}", "--workers=1",
                        "--no-ocsp", "--conf=/dev/null", f"--frontend-http2-max-concurrent-streams={requests_per_connection}", "--backend-read-timeout=1h", "--stream-read-timeout=1h",
                        "--stream-write-timeout=1h", "--frontend-http2-read-timeout=1h", str(key), str(certificate)]
        self.cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(certificate)}
        self.start()

    def start(self):
        self.process = self.workspace.own_process(Process(self.command, "nghttpx"))
        self.process.wait_for_line(r"Listening on")

    def kubeconfig(self, path):
        path.write_text(json.dumps({
            "current-context": "t", "clusters": [{"name": "t", "cluster": self.cluster}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "u"}}], "users": [{"name": "u", "user": {}}]}))
        return str(path)

    def connections(self):
        """How many the daemon has to it."""
        found = subprocess.run(["ss", "-Htn", "state", "established", f"( dport = :{self.port} )"], check=True,
                               capture_output=True, text=True).stdout
        return len(found.splitlines())


@pytest.fixture
def front(workspace):
    cluster = Cluster(workspace)
    made = Http2Front(workspace, cluster.api, make_certificates(workspace.path))
    made.api = cluster.api
    made.daemon = cluster.daemon(kubeconfig=made.kubeconfig(workspace.path / "kubeconfig"))
    return made


needs_nghttpx = pytest.mark.skipif(not shutil.which("nghttpx"), reason="needs nghttpx")


@needs_nghttpx
def test_all_collections_share_one_connection_of_http2(front):
    wait_for(front.daemon, "web", ["10.96.0.1"])
    for i in range(10):
        front.api.put(service(f"new{i}", ip=f"10.96.1.{i}"), endpoint_slice("db", [f"10.0.1.{i}"]))
        wait_for(front.daemon, f"new{i}", [f"10.96.1.{i}"])
        wait_for(front.daemon, "db", [f"10.0.1.{i}"])
    assert len(front.api.watches("services")) == 1
    assert front.connections() == 1


@needs_nghttpx
def test_http2_recovers_from_a_front_that_dies_and_from_a_server_that_does(front):
    wait_for(front.daemon, "web", ["10.96.0.1"])
    with Asker(front.daemon):
        front.process.kill()
        front.api.put(service("one", ip="10.96.0.4"))
        front.start()
        wait_for(front.daemon, "one", ["10.96.0.4"])
        front.api.stop()  # the front answers 502
        front.api.compact()
        front.api.delete("Service", "one", "shop")
        front.api.start()
        front.api.put(service("two", ip="10.96.0.5"))
        wait_for(front.daemon, "two", ["10.96.0.5"], 2 * RECOVERY)
        wait_for_rcode(front.daemon, "one", "NXDOMAIN")
    assert front.connections() <= 2, "a new one after the other died"


@needs_nghttpx
def test_http2_goes_on_after_a_pause(front):
    wait_for(front.daemon, "web", ["10.96.0.1"])
    with Asker(front.daemon):
        front.process.send_signal(signal.SIGSTOP)
        front.api.put(service("one", ip="10.96.0.4"))
        front.process.send_signal(signal.SIGCONT)
        wait_for(front.daemon, "one", ["10.96.0.4"])


# --- connections that do not stay ------------------------------------------------------------------------


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("closes", ["close", "HTTP/1.0", "unsaid", "reset"])
@pytest.mark.parametrize("streams_lists", [False, True], ids=["paged", "streamed"])
def test_a_server_that_closes_after_each_answer_is_read(workspace, tls, closes, streams_lists):
    """Also after watches have been cut: no event is lost over the gap."""
    certificates = make_certificates(workspace.path) if tls else None
    cluster = Cluster(workspace, streams_lists=streams_lists, closes=closes, certificates=certificates)
    api = cluster.api
    api.serve("serviceentries.networking.istio.io")
    api.put(*[service(f"s{i}", ip=f"10.97.{i // 250}.{i % 250 + 1}") for i in range(1200)])
    daemon = cluster.daemon()
    wait_for(daemon, "s1199", ["10.97.4.200"])
    for i in range(3):
        api.reset_connections()
        api.put(service(f"new{i}", ip=f"10.96.1.{i}"), endpoint_slice("db", [f"10.0.1.{i}"]))
        wait_for(daemon, f"new{i}", [f"10.96.1.{i}"], 2 * RECOVERY)
        wait_for(daemon, "db", [f"10.0.1.{i}"], 2 * RECOVERY)
    # A connection that was being made when all were reset is tried again.
    eventually(lambda: daemon.get("/readyz") == (200, '{"ready":true,"reasons":[]}\n'), 2 * RECOVERY)


# --- compression, proxies ------------------------------------------------------------------------------


def test_lists_come_compressed(workspace):
    cluster = Cluster(workspace, streams_lists=False, compresses=True)
    api = cluster.api
    api.put(*[service(f"s{i}", ip=f"10.97.{i // 250}.{i % 250 + 1}") for i in range(1000)])
    # The first one breaks off amid the compressed text.
    api.faults["services"] = Fault(cut_after=2000, times=1)
    daemon = cluster.daemon()
    wait_for(daemon, "s999", ["10.97.3.250"], 2 * RECOVERY)
    assert api.compressed >= 2
    assert collection(daemon, "services")["objects"] == 1002
    api.put(service("new", ip="10.96.0.9"))
    wait_for(daemon, "new", ["10.96.0.9"])


LIST = b'{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1010"},"items":['


def packed(pieces):
    """All pieces, compressed without the memory of all of them."""
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*map(stream.compress, pieces), stream.flush()])


def large_services(count, annotation_bytes):
    yield LIST
    for i in range(count):
        item = service(f"s{i}", ip="10.97.0.1")
        item["metadata"]["annotations"] = {"a": "x" * annotation_bytes}
        yield (b"," if i else b"") + json.dumps(item).encode()
    yield b"]}"


def test_a_legal_page_of_large_objects_takes_little_memory(workspace):
    cluster = Cluster(workspace, streams_lists=False)
    cluster.api.faults["services"] = Fault(packed=packed(large_services(500, 200_000)), on="list")
    daemon = cluster.daemon()
    wait_for(daemon, "s499", ["10.97.0.1"], 30)
    assert peak_resident(daemon.pid) < at_most(64 * MEBIBYTE), "100 MB of text, of which only one object at a time is there"


BOMBS = {
    "endless string": ([LIST + b'{"metadata":{"name":"a","annotations":{"x":"', *[b"a" * 1_000_000] * 300],
                       "an object is longer than 67108864 bytes"),
    "endless space": ([LIST, *[b" " * 1_000_000] * 300], "there is nothing in 67108864 bytes"),
    "endless nesting": ([LIST + b'{"metadata":{"name":"a"},"x":', *[b"[" * 1_000_000] * 300],
                        "an object is longer than 67108864 bytes"),
    "endless envelope": ([LIST + b'],"x":"', *[b"a" * 1_000_000] * 300],
                         "the list has more than 65536 bytes beside its objects"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_an_error_of_its_collection_alone(workspace, bomb):
    pieces, message = BOMBS[bomb]
    cluster = Cluster(workspace, streams_lists=False)
    cluster.api.serve("serviceentries.networking.istio.io")
    cluster.api.put(service_entry("e", "api.example.org", addresses=["10.5.5.5"], resolution="STATIC"))
    cluster.api.faults["services"] = Fault(packed=packed(pieces), on="list")
    daemon = cluster.daemon()
    eventually(lambda: message in collection(daemon, "services")["error"], 60)
    assert daemon.ask("api.example.org.").addresses() == ["10.5.5.5"]
    assert peak_resident(daemon.pid) < at_most(64 * MEBIBYTE)
    cluster.api.faults.clear()
    wait_for(daemon, "web", ["10.96.0.1"], 60)


@pytest.mark.parametrize("packed_list,options", [
    (packed([LIST, b"]}"])[:-9], {}),
    (packed([LIST, b"]}"])[:30] + b"garbage" * 10, {}),
    (packed([LIST, b"]}"]), {"encoding": "br"}),
    (packed([LIST, b"]}"]), {"encoding": "gzip, gzip"}),
], ids=["ends early", "damaged", "unknown", "twice"])
def test_a_list_that_cannot_be_decompressed_is_asked_for_uncompressed(workspace, packed_list, options):
    cluster = Cluster(workspace, streams_lists=False)
    cluster.api.faults["services"] = Fault(packed=packed_list, on="list", **options)
    daemon = cluster.daemon()
    wait_for(daemon, "web", ["10.96.0.1"], 2 * RECOVERY)


@pytest.mark.parametrize("difference", [-2, 1000])
def test_a_wrong_content_length_is_an_error(workspace, difference):
    body = packed([LIST, b"]}"])
    cluster = Cluster(workspace, streams_lists=False)
    cluster.api.faults["services"] = Fault(packed=body, on="list", length=len(body) + difference)
    daemon = cluster.daemon()
    eventually(lambda: collection(daemon, "services")["errors"] > 0, RECOVERY)
    cluster.api.faults.clear()
    wait_for(daemon, "web", ["10.96.0.1"], 2 * RECOVERY)


def test_a_proxy_is_used(workspace):
    certificates = make_certificates(workspace.path)
    cluster = Cluster(workspace, certificates=certificates, token="secret")
    proxy = workspace.own(ConnectProxy())
    kubeconfig = workspace.path / "kubeconfig"
    config = json.loads(pathlib.Path(cluster.api.kubeconfig(kubeconfig)).read_text())
    config["clusters"][0]["cluster"]["proxy-url"] = f"http://127.0.0.1:{proxy.port}"
    kubeconfig.write_text(json.dumps(config))
    daemon = cluster.daemon(kubeconfig=str(kubeconfig))
    wait_for(daemon, "web", ["10.96.0.1"])
    assert set(proxy.targets) == {f"127.0.0.1:{cluster.api.port}"}


def test_a_plugin_that_hangs_holds_up_nothing_else(workspace):
    cluster = Cluster(workspace, token="from-plugin")
    plugin = workspace.path / "plugin"
    plugin.write_text("#!/bin/sh\nexec sleep 1000\n")
    plugin.chmod(0o700)
    daemon = cluster.daemon(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}})
    assert daemon.ask("www.example.org.").addresses() == ["192.0.2.1"]
    assert daemon.get("/healthz")[0] == 200 and daemon.get("/readyz")[0] == 503
    assert not cluster.api.requests
    # Asked anew once it is well, without waiting for the end of the one that hangs.
    plugin.write_text('#!/bin/sh\necho "{\\"kind\\":\\"ExecCredential\\",\\"status\\":{\\"token\\":\\"from-plugin\\"}}"\n')
    daemon.reload()
    wait_for(daemon, "web", ["10.96.0.1"], 40)


# --- paths that go dead ----------------------------------------------------------------------------------


def ports_of(clients):
    for client in list(clients):
        with contextlib.suppress(OSError):  # gone meanwhile
            yield client.getpeername()[1]


def drop_packets_of(node, ports):
    """Of the connections with these ports: neither side hears of the other again."""
    listed = ", ".join(map(str, ports))
    rules = "".join(f"add rule ip dead {chain} tcp {side} {{ {listed} }} drop\n"
                    for chain in ("input", "output") for side in ("sport", "dport"))
    chains = "".join(f"add chain ip dead {chain} {{ type filter hook {chain} priority 0; }}\n"
                     for chain in ("input", "output"))
    subprocess.run(["ip", "netns", "exec", node.name, "nft", "-f", "-"], input=f"add table ip dead\n{chains}{rules}",
                   text=True, check=True, capture_output=True)


def can_drop():
    if not shutil.which("nft") or not available():
        return False
    try:
        with Node({}) as node:
            drop_packets_of(node, [1])
        return True
    except subprocess.CalledProcessError:
        return False


QUICK = {"path_timeout": "5s"}  # the shortest


@pytest.mark.root
@pytest.mark.skipif(not can_drop(), reason="needs root, network namespaces and nft")
def test_connections_that_are_dead_without_a_word_are_found(workspace):
    """A firewall forgets them; the API server may well be reached by new ones."""
    with Node({}) as node, inside(node.name):
        cluster = Cluster(workspace, bookmark_every=3600)
        api = cluster.api
        daemon = cluster.daemon(QUICK, prefix=["ip", "netns", "exec", node.name])
        wait_for(daemon, "web", ["10.96.0.1"])
        drop_packets_of(node, list(ports_of(api.clients)))
        api.put(service("new", ip="10.96.0.9"))
        with Asker(daemon):
            wait_for(daemon, "new", ["10.96.0.9"], 40)
        assert len(api.lists("services")) == 1, "the watch goes on where it was"


def through(relay, kubeconfig):
    """The same kubeconfig, by way of the relay."""
    path = pathlib.Path(kubeconfig)
    config = json.loads(path.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = cluster["server"].partition("://")[0] + "://" + relay.address
    path.write_text(json.dumps(config))
    return str(path)


@needs_nghttpx
def test_a_path_that_forwards_nothing_any_more_is_left_in_time(workspace):
    """TCP keeps its connections, because a proxy acknowledges what it does not forward.  By HTTP/1.1 and HTTP/2."""
    cluster = Cluster(workspace, bookmark_every=60)
    front = Http2Front(workspace, cluster.api, make_certificates(workspace.path))
    relays = [workspace.own(Relay(port)) for port in (cluster.api.port, front.port)]
    kubeconfigs = [cluster.api.kubeconfig(workspace.path / "http1"), front.kubeconfig(workspace.path / "http2")]
    daemons = [cluster.daemon(QUICK, kubeconfig=through(relay, kubeconfig))
               for relay, kubeconfig in zip(relays, kubeconfigs, strict=True)]
    for daemon in daemons:
        wait_for(daemon, "db", ["10.0.0.1", "10.0.0.2"])
    since = time.monotonic()
    for relay in relays:
        relay.freeze_connections()
    cluster.api.put(endpoint_slice("db", ["10.0.1.9"]))
    for daemon in daemons:
        wait_for(daemon, "db", ["10.0.1.9"], 5)
        # Without a request over each connection it takes 100 s.  A slow machine needs some time for the new one.
        assert time.monotonic() - since < at_most(30)
        assert collection(daemon, "endpointslices.discovery.k8s.io[headless]")["lists"] == 1, "the watch goes on"


def watches(daemon):
    return {c["name"]: c["watches"] for c in sources(daemon)["collections"]}


@pytest.mark.timing
@needs_nghttpx
def test_many_connections_of_http2_that_forward_nothing_are_left_together(workspace):
    """A server that limits the requests of one connection has several, which die with the path."""
    cluster = Cluster(workspace, bookmark_every=60)
    for kind in ("serviceentries", "workloadentries", "sidecars", "virtualservices"):
        cluster.api.serve(kind + ".networking.istio.io")
    front = Http2Front(workspace, cluster.api, make_certificates(workspace.path), requests_per_connection=1)
    relay = workspace.own(Relay(front.port))
    daemon = cluster.daemon(QUICK, kubeconfig=through(relay, front.kubeconfig(workspace.path / "http2")))
    wait_for(daemon, "db", ["10.0.0.1", "10.0.0.2"])
    eventually(lambda: all(c["watching"] for c in sources(daemon)["collections"]), RECOVERY)
    before = watches(daemon)
    since = time.monotonic()
    relay.freeze_connections()

    def all_are_opened_again():
        now = watches(daemon)
        assert all(now[name] > count for name, count in before.items()), now
    eventually(all_are_opened_again, 60)
    print(f"all {len(before)} watches opened again after {time.monotonic() - since:.1f} s")
    assert time.monotonic() - since < at_most(10), "one after the other it takes 5 s for each"


# --- clocks ----------------------------------------------------------------------------------------------


@needs_wall_clock
@pytest.mark.parametrize("jump", ["+1d", "-1d", "+1h", "-1h"])
def test_a_clock_that_jumps_changes_no_answer(workspace, jump):
    cluster = Cluster(workspace)
    api = cluster.api
    clock = WallClock(workspace.path / "clock")
    daemon = cluster.daemon(env=clock.environment())
    wait_for(daemon, "web", ["10.96.0.1"])
    with Asker(daemon):
        api.put(service("one", ip="10.96.0.4"))
        wait_for(daemon, "one", ["10.96.0.4"])
        clock.set(jump)
        for i in range(5):
            api.put(endpoint_slice("db", [f"10.0.1.{i}"]), service(f"new{i}", ip=f"10.96.1.{i}"))
            wait_for(daemon, "db", [f"10.0.1.{i}"])
            wait_for(daemon, f"new{i}", [f"10.96.1.{i}"])
        assert collection(daemon, "services")["lists"] == 1 and collection(daemon, "services")["watches"] == 1
        # And while the API is away.
        api.stop()
        eventually(lambda: "has not answered" in daemon.get("/readyz")[1], RECOVERY)
        clock.set("+0")
        api.delete("Service", "one", "shop")
        api.start()
        wait_for_rcode(daemon, "one", "NXDOMAIN")
    assert addresses(daemon, "db") == ["10.0.1.4"]
    eventually(lambda: daemon.get("/readyz") == (200, '{"ready":true,"reasons":[]}\n'), RECOVERY)
