# SPDX-License-Identifier: Apache-2.0
"""The admin endpoint: health, readiness, metrics, the registry as JSON, explanations."""

import fcntl
import http.client
import json
import os
import re
import socket
import urllib.error
import urllib.request

import pytest

from harness.daemon import ROOT, Daemon, merge
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

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


def test_explains_a_connection(daemon):
    status, text = daemon.get("/explain?connect=10.0.0.7:80&host=api.example.org")
    assert status == 200, text
    page = json.loads(text)
    assert (page["host"], page["rule"]) == ("api.example.org", "HTTP host"), page
    status, text = daemon.get("/explain?connect=nowhere")
    assert status == 400 and "connect=" in text, text


def test_explains(daemon):
    status, text = daemon.get("/explain?name=api.example.org&type=A")
    assert status == 200
    assert "ServiceEntry shop/api" in text and "10.0.0.7" in text


def test_explains_an_unknown_name_by_those_near_it(daemon):
    page = daemon.get_json("/explain?name=api.exmaple.org")
    assert (page["near"], page["nearComplete"]) == ([{"name": "api.example.org", "namespace": "shop"}], True)
    assert daemon.get_json("/explain?name=api.example.org")["near"] == []
    assert daemon.get("/explain?name=api.exmaple.org&format=text")[1].endswith("near names: api.example.org (namespace shop)\n")


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


PAGES = re.findall(r"^\| (POST )?`(/[a-z./]*)[^|`]*`(?:, `(/[a-z./]*)`)?(?: or [^|]*)? \|",
                   (ROOT / "docs" / "admin.md").read_text().split("### Probes")[0].split("### Parameters")[0], re.M)


def documented_parameters():
    """{(method, path): the names} of the table in admin.md."""
    table = (ROOT / "docs" / "admin.md").read_text().split("### Parameters")[1].split("\n### ")[0]
    return {(post.strip() or "GET", path): re.findall(r"`(\w+)`", names)
            for post, path, names in re.findall(r"^\| (POST )?`(/[a-z./]*)` \| (.*) \|$", table, re.M)}


def body_of(daemon, method, path):
    if method == "GET":
        return daemon.get(path)[1]
    host, port = daemon.config["admin"]["listen"].rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    connection.request(method, path)
    return connection.getresponse().read().decode()


def test_every_page_refuses_unknown_parameters(daemon):
    documented = documented_parameters()
    paths = {(post.strip() or "GET", path) for post, *some in PAGES for path in some if path}
    assert len(paths) > 20 and {("GET", "/cache"), ("POST", "/cache/flush"), ("GET", "/status.js"), ("GET", "/healthz")} <= paths
    for method, path in sorted(paths):
        assert request(daemon, method, path, {}) not in (404, 405), path
        expected = 200 if path in ("/healthz", "/readyz", "/metrics") else 400
        assert request(daemon, method, path + "?nonsense=", {}) == expected, path
        if expected == 400:
            names = documented.pop((method, path), None)
            error = json.loads(body_of(daemon, method, path + "?nonsense="))["error"]
            assert error.endswith(f", only {', '.join(names)}" if names else "; it has none"), (method, path, error)
    assert not documented
    status, text = daemon.get("/top?limits=3")
    assert (status, json.loads(text)["error"]) == (400, '/top has no parameter "limits", only limit; did you mean "limit"?')


@pytest.mark.parametrize("question", ["name=api.example.org", "name=api&search=yes", "connect=10.0.0.7:80"])
def test_says_that_nothing_is_in_a_namespace(daemon, question):
    for wrong in ("no%20name", "10.0.0.7:80", "a" * 64, "under_score", "-a"):
        status, text = daemon.get(f"/explain?{question}&from={wrong}")
        assert (status, "from= is neither an IP address nor a namespace" in text) == (400, True), wrong
    note = r'no object of the registry is in namespace \"shpo\"; did you mean \"shop\"?'
    assert note in daemon.get(f"/explain?{question}&from=shpo")[1]
    assert "no object of the registry" not in daemon.get(f"/explain?{question}&from=shop")[1]


