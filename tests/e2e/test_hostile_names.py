# SPDX-License-Identifier: Apache-2.0
"""Names of objects, namespaces, files, clusters and upstreams that could break a page, a metric or an event."""

import json
import os
import re
import urllib.request

import pytest

from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

HOSTILE = ['a"b', "a\\", "a\nb 1", "a{x=1}", "a}b", "</td><script>alert(1)</script>", "a&amp;b", "a\0b", "a'b", "a\x1b[31mb",
           "\ufeffb", "a\u202eb", "x" * 300]
SAMPLE = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\[\\"n])*"(,|(?=\})))*\})? [-+0-9.eEINFNan]+')


def entry(number, name, namespace):
    return {"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
            "spec": {"hosts": [f"h{number}.example.org"], "resolution": "STATIC", "location": "MESH_INTERNAL",
                     "ports": [{"number": 80, "name": name, "protocol": "HTTP"}],
                     "endpoints": [{"address": "10.0.0.7", "network": name, "locality": name, "labels": {"app": name}}]}}


def write_resources(folder):
    """Each in a file of its own, whose name is hostile, too, and which breaks in the end."""
    for number, name in enumerate(HOSTILE):
        for kind, (object_name, namespace) in enumerate([(name, "shop"), ("good", name)]):
            file_name = os.fsencode(folder) + f"/{number}-{kind}-".encode() + b"\xff\"<blink>\n'" + b".json"
            with open(file_name, "w", encoding="utf-8") as file:
                file.write(json.dumps(entry(number, object_name, namespace)))
    with open(os.fsencode(folder) + b'/broken-\xff"<blink>\n.yaml', "wb") as file:
        file.write(b"kind: ServiceEntry\nmetadata: {name: '\xff<script>\"'}\n")


def raw(daemon, path):
    with urllib.request.urlopen(daemon.admin_url + path, timeout=seconds(10)) as response:
        return response.read()


def check_metrics(text):
    for line in text.decode("utf-8").splitlines():
        assert line.startswith("#") or SAMPLE.fullmatch(line), line


@pytest.fixture
def daemon(workspace):
    folder = workspace.path / 'resources"<i>'
    folder.mkdir()
    write_resources(folder)
    (folder / "good.json").write_text(json.dumps(entry("good", "good", "shop")))
    upstream = workspace.upstream(["www.example.net. 60 A 192.0.2.1"])
    config = {"sources": [{"files": {"path": str(folder), "cluster": name, "network": name}} for name in ['a"b<i>\\']],
              "admin": {"listen": f"127.0.0.1:{free_port()}"}}
    daemon = workspace.daemon(config, upstreams=[upstream])
    eventually(lambda: daemon.ask("hgood.example.org.").addresses() == ["10.0.0.7"])
    for number in range(len(HOSTILE)):
        daemon.ask(f"h{number}.example.org.")
    daemon.ask(r"\255\034<script>\000\010.example.net.")
    return daemon


def test_hostile_names_break_no_page_metric_or_event(daemon):
    check_metrics(raw(daemon, "/metrics"))
    for path in ("/status", "/sources", "/registry/services", "/registry/endpoints", "/registry/findings", "/registry/vips",
                 "/changes", "/resolver", "/upstreams", "/top", "/cache", "/cache?zone=.", "/dependencies", "/config", "/readyz",
                 "/explain?name=h&search=yes", "/explain?name=h0.example.org", "/explain?name=h5.example.org&from=10.0.0.7"):
        text = raw(daemon, path).decode("utf-8")
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", text), path
        if "explain?name=h0" not in path and "explain?name=h5" not in path:
            json.loads(text)
    assert not re.search(r"[\x00-\x1f]", "".join(daemon.process.log_lines()))
    assert daemon.ask("hgood.example.org.").addresses() == ["10.0.0.7"]


def test_a_browser_draws_hostile_names_as_text(daemon, browser):
    browser.show(daemon.admin_url + "/?name=h&search=yes")
    for text in ("hgood.example.org", "Resource problems", "Recent failures", "Names found"):
        eventually(lambda shown=text: shown in (browser.value("document.body?.innerText") or ""), 15)
    tags = browser.value("[...new Set([...document.body.querySelectorAll('*')].map(e => e.tagName.toLowerCase()))].join()")
    assert not set(tags.split(",")) & {"blink", "script", "img", "iframe", "i"}, tags
    # No octet that a terminal obeys, and no character that turns or hides what follows.
    text = browser.value("document.body.innerText")
    assert "<blink>" in text and not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\ufeff]", text)
