# SPDX-License-Identifier: Apache-2.0
"""The daemon under systemd: what it tells its supervisor, whose sockets it takes, and the units."""

import fcntl
import math
import os
import re
import shutil
import subprocess
import threading
import time

import pytest

from harness.daemon import ROOT, Daemon, binary, merge, run_tool
from harness.dns_client import Question, ask
from harness.dnsperf import Dnsperf, rate_to_keep, write_queries
from harness.ports import free_port
from harness.preset import IS_SANITIZED, ONE_THREAD, TREE, fewer
from harness.process import Process
from harness.supervisor import HangingThread, NotifySocket, Sockets, threads
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

UNITS = ROOT / "systemd"
API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}


@pytest.fixture
def notify(workspace):
    return workspace.own(NotifySocket(workspace.path / "notify"))


def test_tells_its_supervisor_how_it_is(workspace, notify):
    workspace.write("api.yaml", API)
    daemon = workspace.daemon(env={"NOTIFY_SOCKET": notify.path})
    notify.wait_for("READY", "1")
    assert notify.wait_for("STATUS") == "answering for 1 host of 1 source"
    reloaded = time.monotonic()
    daemon.reload()
    notify.wait_for("RELOADING", "1", reloaded)
    assert int(notify.wait_for("MONOTONIC_USEC", None, reloaded)) >= reloaded * 1e6
    notify.wait_for("READY", "1", reloaded)
    # The status line says what is lost, and names the problem.
    workspace.write_text("broken.yaml", "kind: ServiceEntry\nspec: [")
    eventually(lambda: "broken.yaml" in notify.messages("STATUS")[-1], 5)
    assert notify.messages("STATUS")[-1].startswith("degraded: objects with errors are not in use")
    workspace.forget(daemon)
    daemon.stop()
    notify.wait_for("STOPPING", "1")


def let_pass(workspace, notify, rounds):
    """Waits until the daemon has looked after itself so many times: each time it has another status to tell."""
    for number in range(rounds):
        begin = time.monotonic()
        workspace.write("round.yaml", *[merge(API, {"metadata": {"name": f"r{i}"}, "spec": {"hosts": [f"r{i}.test"]}})
                                        for i in range(1 + number % 2)])
        notify.wait_for("STATUS", None, begin)


def test_asks_for_no_watchdog_that_nobody_wants(workspace, notify):
    workspace.daemon(env={"NOTIFY_SOCKET": notify.path})
    let_pass(workspace, notify, 3)
    assert notify.messages("WATCHDOG") == []


def test_feeds_a_watchdog_of_one_second_in_time(workspace, notify):
    workspace.daemon(env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "1000000"})
    begin = time.monotonic()
    eventually(lambda: len(notify.messages("WATCHDOG", begin)) >= 4, 10)
    times = notify.times("WATCHDOG", begin)
    # A busy machine may delay one of them.
    assert min(later - earlier for earlier, later in zip(times, times[1:])) < 0.8


@pytest.mark.slow("the watchdog's own time")
def test_starves_the_watchdog_while_a_worker_hangs(workspace, notify):
    daemon = workspace.daemon({"admin": {"listen": f"127.0.0.1:{free_port()}"}},
                              env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "1000000"})
    eventually(lambda: len(notify.messages("WATCHDOG")) >= 2, 10)
    assert daemon.get("/healthz") == (200, "ok\n")
    with HangingThread(threads(daemon.pid)["worker-1"]):
        eventually(lambda: daemon.get("/healthz") == (503, "worker 1 hangs\n"), 15)
        daemon.wait_for_log(r'ERROR workers do not respond workers="worker 1 hangs"')
        begin = time.monotonic()
        let_pass(workspace, notify, 3)  # longer than the supervisor waits
        assert notify.messages("WATCHDOG", begin) == []
    begin = time.monotonic()
    notify.wait_for("WATCHDOG", "1", begin)
    eventually(lambda: daemon.get("/healthz") == (200, "ok\n"))


def handed_over(workspace, sockets, config, number):
    home = workspace.path / f"handed-over-{number}"
    home.mkdir()
    daemon = Daemon(config, home, **sockets.options())
    workspace.own(daemon)
    return daemon


