# SPDX-License-Identifier: Apache-2.0
"""The command line and the life of the process, as users and supervisors see them."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import yaml

from harness.daemon import ROOT, merge, run_tool
from harness.dns_client import Question, ask
from harness.ports import free_port
from harness.preset import ONE_THREAD, at_most
from harness.real_servers import find_program
from harness.scenario import to_yaml
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}
HIDDEN = {"kind": "ServiceEntry", "metadata": {"name": "hidden", "namespace": "shop"},
          "spec": {"hosts": ["hidden.example.org"], "addresses": ["10.0.0.8"], "resolution": "STATIC",
                   "exportTo": ["."]}}
ROUTES = {"kind": "VirtualService", "metadata": {"name": "api", "namespace": "shop"},
          "spec": {"hosts": ["api.example.org"], "tcp": [{"route": [{"destination": {
              "host": "other.example.org", "port": {"number": 8443}}}]}]}}


def test_prints_its_version():
    result = run_tool("--version")
    assert result.returncode == 0
    assert re.match(r"meshdnsd \d+\.\d+\.\d+", result.stdout), result


def test_explains_its_usage():
    result = run_tool("--help")
    assert result.returncode == 0
    for word in ("run", "check", "explain", "--config", "--version"):
        assert word in result.stdout
    for wrong in (["--no-such-option"], ["no-such-command"], ["explain"], ["run", "surplus"]):
        result = run_tool(*wrong)
        assert result.returncode == 2, (wrong, result)
        assert result.stderr.strip(), "nothing is said"


def plain(text):
    """The words of a manual page: without requests, fonts and escapes."""
    return re.sub(r"\s+", " ", re.sub(r"\\f.", "", re.sub(r"^\.[A-Za-z]+ ?", "", text, flags=re.M)).replace("\\-", "-").replace('"', ""))


def test_the_usage_of_each_command_and_the_manual_page_agree():
    page = (ROOT / "docs" / "man" / "meshdnsd.8").read_text()
    section = {name: text for name, text in re.findall(r'^\.SH "?([A-Z ]+)"?\n(.*?)(?=^\.SH )', page, re.M | re.S)}
    commands = re.findall(r"^  ([a-z-]+) ", run_tool("--help").stdout.split("Subcommands:")[1], re.M)
    assert len(commands) > 8
    statuses = dict(re.findall(r"^\.TP\n\.B (\S+)\n(.*?)(?=^\.TP|\Z)", section["EXIT STATUS"].replace("\\-", "-"), re.M | re.S))
    assert sorted(statuses) == sorted(commands)
    for command in commands:
        usage = run_tool(command, "--help").stdout
        assert run_tool("help", command).stdout == usage
        assert f"\n.TP\n.B {command}\n".replace("-", "\\-") in "\n" + section["COMMANDS"], command
        for option in re.findall(r"--[a-z-]+", usage.split("Examples:")[0]):
            assert option in plain(section["COMMANDS"] + section["OPTIONS"]), (command, option)
        examples, ends = usage.split("Examples:\n")[1].split("Exit status:\n")
        assert all(re.match(rf"meshdnsd (--istio-vm|{command})", line.strip().split(" | ")[-1]) for line in examples.splitlines())
        for line in examples.splitlines():
            assert line.strip().replace("-", "\\-") + "\n" in section["EXAMPLES"], line
        assert [f"{number}: {text}." for number, text in re.findall(r"^  (\d+) +(.*)", ends, re.M)] == [
            line for line in statuses[command].splitlines() if line != ".br"], command


COMPLETION = ROOT / "conf" / "debian"


def completed_by(shell):
    """The options of each command in the completion for `shell`; tests/e2e/test_package.py runs that for bash."""
    text = (COMPLETION / f"meshdnsd.{shell}-completion").read_text()
    if shell == "fish":
        found = {command: {"--help"} for command in re.findall(r"__fish_use_subcommand -a (\S+)", text)}
        for command, option in re.findall(r"'__fish_seen_subcommand_from (\S+)' -l (\S+)", text):
            found[command].add("--" + option)
        return found
    cases = re.findall(r"^        ([a-z-]+)\)\n          _arguments \\\n(.*?);;$", text, re.M | re.S)
    assert [command for command, _ in cases] == re.findall(r"^    '([a-z-]+):", text, re.M)
    return {command: set(re.findall(r"'\*?(--[a-z-]+)\[", specs)) for command, specs in cases}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_complete_every_command_and_option(shell):
    commands = re.findall(r"^  ([a-z-]+) ", run_tool("--help").stdout.split("Subcommands:")[1], re.M)
    usages = {command: run_tool(command, "--help").stdout.split("Examples:")[0] for command in commands}
    assert completed_by(shell) == {command: set(re.findall(r"--[a-z-]+", usage)) for command, usage in usages.items()}


@pytest.mark.parametrize("shell, words", [("zsh", ["-n", COMPLETION / "meshdnsd.zsh-completion"]), (
    "fish", ["-c", f'source {COMPLETION}/meshdnsd.fish-completion; complete -C "meshdnsd log-level w"'])])
def test_the_shell_itself_takes_its_completion(shell, words):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, *words], capture_output=True, text=True, check=False, timeout=seconds(20))
    assert (done.returncode, done.stderr) == (0, "")
    assert shell == "zsh" or done.stdout.startswith("warn")


def test_check_has_the_exit_codes_of_the_contract(tmp_path):
    good, bad, odd = tmp_path / "good.yaml", tmp_path / "bad.yaml", tmp_path / "odd.yaml"
    good.write_text(to_yaml([API]))
    bad.write_text(to_yaml([API, merge(API, {"metadata": {"name": "bad"}, "spec": {"hosts": ["*"]}})]))
    odd.write_text(to_yaml([merge(API, {"spec": {"unknownField": 1}})]))
    for paths, code, last_line in (
            ([good], 0, "1 resources?, 0 errors, 0 warnings"),
            ([bad], 1, "2 resources, 1 errors?, 0 warnings"),
            ([odd], 0, "1 resources?, 0 errors, 1 warnings?"),
            ([good, bad], 1, r"\d resources, 1 errors?, \d warnings?"),
            ([tmp_path], 1, r"\d resources, 1 errors?, \d+ warnings?")):
        result = run_tool("check", *paths)
        assert result.returncode == code, result
        assert re.fullmatch(last_line, result.stdout.splitlines()[-1]), result
    assert run_tool("check", "--strict", good).returncode == 0
    strict = run_tool("check", "--strict", odd)
    assert strict.returncode == 1
    assert strict.stdout.splitlines()[-1] == "1 resource, 1 error, 0 warnings"
    missing = run_tool("check", tmp_path / "absent.yaml")
    assert missing.returncode == 2
    assert "absent.yaml" in missing.stderr + missing.stdout
    finding = next(line for line in run_tool("check", bad).stdout.splitlines() if "error:" in line)
    assert re.match(rf"{re.escape(str(bad))}:\d+: error: ServiceEntry shop/bad: spec\.hosts\[0\]: \S", finding)


def test_check_ends_where_links_go_in_circles(tmp_path):
    (tmp_path / "good.yaml").write_text(to_yaml([API]))
    for name in ("here", "again"):
        (tmp_path / name).symlink_to(".")
    (tmp_path / "parent").symlink_to("..")
    result = run_tool("check", tmp_path)
    assert result.returncode == 0, result
    assert result.stdout == "1 resource, 0 errors, 0 warnings\n"


def test_check_notes_the_files_of_a_repository_that_are_no_objects(tmp_path):
    others = {"values.yaml": "replicas: 2\nimage: { tag: v1 }\n", "Chart.yaml": "name: web\nversion: 0.1.0\n",
              "kustomization.yaml": "resources: [api.yaml]\n", "package.json": '{"name": "web", "private": true}',
              "docker-compose.yml": "services: { web: { image: web } }\n", "playbook.yaml": "- hosts: all\n"}
    for name, text in others.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "api.yaml").write_text(to_yaml([API]))
    for strict in ([], ["--strict"]):
        result = run_tool("check", *strict, tmp_path)
        assert result.returncode == 0, result.stdout
        assert "1 resource, 0 errors, 0 warnings, 6 notes" in result.stdout
        assert "note: no object: it has neither apiVersion nor kind; it is ignored (and 5 more like this)" in result.stdout
        assert result.stdout.count("no object") == 1
    for text in ("kind: ServiceEntry\n", "apiVersion: networking.istio.io/v1\n", "metadata: { name: api }\nspec: {}\n", "apiVers"):
        (tmp_path / "slip.yaml").write_text(text)
        assert run_tool("check", tmp_path).returncode == 1, text


def test_check_counts_equal_warnings(tmp_path):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop"}, "spec": {"ports": [{"port": 80}]}}
    for count, lines in ((3, 3), (40, 1)):
        path = tmp_path / f"{count}.yaml"
        path.write_text("---\n".join(to_yaml([merge(service, {"metadata": {"name": f"s{i}"}})]) for i in range(count)))
        result = run_tool("check", path)
        assert result.stdout.count("no clusterIP") == lines
        assert f", 0 errors, {count} warnings" in result.stdout
        assert ("(and 39 more like this)" in result.stdout) == (count == 40)
    found = yaml.safe_load(run_tool("check", "--format", "json", tmp_path / "40.yaml").stdout)["findings"]
    assert len([f for f in found if "no clusterIP" in f["message"]]) == 40


def test_check_names_the_invalid_lines_of_the_hosts_file(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("\ufeff192.0.2.1 first.lan\naddress=/ads.example/0.0.0.0\n192.0.2.2 bad..name\n", encoding="utf-8")
    config = tmp_path / "m.yaml"
    config.write_text(f"hosts: {{ file: {hosts} }}\n")
    result = run_tool("check", "--config", config)
    assert result.returncode == 0
    assert f"{hosts}:2: warning: " in result.stdout and "this is a line of dnsmasq; write ADDRESS NAME" in result.stdout
    assert f'{hosts}:3: warning: "bad..name" is not a domain name' in result.stdout
    assert f"{hosts}:1:" not in result.stdout


def test_the_log_shows_the_first_invalid_line_of_the_hosts_file(workspace):
    hosts = workspace.path / "hosts"
    hosts.write_text("\ufeff192.0.2.1 first.lan\nads.example 192.0.2.1\n", encoding="utf-8")
    daemon = workspace.daemon({"hosts": {"file": str(hosts)}})
    daemon.wait_for_log(r"WARN ignored invalid lines of the hosts file .*first=2 reason=.*write the address before the name")
    assert daemon.ask("first.lan.", "A").addresses() == ["192.0.2.1"]


def test_check_warns_of_special_names_in_the_configuration(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n192.0.2.1 a.example.org b.onion\n::1 c.localhost\n192.0.2.2 c.localhost\n")
    config = tmp_path / "meshdns.yaml"
    config.write_text(f"hosts: {{file: {hosts}}}\noverrides:\n  x.alt: [192.0.2.1]\n  example.net: nxdomain\n")
    result = run_tool("check", "--config", config)
    assert result.returncode == 0, result
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{config}:3: warning: overrides.x.alt: has no effect: alt ")
    assert lines[1].startswith(f'{hosts}:2: warning: "b.onion" is never answered from here')
    assert lines[2].startswith(f'{hosts}:4: warning: "c.localhost" is never answered from here')
    assert lines[3] == "0 resources, 0 errors, 3 warnings"


def test_check_names_the_hosts_that_strict_claims_refuse(tmp_path):
    resources = tmp_path / "resources.yaml"
    resources.write_text("""
