# SPDX-License-Identifier: Apache-2.0
"""How the daemon verifies the API server, and how it authenticates itself."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

from harness.authority import Authority
from harness.kube_api import make_certificates, service
from harness.kube_cluster import RECOVERY, Cluster, sources, wait_for
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = [ONE_THREAD, pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")]


@pytest.fixture
def authority(workspace):
    return Authority(workspace.path)


def cluster_of(workspace, certificates, authority_file, host="127.0.0.1", **fields):
    cluster = Cluster(workspace, certificates=certificates)
    kubeconfig = workspace.path / "kubeconfig"
    config = json.loads(pathlib.Path(cluster.api.kubeconfig(kubeconfig)).read_text())
    entry = {"server": f"https://{host}:{cluster.api.port}", **fields}
    if authority_file:
        entry["certificate-authority"] = str(authority_file)
    config["clusters"][0]["cluster"] = entry
    kubeconfig.write_text(json.dumps(config))
    cluster.path = str(kubeconfig)
    return cluster


@pytest.mark.parametrize("host,san,fields", [
    ("127.0.0.1", "IP:127.0.0.1", {}),
    ("localhost", "DNS:localhost", {}),
    ("localhost", "DNS:other.example.org,DNS:localhost", {}),
    ("127.0.0.1", "DNS:kubernetes.default.svc", {"tls-server-name": "kubernetes.default.svc"}),
    ("127.0.0.1", "DNS:*.default.svc", {"tls-server-name": "kubernetes.default.svc"}),
], ids=["address", "name", "second name", "tls-server-name", "wildcard"])
def test_reads_a_server_whose_certificate_is_good(workspace, authority, host, san, fields):
    certificates = authority.issue("server", f"subjectAltName={san}")
    cluster = cluster_of(workspace, certificates, authority.certificate, host, **fields)
    wait_for(cluster.daemon(kubeconfig=cluster.path), "web", ["10.96.0.1"])


def refuses(cluster, message):
    daemon = cluster.daemon(kubeconfig=cluster.path)
    eventually(lambda: re.search(message, sources(daemon)["lastError"]), RECOVERY)
    daemon.wait_for_log(f"the API server does not answer: .*{message}")
    assert not cluster.api.requests, "nothing is asked of it, and no token is sent"
    assert re.search(message, daemon.get("/readyz")[1])


@pytest.mark.parametrize("host,san,message,fields", [
    ("127.0.0.1", "IP:127.0.0.2", "no alternative certificate subject name matches target (host name|ipv4 address) '127.0.0.1'", {}),
    ("127.0.0.1", "DNS:127.0.0.1", "no alternative certificate subject name matches", {}),
    ("localhost", "DNS:other.example.org", "no alternative certificate subject name matches", {}),
    ("localhost", "IP:127.0.0.1", "no alternative certificate subject name matches", {}),
    ("127.0.0.1", "IP:127.0.0.1", "no alternative certificate subject name matches",
     {"tls-server-name": "kubernetes.default.svc"}),
    ("127.0.0.1", "DNS:*.svc", "no alternative certificate subject name matches",
     {"tls-server-name": "kubernetes.default.svc"}),
], ids=["another address", "address as a name", "another name", "only an address", "not the tls-server-name",
        "wildcard of two labels"])
def test_refuses_a_certificate_for_another_name(workspace, authority, host, san, message, fields):
    certificates = authority.issue("server", f"subjectAltName={san}")
    refuses(cluster_of(workspace, certificates, authority.certificate, host, **fields), message)


@pytest.mark.parametrize("times,message", [
    ({"end": "20210101000000Z"}, "certificate has expired"),
    ({"begin": "20980101000000Z"}, "certificate is not yet valid"),
], ids=["expired", "not yet valid"])
def test_refuses_a_certificate_out_of_its_time(workspace, authority, times, message):
    certificates = authority.issue("server", "subjectAltName=IP:127.0.0.1", **times)
    refuses(cluster_of(workspace, certificates, authority.certificate), message)


def test_says_why_a_file_cannot_be_read_and_reads_it_later(workspace, authority):
    certificates = authority.issue("server", "subjectAltName=IP:127.0.0.1")
    late = workspace.path / "late.crt"
    cluster = cluster_of(workspace, certificates, late)
    daemon = cluster.daemon(kubeconfig=cluster.path, wait=False)
    daemon.wait_for_log(f"the API server cannot be asked: cannot read {late}: No such file or directory")
    shutil.copyfile(authority.certificate, late)
    daemon.wait_until_ready()
    wait_for(daemon, "web", ["10.96.0.1"])


def test_refuses_the_certificate_of_another_authority(workspace, authority):
    certificates = Authority(workspace.path, "other").issue("server", "subjectAltName=IP:127.0.0.1")
    refuses(cluster_of(workspace, certificates, authority.certificate), "unable to get local issuer certificate")


def test_refuses_a_certificate_that_vouches_for_itself(workspace, authority):
    refuses(cluster_of(workspace, make_certificates(workspace.path), authority.certificate), "self.signed certificate"
            .replace(".", "-"))


def test_needs_the_whole_chain(workspace, authority):
    middle = Authority(workspace.path, "middle", issuer=authority)
    certificate, key = middle.issue("server", "subjectAltName=IP:127.0.0.1")
    refuses(cluster_of(workspace, (certificate, key), authority.certificate), "unable to get local issuer certificate")
    chain = workspace.path / "chain.crt"
    chain.write_text(certificate.read_text() + middle.certificate.read_text())
    cluster = cluster_of(workspace, (chain, key), authority.certificate)
    wait_for(cluster.daemon(kubeconfig=cluster.path), "web", ["10.96.0.1"])


def test_a_certificate_that_may_not_issue_others_issues_none(workspace, authority):
    authority.issue("leaf", "basicConstraints=critical,CA:FALSE")
    leaf = Authority.__new__(Authority)
    leaf.directory, leaf.name = workspace.path, "leaf"
    certificate, key = leaf.issue("server", "subjectAltName=IP:127.0.0.1")
    chain = workspace.path / "chain.crt"
    chain.write_text(certificate.read_text() + leaf.certificate.read_text())
    refuses(cluster_of(workspace, (chain, key), authority.certificate), "invalid CA certificate")


def test_an_unverified_server_is_read_only_where_that_is_asked_for_and_said(workspace, authority):
    certificates = make_certificates(workspace.path)
    cluster = cluster_of(workspace, certificates, None, **{"insecure-skip-tls-verify": True})
    daemon = cluster.daemon(kubeconfig=cluster.path)
    wait_for(daemon, "web", ["10.96.0.1"])
    daemon.wait_for_log("insecure-skip-tls-verify is set")
    cluster = cluster_of(workspace, certificates, authority.certificate, **{"insecure-skip-tls-verify": True})
    daemon = cluster.daemon(kubeconfig=cluster.path)
    eventually(lambda: "not together with a certificate-authority" in sources(daemon)["lastError"], RECOVERY)
    assert not cluster.api.requests


def test_the_system_is_not_trusted_beside_the_authority_that_is_given(workspace, authority):
    """libcurl looks into the system's directory of certificates unless it is told not to."""
    unshare = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/ssl/certs && exec "$@"']
    trusted = workspace.path / "trusted"
    trusted.mkdir()
    if subprocess.run([*unshare, str(trusted), "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root")
    other = Authority(workspace.path, "other")
    certificates = other.issue("server", "subjectAltName=IP:127.0.0.1")
    shutil.copy(other.certificate, trusted / "other.pem")
    subprocess.run(["openssl", "rehash", str(trusted)], check=True, capture_output=True)
    cluster = cluster_of(workspace, certificates, authority.certificate)
    daemon = cluster.daemon(kubeconfig=cluster.path, prefix=[*unshare, str(trusted)])
    eventually(lambda: "unable to get local issuer certificate" in sources(daemon)["lastError"], RECOVERY)
    assert not cluster.api.requests


def test_a_wrong_token_is_the_reason(workspace):
    daemon = Cluster(workspace, token="right").daemon(user={"token": "wrong"})
    eventually(lambda: sources(daemon)["lastError"] == "discovery: 401, the API server does not accept the credentials",
               RECOVERY)


def test_a_token_that_is_replaced_is_used_at_once_and_without_a_storm(workspace):
    cluster = Cluster(workspace, token="one")
    file = workspace.path / "token"
    file.write_text("one\n")
    api = cluster.api
    daemon = cluster.daemon(user={"tokenFile": str(file)})
    wait_for(daemon, "web", ["10.96.0.1"])
    for number in range(3):
        api.token = f"number {number}".replace(" ", "-")
        file.write_text(api.token)
        asked, refused = len(api.requests), api.unauthorized
        api.put(service("new", ip=f"10.96.2.{number}"))
        api.reset_connections()
        wait_for(daemon, "new", [f"10.96.2.{number}"], 2 * RECOVERY)
        assert api.unauthorized - refused <= 20 and len(api.requests) - asked < 100
    # A token that is wrong for a while is asked with seldom.
    file.write_text("wrong")
    api.token = "right"
    api.reset_connections()
    eventually(lambda: "401" in sources(daemon)["lastError"], 2 * RECOVERY)
    file.write_text("right")
    api.put(service("new", ip="10.96.3.1"))
    wait_for(daemon, "new", ["10.96.3.1"], 40)