def test_lists_no_more_entries_of_the_cache_than_asked(daemon):
    for name in ("www.example.org.", "a.example.org.", "b.example.org."):
        daemon.ask(name)
    cut = daemon.get_json("/cache?zone=example.org&limit=2")
    assert [entry["name"] for entry in cut["entries"]] == ["a.example.org.", "b.example.org."]
    assert (cut["found"], cut["complete"]) == (3, False)
    for wrong in ("name=a&zone=b", "zone=.&top=yes", "name=a..b", "zone=.&limit=0", "zone=.&limit=10001", "top=yes&limit=x"):
        assert daemon.get("/cache?" + wrong)[0] == 400, wrong


def test_refuses_unsupported_requests(daemon):
    assert request(daemon, "GET", "/no/such/page", {}) == 404
    assert request(daemon, "GET", "/../../etc/passwd", {}) in (400, 403, 404)
    assert request(daemon, "DELETE", "/healthz", {}) == 405
    # DNS rebinding: a browser that was led here sends another host.
    assert request(daemon, "GET", "/registry/services", {"Host": "evil.example.org"}) in (400, 403, 421)
    assert daemon.get("/healthz")[0] == 200


def test_bounds_its_requests(daemon):
    assert request(daemon, "GET", "/healthz?" + "x" * 100_000, {}) >= 400
    assert request(daemon, "GET", "/healthz", {"X-Large": "x" * 100_000}) >= 400
    assert daemon.get("/healthz")[0] == 200


TOKEN = "0123456789abcdef0123456789abcdef"


def admin_with_token(workspace):
    """The section of a configuration that allows changes over TCP to those who have TOKEN."""
    (workspace.path / "token").write_text(TOKEN + "\n")
    return {"admin": {"listen": f"127.0.0.1:{free_port()}", "token_file": str(workspace.path / "token")}}


def post(daemon, path):
    """(status, text) of a POST with the token."""
    try:
        wanted = urllib.request.Request(daemon.admin_url + path, method="POST",
                                        headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(wanted, timeout=seconds(5)) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_changes_the_log_level_until_the_next_reload(workspace):
    daemon = workspace.daemon(admin_with_token(workspace))
    assert daemon.get_json("/log/level") == {"level": "info"}
    status, text = post(daemon, "/log/level?level=debug")
    assert (status, json.loads(text)) == (200, {"level": "debug"})
    assert daemon.get_json("/log/level") == {"level": "debug"}
    daemon.wait_for_log("log level changed from=info to=debug")
    for bad in ("", "?level=", "?level=loud"):
        status, text = post(daemon, "/log/level" + bad)
        assert status == 400 and "trace" in json.loads(text)["error"]
    daemon.reload()
    eventually(lambda: daemon.get_json("/log/level") == {"level": "info"})


def test_flushes_the_cache_by_name_and_by_zone(workspace):
    upstream = workspace.upstream([f"{name} 300 A 192.0.2.1" for name in
                                   ("a.one.test.", "b.one.test.", "a.two.test.")])
    daemon = workspace.daemon(admin_with_token(workspace), upstreams=[upstream])

    def fill():
        for name in ("a.one.test.", "b.one.test.", "a.two.test."):
            assert daemon.ask(name).addresses() == ["192.0.2.1"]

    fill()
    # A name is of every type and case, and of no other name.
    assert json.loads(post(daemon, "/cache/flush?name=A.one.test")[1]) == {"removed": 1}
    assert json.loads(post(daemon, "/cache/flush?name=A.one.test")[1]) == {"removed": 0}
    fill()
    assert json.loads(post(daemon, "/cache/flush?zone=one.test")[1]) == {"removed": 2}
    fill()
    assert json.loads(post(daemon, "/cache/flush?zone=.")[1]) == {"removed": 3}
    daemon.wait_for_log(r"cache flushed zone=\. entries=3")
    for bad in ("", "?name=", "?name=a&zone=b", "?name=a..b", "?zone=" + "x" * 64):
        assert post(daemon, "/cache/flush" + bad)[0] == 400, bad
    assert daemon.get("/cache/flush?zone=.")[0] == 405


def test_shows_the_upstreams(daemon):
    daemon.ask("www.example.org.")
    (upstream,) = daemon.get_json("/upstreams")
    assert upstream["server"] == daemon.config["upstream"]["servers"][0]
    assert upstream["health"] == "up"
    assert upstream["queries"] >= 1 and upstream["answers"] >= 1


def test_shows_the_names_that_are_kept_resolved(workspace):
    upstream = workspace.upstream(["a.example.test. 2 A 192.0.2.1"])
    workspace.write("entry.yaml", {
        "kind": "ServiceEntry", "metadata": {"name": "db"},
        "spec": {"hosts": ["db.example.org"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
                 "resolution": "DNS", "endpoints": [{"address": "a.example.test"}, {"address": "192.0.2.9"}]}})
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])
    assert sorted(daemon.ask("db.example.org.").addresses()) == ["192.0.2.1", "192.0.2.9"]

    def ipv4():
        (name,) = daemon.get_json("/resolver")
        assert (name["host"], name["state"]) == ("a.example.test", "resolved")
        return next(family for family in name["families"] if family["family"] == "ipv4")

    well = ipv4()
    assert well["addresses"] == ["192.0.2.1"] and well["lastError"] == "" and not well["stale"]
    assert well["nextRefreshInMs"] <= well["expiresInMs"] <= 2000
    upstream.set(rules=[{"drop": True}])
    eventually(lambda: ipv4()["stale"] and ipv4()["expiresInMs"] <= 0 and "answered in time" in ipv4()["lastError"], 20.0, 0.1)
    assert ipv4()["addresses"] == ["192.0.2.1"]


