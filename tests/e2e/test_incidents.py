# SPDX-License-Identifier: Apache-2.0
"""Each incident of docs/incidents.md, staged against the daemon, is explained by the lines that the page shows."""

import contextlib
import itertools
import re
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import dns.message
import pytest
import yaml

from harness.browser import HAS_BROWSER
from harness.daemon import ROOT, Daemon, run_tool
from harness.ports import free_port
from harness.preset import ONE_THREAD, TREE
from harness.real_servers import find_program
from harness.shown import check_shown
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

PAGE = ROOT / "docs" / "incidents.md"
HALF = """apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: api, namespace: shop }
spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }
"""


def entry(namespace, **spec):
    return {"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": "api", "namespace": namespace},
            "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC", **spec}}


def incidents():
    """{title: {place: shown lines}} of the page."""
    found = {}
    examples = PAGE.read_text(encoding="utf-8").split("## Examples\n")[1].split("\n## ")[0]
    for section in examples.split("### ")[1:]:
        title = section.split("\n", 1)[0]
        found[title] = {}
        for place, block in re.findall(r"^\*\*(\w+\*\*.*)\n\n((?:    .*\n)+)", section, re.M):
            found[title][place.replace("**", "")] = [line.strip() for line in block.splitlines()]
    return found


INCIDENTS = incidents()


class Staged:
    """A daemon in an incident, the name that a client asks for, and the browser that shows the page, if there is one."""

    def __init__(self, daemon, name, browser=None):
        self.daemon, self.name, self.browser = daemon, name, browser

    def explanation(self):
        return "\n".join(self.daemon.ask(self.name, "TXT", transport="tcp", rdclass="CH").texts())

    def command(self):
        ran = run_tool("status", "--config", self.daemon.config_path)
        return ran.stdout + ran.stderr

    def query(self):
        host, port = self.daemon.server
        return subprocess.run([find_program("dig"), f"@{host}", "-p", str(port), self.name], capture_output=True, text=True,
                              check=False, timeout=seconds(30)).stdout

    def log(self):
        return "\n".join(self.daemon.process.log_lines())

    def metrics(self):
        return self.daemon.get("/metrics")[1]

    def page(self):
        """The text of the status page, a line for each row."""
        self.browser.show(self.daemon.admin_url + "/")
        eventually(lambda: self.browser.value("document.getElementById('link')?.textContent") == "live", 15, interval=0.1)
        return self.browser.value("document.body.innerText")

    PLACES = {"Explanation": explanation, "Log": log, "Metrics": metrics, "Page": page, "Query": query, "Command": command}

    def check(self, title, remark=""):
        """Compares each place that the page shows with `remark`."""
        places = {place: lines for place, lines in INCIDENTS[title].items() if place.endswith(remark)}
        for place, lines in places.items():
            if place.startswith("Page") and self.browser is None:
                continue
            show = self.PLACES[place] if place in self.PLACES else self.PLACES[place.split(" (")[0]]
            eventually(lambda: check_shown(place, lines, show(self)), 15)


@pytest.fixture(name="start")
def fixture_start(workspace):
    def start(*resources, records=(), rules=(), options=None, **config):
        if resources:
            workspace.write("shop.yaml", *resources)
        config = {"admin": {"listen": f"127.0.0.1:{free_port()}"}, "client": {"default": {"namespace": "web"}}, **config}
        return workspace.daemon(config, upstreams=[workspace.upstream(records, rules)], **(options or {}))
    return start


@pytest.fixture(name="staged")
def fixture_staged(request):
    """Makes a Staged whose page is drawn where the package chromium is installed."""
    browser = request.getfixturevalue("browser") if HAS_BROWSER else None
    return lambda daemon, name: Staged(daemon, name, browser)


def test_each_incident_is_explained_by_two_places():
    assert len(INCIDENTS) == 14
    assert [title for title, places in INCIDENTS.items() if len(places) < 2] == []


