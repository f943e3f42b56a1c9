# SPDX-License-Identifier: Apache-2.0
"""The status page in a real browser, which draws it and asks nobody else."""

import shutil
import struct
import subprocess

import pytest

from harness.ports import free_port
from harness.waiting import eventually, seconds

pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="needs the package chromium")

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", API)
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}},
                            upstreams=[workspace.upstream(["www.example.org. 300 A 192.0.2.1"])])


class Browser:
    """Chromium without a window; one process a page, since it needs no state."""

    def __init__(self, directory):
        self._profile = directory / "chromium"

    def _run(self, *arguments):
        return subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
             "--hide-scrollbars", "--window-size=1300,1400", f"--user-data-dir={self._profile}",
             # Resources of other machines cannot be loaded, and a page that needs them would show it.
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", *arguments],
            capture_output=True, text=True, timeout=seconds(60), check=False)

    def dom(self, url):
        """The document as the browser has it."""
        result = self._run("--dump-dom", url)
        assert "</html>" in result.stdout, result.stdout + result.stderr[-2000:]
        return result.stdout

    def picture(self, url, path):
        """(width, height, octets) of a screenshot."""
        result = self._run(f"--screenshot={path}", url)
        assert path.exists(), result.stderr[-2000:]
        octets = path.read_bytes()
        assert octets.startswith(b"\x89PNG\r\n\x1a\n")
        return *struct.unpack(">II", octets[16:24]), len(octets)


def test_a_browser_shows_state_load_and_an_explanation(daemon, tmp_path):
    def is_drawn():
        for _ in range(20):
            daemon.ask("api.example.org.")
            daemon.ask("missing.example.org.")
        return "<polyline" in daemon.get("/")[1]

    eventually(is_drawn, 10)
    browser = Browser(tmp_path)
    url = daemon.admin_url + "/?name=api.example.org&type=A&from=shop"
    # A browser on a busy machine may die at its start; a page that is wrong stays wrong.
    document = eventually(lambda: browser.dom(url), 20)
    assert ": meshdns</title>" in document
    # Tables and charts have survived the browser's parser where they are.
    for text in ('<strong>healthy</strong>', '<span id="link">live</span>', "<h2>Sources</h2>", "<h2>Upstream servers</h2>",
                 "ServiceEntry shop/api", "A: answered, NOERROR", "api.example.org. 30 IN A 10.0.0.7",
                 'value="api.example.org"'):
        assert text in document, text
    assert document.count("<figure>") == 2 and document.count("<polyline") == 4
    assert '<a href="/?name=missing.example.org.">missing.example.org.</a>' in document
    width, height, size = eventually(lambda: browser.picture(url, tmp_path / "page.png"), 20)
    assert (width, height) == (1300, 1400)
    assert size > 20_000, "an empty page is a tenth of that"
