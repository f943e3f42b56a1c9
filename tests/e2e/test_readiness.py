# SPDX-License-Identifier: Apache-2.0
"""/readyz tells what is wrong: what keeps the daemon from being ready, and what degrades it."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import dns.edns

from harness.daemon import merge, run_tool
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD


def admin():
    return {"admin": {"listen": f"127.0.0.1:{free_port()}"}}


def degraded(daemon):
    status, text = daemon.get("/readyz")
    readiness = json.loads(text)
    assert status == 200 and readiness["ready"] and "notReady" not in readiness
    assert readiness["reasons"] == readiness.get("degraded", [])
    return "\n".join(readiness["reasons"])


def extended_error_text(answer):
    return [option.text for option in answer.message.options if isinstance(option, dns.edns.EDEOption)]


def metric(daemon, name):
    lines = [line for line in daemon.get("/metrics")[1].splitlines() if line.startswith(name)]
    return [float(line.rpartition(" ")[2]) for line in lines]


def fail_everywhere(workspace, rcode, good=()):
    upstream = workspace.upstream(["*.good.example. 300 A 192.0.2.1"], rules=[{"rcode": rcode}])
    daemon = workspace.daemon(admin(), upstreams=[upstream])
    for i in range(8):
        assert daemon.ask(f"n{i}.example.net.").rcode == rcode
    return upstream, daemon


def test_upstream_servers_that_only_refuse_are_told(workspace):
    upstream, daemon = fail_everywhere(workspace, "REFUSED")
    eventually(lambda: f"upstream: no server answers: {upstream.server} answers nothing but REFUSED" in degraded(daemon))
    daemon.wait_for_log(f"upstream server answers all questions with an error.*upstream=\"?{upstream.server}.*rcode=REFUSED")
    assert "the upstream server answered REFUSED" in extended_error_text(daemon.ask("n9.example.net."))
    assert metric(daemon, "meshdns_proxy_failing{") == [1.0] and metric(daemon, "meshdns_degraded") == [1.0]
    assert metric(daemon, "meshdns_proxy_healthy{") == [1.0], "it does answer"
    assert '"failing"' in daemon.get("/upstreams")[1]
    assert f"{upstream.server} is failing: answers nothing but REFUSED" in daemon.get("/explain?name=n0.example.net")[1]
    assert len([line for line in daemon.process.log_lines() if "answers all questions with an error" in line]) == 1


def test_upstream_servers_that_only_fail_are_told_until_they_answer(workspace):
    upstream, daemon = fail_everywhere(workspace, "SERVFAIL")
    eventually(lambda: "answers nothing but SERVFAIL" in degraded(daemon))
    upstream.set(["*.good.example. 300 A 192.0.2.1"])
    assert daemon.ask("www.good.example.").addresses() == ["192.0.2.1"]
    eventually(lambda: degraded(daemon) == "")
    daemon.wait_for_log("upstream server answers without errors again")


def test_upstream_servers_that_answer_slowly_are_told(workspace):
    """Those of one zone: the names of all others are answered at once."""
    slow = workspace.upstream(["*.corp.example. 300 A 192.0.2.9"], rules=[{"delay": 0.7}])
    quick = workspace.upstream(["*.example.net. 300 A 192.0.2.1"])
    daemon = workspace.daemon({**admin(), "upstream": {"zones": {"corp.example": [slow.server]}}}, upstreams=[quick])
    names = [f"n{i}.{zone}." for zone in ("corp.example", "example.net") for i in range(20)]
    with ThreadPoolExecutor(len(names)) as clients:
        assert {answer.rcode for answer in clients.map(daemon.ask, names)} == {"NOERROR"}
    reason = f"upstream.zones corp.example: slow: half of the answers take more than 0.5 s: {slow.server}"
    eventually(lambda: degraded(daemon) == reason)
    effect = "names below corp.example are answered slowly, unless they are in the cache"
    assert daemon.get_json("/readyz")["effects"] == [effect] and metric(daemon, "meshdns_degraded") == [1.0]
    assert run_tool("status", "--config", daemon.config_path).stdout.splitlines()[:2] == [f"degraded: {effect}", f"  {reason}"]
    shown = {upstream["server"]: upstream["medianMs"] for upstream in daemon.get_json("/upstreams")}
    assert shown[slow.server] > 512 > shown[quick.server]
    daemon.wait_for_log(f'upstream servers answer slowly reason="{reason}"')
    assert len([line for line in daemon.process.log_lines() if "answer slowly" in line]) == 1


def test_an_upstream_server_that_is_away_is_told(workspace):
    daemon = workspace.daemon(admin(), upstreams=[f"127.0.0.1:{free_port()}"])

    def is_told():
        daemon.ask("www.example.net.")
        return "upstream: no server answers: 127.0.0.1:" in degraded(daemon) and "is down" in degraded(daemon)
    eventually(is_told, 10)


def test_the_effects_are_what_queries_see(workspace):
    """First what is worst: one broken file beside an upstream server that only fails."""
    workspace.write("good.yaml", {"kind": "ServiceEntry", "metadata": {"name": "good"},
                                  "spec": {"hosts": ["good.example.org"], "addresses": ["10.0.0.7"]}})
    workspace.write_text("broken.yaml", "kind: ServiceEntry\nspec: [")
    upstream = workspace.upstream(rules=[{"rcode": "SERVFAIL"}])
    zone = workspace.upstream(["www.corp.example. 300 A 192.0.2.9"])
    daemon = workspace.daemon({**admin(), "upstream": {"zones": {"corp.example": [zone.server]}}}, upstreams=[upstream])
    for i in range(8):
        assert daemon.ask(f"n{i}.example.net.").rcode == "SERVFAIL"

    def effects(path="/readyz"):
        return daemon.get_json(path).get("effects", [])

    eventually(lambda: effects() == ["names outside the mesh that are in no zone of upstream.zones are not answered, "
                                     "unless they are in the cache",
                                     "objects with errors are not in use, or not as written",
                                     f"changes of files:{workspace.resources} may be missing"])
    assert daemon.ask("good.example.org.").addresses() == ["10.0.0.7"]
    assert daemon.ask("www.corp.example.").addresses() == ["192.0.2.9"]
    upstream.set(["www.example.net. 300 A 192.0.2.1"])
    (workspace.resources / "broken.yaml").unlink()
    assert daemon.ask("www.example.net.").addresses() == ["192.0.2.1"]
    eventually(lambda: effects() == [])


def test_files_that_are_missing_and_a_state_directory_that_is_gone_are_told(workspace):
    state, hosts = workspace.path / "state", workspace.path / "hosts"
    state.mkdir()
    daemon = workspace.daemon({**admin(), "hosts": {"file": str(hosts)}, "state_dir": str(state)},
                              upstreams=["127.0.0.1:9"])
    eventually(lambda: f"hosts.file: cannot read {hosts}: No such file or directory" in degraded(daemon))
    hosts.write_text("10.0.0.1 here.example.net\n")
    eventually(lambda: degraded(daemon) == "")
    shutil.rmtree(state)
    eventually(lambda: f"state_dir: cannot write to {state}: No such file or directory" in degraded(daemon))


def dns_entry(host, *endpoints):
    return {"kind": "ServiceEntry", "metadata": {"name": host.split(".")[0], "namespace": "shop"},
            "spec": {"hosts": [host], "resolution": "DNS", "endpoints": [{"address": name} for name in endpoints]}}


def test_endpoint_names_that_fail_are_told_with_their_hosts(workspace):
    workspace.write("shop.yaml", dns_entry("empty.example.org", "gone.example.net"), dns_entry("half.example.org", "a.example.net",
                                                                                              "gone.example.net"),
                    dns_entry("broken.example.org", "broken.example.net"), dns_entry("old.example.org", "old.example.net"))
    upstream = workspace.upstream(["a.example.net. 300 A 192.0.2.1", "old.example.net. 1 A 192.0.2.2"],
                                  rules=[{"match": "broken.example.net", "rcode": "REFUSED"}])
    daemon = workspace.daemon(admin(), upstreams=[upstream])

    def named(*hosts):
        reasons = degraded(daemon).splitlines()
        return len(reasons) == len(hosts) and all(re.search(host, reason) for host, reason in zip(hosts, reasons))
    since = r"since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    none = (r"^endpoint names: no address: (gone\.example\.net of namespace shop \(the name does not exist \(NXDOMAIN\), "
            rf"{since}\)|broken\.example\.net of namespace shop \(.*REFUSED.*, {since}\)); (gone|broken)\.example\.net of ")
    eventually(lambda: named(none))
    assert daemon.get_json("/readyz")["effects"] == ["queries for broken.example.org get SERVFAIL; queries for empty.example.org get "
                                                     "no address; answers for half.example.org lack endpoints"]
    assert [daemon.ask(f"{host}.example.org.").rcode for host in ("broken", "empty", "half")] == ["SERVFAIL", "NOERROR", "NOERROR"]
    assert daemon.ask("empty.example.org.").addresses() == [] and daemon.ask("half.example.org.").addresses() == ["192.0.2.1"]
    upstream.set(["gone.example.net. 300 A 192.0.2.3", "a.example.net. 300 A 192.0.2.1", "broken.example.net. 300 A 192.0.2.4"],
                 rules=[{"match": "old.example.net", "rcode": "REFUSED"}])
    eventually(lambda: named(rf"^endpoint names: old addresses: old\.example\.net of namespace shop \(.*REFUSED.*, {since}\)$"), 60)
    assert daemon.get_json("/readyz")["effects"] == ["answers for old.example.org have old addresses"]
    assert daemon.ask("old.example.org.").addresses() == ["192.0.2.2"]


def test_objects_that_are_refused_are_told(workspace):
    workspace.write("bad.yaml", {"kind": "ServiceEntry", "metadata": {"name": "bad"}, "spec": {"hosts": ["*.*.example"]}})
    daemon = workspace.daemon(admin(), upstreams=["127.0.0.1:9"])
    eventually(lambda: "in resources (/registry/findings); the first: " in degraded(daemon) and "bad" in degraded(daemon))
    (workspace.resources / "bad.yaml").unlink()
    eventually(lambda: degraded(daemon) == "")


def test_a_kernel_without_maps_degrades_only_a_daemon_that_wants_them(workspace):
    def kernel(mode, hosts):
        # The hosts file shows that there was another look.
        return {"server": {"kernel_answers": mode, "kernel_maps": str(workspace.path / "maps")},
                "hosts": {"file": str(workspace.path / hosts)}}
    daemon = workspace.daemon({**admin(), **kernel("auto", "a")})
    for mode, hosts in (("auto", "a"), ("on", "b"), ("auto", "c")):
        daemon.write_config(merge(daemon.config, kernel(mode, hosts)))
        daemon.reload()
        eventually(lambda hosts=hosts: f"cannot read {workspace.path / hosts}" in degraded(daemon), 5)
        assert ("kernel answers: " in degraded(daemon)) == (mode == "on")
