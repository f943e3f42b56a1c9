# SPDX-License-Identifier: Apache-2.0
"""Findings across resources: `meshdnsd check`, its formats and `--diff`, the admin pages, and docs/reference/findings.md.

Each file of tests/analysis has a `mistake`, the ids that it `finds`, and its `twin`, which is free of it.
"""

import json
import re

import pytest
import yaml

from harness.daemon import ROOT, run_tool
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.scenario import to_yaml
from harness.waiting import eventually

pytestmark = ONE_THREAD

CORPUS = sorted((ROOT / "tests" / "analysis").glob("*.yaml"))
PAGE = (ROOT / "docs" / "reference" / "findings.md").read_text(encoding="utf-8")
OF_ONE_OBJECT = {"invalid-resource", "doubtful-resource"}
OF_THE_DAEMON = {"near-failing-name"}  # needs clients that ask


def check(directory, resources, *arguments, config=None):
    """The result of `meshdnsd check` with those resources."""
    (directory / "resources.yaml").write_text(to_yaml(resources))
    if config is not None:
        path = directory / "meshdns.yaml"
        path.write_text(yaml.safe_dump({**config, "sources": [{"files": {"path": str(directory / "resources.yaml")}}]}))
        return run_tool("check", "--config", path, *arguments)
    return run_tool("check", *arguments, directory / "resources.yaml")


def found_by(directory, resources, config):
    result = check(directory, resources, "--format", "json", config=config)
    report = json.loads(result.stdout)
    assert report["resources"] == len(resources), result
    return [finding for finding in report["findings"] if finding["kind"]]  # without those of the configuration


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_planted_mistake_is_found_and_its_twin_is_clean(path, tmp_path):
    case = yaml.safe_load(path.read_text())
    found = found_by(tmp_path, case["mistake"], case.get("config"))
    assert sorted(finding["id"] for finding in found) == sorted(case["finds"]), found
    for finding in found:
        assert finding["path"] == str(tmp_path / "resources.yaml") and finding["line"] > 0, finding
        assert finding["object"] and finding["kind"] and finding["message"], finding
    assert found_by(tmp_path, case["twin"], case.get("config")) == []


def test_the_corpus_has_every_id():
    planted = {found for path in CORPUS for found in yaml.safe_load(path.read_text())["finds"]}
    assert len(CORPUS) >= 30
    assert planted == ids() - OF_ONE_OBJECT - OF_THE_DAEMON


def ids():
    """All ids that the program knows."""
    result = run_tool("check", "--format", "sarif", ROOT / "conf" / "examples" / "headless.yaml")
    return {rule["id"] for rule in json.loads(result.stdout)["runs"][0]["tool"]["driver"]["rules"]}


def test_the_page_has_a_section_for_each_id():
    sections = re.findall(r"^### `([a-z-]+)`$", PAGE, re.MULTILINE)
    assert sections == sorted(sections)
    assert set(sections) == ids()
    for text in re.split(r"^### .*$", PAGE, flags=re.MULTILINE)[1:]:
        assert "**Remedy.**" in text, text


def test_the_examples_are_clean():
    result = run_tool("check", "--strict", ROOT / "conf" / "examples")
    assert "[" not in result.stdout and result.returncode == 0, result.stdout


def host_claimed_twice():
    return yaml.safe_load((ROOT / "tests" / "analysis" / "host_of_two_namespaces.yaml").read_text())["mistake"]


def test_a_line_names_both_objects_with_their_places(tmp_path):
    result = check(tmp_path, host_claimed_twice())
    path = tmp_path / "resources.yaml"
    assert re.match(re.escape(str(path)) + r":1: warning: ServiceEntry shop/api: spec\.hosts\[0\]: "
                    r'"api\.example\.org" is a host of namespace bank, too: .*; '
                    r"see ServiceEntry bank/api \(" + re.escape(str(path)) + r":\d+\) \[host-claimed-twice\]\n"
                    r"2 resources, 0 errors, 1 warning\n$", result.stdout), result.stdout
    assert result.returncode == 0


def test_strict_makes_warnings_errors_and_leaves_notes(tmp_path):
    assert check(tmp_path, host_claimed_twice(), "--strict").returncode == 1
    note = yaml.safe_load((ROOT / "tests" / "analysis" / "prefixes_only.yaml").read_text())["mistake"]
    result = check(tmp_path, note, "--strict")
    assert ": note: " in result.stdout and result.stdout.endswith("1 resource, 0 errors, 0 warnings, 1 note\n")
    assert result.returncode == 0


def test_sarif_names_rule_place_and_related_place(tmp_path):
    run = json.loads(check(tmp_path, host_claimed_twice(), "--format", "sarif").stdout)["runs"][0]
    [result] = run["results"]
    assert result["ruleId"] == "host-claimed-twice" and result["level"] == "warning"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == f"file://{tmp_path / 'resources.yaml'}"
    assert place["region"]["startLine"] == 1
    assert result["relatedLocations"][0]["message"]["text"] == "ServiceEntry bank/api"


def test_a_format_that_does_not_exist_is_a_usage_error(tmp_path):
    assert run_tool("check", "--format", "xml", tmp_path).returncode == 2


