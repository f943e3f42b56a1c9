# SPDX-License-Identifier: Apache-2.0
"""Commands print the text of an endpoint, which may be another program, without characters that control a terminal."""

import http.server
import json
import socketserver
import threading

import pytest

from harness.daemon import run_tool
from harness.ports import free_port
from harness.preset import ONE_THREAD

pytestmark = ONE_THREAD

# C0 with DEL, C1, and what changes the direction of writing; U+2028 and U+2029 end lines, U+FEFF is not seen.
HOSTILE = [*range(0x20), *range(0x7f, 0xa0), 0x61c, 0x200e, 0x200f, *range(0x2028, 0x202f), *range(0x2066, 0x206a), 0xfeff]
TEXT = "begin" + "".join(map(chr, HOSTILE)) + "\U0001f600end"


def filled(document):
    """The document with the hostile text in place of each empty text."""
    if isinstance(document, dict):
        return {key: filled(value) for key, value in document.items()}
    if isinstance(document, list):
        return [filled(value) for value in document]
    return TEXT if document == "" else document


ENTRY = {"name": "", "address": "", "client": "", "namespace": "", "server": "", "health": "", "queries": 1, "perSecond": 1.5}
PAGES = {
    "/readyz": {"ready": True, "degraded": [""], "effects": [""], "reasons": [""]},
    "/sources": [{"name": "", "complete": True, "lastError": ""}],
    "/upstreams": [{"server": "", "health": "", "lastError": "", "lastErrorSeconds": 3, "medianMs": 1.5}],
    "/cache": {"positive": {"entries": 1}, "said": ""},
    "/top": {key: [ENTRY] for key in ("names", "clients", "namespaces", "refusedClients", "forwarded", "upstreams",
                                           "registryOnly")} | {"": ""},
    "/reload": {"reloads": 9, "reload": 1, "ok": False, "findings": [""], "notBound": [""]},
    "/log/level": {"level": ""},
    "/cache/flush": {"removed": 1, "said": ""},
    "/dependencies": {"record": "", "dependencies": [
        {key: "" for key in ("namespace", "workload", "hostNamespace", "host", "object", "result", "rule")} | {
            "first": "2026-11-28T14:05:00Z", "last": "2026-11-28T14:05:00Z", "questions": 1, "types": [""]}],
        "workloads": [{"namespace": "", "workload": "", "since": "2026-11-28T14:05:00Z", "dropped": 1, "incomplete": True}]},
    "/dependencies/forget": {"removed": 1, "said": ""},
}


class Endpoint(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Answers each path by `body_of(path)`, a status and octets."""

    daemon_threads = True

    def __init__(self, body_of):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = body_of(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            do_POST = do_GET

            def log_message(self, *_):
                pass
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def server_close(self):
        self.shutdown()  # or its thread asks the closed socket without a pause
        super().server_close()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_port}"


def json_page(path):
    return 200, json.dumps(filled(PAGES.get(path, {"said": ""})), ensure_ascii=False).encode()


def escaped_json_page(path):
    return 200, json.dumps(filled(PAGES.get(path, {"said": ""}))).encode()


def text_page(_):
    return 200, TEXT.encode()


def broken_text_page(_):
    return 200, b'{"said": "\x9b31m\xc2\xff\xe2\x80"}'


def refusal(path):
    return (200 if path == "/healthz" else 403), json.dumps({"error": TEXT}, ensure_ascii=False).encode()


COMMANDS = [["status"], ["status", "--json"], ["status", "--ready"], ["status", "--live"], ["top", "--once"], ["top", "--json"],
            ["reload"], ["flush", "a.example.org"], ["log-level"], ["log-level", "debug"],
            ["dependencies"], ["dependencies", "--json"], ["dependencies", "--dot"], ["dependencies", "--mermaid"],
            ["dependencies", "--forget", "--all"]]


def assert_harmless(result, command):
    printed = result.stdout + result.stderr
    raw = {f"U+{ord(c):04X}" for c in printed if ord(c) in HOSTILE and c != "\n"}
    assert not raw, (command, raw, printed)
    return printed


@pytest.mark.parametrize("page", [json_page, escaped_json_page, text_page, broken_text_page, refusal], ids=lambda page: page.__name__)
def test_no_command_prints_a_control_character_of_an_endpoint(page):
    with Endpoint(page) as endpoint:
        shown = 0
        for command in COMMANDS:
            result = run_tool(*command, "--admin", endpoint.address, errors="replace")
            printed = assert_harmless(result, command)
            shown += "begin" in printed
            if "--json" in command and page in (json_page, escaped_json_page):
                texts = json.dumps(json.loads(result.stdout), ensure_ascii=False)
                assert json.dumps(TEXT, ensure_ascii=False).strip('"') in texts, "JSON has the same text"
        assert shown or page is broken_text_page, "the text of the endpoint is in no output"


def test_explain_prints_no_control_character_of_an_endpoint(workspace):
    """It believes an endpoint with its own configuration."""
    port = free_port()
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{port}"}})
    configuration = daemon.get("/config")[1].encode()
    workspace.forget(daemon)
    daemon.stop()
    with Endpoint(lambda path: (200, configuration if path == "/config" else f"one{TEXT}\nanother\n".encode())) as endpoint:
        text = daemon.config_path.read_text().replace(str(port), str(endpoint.server_port))
        daemon.config_path.write_text(text)
        configuration = configuration.replace(str(port).encode(), str(endpoint.server_port).encode())
        result = run_tool("explain", "--config", daemon.config_path, "a.example.org")
        assert result.stderr == "explained by the running daemon\n" and result.returncode == 0, result
        assert "\nanother\n" in assert_harmless(result, "explain")
