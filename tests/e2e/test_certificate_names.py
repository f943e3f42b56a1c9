# SPDX-License-Identifier: Apache-2.0
"""Names of certificates with an embedded NUL: a C string ends there, and the name looks like the server's (CVE-2009-2408)."""

import json
import pathlib
import shutil

import pytest

from harness.authority import Authority, name_with_nul
from harness.kube_cluster import Cluster, sources
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = [ONE_THREAD, pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")]


def follow_api_server(workspace, authority):
    cluster = Cluster(workspace, certificates=authority.issue("server", name_with_nul("localhost")))
    path = workspace.path / "kubeconfig"
    config = json.loads(pathlib.Path(cluster.api.kubeconfig(path)).read_text())
    config["clusters"][0]["cluster"] = {"server": cluster.api.url.replace("127.0.0.1", "localhost"),
                                        "certificate-authority": str(authority.certificate)}
    path.write_text(json.dumps(config))
    daemon = cluster.daemon(kubeconfig=str(path))
    eventually(lambda: "certificate" in sources(daemon)["lastError"], 10)
    assert not cluster.api.requests


def ask_upstream(workspace, authority):
    upstream = workspace.upstream(["*. 300 A 192.0.2.1"], certificates=authority.issue("server", name_with_nul("dns.test")))
    daemon = workspace.daemon({"upstream": {"tls": {"ca_file": str(authority.certificate)}, "timeout": "1s"},
                               "admin": {"listen": f"127.0.0.1:{free_port()}"}},
                              upstreams=[upstream.server.replace("#127.0.0.1", "#dns.test")])
    assert daemon.ask("www.example.org.").rcode == "SERVFAIL"
    assert not upstream.received()


@pytest.mark.parametrize("connect", [follow_api_server, ask_upstream])
def test_a_name_with_an_embedded_nul_vouches_for_no_server(workspace, connect):
    connect(workspace, Authority(workspace.path))