def test_answers_on_the_sockets_that_it_is_given_and_on_those_of_its_configuration(workspace):
    workspace.write("api.yaml", API)
    given = f"127.0.0.1:{free_port()}"
    sockets = workspace.own(Sockets(given))
    config = workspace.config()
    own = config["server"]["listen"][0]
    daemon = handed_over(workspace, sockets, config, 0)
    for address in (given, own):
        host, port = address.rsplit(":", 1)
        for transport in ("udp", "tcp"):
            answer = ask((host, int(port)), Question("api.example.org."), transport, 5)
            assert answer.addresses() == ["10.0.0.7"], (address, transport)
    # A reload takes nothing away that somebody else has opened.
    daemon.write_config(merge(config, {"server": {"listen": [f"127.0.0.1:{free_port()}"]}}))
    daemon.reload()
    daemon.wait_for_log(f"no longer listening address={re.escape(own)}")
    host, port = given.rsplit(":", 1)
    assert ask((host, int(port)), Question("api.example.org."), "udp", 5).addresses() == ["10.0.0.7"]


RESTARTS = fewer(20)


class TcpAsker:
    """Asks over a new TCP connection each time, without pause."""

    def __init__(self, server):
        self.problems, self.asked = [], 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server,))
        self._thread.start()

    def _run(self, server):
        while not self._stopping.is_set():
            try:
                if ask(server, Question("api.example.org."), "tcp", 5).addresses() != ["10.0.0.7"]:
                    self.problems.append("a wrong answer")
            except (OSError, AssertionError) as error:
                self.problems.append(repr(error))
            self.asked += 1

    def stop(self):
        self._stopping.set()
        self._thread.join()


def test_loses_no_query_when_it_is_restarted(workspace, tmp_path):
    """`systemctl restart` with the socket unit: the sockets stay, the process is another."""
    workspace.write("api.yaml", API)
    address = f"127.0.0.1:{free_port()}"
    sockets = workspace.own(Sockets(address))
    # Without CAP_NET_ADMIN the queue is shorter, and so is what may come while nobody reads it.
    most = 5000 if sockets.udp_buffer >= 4 << 20 else 100
    if IS_SANITIZED:
        most = min(most, 500)  # what waited during a restart has to be answered within dnsperf's time
    config = workspace.config({"server": {"listen": [address]}})
    daemon = handed_over(workspace, sockets, config, 0)
    queries = tmp_path / "queries"
    write_queries(queries, ["api.example.org"])
    # Many sockets: what waited during a restart is answered at once, and dnsperf's own queues must hold it.
    server = ("127.0.0.1", int(address.rsplit(":", 1)[1]))
    load = workspace.own(Dnsperf(server, queries, rate_to_keep(server, queries, 100, most), "-l", 300, "-c", 64, "-q", 20000,
                                 "-t", math.ceil(seconds(10))))
    tcp = TcpAsker(daemon.server)
    try:
        for number in range(1, RESTARTS + 1):
            before = tcp.asked
            eventually(lambda: tcp.asked > before + 20, 10)
            workspace.forget(daemon)
            daemon.stop()
            daemon = handed_over(workspace, sockets, config, number)
    finally:
        tcp.stop()
        counts = load.stop()
    assert tcp.problems == []
    assert counts["lost"] == 0 and counts["noerror"] == counts["completed"] > 10 * RESTARTS, load.output


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="needs the package systemd")
def test_is_started_by_the_first_query(workspace):
    workspace.write("api.yaml", API)
    home = workspace.path / "activated"
    home.mkdir()
    config = workspace.config()
    unused = Daemon.__new__(Daemon)  # only to write the file
    unused.config_path = home / "meshdns.yaml"
    unused.write_config(config)
    port = free_port()
    activator = workspace.own_process(Process(
        ["systemd-socket-activate", "--datagram", f"--listen=127.0.0.1:{port}", binary(), "run", "--config",
         unused.config_path], "systemd-socket-activate", env={**os.environ}, cwd=ROOT))
    activator.wait_for_line("Listening on", 10)
    assert not any("ready:" in line for line in activator.log_lines())
    answer = ask(("127.0.0.1", port), Question("api.example.org."), "udp", 10)
    assert answer.addresses() == ["10.0.0.7"]
    assert activator.stop() == 0


# --- the units ---------------------------------------------------------------------------------------------------

needs_systemd_analyze = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs the package systemd")


