# SPDX-License-Identifier: Apache-2.0
"""The status page in a real browser, which draws it and asks nobody else."""

import json
import re
import urllib.parse

import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.scenario import to_yaml
from harness.waiting import eventually

pytestmark = ONE_THREAD

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", API)
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}},
                            upstreams=[workspace.upstream(["www.example.org. 300 A 192.0.2.1"])])


def text_of(browser):
    """The text that a person sees, a line for each row of a table."""
    return browser.value("document.body.innerText") or ""


def show(browser, daemon, arguments=""):
    browser.show(daemon.admin_url + "/" + arguments)
    eventually(lambda: browser.value("document.getElementById('link')?.textContent") == "live", 30, interval=0.1)


def rows(browser, heading):
    """The cells of the table under the heading, without its head."""
    return json.loads(browser.value(f"""JSON.stringify(
        [...document.querySelectorAll("section")].filter(part => part.querySelector("h2")?.textContent === "{heading}")
        .flatMap(part => [...part.querySelectorAll("tr")].slice(1))
        .map(row => [...row.children].map(cell => cell.textContent)))"""))


def test_a_browser_shows_state_load_and_an_explanation(daemon, browser):
    def is_drawn():
        for _ in range(20):
            daemon.ask("api.example.org.")
            daemon.ask("missing.example.org.")
        return len(daemon.get_json("/status")["answersPerSecond"]) > 1

    eventually(is_drawn, 10)
    show(browser, daemon, "?name=api.example.org&type=A&from=shop")
    eventually(lambda: "A: answered, NOERROR" in text_of(browser), 10)
    text = text_of(browser)
    for shown in ("healthy All sources have been read", "ServiceEntry shop/api", "api.example.org. 30 IN A 10.0.0.7",
                  "answers all clients as one of namespace default, at 127.0.0.1:"):
        assert shown in text, text
    assert browser.value("document.title").endswith(": meshdns")
    # The form keeps what was asked.
    assert browser.value("[...document.querySelectorAll('input')].map(input => input.value).join()") == "api.example.org,A,shop"
    (source,) = rows(browser, "Sources")
    assert source[0].startswith("files:") and re.fullmatch(r"\d+ s ago", source[2]) and [*source[1:2], *source[4:]] == [
        "yes", "0", ""]
    (upstream,) = rows(browser, "Upstream servers")
    assert upstream[:2] == [daemon.config["upstream"]["servers"][0], "up"] and float(upstream[2].split()[0]) > 0
    # Two charts of two lines, within their area; that of the answers has left the bottom, which is y = 109.
    lines = json.loads(browser.value(
        "JSON.stringify([...document.querySelectorAll('figure polyline')].map(line => line.getAttribute('points')))"))
    points = [[tuple(map(float, point.split(","))) for point in line.split()] for line in lines]
    assert len(points) == 4 and all(0 <= x <= 600.1 and 0 <= y <= 110 for line in points for x, y in line)
    assert any(y < 100 for _, y in points[0])
    assert "Answers per second; now: answers" in text and "Time to answer; now: median" in text
    # A click on a name explains it.
    (failing,) = rows(browser, "Recent failures")
    assert failing[:2] == ["missing.example.org.", "NXDOMAIN"]
    assert browser.value("document.querySelector('td a[href^=\"?name=missing\"]').href") == (
        daemon.admin_url + "/?name=missing.example.org.")
    assert {"api.example.org.", "missing.example.org."} <= {row[0] for row in rows(browser, "Top names (last minute)")}
    assert [row[0] for row in rows(browser, "Top clients (last minute)")] == ["127.0.0.1"]
    width, height, size = browser.picture()
    assert (width, height) == (1300, 1400)
    assert size > 20_000, "an empty page is a tenth of that"


def test_a_page_that_stays_open_follows_the_daemon(workspace, daemon, browser):
    show(browser, daemon)
    assert browser.value("document.getElementById('state').className") == "healthy"
    browser.value("document.getElementById('pause').click()")
    workspace.write_text("bad\n\x1b[31m.yaml", "kind: ServiceEntry\nspec: [")
    workspace.write("api.yaml", {**API, "spec": {**API["spec"], "addresses": ["10.0.0.8"]}})
    eventually(lambda: browser.value("document.getElementById('state').className") == "degraded", 10)
    # With a remedy and the path that tells more.
    assert "Look at the last error of the source. /sources" in text_of(browser)
    assert rows(browser, "Resource problems") == [], "a pause holds the tables still"
    browser.value("document.getElementById('pause').click()")
    eventually(lambda: rows(browser, "Resource problems"), 10)
    # Control octets are shown as text.
    assert "bad\\010\\027[31m.yaml:" in rows(browser, "Resource problems")[0][0]
    assert browser.value("document.querySelectorAll('tr.bad').length") == 2
    eventually(lambda: "from 10.0.0.7 to 10.0.0.8" in text_of(browser), 10)
    (change,) = rows(browser, "Recent changes")
    assert change[1:3] == ["api.example.org", "different"] and change[4].startswith("ServiceEntry shop/api (")


