# SPDX-License-Identifier: Apache-2.0
"""`meshdnsd explain --at`: the history of answers in state_dir."""

import re
import time

import pytest
import yaml

from harness.daemon import run_tool
from harness.ports import free_port
from harness.preset import THREADS
from harness.waiting import eventually

pytestmark = THREADS  # a thread of its own writes the history

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def entry(address, export_to="*"):
    return {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
            "spec": {"hosts": ["api.example.org"], "addresses": [address], "resolution": "STATIC", "exportTo": [export_to]}}


@pytest.fixture(name="options")
def fixture_options(workspace):
    return {"state_dir": str(workspace.path / "state"), "admin": {"listen": f"127.0.0.1:{free_port()}"}}


def start(workspace, options):
    daemon = workspace.daemon(options, upstreams=["127.0.0.1:9"])
    eventually(lambda: files(workspace))
    return daemon


def files(workspace):
    return sorted((workspace.path / "state").glob("history.*"), key=lambda path: int(path.suffix[1:]))


def explain(daemon, moment, *arguments, name="api.example.org"):
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    return run_tool("explain", "--config", daemon.config_path, name, "A", "--at", at, *arguments)


def address_at(daemon, moment, *arguments):
    """The address then; None where it is not kept."""
    result = explain(daemon, moment, *arguments)
    found = re.search(r"^A: answered.*$\n.* A (\S+)$", result.stdout, re.MULTILINE)
    return found and found.group(1)


def change(workspace, daemon, address, **options):
    """Returns a second in which the daemon had that address, and the history has it."""
    workspace.write("api.yaml", entry(address, **options))
    eventually(lambda: daemon.ask("api.example.org.").addresses() == [address])
    moment = int(time.time()) + 1
    eventually(lambda: time.time() >= moment + 1 and address_at(daemon, moment) == address, 20)
    return moment


def test_an_earlier_answer_is_explained_over_changes_restarts_and_kills(workspace, options):
    workspace.write("api.yaml", entry("10.0.0.1"))
    daemon = start(workspace, options)
    moments = {address: change(workspace, daemon, address) for address in ("10.0.0.1", "10.0.0.2")}
    daemon.stop()
    workspace.forget(daemon)
    daemon = start(workspace, options)
    moments["10.0.0.3"] = change(workspace, daemon, "10.0.0.3")
    daemon.kill()
    workspace.forget(daemon)
    assert {address: address_at(daemon, moment) for address, moment in moments.items()} == {a: a for a in moments}
    daemon = start(workspace, options)
    moments["10.0.0.4"] = change(workspace, daemon, "10.0.0.4")
    assert {address: address_at(daemon, moment) for address, moment in moments.items()} == {a: a for a in moments}
    text = explain(daemon, moments["10.0.0.4"]).stdout
    path = re.escape(str(workspace.resources / "api.yaml"))
    assert re.search(rf"^since {TIME}: different, from 10.0.0.[23] to 10.0.0.4; ServiceEntry shop/api \({path}:\d+\)$", text,
                     re.MULTILINE), text
    oldest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(files(workspace)[0].suffix[1:])))
    assert text.splitlines()[0] == (f"answer of {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(moments['10.0.0.4']))}, from the "
                                    f"history in {options['state_dir']} (the oldest that is kept: {oldest})")
    assert "the configuration was another one" not in text and "are not kept" not in text


def test_each_client_has_its_own_view_then(workspace, options):
    workspace.write("api.yaml", entry("10.0.0.1", "."))
    daemon = start(workspace, options)
    # The client of the configuration, of the namespace default, does not see it.
    assert daemon.ask("api.example.org.").addresses() == []
    moment = int(time.time()) + 1
    eventually(lambda: time.time() >= moment and address_at(daemon, moment, "--from", "shop") == "10.0.0.1", 20)
    hidden = explain(daemon, moment).stdout
    assert "forwarded" in hidden and hidden.endswith("note: the answers of upstream servers are not kept\n"), hidden