@TREE
def test_each_alert_has_a_row():
    rules = yaml.safe_load((ROOT / "conf" / "prometheus" / "meshdns.rules.yaml").read_text())
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    rows = re.findall(r"^\| (Meshdns.*?) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert sorted(name for names, _ in rows for name in names.split(", ")) == sorted(alerts)


def test_a_daemon_that_is_gone(start, workspace, staged):
    daemon = start()
    daemon.kill()
    workspace.forget(daemon)
    staged(daemon, "api.example.org.").check("A daemon that is gone")


def test_a_degraded_daemon(start, workspace, staged):
    daemon = start(hosts={"file": str(workspace.path / "missing")})
    staged(daemon, "api.example.org.").check("A degraded daemon")


UPSTREAMS = {
    "A dead upstream server": {"drop": True},
    "A lying upstream server": {"forge": "wrong_id", "then": True},
    "An upstream server that answers nothing but SERVFAIL": {"rcode": "SERVFAIL"},
    "An upstream server that answers nothing but REFUSED": {"rcode": "REFUSED"},
}


@pytest.mark.parametrize("title", UPSTREAMS)
def test_an_upstream_server(start, title, staged):
    records = ["www.example.net. 300 A 192.0.2.1"]
    daemon = start(records=records, rules=[UPSTREAMS[title]], upstream={"timeout": "400ms"})
    for number in range(6):  # one failure proves little to the daemon
        daemon.ask(f"h{number}.example.net.")
    staged(daemon, "www.example.net.").check(title)


@contextlib.contextmanager
def asking(daemon, clients):
    """So many clients that ask for new names all the time: what the daemon says of the last minute stays."""
    is_over = threading.Event()

    def ask(client):
        for number in itertools.count():
            if is_over.is_set():
                return
            daemon.ask(f"h{number}.c{client}.example.net.")
    with ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(ask, client) for client in range(clients)]
        try:
            yield
        finally:
            is_over.set()
    for client in asked:
        client.result()


def test_a_slow_upstream_server(start, staged):
    daemon = start(records=["*.example.net. 300 A 192.0.2.1"], rules=[{"delay": 0.7}])
    with asking(daemon, 12):
        staged(daemon, "www.example.net.").check("A slow upstream server")


def test_a_wrong_export_to(start, staged):
    daemon = start(entry("shop", exportTo=["wbe"]))
    staged(daemon, "api.example.org.").check("A wrong exportTo")


def test_two_claims(start, staged):
    daemon = start(entry("bank"), entry("shop"))
    staged(daemon, "api.example.org.").check("Two claims of one host")


def test_an_endpoint_name(start, staged):
    daemon = start(entry("shop", resolution="DNS", addresses=[], endpoints=[{"address": "gone.example.net"}]))
    staged(daemon, "api.example.org.").check("An endpoint name that does not exist")


def test_a_half_written_file(start, workspace, staged):
    workspace.write_text("shop.yaml", HALF)
    daemon = start()
    (workspace.resources / "shop.yaml").write_text(HALF[:-20])
    staged(daemon, "api.example.org.").check("A half-written file")
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]


def test_a_full_disk(start, workspace, staged):
    """RLIMIT_FSIZE stands for the disk: files may not grow beyond 4 KiB."""
    resources = [entry("shop", hosts=[f"h{number}.example.org"]) for number in range(300)]
    for number, resource in enumerate(resources):
        resource["metadata"]["name"] = f"h{number}"
    daemon = start(*resources, state_dir=str(workspace.path / "state"), options={"prefix": ["prlimit", "--fsize=4096"]})
    staged(daemon, "h7.example.org.").check("A full disk")
    assert daemon.ask("h7.example.org.").addresses() == ["10.0.0.7"]


def test_a_second_daemon_with_the_same_address(start, workspace, staged):
    first = start()
    home = workspace.path / "second"
    home.mkdir()
    second = Daemon(workspace.config({"server": first.config["server"]}), home, wait=False)
    workspace.own_process(second.process)
    assert second.process.wait(15) == 1
    lines = INCIDENTS["A second daemon"]["Log (of the second daemon)"]
    check_shown("the log", lines, staged(second, "").log())


def test_a_second_daemon_with_the_same_state(start, workspace, staged):
    state = str(workspace.path / "state")
    start(state_dir=state)
    staged(start(state_dir=state), "api.example.org.").check("A second daemon", "(of a second daemon with the same `state_dir`)")


def test_a_storm_of_one_client(start, staged):
    daemon = start(entry("shop"), server={"rate_limit": {"responses_per_second": 20}})
    query = dns.message.make_query("api.example.org.", "A").to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.9", 0))
        for _ in range(1000):
            udp.sendto(query, daemon.server)
    staged(daemon, "api.example.org.").check("A storm of one client")
