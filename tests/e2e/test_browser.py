# SPDX-License-Identifier: Apache-2.0
"""The status page in a real browser, which draws it and asks nobody else."""

import base64
import json
import os
import select
import shutil
import struct
import subprocess
import time

import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually, seconds

pytestmark = [ONE_THREAD, pytest.mark.skipif(not shutil.which("chromium"), reason="needs the package chromium")]

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", API)
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}},
                            upstreams=[workspace.upstream(["www.example.org. 300 A 192.0.2.1"])])


class Browser:
    """Chromium without a window, told what to do through a pipe (its option --remote-debugging-pipe).  A page with a
    live stream never ends to load, so the test says itself what it waits for."""

    def __init__(self, directory):
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        self._errors = directory / "chromium.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                # The browser reads its descriptor 3 and writes to 4.
                ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{replies}', "bash",
                 "chromium", "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
                 f"--user-data-dir={directory / 'chromium'}",
                 # Resources of other machines cannot be loaded, and a page that needs them would show it.
                 "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
                pass_fds=(commands, replies), stdout=subprocess.DEVNULL, stderr=errors)
        os.close(commands)
        os.close(replies)
        self._received = b""
        self._last = 0
        target = self._tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._tell("Emulation.setDeviceMetricsOverride", self._session, width=1300, height=1400, deviceScaleFactor=1,
                   mobile=False)

    def close(self):
        os.close(self._commands)  # the browser ends with its pipe
        os.close(self._replies)
        try:
            self._process.wait(seconds(10))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, method, session=None, **parameters):
        """The result of a command of the DevTools protocol."""
        self._last += 1
        command = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            reply = json.loads(self._next_message())
            if reply.get("id") == self._last:  # all others are events
                assert "error" not in reply, reply
                return reply["result"]

    def _next_message(self):
        deadline = time.monotonic() + seconds(60)
        while b"\0" not in self._received:
            readable, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            octets = os.read(self._replies, 1 << 16) if readable else b""
            assert octets, "the browser says nothing: " + self._errors.read_text(errors="replace")[-2000:]
            self._received += octets
        message, self._received = self._received.split(b"\0", 1)
        return message

    def show(self, url):
        self._tell("Page.navigate", self._session, url=url)

    def value(self, expression):
        """The value of a JavaScript expression in the page."""
        return self._tell("Runtime.evaluate", self._session, expression=expression)["result"].get("value")

    def picture(self):
        """(width, height, octets) of a screenshot of the window."""
        octets = base64.b64decode(self._tell("Page.captureScreenshot", self._session)["data"])
        assert octets.startswith(b"\x89PNG\r\n\x1a\n")
        return *struct.unpack(">II", octets[16:24]), len(octets)


@pytest.fixture
def browser(tmp_path):
    browser = Browser(tmp_path)
    try:
        yield browser
    finally:
        browser.close()


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