def test_what_is_not_kept_is_said(workspace, options):
    workspace.write("api.yaml", entry("10.0.0.1"))
    daemon = start(workspace, options)
    early = explain(daemon, time.time() - 3600)
    assert early.returncode == 2 and not early.stdout
    assert re.fullmatch(rf"meshdnsd: the answers of {TIME} are not kept: the oldest that is kept is {TIME}\n", early.stderr), early
    moment = change(workspace, daemon, "10.0.0.2")
    other = workspace.path / "other.yaml"
    other.write_text(yaml.safe_dump({**daemon.config, "overrides": {"example.net": "nxdomain"}}))
    result = run_tool("explain", "--config", other, "api.example.org", "--at", "-0s")
    assert "note: the configuration was another one then" in result.stdout, result
    # A file that a later version has written, and one that is cut.
    newest = files(workspace)[-1]
    daemon.stop()
    workspace.forget(daemon)
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1])
    cut = explain(daemon, int(time.time()))
    assert f"{newest}: its last record is cut short" in cut.stderr, cut
    newest.write_bytes(whole.replace(b"meshdns-history 1", b"meshdns-history 9", 1))
    later = explain(daemon, moment)
    assert later.returncode == 2 and "its format is of another version of the program" in later.stderr, later
    daemon = start(workspace, options)
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.2"]
    assert newest.exists()


def changes(daemon):
    """Those of api.example.org, the newest first."""
    return daemon.get_json("/changes?name=api.example.org")["changes"]


@pytest.mark.slow("four runs, of which three have a change that the history has to have")
def test_changes_of_earlier_runs_are_listed_and_a_damaged_file_costs_its_own(workspace, options):
    workspace.write("api.yaml", entry("10.0.0.1"))
    daemon = start(workspace, options)
    runs = []  # the change of each
    for number, end in enumerate(("stop", "kill", None), 2):
        earlier = runs[::-1]
        eventually(lambda: [each for each in changes(daemon) if each in earlier] == earlier, 20)
        assert len([each for each in changes(daemon) if each not in earlier]) <= 1, "the kill may have cost the saved state"
        address = f"10.0.0.{number}"
        change(workspace, daemon, address)
        newest = changes(daemon)[0]
        assert newest["after"] == address and newest["object"] == "ServiceEntry shop/api", newest
        runs.append(newest)
        if end is None:
            break
        getattr(daemon, end)()
        workspace.forget(daemon)
        daemon = start(workspace, options)
    page = daemon.get_json("/changes")
    assert page["complete"] and page["knownSince"] > runs[1]["time"]
    assert [each["time"] for each in page["changes"]] == sorted((each["time"] for each in page["changes"]), reverse=True)
    daemon.stop()
    workspace.forget(daemon)
    damaged = files(workspace)[1]
    content = bytearray(damaged.read_bytes())
    content[30] ^= 0x55
    damaged.write_bytes(content)
    daemon = start(workspace, options)
    line = daemon.wait_for_log("WARN cannot read all of the history of answers")
    assert "files=1" in line and f"{damaged}: a record is damaged" in line
    kept = [runs[2], runs[0]]
    eventually(lambda: [each for each in changes(daemon) if each in kept] == kept, 20)
    assert runs[1] not in changes(daemon)
    daemon.stop()
    workspace.forget(daemon)
    daemon = workspace.daemon({**options, "history": {"keep": "0s"}}, upstreams=["127.0.0.1:9"])
    # A change, so that the daemon has had time to read.
    workspace.write("api.yaml", entry("10.0.0.9"))
    eventually(lambda: changes(daemon))
    assert [each["after"] for each in changes(daemon)] == ["10.0.0.9"]


def test_no_history_without_a_directory_or_when_it_is_off(workspace, options):
    workspace.write("api.yaml", entry("10.0.0.1"))
    daemon = workspace.daemon({**options, "history": {"keep": "0s"}}, upstreams=["127.0.0.1:9"])
    eventually(lambda: (workspace.path / "state" / "snapshot").exists(), 20)
    assert not files(workspace)
    result = explain(daemon, time.time())
    assert result.returncode == 2 and result.stderr.startswith("meshdnsd: the answers of ") and "has no history" in result.stderr, result
    daemon.stop()
    workspace.forget(daemon)
    daemon = workspace.daemon({}, upstreams=["127.0.0.1:9"])
    result = explain(daemon, time.time())
    assert result.returncode == 2 and result.stderr == "meshdnsd: explain --at: state_dir is not set, so no history is kept\n", result


def test_a_history_that_cannot_be_written_is_a_reason_and_queries_are_answered(workspace, options):
    workspace.write("api.yaml", entry("10.0.0.1"))
    # Names that are taken: the next files of the history.
    state = workspace.path / "state"
    state.mkdir(mode=0o700)
    now = int(time.time())
    for moment in range(now, now + 3000):
        (state / f"history.{moment}").mkdir()
    daemon = workspace.daemon(options, upstreams=["127.0.0.1:9"])
    daemon.wait_for_log("cannot write the history of answers")
    eventually(lambda: '"history: cannot write' in daemon.get("/readyz")[1])
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.1"]
