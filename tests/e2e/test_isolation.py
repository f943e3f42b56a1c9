# SPDX-License-Identifier: Apache-2.0
"""No client learns what another namespace hides, whatever it writes into its queries. A page in a browser cannot
reach the admin endpoint."""

import http.client

import dns.edns
import pytest

from harness.ports import free_port
from harness.preset import THREADS
from harness.waiting import eventually

pytestmark = THREADS

HIDDEN = "secret.example.org"
ADDRESS = "10.66.6.6"


@pytest.fixture
def daemon(workspace):
    workspace.write("a.yaml",
                    {"kind": "ServiceEntry", "metadata": {"name": "secret", "namespace": "vault"},
                     "spec": {"hosts": [HIDDEN, "*.deep.example.org"], "addresses": [ADDRESS], "exportTo": ["."],
                              "resolution": "STATIC",
                              "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}]}},
                    {"kind": "Service", "metadata": {"name": "hidden", "namespace": "vault",
                                                     "annotations": {"networking.istio.io/exportTo": "."}},
                     "spec": {"clusterIP": "10.66.6.7", "ports": [{"port": 80, "name": "http"}]}},
                    {"kind": "Service", "metadata": {"name": "door", "namespace": "shop"},
                     "spec": {"type": "ExternalName", "externalName": HIDDEN}})
    upstream = workspace.upstream([f"{HIDDEN}. 60 A 198.51.100.1", "x.deep.example.org. 60 A 198.51.100.2"])
    return workspace.daemon({"client": {"default": {"namespace": "shop"}}, "server": {"chaos": "allowed"},
                             "mesh": {"authoritative": True}}, upstreams=[upstream])


def subnet(address):
    return dns.edns.ECSOption(address, 32)


SPELLINGS = [f"{HIDDEN}.", "SECRET.Example.ORG.", f"{HIDDEN}.shop.svc.cluster.local.", "hidden.vault.",
             "hidden.vault.svc.cluster.local.", "HIDDEN.VAULT.svc.cluster.local.", "x.deep.example.org.",
             "door.shop.svc.cluster.local.", "_tls._tcp.secret.example.org.", "6.6.66.10.in-addr.arpa.",
             "7.6.66.10.in-addr.arpa.", "10-66-6-7.hidden.vault.svc.cluster.local."]
TYPES = ["A", "AAAA", "ANY", "SRV", "PTR", "TXT", "HTTPS", "CNAME"]
OPTIONS = {
    "none": [],
    "a client subnet of the other namespace": [subnet(ADDRESS), subnet("127.0.0.1")],
    "options of no meaning": [dns.edns.GenericOption(65001, b"vault"), dns.edns.GenericOption(3, b"vault")],
}


@pytest.mark.parametrize("options", list(OPTIONS))
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_nothing_in_a_query_opens_what_is_hidden(daemon, options, transport):
    for name in SPELLINGS:
        for rdtype in TYPES:
            answer = daemon.ask(name, rdtype, transport, options=OPTIONS[options], cd=True, do=True)
            text = answer.message.to_text().replace(";QUESTION\n" + name, "")
            assert ADDRESS not in text and "10.66.6.7" not in text, f"{name} {rdtype}\n{text}"
            assert "vault" not in text.split(";ANSWER")[1].lower().replace("hidden.vault", ""), f"{name}\n{text}"


def service(name, namespace, address, **annotations):
    return {"kind": "Service", "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {"clusterIP": address, "ports": [{"port": 80, "name": "http"}]}}


def test_no_octet_of_an_answer_tells_of_a_hidden_change(workspace):
    """Denials carry a SOA, whose serial once followed every change of a Service."""
    daemon = workspace.daemon({"client": {"default": {"namespace": "shop"}}, "mesh": {"authoritative": True}})
    questions = [("cluster.local.", "SOA"), ("none.shop.svc.cluster.local.", "A"), ("cluster.local.", "TXT")]

    def octets():  # without the ID
        return [daemon.ask(name, rdtype).wire[2:] for name, rdtype in questions]

    before = octets()
    for i in range(3):
        workspace.write("hidden.yaml", service("hidden", "vault", f"10.66.6.{i}",
                                               **{"networking.istio.io/exportTo": "."}))
        workspace.write("seen.yaml", service(f"seen{i}", "shop", "10.66.7.1"))
        eventually(lambda i=i: daemon.ask(f"seen{i}.shop.svc.cluster.local.").addresses() == ["10.66.7.1"], 5)
        assert octets() == before


def test_an_explanation_from_afar_hides_it_too(workspace):
    """Class CH tells the operator, on loopback, about hidden objects; nobody else."""
    workspace.write("a.yaml", {"kind": "ServiceEntry", "metadata": {"name": "secret", "namespace": "vault"},
                               "spec": {"hosts": [HIDDEN], "addresses": [ADDRESS], "exportTo": ["."],
                                        "resolution": "STATIC"}})
    daemon = workspace.daemon({"client": {"default": {"namespace": "shop"}}, "server": {"chaos": "allowed"}})
    operator = " ".join(daemon.ask(f"{HIDDEN}.", "TXT", rdclass="CH").texts())
    assert "vault" in operator


@pytest.mark.parametrize("host", ["attacker.example", "attacker.example:15054", "127.0.0.1.attacker.example", ""])
@pytest.mark.parametrize("path", ["/registry/services", "/config", "/metrics", "/", "/explain?name=a"])
def test_a_page_that_rebinds_its_name_reads_nothing(workspace, host, path):
    port = free_port()
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{port}"}})
    assert daemon.get("/healthz")[0] == 200
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()