apiVersion: v1
kind: Service
metadata: {name: db, namespace: bank}
spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: evil}
spec: {hosts: [api.example.org, db.bank, "*.svc.cluster.local"], addresses: [10.6.6.6], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
""")
    for mode, count in (("strict", 2), ("istio", 0)):
        config = tmp_path / f"{mode}.yaml"
        config.write_text(f"mesh: {{claims: {mode}}}\nsources: [files: {{path: {resources}}}]\n")
        result = run_tool("check", "--config", config)
        findings = [line for line in result.stdout.splitlines() if "is not served with mesh.claims: strict" in line]
        assert len(findings) == count, result.stdout
        assert result.returncode == 0
        if findings:
            assert f"{resources}:7: warning: ServiceEntry evil/e: spec.hosts[1]: \"db.bank\"" in findings[0]


def test_explain_says_what_answers_and_why(workspace):
    workspace.write("api.yaml", API, HIDDEN)
    path = workspace.path / "meshdns.yaml"
    path.write_text(yaml.safe_dump(workspace.config(upstreams=["127.0.0.1:9"])))
    known = run_tool("explain", "--config", path, "api.example.org")
    assert known.returncode == 0, known
    assert "ServiceEntry shop/api" in known.stdout
    assert "10.0.0.7" in known.stdout
    hidden = run_tool("explain", "--config", path, "hidden.example.org", "A", "--from", "web")
    assert "exportTo" in hidden.stdout and "shop/hidden" in hidden.stdout, hidden
    at_home = run_tool("explain", "--config", path, "hidden.example.org", "A", "--from", "shop")
    assert "10.0.0.8" in at_home.stdout, at_home
    unknown = run_tool("explain", "--config", path, "www.example.net", "AAAA")
    assert re.search("forward", unknown.stdout, re.IGNORECASE), unknown


def test_explain_names_each_candidate_once(workspace):
    """The full name of a Service leads to it, and so does the short name before its search domain."""
    workspace.write("web.yaml", {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
                                 "spec": {"ports": [{"port": 80}]}})
    path = workspace.path / "meshdns.yaml"
    path.write_text(yaml.safe_dump(workspace.config({"client": {"default": {"namespace": "shop"}}}, ["127.0.0.1:9"])))
    result = run_tool("explain", "--config", path, "web.shop.svc.cluster.local", "A")
    assert result.stdout.count("no clusterIP: a manifest") == 1, result.stdout


def test_explain_says_that_it_looks_up_no_endpoint_names(workspace):
    workspace.write("db.yaml", merge(API, {"spec": {"addresses": None, "resolution": "DNS", "endpoints": [
        {"address": "db.example.net"}]}}))
    path = workspace.path / "meshdns.yaml"
    path.write_text(yaml.safe_dump(workspace.config(upstreams=["127.0.0.1:9"])))
    waiting = run_tool("explain", "--config", path, "api.example.org", "A")
    assert "this command does not look up the names of endpoints" in waiting.stdout, waiting
    other = run_tool("explain", "--config", path, "www.example.net", "A")
    assert "look up" not in other.stdout, other


def test_explain_asks_the_running_daemon_and_says_so(workspace):
    workspace.write("api.yaml", API)
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}})
    asked = run_tool("explain", "--config", daemon.config_path, "api.example.org", "A", "--from", "203.0.113.9")
    assert asked.stderr == "explained by the running daemon\n", asked
    assert "server.allow does not include 203.0.113.9: its queries are REFUSED" in asked.stdout
    assert "A: REFUSED, REFUSED: this client is not in server.allow" in asked.stdout, asked
    assert "api.example.org. 30 IN A 10.0.0.7" not in asked.stdout, asked
    offline = run_tool("explain", "--config", daemon.config_path, "--offline", "api.example.org", "A")
    assert "10.0.0.7" in offline.stdout and offline.stderr == "", offline
    other = merge(daemon.config, {"mesh": {"ttl": {"vip": 7}}})
    path = workspace.path / "other.yaml"
    path.write_text(yaml.safe_dump(other))
    differs = run_tool("explain", "--config", path, "api.example.org", "A")
    assert "10.0.0.7" in differs.stdout and "another configuration" in differs.stderr, differs
    daemon.stop()
    workspace.forget(daemon)
    alone = run_tool("explain", "--config", daemon.config_path, "api.example.org", "A", "--from", "203.0.113.9")
    assert "explained from the files; no daemon to ask at 127.0.0.1:" in alone.stderr, alone
    assert "server.allow does not include 203.0.113.9: its queries are REFUSED" in alone.stdout
    assert "A: REFUSED, REFUSED: this client is not in server.allow" in alone.stdout, alone


def test_explain_says_which_service_a_connection_is_taken_for(workspace):
    workspace.write("api.yaml", merge(API, {"spec": {"ports": [{"number": 443, "name": "tcp", "protocol": "TCP"}]}}))
    path = workspace.path / "meshdns.yaml"
    path.write_text(yaml.safe_dump(workspace.config(upstreams=["127.0.0.1:9"])))
    known = run_tool("explain", "--config", path, "--connect", "10.0.0.7:443")
    assert known.returncode == 0, known
    assert "service: api.example.org port 443" in known.stdout and "ServiceEntry shop/api" in known.stdout, known
    assert "virtual service:" not in known.stdout, known
    workspace.write("routes.yaml", ROUTES)
    routed = run_tool("explain", "--config", path, "--connect", "10.0.0.7:443").stdout
    assert re.search(r"virtual service: VirtualService shop/api \(.*routes.yaml:\d+\), tcp route 1: to other.example.org "
                     "port 8443", routed), routed
    assert ("note: the route to other.example.org fails: the client sees no service with this host, and connections are closed"
            in routed), routed
    outside = run_tool("explain", "--config", path, "--connect", "192.0.2.77:7")
    assert "passthrough" in outside.stdout, outside
    workspace.write("mesh.yaml", {"kind": "ConfigMap", "metadata": {"name": "istio", "namespace": "istio-system"},
                                  "data": {"mesh": "outboundTrafficPolicy: { mode: REGISTRY_ONLY }"}})
    dropped = run_tool("explain", "--config", path, "--connect", "192.0.2.77:7").stdout
    assert ("\ndropped: REGISTRY_ONLY: no service matches, and outboundTrafficPolicy of the mesh "
            "(ConfigMap istio-system/istio) lets nothing else pass\n") in dropped, dropped
    workspace.write("sidecar.yaml", {"kind": "Sidecar", "metadata": {"name": "default", "namespace": "default"},
                                     "spec": {"outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"}}})
    dropped = run_tool("explain", "--config", path, "--connect", "192.0.2.77:7").stdout
    assert re.search(r"outboundTrafficPolicy of Sidecar default/default \(.*sidecar.yaml:\d+\) lets", dropped), dropped
    as_json = json.loads(run_tool("explain", "--json", "--config", path, "--connect", "192.0.2.77:7").stdout)
    assert as_json["rule"] == "dropped" and as_json["registry_only_by"].startswith("Sidecar default/default ("), as_json
    wrong = run_tool("explain", "--config", path, "--connect", "nowhere")
    assert wrong.returncode == 2 and "--connect" in wrong.stderr, wrong


def test_answers_on_any_free_port_and_says_which(workspace):
    workspace.write("api.yaml", API)
    daemon = workspace.daemon({"server": {"listen": ["127.0.0.1:0"]}}, upstreams=[workspace.upstream()])
    for transport in ("udp", "tcp"):
        assert daemon.ask("api.example.org.", "A", transport).addresses() == ["10.0.0.7"]


def test_answers_on_every_configured_address(workspace):
    workspace.write("api.yaml", API)
    ports = [free_port(), free_port("::1"), free_port("::1")]
    workspace.daemon(
        {"server": {"listen": [f"127.0.0.1:{ports[0]}", f"[::1]:{ports[1]}", f"[::]:{ports[2]}"]}},
        upstreams=[workspace.upstream()])
    for server in (("127.0.0.1", ports[0]), ("::1", ports[1]), ("::1", ports[2]), ("127.0.0.1", ports[2])):
        for transport in ("udp", "tcp"):
            # The answer to a wildcard socket leaves from the address that was asked (the client is connected).
            assert ask(server, Question("api.example.org."), transport).addresses() == ["10.0.0.7"]
    assert ask(("127.0.0.2", ports[2]), Question("api.example.org.")).addresses() == ["10.0.0.7"]


@pytest.mark.timing
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_drains_and_ends_with_zero(workspace, number):
    upstream = workspace.upstream(rules=[{"match": "slow.example.org.", "drop": True}])
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}, "upstream": {"timeout": "4s"}},
                              upstreams=[upstream])
    results = []
    asking = [threading.Thread(target=lambda t=t: results.append(daemon.ask("slow.example.org.", "A", t).addresses()))
              for t in ("udp", "tcp")]
    for thread in asking:
        thread.start()
    eventually(lambda: re.search(r"^meshdns_dns_waiting 2$", daemon.get("/metrics")[1], re.M), 3)
    daemon.process.send_signal(number)
    daemon.wait_for_log(r"\bstopping\b")
    upstream.set(["slow.example.org. A 192.0.2.1"])  # for the next try
    for thread in asking:
        thread.join()
    assert results == [["192.0.2.1"], ["192.0.2.1"]], "queries in flight were lost"
    started = time.monotonic()
    assert daemon.process.wait(5) == 0
    assert time.monotonic() - started < at_most(3)
    workspace.forget(daemon)
    assert daemon.process.sanitizer_reports() == []


def test_notifies_its_supervisor(workspace, tmp_path):
    """sd_notify: READY=1 when it answers, RELOADING/READY around a SIGHUP or not, STOPPING=1 at the end."""
    workspace.write("api.yaml", API)
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(path)
        notify.settimeout(seconds(5))
        daemon = workspace.daemon(upstreams=[workspace.upstream()], env={"NOTIFY_SOCKET": path})
        received = ""
        while "READY=1" not in received:
            received += notify.recv(4096).decode() + "\n"
        daemon.stop()
        workspace.forget(daemon)
        while "STOPPING=1" not in received:
            received += notify.recv(4096).decode() + "\n"


def test_dig_is_content(workspace):
    workspace.write("api.yaml", API)
    daemon = workspace.daemon(upstreams=[workspace.upstream(["www.example.org. A 192.0.2.1"])])
    for arguments, expected in (
            (["api.example.org"], "10.0.0.7"), (["+tcp", "api.example.org"], "10.0.0.7"),
            (["www.example.org"], "192.0.2.1"), (["api.example.org", "AAAA"], ""),
            (["-c", "CH", "-t", "TXT", "whoami.meshdns"], "default")):
        result = subprocess.run(
            [find_program("dig"), f"@{daemon.server[0]}", "-p", str(daemon.server[1]), "+short", *arguments],
            capture_output=True, text=True, timeout=seconds(10), check=True)
        assert expected in result.stdout and ";;" not in result.stdout, result
    full = subprocess.run([find_program("dig"), f"@{daemon.server[0]}", "-p", str(daemon.server[1]), "api.example.org"],
                          capture_output=True, text=True, timeout=seconds(10), check=True).stdout
    assert "WARNING" not in full, full  # no recursion available, bad cookie, extra octets, ...
    assert "flags: qr aa rd ra;" in full


def test_the_shipped_configuration_is_good():
    result = run_tool("check", "--config", ROOT / "conf" / "meshdns.yaml")
    assert result.returncode == 0, result
    assert "0 errors, 0 warnings" in result.stdout


def test_raises_its_descriptor_limit_and_leaks_none(workspace):
    """Two thousand connections and queries later, as many descriptors are open as before."""
    workspace.write("api.yaml", API)
    daemon = workspace.daemon(upstreams=[workspace.upstream()])
    descriptors = f"/proc/{daemon.pid}/fd"

    def use():
        for i in range(500):
            daemon.ask("api.example.org.", "A", "tcp")
            daemon.ask(f"n{i}.example.net.", "A")

    use()
    before = len(os.listdir(descriptors))
    use()
    eventually(lambda: len(os.listdir(descriptors)) <= before + 5, 5)