def entry(name, namespace, host, address, **spec):
    return {"kind": "ServiceEntry", "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [host], "addresses": [address], **spec}}


@pytest.fixture(name="trees")
def fixture_trees(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for directory in (old, new):
        directory.mkdir()
    same = entry("same", "shop", "same.example.org", "192.0.2.1")
    (old / "a.yaml").write_text(to_yaml([
        same, entry("moved", "shop", "moved.example.org", "192.0.2.2"),
        entry("gone", "shop", "gone.example.org", "192.0.2.3"),
        entry("narrow", "shop", "narrow.example.org", "192.0.2.4"),
        entry("web", "web", "web.example.org", "192.0.2.8")]))
    (new / "a.yaml").write_text(to_yaml([
        same, entry("moved", "shop", "moved.example.org", "192.0.2.20"),
        entry("narrow", "shop", "narrow.example.org", "192.0.2.4", exportTo=["."]),
        entry("web", "web", "web.example.org", "192.0.2.8"),
        entry("new", "shop", "new.example.org", "192.0.2.5")]))
    return old, new


def test_diff_names_the_changed_answers_and_their_clients(trees):
    old, new = trees
    result = run_tool("check", "--diff", old, new)
    *lines, summary = result.stdout.splitlines()
    assert [line.split("; before")[0].split("; after")[0] for line in lines] == [
        "gone.example.org: 192.0.2.3 -> not a name of the mesh; for all clients",
        "moved.example.org: 192.0.2.2 -> 192.0.2.20; for all clients",
        "narrow.example.org: 192.0.2.4 -> not a name of the mesh; for clients of web",
        "new.example.org: not a name of the mesh -> 192.0.2.5; for all clients"]
    assert f"ServiceEntry shop/gone ({old / 'a.yaml'}:" in lines[0]
    assert summary == "4 of 6 names are answered differently, for clients of 2 namespaces"
    assert result.returncode == 1


def test_diff_for_one_client(trees):
    old, new = trees
    result = run_tool("check", "--diff", old, new, "--client", "shop", "--format", "json")
    report = json.loads(result.stdout)
    assert [change["name"] for change in report["changes"]] == ["gone.example.org", "moved.example.org",
                                                               "new.example.org"]
    assert report["clients"] == ["shop"]


def test_diff_of_equal_trees_exits_with_zero(trees):
    result = run_tool("check", "--diff", trees[0], trees[0])
    assert result.returncode == 0
    assert result.stdout == "0 of 5 names are answered differently, for clients of 2 namespaces\n"
    assert run_tool("check", "--diff", trees[0], trees[0] / "absent").returncode == 2


def test_the_daemon_shows_findings_and_follows_changes(workspace):
    workspace.write("a.yaml", *host_claimed_twice())
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})

    def shown():
        return [finding for finding in daemon.get_json("/registry/findings")
                if finding["id"] not in OF_ONE_OBJECT]

    eventually(lambda: [finding["id"] for finding in shown()] == ["host-claimed-twice"], 10)
    [finding] = shown()
    assert finding["severity"] == "warning" and finding["object"] == "shop/api"
    assert finding["other"]["object"] == "bank/api" and finding["other"]["path"].endswith("a.yaml")
    assert 'meshdns_registry_analysis_findings{id="host-claimed-twice"} 1' in daemon.get("/metrics")[1]
    daemon.wait_for_log("findings across resources have changed")
    workspace.write("a.yaml", host_claimed_twice()[0])
    eventually(lambda: shown() == [], 10)


def test_the_daemon_names_a_host_that_is_one_letter_from_a_name_that_fails_often(workspace):
    """A name that exists, one that fails seldom, and one that is two letters off are not named."""
    api = entry("api", "shop", "api.example.org", "10.0.0.7")
    workspace.write("a.yaml", api, entry("web", "shop", "web.example.org", "10.0.0.8", exportTo=["."]))
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=[workspace.upstream()])
    for _ in range(20):
        for name in ("api.exmaple.org.default.svc.cluster.local.", "web.example.org.", "aip.exmaple.org."):
            assert daemon.ask(name).rcode == "NXDOMAIN"
    assert daemon.ask("apis.example.org.").rcode == "NXDOMAIN"
    workspace.write("b.yaml", entry("other", "shop", "other.example.net", "10.0.0.9"))

    def shown():
        return [(finding["id"], finding["severity"], finding["object"], finding["field"], finding["message"])
                for finding in daemon.get_json("/registry/findings") if finding["id"] in OF_THE_DAEMON]

    eventually(lambda: shown() == [
        ("near-failing-name", "note", "shop/api", "spec.hosts[0]",
         '"api.example.org" is one letter from "api.exmaple.org.default.svc.cluster.local", which clients ask for often and which '
         "does not exist; correct the one that is misspelt")], 10)


def test_the_daemon_and_check_write_a_finding_about_one_object_alike(workspace):
    invalid = entry("api", "shop", "api..example.org", "10.0.0.7")
    workspace.write("a.yaml", invalid, entry("web", "shop", "web.example.org", "10.0.0.8"))
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    shown = daemon.get_json("/registry/findings")
    assert [finding["id"] for finding in shown] == ["invalid-resource"]
    report = json.loads(run_tool("check", "--format", "json", workspace.resources / "a.yaml").stdout)
    assert shown == report["findings"]


def test_services_of_two_clusters_are_not_taken_for_one(tmp_path):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
               "spec": {"clusterIP": "10.1.0.80", "ports": [{"name": "http", "port": 80}]}}
    for cluster in ("east", "west"):
        (tmp_path / f"{cluster}.yaml").write_text(to_yaml([service]))

    def said(*clusters):
        sources = [{"files": {"path": str(tmp_path / f"{name}.yaml"), "cluster": cluster}}
                   for name, cluster in zip(("east", "west"), clusters)]
        (tmp_path / "meshdns.yaml").write_text(yaml.safe_dump({"sources": sources}))
        return run_tool("check", "--config", tmp_path / "meshdns.yaml").stdout
    assert said("east", "west") == "2 resources, 0 errors, 0 warnings\n"
    assert "Service shop/web: also defined at" in said("east", "east")