def test_serves_on_a_unix_socket(workspace):
    path = workspace.path / "admin.sock"
    daemon = workspace.daemon({"admin": {"listen": f"unix:{path}"}})
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds(5))
    connection.connect(str(path))
    connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
    with connection, connection.makefile("rb") as response:
        assert response.read().endswith(b"\r\n\r\nok\n")
    workspace.forget(daemon)
    daemon.stop()
    assert not path.exists()


def test_stays_where_it_was_when_a_reload_cannot_move_it(daemon):
    before = daemon.config
    daemon.write_config(merge(before, {"admin": {"listen": "192.0.2.1:1"}}))
    daemon.reload()
    daemon.wait_for_log(r"ERROR admin\.listen: cannot bind 192\.0\.2\.1:1")
    daemon.config = before
    assert daemon.get("/healthz") == (200, "ok\n")


def test_moves_as_soon_as_the_other_program_has_gone(daemon):
    """An address that is taken: said at /readyz, and tried again without another reload."""
    taken = [socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    for each in taken:
        each.bind(("127.0.0.1", free_port()))
    admin, server = (f"127.0.0.1:{each.getsockname()[1]}" for each in taken)
    before = daemon.config
    daemon.write_config(merge(before, {"admin": {"listen": admin}, "server": {"listen": [server]}}))
    after, daemon.config = daemon.config, before
    daemon.reload()

    def is_said():
        status, text = daemon.get("/readyz")
        assert status == 200
        reasons = json.loads(text)["reasons"]
        return [f"not bound: admin.listen: cannot bind {admin}" in r for r in reasons].count(True) == 1 and \
            any(r.startswith(f"not bound: cannot listen on {server}") for r in reasons)

    eventually(is_said)
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    for each in taken:
        each.close()
    daemon.config = after

    def has_moved():
        try:
            return daemon.get_json("/readyz") == {"ready": True, "reasons": []}
        except urllib.error.URLError:
            return False

    eventually(has_moved, 15)
    daemon.wait_for_log(f"listening address={re.escape(server)}")
    assert len([line for line in daemon.process.log_lines() if "cannot bind" in line]) == 1


def test_writes_the_query_log_that_is_asked_for(workspace):
    workspace.write("api.yaml", API)
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"},
                               "log": {"level": "warn", "queries": {"class": "denial"}}},
                              upstreams=[workspace.upstream()])
    daemon.ask("api.example.org.", "A")
    daemon.ask("api.example.org.", "AAAA")
    daemon.ask("missing.example.org.", "A", "tcp")
    line = daemon.wait_for_log(r" INFO query .*name=missing\.example\.org\.")
    assert re.search(r"client=127\.0\.0\.1:\d+ proto=tcp id=\d+ .*rcode=NXDOMAIN .*source=forward "
                     r"upstream=127\.0\.0\.1:\d+", line), line
    line = daemon.wait_for_log(r" INFO query .*type=AAAA")
    assert "source=registry" in line and 'identity=client.default' in line, line
    assert not any("type=A " in text and "name=api" in text for text in daemon.process.log_lines())
    # A reload turns it off, for all workers.
    daemon.write_config(merge(daemon.config, {"log": {"level": "info", "queries": {"class": "off"}}}))
    daemon.reload()
    daemon.wait_for_log("configuration changed section=log")
    position = daemon.log_position()
    for _ in range(20):
        daemon.ask("api.example.org.", "AAAA")
    daemon.reload()
    daemon.wait_for_log("reloading", after=position)
    assert not any(" query " in line for line in daemon.process.log_lines()[position:])


