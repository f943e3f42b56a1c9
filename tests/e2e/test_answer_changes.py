# SPDX-License-Identifier: Apache-2.0
"""Changes of answers: in the log, at /changes, and in explanations."""

import json
import re

import pytest

from harness.daemon import run_tool
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def entry(name, host, address):
    return {"kind": "ServiceEntry", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"hosts": [host], "addresses": [address], "resolution": "STATIC"}}


API = entry("api", "api.example.org", "10.0.0.7")
WEB = entry("web", "web.example.org", "10.0.0.1")


@pytest.fixture(name="daemon")
def fixture_daemon(workspace):
    workspace.write("api.yaml", API)
    workspace.write("web.yaml", WEB)
    return workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}}, upstreams=["127.0.0.1:9"])


def changes(daemon, arguments=""):
    status, text = daemon.get("/changes" + arguments)
    assert status == 200, text
    return json.loads(text)


PAST = re.compile(r"since|last change of the name|.* is served as it was before")


def explain(daemon, name):
    """Compares what the page and class CH say of the past."""
    text = daemon.get(f"/explain?name={name}&format=text")[1]
    asked = daemon.ask(name, "TXT", transport="tcp", rdclass="CH").texts()
    assert [line for line in asked if PAST.match(line)] == [line for line in text.splitlines() if PAST.match(line)]
    return text


def test_a_change_is_a_line_of_the_log_and_stays_in_the_history(workspace, daemon):
    assert changes(daemon)["changes"] == []
    assert re.search(f"^since: unchanged since the start, {TIME}$", explain(daemon, "api.example.org"), re.MULTILINE)
    workspace.write("api.yaml", entry("api", "api.example.org", "10.0.0.8"), entry("new", "new.example.org", "10.0.0.9"))
    line = daemon.wait_for_log("answers changed")
    assert "appeared=1 vanished=0 different=1 " in line and "api.example.org" in line and "new.example.org" in line

    history = changes(daemon)
    path = workspace.resources / "api.yaml"
    assert history["complete"] and (history["appeared"], history["vanished"], history["different"]) == (1, 0, 1)
    found = {change.pop("name"): change for change in history["changes"]}
    assert re.fullmatch(TIME, found["api.example.org"].pop("time"))
    assert found["api.example.org"] == {"change": "different", "namespace": "shop", "before": "10.0.0.7",
                                        "after": "10.0.0.8", "object": "ServiceEntry shop/api", "source": f"{path}:1"}
    assert found["new.example.org"]["change"] == "appeared" and found["new.example.org"]["before"] == ""

    assert re.search(rf"^since {TIME}: different, from 10\.0\.0\.7 to 10\.0\.0\.8; ServiceEntry shop/api \({path}:1\)$",
                     explain(daemon, "API.example.org."), re.MULTILINE)
    assert "unchanged since the start" in explain(daemon, "web.example.org")


def test_a_name_that_has_gone_is_explained(workspace, daemon):
    (workspace.resources / "web.yaml").unlink()
    line = daemon.wait_for_log("answers changed")
    assert "vanished=1" in line and "answers=10.0.0.1" in line and "ServiceEntry shop/web" in line
    assert re.search(f"^since {TIME}: vanished, 10.0.0.1; ServiceEntry shop/web", explain(daemon, "web.example.org"),
                     re.MULTILINE)


def test_the_history_can_be_restricted(workspace, daemon):
    workspace.write("api.yaml", entry("api", "api.example.org", "10.0.0.8"))
    workspace.write("web.yaml", entry("web", "web.example.org", "10.0.0.2"))
    eventually(lambda: len(changes(daemon)["changes"]) == 2)
    assert [change["name"] for change in changes(daemon, "?name=Web.example.org.")["changes"]] == ["web.example.org"]
    assert len(changes(daemon, "?limit=1")["changes"]) == 1
    assert changes(daemon, "?since=9999999999")["changes"] == []
    for wrong in ("?since=yesterday", "?limit=-1"):
        assert daemon.get("/changes" + wrong)[0] == 400


def test_an_explanation_says_that_a_broken_file_is_served_as_it_was_before(workspace, daemon):
    workspace.write_text("api.yaml", "kind: ServiceEntry\nspec: [\n")
    path = workspace.resources / "api.yaml"
    eventually(lambda: f"ServiceEntry shop/api is served as it was before: {path}" in explain(daemon, "api.example.org"))
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert "served as it was before" not in explain(daemon, "web.example.org")
    # An object that is refused alone; the file is read.
    refused = entry("api", "api..example.org", "10.0.0.9")
    workspace.write("api.yaml", refused, entry("new", "new.example.org", "10.0.0.10"))
    eventually(lambda: daemon.ask("new.example.org.").addresses() == ["10.0.0.10"])
    assert "shop/api is served as it was before" in explain(daemon, "api.example.org")
    assert "served as it was before" not in explain(daemon, "new.example.org")
    workspace.write("api.yaml", API)
    eventually(lambda: "served as it was before" not in explain(daemon, "api.example.org"))


def test_the_command_explain_has_the_history_of_the_running_daemon(daemon):
    result = run_tool("explain", "--config", daemon.config_path, "web.example.org")
    assert re.search(f"^since: unchanged since the start, {TIME}$", result.stdout, re.MULTILINE), result
