# SPDX-License-Identifier: Apache-2.0
"""The names and clients that ask most: /top and `meshdnsd top`."""

import json
import os
import pty
import re
import select
import signal
import subprocess

import pytest

from harness.daemon import binary, run_tool
from harness.ports import free_port
from harness.preset import THREADS
from harness.waiting import eventually, seconds

pytestmark = THREADS

WORKLOAD = {"kind": "WorkloadEntry", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"address": "127.0.0.2"}}
API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


@pytest.fixture(name="daemon")
def fixture_daemon(workspace):
    workspace.write("shop.yaml", WORKLOAD, API)
    upstream = workspace.upstream(["www.example.net. 300 A 192.0.2.80"])
    daemon = workspace.daemon({"server": {"allow": ["127.0.0.0/30"]},
                               "client": {"by_source_address": True, "workload_entry_namespaces": ["shop"]},
                               "admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[upstream])
    for _ in range(5):
        daemon.ask("api.example.org.", source="127.0.0.2")
    daemon.ask("www.example.net.", source="127.0.0.1")
    assert daemon.ask("api.example.org.", source="127.0.0.9").rcode == "REFUSED"
    # The page may follow the last answer by a moment.
    eventually(lambda: page(daemon)["queries"] == 7)
    return daemon


def page(daemon, arguments=""):
    status, text = daemon.get("/top" + arguments)
    assert status == 200, text
    return json.loads(text)


def test_shows_who_asks_what(daemon):
    top = page(daemon)
    assert top["queries"] == 7
    assert [(entry["name"], entry["queries"], entry["error"]) for entry in top["names"]] == [
        ("api.example.org.", 6, 0), ("www.example.net.", 1, 0)]
    clients = {entry["address"]: (entry["client"], entry["namespace"], entry["queries"]) for entry in top["clients"]}
    assert clients["127.0.0.2"] == ("WorkloadEntry shop/web", "shop", 5)
    assert clients["127.0.0.1"] == ("", "", 1)
    assert [(entry["namespace"], entry["queries"]) for entry in top["namespaces"]] == [("shop", 5)]
    assert [(entry["address"], entry["queries"], entry["limited"]) for entry in top["refusedClients"]] == [
        ("127.0.0.9", 1, 0)]
    forwarded, = top["forwarded"]
    assert (forwarded["name"], forwarded["queries"]) == ("www.example.net.", 1)
    assert 0 < forwarded["meanMs"] <= forwarded["longestMs"] + 0.001
    upstream, = top["upstreams"]
    assert upstream["answers"] >= 1 and upstream["p99Ms"] > 0
    assert sum(bucket["answers"] for bucket in upstream["latency"]) == upstream["answers"]


def test_limits_its_lists(daemon):
    assert [entry["name"] for entry in page(daemon, "?limit=1")["names"]] == ["api.example.org."]
    for wrong in ("0", "101", "many", "-1"):
        status, text = daemon.get(f"/top?limit={wrong}")
        assert status == 400 and "not a number from 1 to 100" in text, wrong


def test_shows_a_table_in_the_terminal(daemon):
    shown = run_tool("top", "--config", daemon.config_path, "--once")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.match(r"\d+\.\d queries per second in the last \d+ s, 1 refused or limited\n", shown.stdout), shown.stdout
    for line in (r" +\d+\.\d +85\.7 %  api\.example\.org\.", r" +\d+\.\d +71\.4 %  127\.0\.0\.2  WorkloadEntry shop/web",
                 r" +\d+\.\d +71\.4 %  shop", r" +\d+\.\d +14\.3 %  127\.0\.0\.9",
                 r" +\d+\.\d +\d+\.\d +1  www\.example\.net\.", rf".*  {daemon.config['upstream']['servers'][0]}, up"):
        assert re.search(f"^{line}$", shown.stdout, re.M), shown.stdout
    assert json.loads(run_tool("top", "--config", daemon.config_path, "--json").stdout)["queries"] == 7


def test_shows_names_without_an_answer_in_the_terminal(daemon):
    daemon.ask("nosuch.example.net.")

    def is_shown():
        shown = run_tool("top", "--config", daemon.config_path, "--once").stdout
        return re.search(r"^ +1  NXDOMAIN  nosuch\.example\.net\.$", shown, re.M)
    eventually(is_shown)


def test_repeats_the_table_at_a_terminal_until_it_is_interrupted(daemon):
    terminal, end = pty.openpty()
    with subprocess.Popen([binary(), "top", "--config", daemon.config_path], stdout=end, stderr=end) as top:
        os.close(end)
        try:
            shown = b""
            while shown.count(b"\x1b[2J") < 2 or b"www.example.net." not in shown:
                assert select.select([terminal], [], [], seconds(10))[0], shown
                shown += os.read(terminal, 65536)
            top.send_signal(signal.SIGINT)
            assert top.wait(seconds(10)) == -signal.SIGINT
        finally:
            top.kill()
            os.close(terminal)


def test_names_are_not_for_the_address_of_the_metrics(workspace):
    metrics = f"127.0.0.1:{free_port()}"
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}", "metrics_listen": metrics}})
    assert daemon.get("/top")[0] == 200
    daemon.config["admin"]["listen"] = metrics
    assert daemon.get("/metrics")[0] == 200 and daemon.get("/top")[0] == 404
