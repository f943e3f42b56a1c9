# SPDX-License-Identifier: Apache-2.0
"""The status page in a real browser, which draws it and asks nobody else."""

import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", API)
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}},
                            upstreams=[workspace.upstream(["www.example.org. 300 A 192.0.2.1"])])


def test_a_browser_shows_state_load_and_an_explanation(daemon, browser):
    def is_drawn():
        for _ in range(20):
            daemon.ask("api.example.org.")
            daemon.ask("missing.example.org.")
        return "<polyline" in daemon.get("/")[1]

    def is_live():
        return browser.value("document.getElementById('link')?.textContent") == "live"

    eventually(is_drawn, 10)
    browser.show(daemon.admin_url + "/?name=api.example.org&type=A&from=shop")
    eventually(is_live, 30, interval=0.1)
    document = browser.value("document.documentElement.outerHTML")
    assert ": meshdns</title>" in document
    # Tables and charts have survived the browser's parser where they are.
    for text in ('<strong>healthy</strong>', "<h2>Sources</h2>", "<h2>Upstream servers</h2>",
                 "ServiceEntry shop/api", "A: answered, NOERROR", "api.example.org. 30 IN A 10.0.0.7",
                 'value="api.example.org"'):
        assert text in document, text
    assert document.count("<figure>") == 2 and document.count("<polyline") == 4
    assert '<a href="/?name=missing.example.org.">missing.example.org.</a>' in document
    width, height, size = browser.picture()
    assert (width, height) == (1300, 1400)
    assert size > 20_000, "an empty page is a tenth of that"


def test_a_page_without_its_daemon_says_so(workspace, daemon, browser):
    browser.show(daemon.admin_url + "/")
    link = "document.getElementById('link')?.textContent"
    eventually(lambda: browser.value(link) == "live", 30, interval=0.1)
    daemon.stop()
    workspace.forget(daemon)
    eventually(lambda: browser.value(link) == "not live: no connection to the daemon", 30, interval=0.1)