@needs_systemd_analyze
def test_the_unit_is_in_a_tight_sandbox():
    result = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=17", "--no-pager",
         str(UNITS / "meshdnsd.service")], capture_output=True, text=True, timeout=seconds(60), check=False)
    assert result.returncode == 0, result.stdout[-400:] + result.stderr
    assert float(re.search(r"exposure level for meshdnsd.service: ([0-9.]+)", result.stdout).group(1)) <= 1.7


SANDBOX = {"CapabilityBoundingSet", "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices",
           "ProtectClock", "ProtectControlGroups", "ProtectHome", "ProtectHostname", "ProtectKernelLogs",
           "ProtectKernelModules", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
           "SystemCallArchitectures", "SystemCallFilter"}


@TREE
@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.glob("*.service")))
def test_every_service_is_in_a_sandbox(unit):
    settings = re.findall(r"^(\w+)=", (UNITS / unit).read_text(), re.M)
    assert SANDBOX - set(settings) == set()


@TREE
@pytest.mark.parametrize("script", ["postinst", "postrm"])
def test_the_package_unmasks_and_purges_every_unit(script):
    units = {path.name for path in UNITS.iterdir() if path.suffix in (".service", ".socket", ".path", ".mount")}
    listed = re.search(r'units="([^"]*)"', (ROOT / "conf" / "debian" / script).read_text()).group(1)
    assert set(listed.split()) == units


@TREE
def test_a_purge_removes_the_directories_of_state():
    script = (ROOT / "conf" / "debian" / "postrm").read_text()
    purged = re.search(r"purge\)(.*?);;", script, re.S).group(1)
    for path in ("/var/lib/meshdns", "/var/lib/meshdns-resolver", "/run/meshdns-resolver.lock"):
        assert re.search(rf"{path}(?:\s|$)", purged, re.M), path
    assert not re.search(r"rm -r?f? ?[^\n]*/etc/meshdns\b", purged)  # an administrator's files


@TREE
def test_the_maps_of_the_kernel_have_a_file_system_of_their_own():
    """The folder /sys/fs/bpf belongs to other programs as well: who may go there is not ours to change."""
    mount = dict(re.findall(r"^(\w+)=(.*)$", (UNITS / "run-meshdns.bpf.mount").read_text(), re.M))
    service = (UNITS / "meshdns-kernel.service").read_text()
    assert mount["Type"] == "bpf" and "mode=0711" in mount["Options"].split(",")
    assert f"RequiresMountsFor={mount['Where']}\n" in service and "/sys/fs/bpf" not in service
    loader = (ROOT / "dnsd" / "kernel" / "loader" / "main.cpp").read_text()
    assert re.search(rf'std::string maps = "{mount["Where"]}/\w+"', loader)
    assert "run-meshdns.bpf.mount" in (ROOT / "conf" / "debian" / "prerm").read_text()


@needs_systemd_analyze
def test_the_units_are_well_formed(tmp_path):
    for unit in UNITS.iterdir():
        if unit.suffix not in (".service", ".socket", ".mount"):
            continue
        # The programs that the units start are elsewhere here.
        text = unit.read_text().replace("/usr/sbin/meshdnsd", str(binary()))
        text = text.replace("/usr/sbin/meshdns-kernel", str(binary().with_name("meshdns-kernel")))
        text = text.replace("/usr/lib/meshdns/", f"{UNITS}/")
        (tmp_path / unit.name).write_text(text)
    units = sorted(str(path) for path in tmp_path.iterdir())
    assert len(units) == 7
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=one", *units],
                            capture_output=True, text=True, timeout=seconds(60), check=False)
    assert (result.returncode, result.stderr) == (0, "")


@TREE
def test_a_crash_loop_starts_it_once_a_second_and_never_gives_up():
    settings = dict(re.findall(r"^(\w+)=(.*)$", (UNITS / "meshdnsd.service").read_text(), re.M))
    assert settings["Restart"] == "always"
    assert re.fullmatch(r"[1-9]\d*s", settings["RestartSec"])
    assert settings["StartLimitIntervalSec"] == "0"