def test_counts_the_lines_of_the_query_log_that_nobody_read(workspace):
    """stderr is a pipe that is full: queries are answered all the same."""
    workspace.write("api.yaml", API)
    home = workspace.path / "stuck"
    home.mkdir()
    config = workspace.config({"admin": {"listen": f"127.0.0.1:{free_port()}"},
                               "log": {"queries": {"class": "all"}}})
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    daemon = Daemon(config, home, wait=False, prefix=["bash", "-c", f"exec \"$@\" 2>&{write_end}", "bash"],
                    pass_fds=[write_end])
    workspace.own(daemon)
    os.close(write_end)
    host, port = config["server"]["listen"][0].rsplit(":", 1)
    daemon.server = (host, int(port))

    def is_ready():
        try:
            return daemon.get("/readyz")[0] == 200
        except urllib.error.URLError:
            return False

    eventually(is_ready, 15)
    for _ in range(6000):
        assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    eventually(lambda: metric(daemon, "meshdns_query_log_dropped_total") > 0, 5)
    os.close(read_end)


@pytest.mark.parametrize("host, reached", [("127.0.0.1", ["127.0.0.1"]), ("[::]", ["127.0.0.1", "[::1]"])])
def test_an_address_for_health_and_metrics_shows_nothing_else(workspace, host, reached):
    """It follows the configuration, as admin.listen does."""
    workspace.write("api.yaml", API)
    port = free_port()
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}", "metrics_listen": f"{host}:{port}"}},
                              upstreams=[workspace.upstream([])])
    for address in reached:
        url = f"http://{address}:{port}"
        for path, text in (("/healthz", "ok\n"), ("/readyz", '"ready":true'), ("/metrics", "process_open_fds ")):
            with urllib.request.urlopen(url + path, timeout=seconds(5)) as response:
                assert response.status == 200 and text in response.read().decode()
        for path in ("/", "/registry/services", "/sources", "/explain?name=api.example.org", "/upstreams"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url + path, timeout=seconds(5))
            assert refused.value.code == 404
    daemon.write_config(merge(daemon.config, {"admin": {"metrics_listen": ""}}))
    daemon.reload()

    def is_closed():
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=seconds(5)).close()
        except urllib.error.URLError:
            return
        except ConnectionResetError:
            pass  # it closed meanwhile: asked once more
        raise AssertionError("the address for health and metrics still answers")
    eventually(is_closed)
    assert daemon.get("/healthz") == (200, "ok\n")


def test_an_address_for_metrics_that_is_taken_is_served_once_it_is_free(workspace):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}", "metrics_listen": address}})
        daemon.wait_for_log(rf"ERROR admin\.metrics_listen: cannot bind {address}")
        assert [f"not bound: admin.metrics_listen: cannot bind {address}" in reason
                for reason in daemon.get_json("/readyz")["reasons"]].count(True) == 1
    daemon.config = merge(daemon.config, {"admin": {"listen": address}})

    def is_served():
        try:
            return daemon.get("/healthz") == (200, "ok\n")
        except urllib.error.URLError:
            return False
    eventually(is_served, 15)
