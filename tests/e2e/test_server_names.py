# SPDX-License-Identifier: Apache-2.0
"""Host names of API servers and of istiod: the addresses are those that the servers of resolv.conf give, and neither
libcurl nor gRPC asks the resolver of the machine, which is meshdns itself here."""

import contextlib
import json
import re
import shutil

import pytest

from harness.connect_proxy import ConnectProxy
from harness.daemon import binary
from harness.istiod_mesh import Mesh
from harness.kube_api import KubeApi, namespace, service
from harness.namespaces import Namespaces, available, inside
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = [ONE_THREAD, pytest.mark.skipif(not shutil.which("openssl") or not available(),
                                reason="needs openssl and network namespaces")]

RESOLVER = "127.0.0.9"
SILENT = [{"drop": True}]
BIND = 'mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/hosts && mount --bind "$3" /run && shift 3 && exec "$@"'
RECOVERY = 20.0  # seconds; a lookup that failed is repeated within 5 s


class Node:
    """A machine of its own, as far as names go: resolv.conf names meshdns first, and then a server that knows the names."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.mesh = Mesh(workspace)
        self.resolver = workspace.upstream(address=RESOLVER, port=53)
        self.files = [workspace.path / name for name in ("resolv.conf", "hosts", "run")]
        self.files[0].write_text(f"nameserver 127.0.0.1\nnameserver {RESOLVER}\nsearch corp.example.org\n")
        self.files[1].write_text("127.0.0.1 localhost\n")
        self.files[2].mkdir()
        self.state = workspace.path / "state"
        self.state.mkdir(mode=0o700)

    def knows(self, *records):
        self.resolver.set([f"{name} A 127.0.0.1" if " A " not in name else name for name in records]
                          + ["server.example.org. 1 AAAA 2001:db8::1"])

    def daemon(self, source):
        change = {"server": {"listen": ["127.0.0.1:53"]}, "state_dir": str(self.state), "upstream": {"timeout": "300ms"}}
        return self.workspace.daemon(self.mesh.config([source], change), upstreams=[self.mesh.upstream],
                                     prefix=["unshare", "--mount", "sh", "-c", BIND, "sh", *map(str, self.files)])

    def forget(self, daemon):
        daemon.stop()
        self.workspace.forget(daemon)


class Api:
    """An API server by its name."""

    def __init__(self, node, host="server.example.org", proxy=None):
        certificates = node.mesh.authority.issue("api", f"subjectAltName=DNS:{host},IP:127.0.0.1")
        self.server = node.workspace.own(KubeApi(certificates=certificates))
        self.server.put(namespace("shop"), service("web", ip="10.96.0.1"))
        path = node.workspace.path / "kubeconfig"
        config = json.loads(open(self.server.kubeconfig(path)).read())
        cluster = config["clusters"][0]["cluster"]
        cluster["server"] = f"https://{host}:{self.server.port}"
        cluster["certificate-authority"] = str(node.mesh.authority.certificate)
        if proxy:
            cluster["proxy-url"] = proxy
        path.write_text(json.dumps(config))
        self.source = {"kubernetes": {"kubeconfig": str(path)}}

    def contacts(self):
        return len(self.server.requests)


class Istiod:
    """An istiod by its name, which is the name in its certificate, too."""

    def __init__(self, node, host="server.example.org"):
        certificates = node.mesh.authority.issue("named", f"subjectAltName=DNS:{host}")
        self.server = node.mesh.istiod(certificates, table={"web.example.org": {"ips": ["10.96.0.1"]}})
        self.source = node.mesh.entry(self.server, address=f"{host}:{self.server.port}", server_name="")

    def contacts(self):
        return len(self.server.streams)


@pytest.fixture
def node(workspace):
    namespaces = Namespaces()
    with contextlib.closing(namespaces):
        name = namespaces.make("names")
        namespaces.configure(name, "link set lo up")
        with inside(name):
            yield Node(workspace)


@pytest.fixture(params=[Api, Istiod], ids=["kubernetes", "istiod"])
def kind(request):
    if request.param is Istiod and not (binary().parent / "meshdns-istiod.so").exists():
        pytest.skip("needs the module")
    return request.param


def source(daemon):
    (one,) = json.loads(daemon.get("/sources")[1])
    return one


def wait_until_read(daemon):
    eventually(lambda: source(daemon)["complete"], RECOVERY)


def wait_for_error(daemon, pattern):
    eventually(lambda: re.search(pattern, source(daemon)["lastError"]), RECOVERY)


def queries(daemon):
    """Number of queries that the daemon got."""
    lines = daemon.get("/metrics")[1].splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("meshdns_dns_requests_total{"))


def test_a_server_is_found_when_its_name_is_known_and_after_a_restart_without_a_resolver(node, kind):
    server = kind(node)
    node.resolver.set([], SILENT)
    daemon = node.daemon(server.source)
    wait_for_error(daemon, "server.example.org.* cannot be looked up|its name cannot be looked up")
    assert server.contacts() == 0
    node.knows("server.example.org. 1")
    wait_until_read(daemon)
    assert queries(daemon) == 0, "the resolver of this machine was asked, which is meshdns"
    node.forget(daemon)
    before = server.contacts()
    node.resolver.set([], SILENT)
    daemon = node.daemon(server.source)
    eventually(lambda: server.contacts() > before, RECOVERY)
    assert queries(daemon) == 0


def test_an_address_is_looked_up_again_at_the_end_of_its_ttl(node, kind):
    server = kind(node)
    node.knows("server.example.org. 1 A 127.0.0.3")
    daemon = node.daemon(server.source)
    wait_for_error(daemon, "(?i)connect")
    node.knows("server.example.org. 1")
    wait_until_read(daemon)


def test_the_file_of_the_version_before_is_read(node, kind):
    server = kind(node)
    (node.state / "servers").write_text("server.example.org 127.0.0.1\n")
    node.resolver.set([], SILENT)
    wait_until_read(node.daemon(server.source))


def test_a_name_of_the_search_list_is_found_and_the_hosts_file_comes_first(node, kind):
    server = kind(node, "server")
    node.knows("server.corp.example.org. 60")
    daemon = node.daemon(server.source)
    wait_until_read(daemon)
    node.forget(daemon)
    node.files[1].write_text("127.0.0.1 server\n")
    node.knows("server.corp.example.org. 60 A 127.0.0.3")
    (node.state / "servers").unlink()
    before = server.contacts()
    node.daemon(server.source)
    eventually(lambda: server.contacts() > before, RECOVERY)


def test_a_proxy_is_found_by_its_name_and_finds_the_server(node):
    proxy = node.workspace.own(ConnectProxy())
    server = Api(node, "127.0.0.1", f"http://proxy.example.org:{proxy.port}")
    node.knows("proxy.example.org. 60")
    daemon = node.daemon(server.source)
    wait_until_read(daemon)
    assert set(proxy.targets) == {f"127.0.0.1:{server.server.port}"}
    assert queries(daemon) == 0