def test_no_part_of_the_page_is_cut_at_1280_pixels(workspace, browser):
    """With a long path in each table that shows files, a change, a failure, and a server that is down."""
    directory = workspace.path / ("a-directory-with-a-long-name-" * 5)
    directory.mkdir()
    (directory / "broken.yaml").write_text("kind: ServiceEntry\nspec: [")
    (directory / "api.yaml").write_text(to_yaml([API]))
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"},
                               "sources": [{"files": {"path": str(directory)}}]}, upstreams=[f"127.0.0.1:{free_port()}"])
    daemon.ask("missing-name-of-many-characters.below-a-long-label-" + "x" * 40 + ".example.org.")
    (directory / "api.yaml").write_text(to_yaml([{**API, "spec": {**API["spec"], "addresses": ["10.0.0.8"]}}]))
    browser.set_size(1280, 1500)
    show(browser, daemon, "?name=api.example.org")
    eventually(lambda: rows(browser, "Recent changes") and rows(browser, "Resource problems")
               and rows(browser, "Recent failures"), 20)
    cut = json.loads(browser.value("""JSON.stringify([...document.querySelectorAll("section, svg text")].filter(part =>
        part.tagName === "SECTION" ? part.scrollWidth > part.clientWidth
        : part.getBoundingClientRect().left < part.closest("figure").getBoundingClientRect().left)
        .map(part => part.textContent))"""))
    assert cut == []
    ((*_, error, _),) = rows(browser, "Upstream servers")
    assert re.search(r"\(\d+ s ago\)$", error), "an error has its time"


def test_a_browser_finds_the_names_that_a_client_sees(daemon, browser):
    show(browser, daemon, "?name=API&search=yes&from=shop")
    eventually(lambda: "Names found: 1" in text_of(browser), 10)
    assert browser.value("document.querySelector('#answer td a').href") == (
        daemon.admin_url + "/?name=api.example.org&from=shop")
    assert re.search(r"^api\.example\.org\t10\.0\.0\.7\tServiceEntry shop/api \(", text_of(browser), re.M)
    show(browser, daemon, "?name=api.example.org&type=NONE")
    eventually(lambda: '"NONE" is not a record type' in text_of(browser), 10)


def test_a_browser_shows_hostile_text_as_text(workspace, daemon, browser):
    attack = '"><script>document.title = "broken"</script><img src=x onerror=alert(1)><b>'
    workspace.write("hostile.yaml", {"kind": "ServiceEntry", "metadata": {"name": attack, "namespace": "shop"}, "spec": {
        "hosts": ["hostile.example.org"], "addresses": ["10.0.0.9"], "resolution": "STATIC", attack: 1}})
    eventually(lambda: daemon.get_json("/registry/findings"), 5)
    for _ in range(3):
        daemon.ask(r"<script>\000\226\128\174<b>.example.org.")
    for arguments in ({}, {"search": "yes"}):
        show(browser, daemon, "?" + urllib.parse.urlencode({"name": attack, "type": attack, "from": attack, **arguments}))
        eventually(lambda: browser.value("document.getElementById('answer').textContent"), 10)
        assert browser.value("[...document.querySelectorAll('input')].map(input => input.value).join('')") == 3 * attack
        assert browser.value("document.querySelectorAll('main b, #answer b, img, iframe, td script').length") == 0
        assert browser.value("document.title").endswith(": meshdns") and browser.value("document.scripts.length") == 1
        assert [attack in row[0] for row in rows(browser, "Resource problems")] == [True, True]
        assert any(row[0].startswith("<script>\\000") for row in rows(browser, "Recent failures"))


def test_a_page_without_its_daemon_says_so(workspace, daemon, browser):
    show(browser, daemon)
    link = "document.getElementById('link')?.textContent"
    daemon.stop()
    workspace.forget(daemon)
    eventually(lambda: browser.value(link) == "not live: no connection to the daemon", 30, interval=0.1)
    eventually(lambda: "no answer The daemon has ended" in text_of(browser), 30, interval=0.1)
