# SPDX-License-Identifier: Apache-2.0
"""The status page: what a person sees who opens the admin endpoint in a browser."""

import contextlib
import html.parser
import json
import re
import signal
import urllib.error
import urllib.parse
import urllib.request

import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC",
                "exportTo": ["."]}}
VOID = {"meta", "input", "polyline"}


class Page(html.parser.HTMLParser):
    """The page's elements; fails on a tag that is not closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.rows, self.text = [], [], [], ""
        self._heading = ""
        self.feed(text)
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def row(self, first):
        return next(row for row in self.rows if row and row[0] == first)


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", API)
    upstream = workspace.upstream(["www.example.org. 300 A 192.0.2.1"])
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])


def page_of(daemon, **arguments):
    status, text = daemon.get("/?" + urllib.parse.urlencode(arguments))
    assert status == 200
    # Nothing from elsewhere, and one script, the daemon's own: it works in every browser and without a network.
    assert text.count("<script") == 1 and '<script src="/status.js"></script>' in text
    assert "http:" not in text and "https:" not in text and "javascript" not in text
    return Page(text)


def test_shows_sources_upstreams_and_what_is_wrong(workspace, daemon):
    daemon.ask("www.example.org.")
    page = page_of(daemon)
    assert "healthy All sources have been read" in page.text
    (source,) = [row for row in page.rows if row and row[0].startswith("files:")]
    assert source[1] == "yes" and re.fullmatch(r"\d+ s ago", source[2]) and source[4] == "0"
    upstream = page.row(daemon.config["upstream"]["servers"][0])
    assert upstream[1] == "up" and float(upstream[2].split()[0]) > 0 and int(upstream[4]) >= 1
    workspace.write_text("broken.yaml", "kind: ServiceEntry\nspec: [")

    def is_marked():
        page = page_of(daemon)
        return {"class": "bad"} in page.all("tr") and "broken.yaml" in page.text

    eventually(is_marked, 5)
    page = page_of(daemon)
    assert "Mistakes in resources" in page.text and "Endpoints whose names do not resolve" not in page.text


def test_shows_endpoints_whose_names_do_not_resolve(workspace):
    workspace.write("api.yaml", {"kind": "ServiceEntry", "metadata": {"name": "far", "namespace": "shop"},
                                 "spec": {"hosts": ["far.example.org"], "resolution": "DNS",
                                          "endpoints": [{"address": "nowhere.example.net"}]}})
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[workspace.upstream()])

    def is_listed():
        assert "Endpoints whose names do not resolve" in page_of(daemon).text
        return page_of(daemon).row("nowhere.example.net")

    eventually(is_listed, 10)


def test_draws_what_was_answered(daemon):
    def points(page):
        return [line["points"].split() for line in page.all("polyline")]

    def draws():
        for _ in range(20):
            daemon.ask("api.example.org.")
        lines = points(page_of(daemon))
        # Two charts of two lines (the small ones of upstream servers are paths); the line of answers has left the
        # bottom, which is y = 109.
        return len(lines) == 4 and any(float(point.split(",")[1]) < 100 for point in lines[0])

    eventually(draws, 10)
    page = page_of(daemon)
    assert len(page.all("figure")) == 2 and "Answers per second" in page.text and "Latency" in page.text
    for line in points(page):
        for point in line:
            x, y = map(float, point.split(","))
            assert 0 <= x <= 600.1 and 0 <= y <= 110


def test_explains_a_name_for_the_client_that_is_chosen(daemon):
    for namespace, expected in (("shop", "10.0.0.7"), ("other", "exportTo does not include namespace other")):
        page = page_of(daemon, name="api.example.org", type="A", **{"from": namespace})
        assert "ServiceEntry shop/api" in page.text and expected in page.text, namespace
        # The form keeps what was asked.
        assert [field["value"] for field in page.all("input")] == ["api.example.org", "A", namespace]
    assert '"NONE" is not a record type' in page_of(daemon, name="api.example.org", type="NONE").text


def test_sends_what_changes_to_browsers_that_stay(workspace, daemon):
    with urllib.request.urlopen(daemon.admin_url + "/live", timeout=seconds(10)) as events:
        assert events.headers["Content-Type"] == "text/event-stream"

        def event():
            kind, data = "", []
            for line in iter(events.readline, b""):
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if not name:
                    return kind, "\n".join(data)
                kind = value if name == "event" else kind
                data += [value] if name == "data" else []
            return None

        kind, text = event()
        assert kind == "state" and 'data-state="healthy"' in text
        kind, text = event()
        assert kind == "live" and "Upstream servers" in text and "broken.yaml" not in text
        workspace.write_text("broken.yaml", "kind: ServiceEntry\nspec: [")
        while 'data-state="degraded"' not in text:
            kind, text = event()
        assert kind == "state" and "broken.yaml" in text
        daemon.process.send_signal(signal.SIGTERM)
        while event():
            pass


def test_limits_the_browsers_that_stay(daemon):
    with contextlib.ExitStack() as open_streams:
        for _ in range(16):
            open_streams.enter_context(urllib.request.urlopen(daemon.admin_url + "/live", timeout=seconds(10)))
        status, text = daemon.get("/live")
        assert status == 503 and "too many browsers" in text
    # They have gone, and the daemon sees that when it writes.
    eventually(lambda: is_live(daemon), 20)


def is_live(daemon):
    try:
        with urllib.request.urlopen(daemon.admin_url + "/live", timeout=seconds(10)):
            return True
    except urllib.error.HTTPError:
        return False


def test_shows_input_as_text(daemon):
    attack = '"><script>alert(1)</script><input value="'
    page = page_of(daemon, name=attack, type=attack, **{"from": attack})
    assert [field["value"] for field in page.all("input")] == [attack] * 3
    label = "<b>x\\\"</b>"
    daemon.ask(f"{label}.example.org.")
    assert page_of(daemon).all("b") == []


def test_shows_control_octets_of_file_names_as_text(workspace):
    workspace.write_text("bad\n\x1b[31m.yaml", "kind: [")
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    status, text = daemon.get("/")
    assert status == 200 and "bad\\010\\027[31m.yaml" in text and "\x1b" not in text


def explained(daemon, **arguments):
    status, text = daemon.get("/explain?" + urllib.parse.urlencode(arguments))
    return status, json.loads(text)


def test_the_status_has_the_figures_of_the_page(daemon):
    def is_counted():
        for _ in range(20):
            daemon.ask("api.example.org.")
        return max(daemon.get_json("/status")["answersPerSecond"], default=0) > 0

    eventually(is_counted, 10)
    status = daemon.get_json("/status")
    assert status["name"] and status["version"] and status["listening"] == ["%s:%d" % daemon.server]
    assert (status["bySourceAddress"], status["defaultNamespace"]) == (False, "default")
    assert (status["hosts"], status["resources"]) == (1, 1) and status["generation"] >= 1 and status["upSeconds"] >= 0
    assert "kernelShare" not in status
    series = [status[key] for key in ("answersPerSecond", "servfailPerSecond", "medianMs", "p99Ms")]
    assert len({len(values) for values in series}) == 1 and 0 < len(series[0]) <= 300
    assert all(value >= 0 for values in series for value in values)


def test_sources_and_upstream_servers_say_what_is_wrong_and_since_when(workspace, daemon):
    daemon.ask("www.example.org.")
    (source,) = daemon.get_json("/sources")
    assert source["complete"] and source["broken"] == 0 and source["origins"] == 1 and source["unchangedSeconds"] >= 0
    (upstream,) = daemon.get_json("/upstreams")
    assert upstream["health"] == "up" and upstream["answers"] >= 1
    workspace.write_text("broken.yaml", "kind: ServiceEntry\nspec: [")
    eventually(lambda: daemon.get_json("/sources")[0]["broken"] == 1, 5)

    def has_points():
        (upstream,) = daemon.get_json("/upstreams")
        assert len(upstream["failuresPerSecond"]) == len(upstream["repliesPerSecond"]) <= 60
        return upstream["repliesPerSecond"]

    eventually(has_points, 15)


def test_the_severest_findings_come_first_where_there_is_a_limit(workspace, daemon):
    workspace.write("doubtful.yaml", {"kind": "ServiceEntry", "metadata": {"name": "a", "namespace": "shop"}, "spec": {
        "hosts": ["a.example.org"], "addresses": ["10.0.0.8"], "resolution": "STATIC", "unknown": 1}})
    workspace.write_text("z-broken.yaml", "kind: ServiceEntry\nspec: [")

    def severities(arguments=""):
        return [finding["severity"] for finding in daemon.get_json("/registry/findings" + arguments)]

    eventually(lambda: sorted(severities()) == ["error", "warning"], 5)
    assert severities() == ["warning", "error"]  # by path
    assert severities("?limit=5") == ["error", "warning"]
    assert severities("?limit=1") == ["error"] and severities("?limit=0") == []
    assert daemon.get("/registry/findings?limit=x")[0] == 400


def test_endpoints_whose_names_do_not_resolve_can_be_listed_alone(workspace):
    workspace.write("api.yaml", *[{"kind": "ServiceEntry", "metadata": {"name": name, "namespace": "shop"},
                                   "spec": {"hosts": [f"{name}.example.org"], "resolution": "DNS",
                                            "endpoints": [{"address": f"{name}.example.net"}]}}
                                  for name in ("near", "gone", "lost")])
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}},
                              upstreams=[workspace.upstream(["near.example.net. 60 A 192.0.2.1"])])

    def hosts(arguments):
        return sorted(name["host"] for name in daemon.get_json("/resolver" + arguments))

    eventually(lambda: hosts("?failing=yes") == ["gone.example.net", "lost.example.net"], 10)
    assert len(hosts("")) == 3 and len(hosts("?failing=yes&limit=1")) == 1 and hosts("?limit=0") == []
    assert daemon.get("/resolver?limit=-1")[0] == 400


def test_lists_the_names_that_get_no_answer(daemon):
    for _ in range(5):
        daemon.ask("missing.example.org.")
    daemon.ask("www.example.org.")
    label = "<b>x\\\"</b>"
    daemon.ask(f"{label}.example.org.")
    # The list may follow the last answer by a moment.
    eventually(lambda: daemon.get_json("/top")["failing"] == [
        {"name": "missing.example.org.", "rcode": "NXDOMAIN", "times": 5},
        {"name": "<b>x\"</b>.example.org.", "rcode": "NXDOMAIN", "times": 1}])
    assert len(daemon.get_json("/top?limit=1")["failing"]) == 1


def test_finds_the_names_that_a_client_sees(workspace, daemon):
    workspace.write("more.yaml", *[{**API, "metadata": {"name": f"n{i}", "namespace": "shop"}, "spec": {
        "hosts": [f"n{i}.many.example.net"], "addresses": ["10.0.0.8"], "resolution": "STATIC"}} for i in range(60)])
    eventually(lambda: daemon.ask("n59.many.example.net.").addresses() == ["10.0.0.8"], 5)

    def found(name, namespace):
        status, reply = explained(daemon, name=name, search="yes", **{"from": namespace})
        assert status == 200, reply
        return reply["complete"], reply["names"]

    complete, names = found("API.", "shop")
    assert complete and len(names) == 1
    assert (names[0]["name"], names[0]["answer"]) == ("api.example.org", "10.0.0.7")
    assert "ServiceEntry shop/api (" in names[0]["source"]
    assert found("api.", "other") == (True, []), "the entry is exported to its own namespace only"
    complete, names = found("many", "other")
    assert not complete and len(names) == 50
    status, reply = explained(daemon, name="many", search="yes", **{"from": "x" * 64})
    assert status == 400 and "from= is neither" in reply["error"]
