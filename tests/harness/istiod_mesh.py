# SPDX-License-Identifier: Apache-2.0
"""A mesh with fake istiods, and daemons of one workload that follow them."""

import shlex

from harness.authority import Authority
from harness.daemon import merge
from harness.fake_istiod import FakeIstiod
from harness.ports import free_port
from harness.waiting import eventually

SERVER_NAME = "istiod.istio-system.svc"
NODE = {"address": ["10.0.0.5", "2001:db8::5"], "name": "vm-1", "namespace": "shop", "cluster": "east",
        "network": "net-1", "labels": {"app": "vm"}}


class Mesh:
    def __init__(self, workspace):
        self.workspace = workspace
        self.authority = Authority(workspace.path)
        self.certificates = self.authority.issue("istiod", f"subjectAltName=DNS:{SERVER_NAME}")
        self.token = workspace.path / "istio-token"
        self.token.write_text("token-1\n")
        self.upstream = workspace.upstream()

    def istiod(self, certificates=None, **options):
        return self.workspace.own(FakeIstiod(certificates or self.certificates, **options))

    def end(self, istiod):
        istiod.close()
        self.workspace.forget(istiod)

    def config(self, sources, change=None):
        return merge({"sources": sources, "admin": {"listen": f"127.0.0.1:{free_port()}"},
                      "client": {"default": {"namespace": "shop"}}}, change or {})

    def entry(self, istiod, **keys):
        """An element of `sources`."""
        return {"istiod": {"address": istiod.address, "server_name": SERVER_NAME, "node": NODE,
                           "ca_file": str(self.authority.certificate), "token_file": str(self.token), **keys}}

    def vm_directory(self, istiod, environment=None):
        """The files that `istioctl x workload entry configure` writes, in a directory of their own."""
        directory = self.workspace.path / "vm"
        directory.mkdir(exist_ok=True)
        values = {"CANONICAL_REVISION": "latest", "CANONICAL_SERVICE": "vm", "ISTIO_INBOUND_PORTS": "*",
                  "ISTIO_LOCAL_EXCLUDE_PORTS": "22,15090,15021,15020", "ISTIO_METAJSON_LABELS": '{"app":"vm"}',
                  "ISTIO_META_CLUSTER_ID": "east", "ISTIO_META_DNS_CAPTURE": "true", "ISTIO_META_MESH_ID": "",
                  "ISTIO_META_NETWORK": "net-1", "ISTIO_META_WORKLOAD_NAME": "vm", "ISTIO_NAMESPACE": "shop",
                  "ISTIO_SERVICE": "vm.shop", "ISTIO_SERVICE_CIDR": "*", "ISTIO_SVC_IP": "10.0.0.5",
                  "POD_NAMESPACE": "shop", "SERVICE_ACCOUNT": "vm", "TRUST_DOMAIN": "cluster.local",
                  **(environment or {})}
        (directory / "cluster.env").write_text(
            "".join(f"{key}={shlex.quote(value)}\n" for key, value in sorted(values.items())))
        (directory / "mesh.yaml").write_text(
            f"defaultConfig:\n  discoveryAddress: {SERVER_NAME}:{istiod.port}\n"
            "  proxyMetadata:\n    ISTIO_META_DNS_CAPTURE: \"true\"\n")
        (directory / "hosts").write_text(f"127.0.0.1 {SERVER_NAME}\n")
        (directory / "root-cert.pem").write_bytes(self.authority.certificate.read_bytes())
        (directory / "istio-token").write_text("token-1")
        return directory

    def daemon(self, istiod, change=None, **keys):
        return self.workspace.daemon(self.config([self.entry(istiod, **keys)], change), upstreams=[self.upstream])

    @staticmethod
    def source(daemon):
        (source,) = daemon.get_json("/sources")
        return source

    @staticmethod
    def wait_for(daemon, name, expected, limit=5.0):
        def check():
            found = sorted(daemon.ask(name).addresses())
            assert found == expected, f"{name}: {found}"
        eventually(check, limit)
