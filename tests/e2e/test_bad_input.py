# SPDX-License-Identifier: Apache-2.0
"""Bad input of every sort: a clear message with place and reason, and what is good is served."""

import os
import pathlib
import re
import socket
import tempfile

import pytest

from harness.daemon import Daemon, run_tool
from harness.preset import ONE_THREAD
from harness.scenario import to_yaml
from harness.waiting import eventually

pytestmark = ONE_THREAD

GOOD = {"kind": "ServiceEntry", "metadata": {"name": "good"},
        "spec": {"hosts": ["good.example.org"], "addresses": ["10.0.0.1"], "resolution": "STATIC"}}

BAD_FILES = {
    "a YAML syntax error": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: [}\n", r"bad\.yaml:3: error: "),
    "a tab as indentation": (
        "kind: Service\nmetadata:\n\tname: x\n", r"bad\.yaml:3: error: "),
    "a wrong type": (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: bad}\n"
        "spec:\n  hosts: {a: b}\n  resolution: STATIC\n",
        r"bad\.yaml:5: error: ServiceEntry default/bad: spec\.hosts: "),
    "a number where a text is due": (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: bad}\n"
        "spec:\n  hosts: [a.example.org]\n  resolution: STATIC\n  ports:\n  - {number: many, name: http, protocol: HTTP}\n",
        r"bad\.yaml:8: error: ServiceEntry default/bad: spec\.ports\[0\]\.number: "),
    "a missing field": (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: bad, namespace: shop}\n"
        "spec: {resolution: STATIC}\n",
        r"bad\.yaml:\d+: error: ServiceEntry shop/bad: spec\.hosts: "),
    "an unknown kind": (
        "apiVersion: v1\nkind: Gadget\nmetadata: {name: bad}\n", r"bad\.yaml:\d+: warning: .*Gadget"),
    "octets that are no text": ("kind: \udcff\udcfe\n", r"bad\.yaml:\d+: error: "),
    "a document that is a list": ("- a\n- b\n", r"bad\.yaml:\d+: (error|warning): "),
    "an alias bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{','.join('*' + chr(97 + i) for _ in range(9))}]\n" for i in range(8)),
        r"bad\.yaml:\d+: (error|warning): "),
    "nesting without end": ("a: " + "[" * 5000 + "]" * 5000 + "\n", r"bad\.yaml:\d+: error: "),
    "the same object twice": (
        "---\n".join([to_yaml([dict(GOOD, metadata={"name": "twice"})])] * 2), r"bad\.yaml:\d+: (error|warning): ServiceEntry default/twice"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_said_and_the_rest_served(workspace, case):
    text, pattern = BAD_FILES[case]
    workspace.write("good.yaml", GOOD)
    (workspace.resources / "bad.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))
    daemon = workspace.daemon(upstreams=[workspace.upstream()])
    assert daemon.ask("good.example.org.").addresses() == ["10.0.0.1"]
    daemon.wait_for_log(pattern)
    result = run_tool("check", workspace.resources)
    lines = result.stdout + result.stderr
    assert re.search(rf"^\S*{pattern}", lines, re.MULTILINE), lines
    assert result.returncode == (0 if "warning" in pattern and "warning:" in lines and "error:" not in lines else 1)


@pytest.fixture
def open_directory():
    """A directory that other users may enter, as pytest's are not."""
    with tempfile.TemporaryDirectory(prefix="meshdns-e2e-") as directory:
        path = pathlib.Path(directory)
        path.chmod(0o755)
        yield path


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
@pytest.mark.parametrize("what", ["directory", "file"])
def test_forbidden_files_are_reported_and_the_rest_served(workspace, open_directory, what):
    resources = open_directory / "resources"
    locked = resources / "locked"
    locked.mkdir(parents=True)
    (resources / "good.yaml").write_text(to_yaml([GOOD]))
    (locked / "hidden.yaml").write_text(to_yaml([dict(GOOD, metadata={"name": "hidden"})]))
    (locked if what == "directory" else locked / "hidden.yaml").chmod(0)
    config = workspace.config({"sources": [{"files": {"path": str(resources)}}]}, [workspace.upstream()])
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    daemon = workspace.own(Daemon(config, open_directory, prefix=nobody))
    assert daemon.ask("good.example.org.").addresses() == ["10.0.0.1"]
    daemon.wait_for_log(r"locked.*([Pp]ermission denied|EACCES)")
    # Once it may be read, it is.
    (locked / "hidden.yaml").chmod(0o644)
    locked.chmod(0o755)
    (locked / "more.yaml").write_text(to_yaml([{
        "kind": "ServiceEntry", "metadata": {"name": "more"},
        "spec": {"hosts": ["more.example.org"], "addresses": ["10.0.0.2"], "resolution": "STATIC"}}]))
    daemon.reload()
    eventually(lambda: daemon.ask("more.example.org.").addresses() == ["10.0.0.2"], 2)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_directory_that_can_be_listed_but_not_searched_loses_no_file(workspace, open_directory):
    resources = open_directory / "resources"
    (resources / "below").mkdir(parents=True)
    (resources / "good.yaml").write_text(to_yaml([GOOD]))
    (resources / "below" / "more.yaml").write_text(to_yaml([{
        "kind": "ServiceEntry", "metadata": {"name": "more"},
        "spec": {"hosts": ["more.example.org"], "addresses": ["10.0.0.2"], "resolution": "STATIC"}}]))
    config = workspace.config({"sources": [{"files": {"path": str(resources)}}]}, [workspace.upstream()])
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    daemon = workspace.own(Daemon(config, open_directory, prefix=nobody))
    resources.chmod(0o744)
    for _ in range(3):  # a file that is missing leaves at a later look
        position = daemon.log_position()
        daemon.reload()
        daemon.wait_for_log("below.*cannot be looked at: Permission denied", after=position)
    assert daemon.ask("good.example.org.").addresses() == ["10.0.0.1"]
    assert daemon.ask("more.example.org.").addresses() == ["10.0.0.2"]
    resources.chmod(0o755)
    (resources / "good.yaml").unlink()
    daemon.reload()
    eventually(lambda: daemon.ask("good.example.org.").addresses() == [], 5)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_whole_source_that_may_not_be_read_is_said(workspace, open_directory):
    resources = open_directory / "resources"
    resources.mkdir()
    resources.chmod(0)
    upstream = workspace.upstream(["www.example.org. A 192.0.2.1"])
    config = workspace.config({"sources": [{"files": {"path": str(resources)}}]}, [upstream])
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    process = workspace.own_process(start(config, open_directory, nobody))
    process.wait_for_line(r"resources.*([Pp]ermission denied|EACCES)")


def start(config, directory, prefix=()):
    """The daemon's process, not waited for: it may well refuse to start."""
    return Daemon(config, directory, prefix=prefix, wait=False).process


BAD_CONFIGS = {
    "an unknown key": ("server:\n  listne: [\"127.0.0.1:0\"]\n", r"meshdns\.yaml:2: error: server\.listne: .*listen"),
    "an unknown section": ("sever: {}\n", r"meshdns\.yaml:1: error: sever: .*server"),
    "a duplicate key": ("cache: {size: 1MiB}\ncache: {size: 2MiB}\n", r"meshdns\.yaml:2: error: cache: "),
    "a wrong type": ("server:\n  workers: many\n", r"meshdns\.yaml:2: error: server\.workers: "),
    "a value out of range": ("server:\n  workers: -1\n", r"meshdns\.yaml:2: error: server\.workers: "),
    "no duration": ("upstream:\n  timeout: 2 fortnights\n", r"meshdns\.yaml:2: error: upstream\.timeout: "),
    "no size": ("cache:\n  size: big\n", r"meshdns\.yaml:2: error: cache\.size: "),
    "no address": ("server:\n  listen: [\"localhost\"]\n", r"meshdns\.yaml:2: error: server\.listen\[0\]: "),
    "no choice": ("mesh:\n  auto_allocate: sometimes\n", r"meshdns\.yaml:2: error: mesh\.auto_allocate: .*persistent"),
    "a syntax error": ("server: [\n", r"meshdns\.yaml:\d+: error: "),
    "a list": ("- server\n", r"meshdns\.yaml:1: error: "),
    "a bad prefix": ("server:\n  allow: [10.0.0.0/99]\n", r"meshdns\.yaml:2: error: server\.allow\[0\]: "),
    "a bad upstream": ("upstream:\n  servers: [\"dns_example_org\"]\n", r"meshdns\.yaml:2: error: upstream\.servers\[0\]: "),
    "a bad node id": ("client:\n  default:\n    node_id: nonsense\n", r"meshdns\.yaml:3: error: client\.default\.node_id: "),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_config_is_refused_with_its_line(tmp_path, case):
    text, pattern = BAD_CONFIGS[case]
    path = tmp_path / "meshdns.yaml"
    path.write_text(text)
    checked = run_tool("check", "--config", path)
    assert checked.returncode in (1, 2), checked
    assert re.search(pattern, checked.stdout + checked.stderr), checked
    ran = run_tool("run", "--config", path)
    assert ran.returncode > 0
    assert re.search(pattern, ran.stderr + ran.stdout), ran


def test_all_mistakes_of_a_config_are_said_at_once(tmp_path):
    path = tmp_path / "meshdns.yaml"
    path.write_text("server:\n  listne: []\n  workers: x\nmesh:\n  ttl: {vip: -1}\n")
    output = run_tool("check", "--config", path)
    for line in (2, 3, 5):
        assert re.search(rf"meshdns\.yaml:{line}: error: ", output.stdout + output.stderr), output


def test_a_missing_config_is_said(tmp_path):
    for command in ("run", "check"):
        result = run_tool(command, "--config", tmp_path / "absent.yaml")
        assert result.returncode > 0
        assert "absent.yaml" in result.stderr + result.stdout
        assert re.search(r"[Nn]o such file", result.stderr + result.stdout), result


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_a_port_in_use_is_said(workspace, tmp_path, kind):
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    with holder:
        holder.bind(("127.0.0.1", 0))
        if kind == "tcp":
            holder.listen()
        port = holder.getsockname()[1]
        home = tmp_path / "home"
        home.mkdir()
        process = workspace.own_process(start(
            workspace.config({"server": {"listen": [f"127.0.0.1:{port}"]}}, [workspace.upstream()]), home))
        assert process.wait(10) > 0
        assert re.search(rf"127\.0\.0\.1:{port}.*in use", process.log_tail()), process.log_tail()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_privileged_port_without_privilege_is_said(workspace, open_directory):
    config = workspace.config({"server": {"listen": ["127.0.0.1:53"]}}, [workspace.upstream()])
    start_port = pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text().strip()
    if int(start_port) <= 53:
        pytest.skip("every user may bind port 53 here")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all",
              "--ambient-caps=-all", "--bounding-set=-all"]
    process = workspace.own_process(start(config, open_directory, nobody))
    assert process.wait(10) > 0
    assert re.search(r"127\.0\.0\.1:53.*([Pp]ermission denied)", process.log_tail()), process.log_tail()


def test_an_absent_source_is_said_and_served_once_it_is_there(workspace):
    path = workspace.path / "later"
    upstream = workspace.upstream(["www.example.org. A 192.0.2.1"])
    daemon = workspace.daemon({"sources": [{"files": {"path": str(path)}}]}, upstreams=[upstream])
    assert daemon.ask("www.example.org.").addresses() == ["192.0.2.1"]
    daemon.wait_for_log(r"later: error: does not exist")
    path.mkdir()
    (path / "good.yaml").write_text(to_yaml([GOOD]))
    eventually(lambda: daemon.ask("good.example.org.").addresses() == ["10.0.0.1"], 2)


def test_findings_are_lines_of_printable_text(tmp_path):
    """The content or name of a file cannot move the cursor or begin a line of its own."""
    odd = '"\\n\\e[2J\\u0085ok: error: \\x7f' + "x" * 900 + '"'
    config = tmp_path / "meshdns.yaml"
    config.write_text(f"{odd}: 1\nlog: {{level: {odd}}}\nupstream: {{servers: [{odd}]}}\n")
    resource = tmp_path / "a\x1b[2J.yaml"
    resource.write_text(f"kind: ServiceEntry\napiVersion: networking.istio.io/v1\nmetadata: {{name: {odd}}}\n"
                        f"spec: {{hosts: [{odd}], {odd}: 1}}\n")
    for arguments in (("check", "--config", config), ("run", "--config", config), ("check", resource)):
        result = run_tool(*arguments)
        assert result.returncode != 0
        text = result.stdout + result.stderr
        assert "error" in text and "x...\"" in text
        assert re.fullmatch(r"[ -~\n]*", text), text
        assert max(map(len, text.splitlines())) < 2_100


def test_warnings_without_end_are_counted_and_every_error_is_shown(tmp_path):
    # No two warnings are equal: equal ones are one line.
    broken = "\n---\n".join(f"{{kind: ServiceEntry, apiVersion: networking.istio.io/v1, spec: {{x{i}: 1}}}}"
                             for i in range(3_000))
    (tmp_path / "many.yaml").write_text(broken)
    lines = run_tool("check", tmp_path).stdout.splitlines()
    counts = re.fullmatch(r"3000 resources, (\d+) errors, (\d+) warnings", lines[-1])
    errors, warnings = int(counts.group(1)), int(counts.group(2))
    assert warnings >= 3_000 and errors >= 3_000
    assert lines[-2] == f"and {warnings - 1_000} more warnings"
    assert sum(": error: " in line for line in lines) == errors
    assert sum(": warning: " in line for line in lines) == 1_000
    strict = run_tool("check", "--strict", tmp_path).stdout.splitlines()
    assert strict[-1] == f"3000 resources, {errors + warnings} errors, 0 warnings"
    assert len(strict) == errors + warnings + 1


def test_two_hundred_broken_resources_are_each_named(tmp_path):
    """Issue 3: `check` names each fault, and says how many there are."""
    broken = [{"kind": "ServiceEntry", "metadata": {"name": f"broken-{i}", "namespace": f"ns-{i % 7}"},
               "spec": {"hosts": [f"h{i}.example.org"], "addresses": ["300.0.0.1"], "resolution": "STATIC"}}
              for i in range(200)]
    for i in range(0, 200, 10):
        (tmp_path / f"{i}.yaml").write_text(to_yaml(broken[i:i + 10]))
    result = run_tool("check", tmp_path)
    assert result.returncode == 1
    lines = (result.stdout + result.stderr).splitlines()
    for i in range(200):
        pattern = rf"\.yaml:\d+: error: ServiceEntry ns-{i % 7}/broken-{i}: spec\.addresses\[0\]: "
        assert any(re.search(pattern, line) for line in lines), f"broken-{i}"
    assert lines[-1] == "200 resources, 200 errors, 0 warnings"
