# SPDX-License-Identifier: Apache-2.0
"""The record of dependencies: /dependencies and `meshdnsd dependencies`."""

import json
import re

import pytest

from harness.daemon import merge, run_tool
from harness.ports import free_port
from harness.preset import THREADS
from harness.waiting import eventually

pytestmark = THREADS

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
# The workers' numbers are collected every few seconds.
COLLECTED = 20
OUTSIDE = ("shop", "", "outside")


def entry(namespace, name, export_to):
    return {"kind": "ServiceEntry", "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [f"{name}.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC", "exportTo": [export_to]}}


WEB = {"kind": "WorkloadEntry", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"address": "127.0.0.2"}}
LOADER = {"kind": "WorkloadEntry", "metadata": {"name": "loader", "namespace": "data"}, "spec": {"address": "127.0.0.3"}}


def start(workspace, admin=None):
    workspace.write("mesh.yaml", WEB, LOADER, entry("shop", "api", "*"), entry("data", "db", "."))
    upstream = workspace.upstream(["www.example.net. 300 A 192.0.2.80", "mail.example.net. 300 A 192.0.2.81"])
    token = workspace.path / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    return workspace.daemon({"dependencies": {"record": "mesh"},
                             "client": {"by_source_address": True, "workload_entry_namespaces": ["shop", "data"]},
                             "admin": {"listen": f"127.0.0.1:{free_port()}", "token_file": str(token), **(admin or {})}},
                            upstreams=[upstream])


@pytest.fixture(name="daemon")
def fixture_daemon(workspace):
    return start(workspace)


def page(daemon, question=""):
    status, text = daemon.get("/dependencies" + question)
    assert status == 200, text
    return json.loads(text)


def rows(daemon, question=""):
    """{(namespace, host, result): row}."""
    found = page(daemon, question)["dependencies"]
    by_key = {(row["namespace"], row["host"], row["result"]): row for row in found}
    assert len(by_key) == len(found), found
    return by_key


def numbers(daemon, question=""):
    return {key: row["questions"] for key, row in rows(daemon, question).items()}


def ask_all(daemon):
    """Each worker counts for itself, so all rows have their numbers only after a while."""
    for _ in range(3):
        daemon.ask("api.example.org.", source="127.0.0.2")
    daemon.ask("api.example.org.", "AAAA", source="127.0.0.2")
    daemon.ask("db.example.org.", source="127.0.0.2")
    daemon.ask("www.example.net.", source="127.0.0.2")
    daemon.ask("mail.example.net.", source="127.0.0.2")
    daemon.ask("db.example.org.", source="127.0.0.3")
    expected = {("shop", "api.example.org", "address"): 4, ("shop", "db.example.org", "hidden"): 1, OUTSIDE: 2,
                ("data", "db.example.org", "address"): 1}

    def are_counted():
        assert numbers(daemon) == expected

    eventually(are_counted, COLLECTED)


def dependencies(daemon, *options):
    return run_tool("dependencies", "--config", daemon.config_path, *options)


def test_shows_who_asks_for_what(daemon, workspace):
    assert page(daemon) == {"record": "mesh", "dependencies": [], "workloads": []}
    ask_all(daemon)
    found = rows(daemon)
    path = re.escape(str(workspace.resources / "mesh.yaml"))
    api = found["shop", "api.example.org", "address"]
    assert re.fullmatch(rf"ServiceEntry shop/api \({path}:\d+\)", api["object"])
    assert (api["hostNamespace"], api["types"], api["rule"]) == ("shop", ["A", "AAAA"], "")
    assert re.fullmatch(TIME, api["first"]) and api["first"] <= api["last"]
    hidden = found["shop", "db.example.org", "hidden"]
    assert re.fullmatch(rf"ServiceEntry data/db \({path}:\d+\)", hidden["object"])
    assert hidden["rule"] == "exportTo does not include namespace shop, only data"
    assert (found[OUTSIDE]["object"], found[OUTSIDE]["hostNamespace"]) == ("", "")
    workloads = page(daemon)["workloads"]
    assert sorted(workload["namespace"] for workload in workloads) == ["data", "shop"]
    assert not any(workload["incomplete"] for workload in workloads)


def test_rows_can_be_chosen(daemon):
    ask_all(daemon)
    assert {key[0] for key in numbers(daemon, "?namespace=data")} == {"data"}
    assert {key[1] for key in numbers(daemon, "?host=DB.example.org.")} == {"db.example.org"}
    assert {key[1] for key in numbers(daemon, "?host=example.org")} == {"api.example.org", "db.example.org"}
    assert {key[2] for key in numbers(daemon, "?hidden=yes")} == {"hidden"}
    assert len(numbers(daemon, "?since=1")) == 4 and not numbers(daemon, "?since=99999999999")
    workload = rows(daemon)["shop", "api.example.org", "address"]["workload"]
    assert {key[0] for key in numbers(daemon, f"?workload={workload}&namespace=shop")} == {"shop"}
    for wrong, said in (("?name=a", "has no parameter"), ("?since=yesterday", "since=")):
        status, text = daemon.get("/dependencies" + wrong)
        assert status == 400 and said in text, wrong


