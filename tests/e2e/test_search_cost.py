# SPDX-License-Identifier: Apache-2.0
"""The cost of an outside name for a pod with ndots:5 and a search list of five, counted at the upstream."""

import pytest

from harness.dns_client import Question, ask
from harness.preset import ONE_THREAD

pytestmark = ONE_THREAD

SEARCH = ["web.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example", "eu.corp.example"]
HOST = "www.example.net"


def resolve(server, host):
    """As glibc, musl and Go do with ndots:5: each search domain in turn, then the name itself; both
    families each time; the first that has addresses ends it. The number of queries, and the addresses."""
    queries = 0
    for domain in [*SEARCH, ""]:
        name = f"{host}.{domain}." if domain else f"{host}."
        found = []
        for family in ("A", "AAAA"):
            queries += 1
            found += ask(server, Question(name, family)).addresses()
        if found:
            return queries, sorted(found)
    return queries, []


@pytest.mark.parametrize("shortcut, client_queries, upstream_queries", [("off", 12, 4), ("all", 2, 4)])
def test_an_outside_name_with_five_search_domains(workspace, shortcut, client_queries, upstream_queries):
    workspace.write("web.yaml", {"kind": "Namespace", "metadata": {"name": "web"}})
    upstream = workspace.upstream([f"{HOST}. 60 A 192.0.2.1", f"{HOST}. 60 AAAA 2001:db8::1"])
    daemon = workspace.daemon(
        {"mesh": {"authoritative": True, "search_shortcut": shortcut},
         "client": {"default": {"namespace": "web", "search": SEARCH}}}, upstreams=[upstream])
    queries, found = resolve(daemon.server, HOST)
    assert found == ["192.0.2.1", "2001:db8::1"]
    # A busy upstream is asked the same once more.
    sent = {str(r) for r in upstream.received() if r.name.lower().startswith(HOST)}
    assert (queries, len(sent)) == (client_queries, upstream_queries), sent
    assert not [r for r in sent if "cluster.local" in r], "a name of the cluster left it"
