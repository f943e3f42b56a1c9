# SPDX-License-Identifier: Apache-2.0
"""The status page: its files, and the JSON that they draw.  test_browser.py draws it."""

import concurrent.futures
import html.parser
import json
import re
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
VOID = {"meta", "input", "link"}


class Page(html.parser.HTMLParser):
    """The page's elements; fails on a tag that is not closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", API)
    upstream = workspace.upstream(["www.example.org. 300 A 192.0.2.1"])
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])


def load(daemon, path):
    """(headers, text) of a file of the page."""
    with urllib.request.urlopen(daemon.admin_url + path, timeout=seconds(10)) as response:
        return response.headers, response.read().decode()


def explained(daemon, **arguments):
    status, text = daemon.get("/explain?" + urllib.parse.urlencode(arguments))
    return status, json.loads(text)


def test_the_page_is_the_same_whatever_is_asked_and_loads_its_own_files_alone(daemon):
    headers, text = load(daemon, "/")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    attack = urllib.parse.quote('"><script>alert(1)</script>')
    assert load(daemon, f"/?name={attack}&type={attack}&from={attack}")[1] == text
    page = Page(text)
    assert page.all("script") == [{"src": "status.js", "defer": None}]
    assert page.all("link") == [{"rel": "stylesheet", "href": "status.css"}]
    assert page.all("style") == [] and not any(name.startswith("on") or name == "style"
                                               for _, attributes in page.tags for name in attributes)
    # Without a script it says so, and leads to the figures; all links are relative.
    assert len(page.all("noscript")) == 1
    for link in page.all("a"):
        assert daemon.get("/" + link["href"])[0] == 200, link
    for path, kind in (("/", "text/html"), ("/status.css", "text/css"), ("/status.js", "text/javascript")):
        headers, text = load(daemon, path)
        assert headers["Content-Type"] == kind + "; charset=utf-8"
        # The two namespaces of elements are names that nobody loads.
        assert not re.search(r"https?:(?!//www\.w3\.org/)|url\(|@import|javascript:", text), path


def test_the_browser_is_told_to_run_nothing_else(daemon):
    for path in ("/", "/status.js", "/status", "/explain?name=api.example.org"):
        headers, _ = load(daemon, path)
        policy = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
        assert policy == {"default-src": "'none'", "style-src": "'self'", "script-src": "'self'", "connect-src": "'self'",
                          "form-action": "'self'", "frame-ancestors": "'none'", "base-uri": "'none'"}, path
        assert headers["X-Content-Type-Options"] == "nosniff"
    # Names are hostile: the script makes no HTML and no code of them.
    script = load(daemon, "/status.js")[1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|\.style\b", script)


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


def test_sixteen_browsers_can_follow_the_page_at_a_time(daemon):
    """Each has one request at a time, as the script does; the daemon lets 16 wait."""
    paths = ["/" + path for path in ("healthz", "readyz", "status", "upstreams", "sources", "top?limit=10", "changes?limit=11",
                                     "resolver?failing=yes&limit=11", "registry/findings?limit=21", "cache")]

    def follow(_):
        return [daemon.get(path)[0] for path in 3 * paths]

    with concurrent.futures.ThreadPoolExecutor(16) as browsers:
        assert list(browsers.map(follow, range(16))) == [[200] * 3 * len(paths)] * 16