def test_a_configuration_with_errors_is_not_started_again(tmp_path):
    settings = dict(re.findall(r"^(\w+)=(.*)$", (UNITS / "meshdnsd.service").read_text(), re.M))
    config = tmp_path / "meshdns.yaml"
    config.write_text("cache: { size: none }\n")
    refused = run_tool("run", "--config", config)
    assert str(refused.returncode) in settings["RestartPreventExitStatus"].split()
    assert "cache.size" in refused.stderr
    config.write_text("\n")
    empty = run_tool("run", "--config", config)
    assert empty.returncode == refused.returncode and f"{config}: error: is empty" in empty.stderr
    missing = run_tool("run", "--config", tmp_path / "missing.yaml")
    assert missing.returncode == refused.returncode and missing.stderr == f"{tmp_path}/missing.yaml: No such file or directory\n"
    # The files of a VM may come later.
    later = run_tool("run", "--istio-vm", tmp_path / "missing")
    assert later.returncode not in (0, *map(int, settings["RestartPreventExitStatus"].split())), later.stderr


@TREE
def test_a_reload_waits_until_it_is_ready():
    """`systemctl reload` may send SIGHUP, which ends a process that has not come to its first instruction."""
    settings = dict(re.findall(r"^(\w+)=(.*)$", (UNITS / "meshdnsd.service").read_text(), re.M))
    assert settings["Type"] in ("notify", "notify-reload")
    assert settings["NotifyAccess"] == "main"


@TREE
def test_the_socket_unit_has_udp_and_tcp_on_each_address_of_the_shipped_configuration():
    text = (UNITS / "meshdnsd.socket").read_text()
    datagram = re.findall(r"^ListenDatagram=(.+)$", text, re.M)
    assert datagram == re.findall(r"^ListenStream=(.+)$", text, re.M) != []
    shipped = re.search(r'^  listen: \["(.+?)"\]', (ROOT / "conf" / "meshdns.yaml").read_text(), re.M)
    assert shipped.group(1) in datagram


# --- this machine's resolver -------------------------------------------------------------------------------------

class Machine:
    """A root directory with an /etc/resolv.conf, on which meshdns-resolver works."""

    def __init__(self, root):
        self.root = root
        (root / "etc").mkdir()
        self.resolv_conf = root / "etc" / "resolv.conf"

    def run(self, command, **env):
        return subprocess.run([str(UNITS / "meshdns-resolver"), command], capture_output=True, text=True,
                              timeout=seconds(10), check=False,
                              env={"PATH": os.environ["PATH"], "MESHDNS_ROOT": str(self.root), **env})

    def files(self):
        """Everything that is there but the lock, with content or target."""
        return {str(path.relative_to(self.root)): os.readlink(path) if path.is_symlink() else path.read_text()
                for path in self.root.rglob("*") if path != self.lock and (path.is_symlink() or path.is_file())}

    @property
    def lock(self):
        return self.root / "run" / "meshdns-resolver.lock"


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "root").mkdir()
    return Machine(tmp_path / "root")


BEFORE = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch corp.example\noptions timeout:1\n"


def test_names_meshdns_in_resolv_conf_and_puts_back_what_was_there(machine):
    machine.resolv_conf.write_text(BEFORE)
    for _ in range(2):  # twice is as once
        assert machine.run("apply", MESHDNS_RESOLVER="plain").returncode == 0
    lines = [line for line in machine.resolv_conf.read_text().splitlines() if not line.startswith("#")]
    assert lines == ["nameserver 127.0.0.1", "search corp.example", "options timeout:1"]
    # The daemon reads its upstream servers from this file.
    assert (machine.root / "var/lib/meshdns-resolver/upstream.conf").read_text() == BEFORE
    for _ in range(2):
        assert machine.run("restore").returncode == 0
    assert machine.files() == {"etc/resolv.conf": BEFORE}


def test_nobody_else_can_hold_up_the_resolver(machine):
    machine.resolv_conf.write_text(BEFORE)
    with open(UNITS / "meshdns-resolver", encoding="utf-8") as script:  # any user may read the script
        fcntl.flock(script, fcntl.LOCK_EX)
        assert machine.run("apply", MESHDNS_RESOLVER="plain").returncode == 0
        assert machine.lock.stat().st_mode & 0o777 == 0o600
        assert machine.run("restore").returncode == 0
    assert machine.files() == {"etc/resolv.conf": BEFORE}


