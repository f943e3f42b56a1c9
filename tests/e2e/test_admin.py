"""The admin endpoint: health, readiness, metrics, the registry as JSON, explanations."""

import http.client
import json
import re

import pytest

from harness.ports import free_port
from harness.waiting import eventually

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC",
                "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", API)
    upstream = workspace.upstream(["www.example.org. A 192.0.2.1"])
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])


def metric(daemon, name, **labels):
    """The sum of all series of `name` that have these labels."""
    status, text = daemon.get("/metrics")
    assert status == 200
    total = 0.0
    for line in text.splitlines():
        match = re.match(rf"{name}(?:{{(.*)}})? ([0-9.e+-]+)$", line)
        if match and all(f'{k}="{v}"' in (match.group(1) or "") for k, v in labels.items()):
            total += float(match.group(2))
    return total


def test_is_healthy_and_ready(daemon):
    assert daemon.get("/healthz")[0] == 200
    status, text = daemon.get("/readyz")
    assert status == 200
    json.loads(text)


def test_counts_requests_and_responses(daemon):
    before = metric(daemon, "meshdns_dns_requests_total")
    for _ in range(10):
        daemon.ask("api.example.org.", "A", "udp")
        daemon.ask("api.example.org.", "A", "tcp")
    daemon.ask("missing.example.org.")
    eventually(lambda: metric(daemon, "meshdns_dns_requests_total") == before + 21, 3)
    assert metric(daemon, "meshdns_dns_responses_total", rcode="NXDOMAIN") >= 1
    assert metric(daemon, "meshdns_dns_request_duration_seconds_count") >= 21


def test_metrics_are_well_formed(daemon):
    daemon.ask("api.example.org.")
    _, text = daemon.get("/metrics")
    names = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in names, f"{name} is declared twice"
            names.add(name)
        elif line and not line.startswith("#"):
            assert re.fullmatch(r'[a-zA-Z_:][\w:]*(\{([a-zA-Z_]\w*="([^"\\]|\\.)*",?)*\})? [0-9.e+-]+(\s\d+)?|.* (NaN|[+-]Inf)', line), line
    for family in ("dns", "cache", "forward", "registry"):
        assert any(name.startswith(f"meshdns_{family}_") for name in names), family
    assert "example" not in text, "names of queries are no labels"


def test_shows_the_registry(daemon):
    status, text = daemon.get("/registry/services?host=api.example.org")
    assert status == 200
    assert "api.example.org" in text and "10.0.0.7" in text
    json.loads(text)
    status, text = daemon.get("/registry/services")
    assert status == 200 and "api.example.org" in text


def test_explains(daemon):
    status, text = daemon.get("/explain?name=api.example.org&type=A")
    assert status == 200
    assert "ServiceEntry shop/api" in text and "10.0.0.7" in text


def request(daemon, method, path, headers):
    host, port = daemon.config["admin"]["listen"].rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for key, value in headers.items():
        connection.putheader(key, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_refuses_what_is_not_meant(daemon):
    assert request(daemon, "GET", "/no/such/page", {}) == 404
    assert request(daemon, "GET", "/../../etc/passwd", {}) in (400, 403, 404)
    assert request(daemon, "DELETE", "/healthz", {}) == 405
    # DNS rebinding: a browser that was led here says another host (issue 9, "Isolation").
    assert request(daemon, "GET", "/registry/services", {"Host": "evil.example.org"}) in (400, 403, 421)
    assert daemon.get("/healthz")[0] == 200


def test_bounds_its_requests(daemon):
    assert request(daemon, "GET", "/healthz?" + "x" * 100_000, {}) >= 400
    assert request(daemon, "GET", "/healthz", {"X-Large": "x" * 100_000}) >= 400
    assert daemon.get("/healthz")[0] == 200