def test_the_command_prints_a_table_and_graphs(daemon):
    ask_all(daemon)
    table = dependencies(daemon)
    assert (table.returncode, table.stderr) == (0, "")
    assert re.search(rf"^shop/\S+, since {TIME}$", table.stdout, re.M), table.stdout
    ago = r"\d+ (?:s|min) ago +"
    for line in (rf" +4  {ago}{ago}address +A AAAA +api\.example\.org  ServiceEntry shop/api \(.*\)",
                 rf" +1  {ago}{ago}hidden +A +db\.example\.org  ServiceEntry data/db \(.*\): exportTo does not include .*",
                 rf" +2  {ago}{ago}outside +A +\(other names\)"):
        assert re.search(f"^{line}$", table.stdout, re.M), (line, table.stdout)
    assert "hidden" in dependencies(daemon, "--hidden").stdout and "address" not in dependencies(daemon, "--hidden").stdout
    assert dependencies(daemon, "--namespace", "none").stdout == "no such question is recorded\n"
    assert len(json.loads(dependencies(daemon, "--json", "--since", "1h").stdout)["dependencies"]) == 4
    assert re.search(r'^  "shop/\S+" -> "db\.example\.org \(data\)" \[label="1 hidden", style=dashed\];$',
                     dependencies(daemon, "--dot").stdout, re.M)
    assert re.search(r'^  n\d+ -\.->\|"1 hidden"\| n\d+$', dependencies(daemon, "--mermaid").stdout, re.M)


def test_the_records_of_nodes_are_merged(daemon, tmp_path):
    ask_all(daemon)
    node = tmp_path / "nodes.json"
    node.write_text(dependencies(daemon, "--json").stdout)
    merged = run_tool("dependencies", "--from", node, node, "--json", "--namespace", "shop")
    assert (merged.returncode, merged.stderr) == (0, "")
    assert {row["host"]: row["questions"] for row in json.loads(merged.stdout)["dependencies"]} == {
        "api.example.org": 8, "db.example.org": 2, "": 4}
    node.write_text(node.read_text() * 2)  # as a loop over all nodes writes them
    assert run_tool("dependencies", "--from", node, "--json", "--namespace", "shop").stdout == merged.stdout
    broken = tmp_path / "broken.json"
    broken.write_text("error: unable to upgrade connection")
    refused = run_tool("dependencies", "--from", node, broken)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"meshdnsd: {broken}: is not JSON at octet 1: ")
    assert run_tool("dependencies", "--from", tmp_path / "none.json").returncode == 2


def test_rows_can_be_forgotten(daemon):
    ask_all(daemon)
    without_token = run_tool("dependencies", "--admin", daemon.config["admin"]["listen"], "--forget", "--all")
    assert without_token.returncode == 1 and "refused (401)" in without_token.stderr
    assert json.loads(dependencies(daemon, "--forget", "--host", "db.example.org").stdout) == {"removed": 2}
    assert set(numbers(daemon)) == {("shop", "api.example.org", "address"), OUTSIDE}
    daemon.wait_for_log("dependencies forgotten")
    assert json.loads(dependencies(daemon, "--forget", "--namespace", "shop").stdout) == {"removed": 2}
    assert not numbers(daemon)
    daemon.ask("api.example.org.", source="127.0.0.2")
    eventually(lambda: numbers(daemon) == {("shop", "api.example.org", "address"): 1}, COLLECTED)
    assert json.loads(dependencies(daemon, "--forget", "--all").stdout) == {"removed": 1}


def test_outside_names_are_recorded_by_choice_only_and_nothing_is_with_off(daemon):
    ask_all(daemon)
    daemon.write_config(merge(daemon.config, {"dependencies": {"record": "all"}}))
    daemon.reload()
    eventually(lambda: page(daemon)["record"] == "all")
    daemon.ask("www.example.net.", source="127.0.0.2")
    eventually(lambda: "www.example.net" in {host for _, host, _ in numbers(daemon)}, COLLECTED)
    daemon.write_config(merge(daemon.config, {"dependencies": {"record": "off"}}))
    daemon.reload()
    eventually(lambda: page(daemon)["record"] == "off")
    assert dependencies(daemon, "--forget", "--all").returncode == 0
    daemon.ask("api.example.org.", source="127.0.0.2")
    assert dependencies(daemon).stdout == "nothing is recorded (dependencies.record is off)\n"
    daemon.write_config(merge(daemon.config, {"dependencies": {"record": "mesh"}}))
    daemon.reload()
    eventually(lambda: page(daemon)["record"] == "mesh")
    daemon.ask("db.example.org.", source="127.0.0.3")
    eventually(lambda: numbers(daemon), COLLECTED)
    assert set(numbers(daemon)) == {("data", "db.example.org", "address")}


def test_the_record_is_not_for_the_address_of_the_metrics(workspace):
    metrics = f"127.0.0.1:{free_port()}"
    daemon = start(workspace, {"metrics_listen": metrics})
    ask_all(daemon)
    daemon.config["admin"]["listen"] = metrics
    status, text = daemon.get("/metrics")
    assert status == 200 and 'meshdns_dependencies_hidden{client_namespace="shop"} 1' in text
    assert "db.example.org" not in text
    assert daemon.get("/dependencies")[0] == 404