def test_a_second_resolver_waits_for_the_first_for_a_limited_time(machine):
    machine.resolv_conf.write_text(BEFORE)
    machine.run("apply", MESHDNS_RESOLVER="plain")
    with open(machine.lock, encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = machine.run("restore", MESHDNS_LOCK_SECONDS="0.1")
    assert result.returncode == 1 and "another meshdns-resolver does not end" in result.stderr
    assert machine.resolv_conf.read_text() != BEFORE
    assert machine.run("restore").returncode == 0
    assert machine.files() == {"etc/resolv.conf": BEFORE}


def test_keeps_a_link_as_a_link(machine):
    target = machine.root / "elsewhere.conf"
    target.write_text(BEFORE)
    machine.resolv_conf.symlink_to("../elsewhere.conf")
    assert machine.run("apply", MESHDNS_RESOLVER="plain").returncode == 0
    assert not machine.resolv_conf.is_symlink() and target.read_text() == BEFORE
    assert machine.run("restore").returncode == 0
    assert machine.files() == {"etc/resolv.conf": "../elsewhere.conf", "elsewhere.conf": BEFORE}


def test_lives_without_a_resolv_conf(machine):
    assert machine.run("apply", MESHDNS_RESOLVER="plain").returncode == 0
    assert "nameserver 127.0.0.1" in machine.resolv_conf.read_text()
    assert machine.run("restore").returncode == 0
    assert machine.files() == {}


def test_leaves_alone_what_another_has_written_meanwhile(machine):
    machine.resolv_conf.write_text(BEFORE)
    machine.run("apply", MESHDNS_RESOLVER="plain")
    machine.resolv_conf.write_text("nameserver 192.0.2.9\n")  # a DHCP client, say
    assert machine.run("restore").returncode == 0
    assert machine.files() == {"etc/resolv.conf": "nameserver 192.0.2.9\n"}


def test_follows_what_another_writes_while_it_runs(machine):
    assert machine.run("follow").returncode == 0
    assert machine.files() == {}
    machine.resolv_conf.write_text(BEFORE)
    machine.run("apply", MESHDNS_RESOLVER="plain")
    machine.resolv_conf.write_text("nameserver 192.0.2.9\nsearch new.example\n")  # a DHCP client, say
    for _ in range(2):
        assert machine.run("follow").returncode == 0
    lines = [line for line in machine.resolv_conf.read_text().splitlines() if not line.startswith("#")]
    assert lines == ["nameserver 127.0.0.1", "search new.example"]
    assert "192.0.2.9" in (machine.root / "var/lib/meshdns-resolver/upstream.conf").read_text()
    assert machine.run("restore").returncode == 0
    assert machine.files() == {"etc/resolv.conf": "nameserver 192.0.2.9\nsearch new.example\n"}


def test_sends_only_the_meshs_domains_through_systemd_resolved(machine):
    machine.resolv_conf.write_text(BEFORE)
    result = machine.run("apply", MESHDNS_RESOLVER="resolved", MESHDNS_SERVER="127.0.0.1:15053",
                         MESHDNS_DOMAINS="cluster.local mesh.example")
    assert result.returncode == 0
    drop_in = machine.files()["run/systemd/resolved.conf.d/50-meshdns.conf"]
    assert "DNS=127.0.0.1:15053\n" in drop_in and "Domains=~cluster.local ~mesh.example\n" in drop_in
    assert machine.resolv_conf.read_text() == BEFORE
    assert machine.run("restore").returncode == 0
    assert machine.files() == {"etc/resolv.conf": BEFORE}


def test_takes_resolv_conf_from_networkmanager_and_gives_it_back(machine):
    machine.resolv_conf.write_text(BEFORE)
    assert machine.run("apply", MESHDNS_RESOLVER="networkmanager").returncode == 0
    assert "dns=none" in machine.files()["run/NetworkManager/conf.d/50-meshdns.conf"]
    assert "nameserver 127.0.0.1" in machine.resolv_conf.read_text()
    assert machine.run("restore").returncode == 0
    assert machine.files() == {"etc/resolv.conf": BEFORE}


@pytest.mark.parametrize("arguments", [["apply", {"MESHDNS_RESOLVER": "dnsmasq"}], ["enable", {}], ["", {}],
                                       # /etc/resolv.conf cannot name a port.
                                       ["apply", {"MESHDNS_RESOLVER": "plain", "MESHDNS_SERVER": "127.0.0.1:15053"}]])
def test_the_script_refuses_what_it_does_not_know(machine, arguments):
    command, env = arguments
    result = machine.run(command, **env)
    assert result.returncode == 2 and result.stderr
    assert machine.files() == {}
