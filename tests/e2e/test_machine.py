# SPDX-License-Identifier: Apache-2.0
"""A machine that runs systemd and uses meshdns as its resolver: in each state of the service it resolves names."""

import os
import pathlib
import re
import subprocess

import pytest

from harness.daemon import ROOT, binary
from harness.machine import UPSTREAM, Machine, NameCount, has_mounted_root
from harness.preset import IS_RELEASE, ONE_THREAD
from harness.process import Process
from harness.states import STATES, record
from harness.waiting import eventually, seconds

# Downloaded by ./dev test, and not installed: that would change the resolver of this machine.
RESOLVED_PACKAGES = ROOT / "build" / "debs"

pytestmark = [ONE_THREAD, pytest.mark.skipif(not IS_RELEASE, reason="only a release build is packaged"),
              pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
              pytest.mark.skipif(not pathlib.Path("/lib/systemd/systemd").exists(), reason="needs the package systemd"),
              pytest.mark.skipif(not has_mounted_root(), reason="needs a root that is no chroot")]

CONFIG = """
server: {{ listen: ["127.0.0.1:53"] }}
admin: {{ listen: "unix:/run/meshdns/admin.sock" }}
sources:
  - files: {{ path: /etc/meshdns/resources }}
state_dir: /var/lib/meshdns
{more}
"""
SOCKET = """[Socket]
ListenDatagram=
ListenStream=
ListenDatagram=127.0.0.1:53
ListenStream=127.0.0.1:53
"""
MISTAKE = "cache: { size: none }\n"
MESH_NAME = "productpage.default.svc.cluster.local"


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Two versions."""
    directory = tmp_path_factory.mktemp("package")

    def run(*command):
        subprocess.run([*map(str, command)], check=True, capture_output=True, timeout=seconds(120),
                       env={**os.environ, "MESHDNS_PACKAGE_COMPRESSION": "none"})
    run(ROOT / "conf/debian/build-package", binary(), "0.0.1-1", directory)
    first = next(directory.glob("meshdns_0.0.1-1_*.deb"))
    second, files = directory / "second.deb", directory / "second"
    run("dpkg-deb", "--raw-extract", first, files)
    control = files / "DEBIAN" / "control"
    control.write_text(control.read_text().replace("0.0.1-1", "0.0.1-2"))
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", files, second)
    return [first, second]


class Vm(Machine):
    def __init__(self, directory, packages):
        super().__init__(directory)
        self.packages = packages
        self.prepare()
        self.set_up()

    def set_up(self):
        """A daemon on port 53 that is the resolver of the machine."""
        self.install(self.packages[0])
        self.write("etc/meshdns/resources/bookinfo.yaml", (ROOT / "conf/examples/bookinfo.yaml").read_text())
        self.write("etc/systemd/system/meshdnsd.socket.d/port.conf", SOCKET)
        self.configure()
        self.must("systemctl", "daemon-reload")
        self.must("systemctl", "restart", "meshdnsd.socket")
        self.must("systemctl", "enable", "--now", "meshdns-resolver")

    def prepare(self):
        """Before the package is installed."""

    def configure(self, more=""):
        self.write("etc/meshdns/meshdns.yaml", CONFIG.format(more=more))

    def asks_meshdns(self):
        """Whether programs get names of the mesh."""
        return self.run("getent", "ahostsv4", MESH_NAME).stdout.startswith("10.96.10.1 ")

    def state(self, unit="meshdnsd.service"):
        return self.show(unit, "ActiveState")

    def ordering_cycle(self):
        """The complaint of systemd if the order of the boot's units has a cycle; else empty."""
        said = self.run("systemd-analyze", "--man=no", "verify", "multi-user.target").stderr
        return said if "ordering cycle" in said else ""

    def ask_daemon(self):
        """A query to its address, by nobody's resolver."""
        self.run("/usr/bin/dig", "@127.0.0.1", "+time=1", "+tries=1", MESH_NAME)


class VmWithResolved(Vm):
    """With systemd-resolved, which has the network's server."""

    def prepare(self):
        self.install(next(RESOLVED_PACKAGES.glob("systemd-resolved_*.deb")))
        self.write("etc/systemd/system/network-dns.service", NETWORK_DNS)
        self.must("systemctl", "daemon-reload")
        self.must("systemctl", "reload", "dbus")  # which has not known the package's user
        self.must("systemctl", "restart", "systemd-resolved")
        self.must("systemctl", "enable", "--now", "systemd-resolved", "network-dns")


# As a DHCP client does it.
NETWORK_DNS = f"""[Unit]
After=systemd-resolved.service
[Service]
Type=oneshot
ExecStart=/usr/bin/resolvectl dns net0 {UPSTREAM}
[Install]
WantedBy=multi-user.target
"""


def walk_through_states(vm, names, may_lose):
    """Each state, and the number of names that programs did not get meanwhile.  `may_lose`: while the settings change.
    States of the same name are one in the table of docs/operations.md."""
    # To break a cycle, systemd leaves out a service of the boot at random.
    assert not vm.ordering_cycle()
    eventually(vm.asks_meshdns, 10)
    names.note("start")

    vm.configure(MISTAKE)
    refused = vm.run("systemctl", "reload", "meshdnsd")
    assert refused.returncode != 0
    eventually(lambda: "cache.size" in vm.journal("--unit=meshdnsd", "--priority=err"))
    assert vm.state() == "active"
    (entry,) = vm.journal("--output=cat", "MESSAGE_ID=9ecda1e51d16477a8d45161ce3926a3a").splitlines()
    assert entry.startswith("ERROR reload failed")  # the journal has the time
    assert vm.asks_meshdns()
    assert names.note("reload with a mistake") == 0

    failed = vm.run("systemctl", "restart", "meshdnsd")
    assert failed.returncode != 0
    assert "Job for meshdnsd.service failed because the control process exited with error code" in failed.stderr
    vm.ask_daemon()
    assert (vm.state(), vm.show("meshdnsd", "NRestarts")) == ("failed", "0")
    # Those that were under way wait in vain; no others.
    assert names.note("failed start") <= 2 + may_lose
    vm.ask_daemon()
    assert vm.state() == "failed"

    vm.configure()
    vm.must("systemctl", "start", "meshdnsd")
    eventually(vm.asks_meshdns, 10)
    assert names.note("start") <= may_lose

    for unit in ("meshdnsd.service", "meshdnsd.socket"):
        before = vm.show("meshdnsd", "MainPID")
        vm.must("systemctl", "restart", unit)
        eventually(vm.asks_meshdns, 10)
        assert vm.show("meshdnsd", "MainPID") != before and vm.state("meshdnsd.socket") == "active"
        # The sockets are closed for a moment in the second case.
        assert names.note("restart" if unit == "meshdnsd.service" else "restart of the sockets") <= (
            0 if unit == "meshdnsd.service" else 2)

    vm.must("systemctl", "reload", "meshdnsd")
    assert vm.asks_meshdns()
    assert names.note("reload") == 0

    vm.must("systemctl", "stop", "meshdnsd")
    assert names.note("stop") <= 1 + may_lose
    vm.ask_daemon()
    assert (vm.state(), vm.state("meshdnsd.socket")) == ("inactive", "inactive")

    vm.must("systemctl", "start", "meshdnsd")
    eventually(vm.asks_meshdns, 10)
    assert vm.state("meshdnsd.socket") == "active"
    assert names.note("start") <= may_lose

    for _ in range(3):
        eventually(lambda: vm.state() == "active", 10)
        applied = vm.show("meshdns-resolver", "InvocationID")
        vm.must("systemctl", "kill", "--kill-who=main", "--signal=KILL", "meshdnsd")
        names.note("crash")
    # It ends with the daemon, and starts with the next one.
    eventually(lambda: vm.state("meshdns-resolver") == "active" and vm.show("meshdns-resolver", "InvocationID") != applied, 20)
    eventually(vm.asks_meshdns, 15)
    names.note("crash")

    for state, package in (("roll-out", vm.packages[1]), ("roll-back", vm.packages[0])):
        before = vm.show("meshdnsd", "MainPID")
        vm.install(package)
        eventually(vm.asks_meshdns, 10)
        assert vm.show("meshdnsd", "MainPID") != before
        assert names.note(state) == 0

    vm.power_off()
    vm.boot()
    names.restart()
    eventually(vm.asks_meshdns, 30)
    assert names.note("reboot") <= may_lose

    vm.configure(MISTAKE)
    vm.power_off()
    vm.boot()
    names.restart()
    assert names.note("reboot with a mistake") <= may_lose
    eventually(lambda: vm.state() == "failed", 10)
    assert not vm.asks_meshdns()

    vm.configure()
    vm.must("systemctl", "start", "meshdnsd")
    eventually(vm.asks_meshdns, 10)
    assert names.note("start") <= may_lose
    vm.must("dpkg", "--no-triggers", "--remove", "meshdns")
    assert names.note("removal") <= 1 + may_lose
    assert not vm.asks_meshdns()


def count_names(vm, place, may_lose):
    names = NameCount(vm)
    try:
        walk_through_states(vm, names, may_lose)
    except AssertionError:
        print(vm.journal("--boot", "--lines=100"), vm.run("systemctl", "list-jobs").stdout, vm.console(),
              vm.run("systemctl", "--no-pager", "status", "meshdns-resolver", "meshdnsd").stdout,
              vm.ordering_cycle())
        raise
    finally:
        names.close()
        print(names.table())
    for state, asked, lost, _ in names.rows:
        if state in STATES:
            record(place, state, lost, asked)


@pytest.mark.slow("boots a machine, and starts and stops its services")
def test_resolves_names_in_each_state_with_a_plain_resolv_conf(tmp_path, packages):
    vm = Vm(tmp_path, packages)
    try:
        count_names(vm, "plain", may_lose=0)
        assert (vm.root / "etc/resolv.conf").read_text() == f"nameserver {UPSTREAM}\n"
    finally:
        vm.close()


@pytest.mark.slow("boots a machine, and starts and stops its services")
@pytest.mark.skipif(not any(RESOLVED_PACKAGES.glob("systemd-resolved_*.deb")), reason="needs systemd-resolved in build/debs")
def test_resolves_names_in_each_state_with_systemd_resolved(tmp_path, packages):
    """systemd-resolved takes over its configuration by a restart, and answers nothing meanwhile."""
    vm = VmWithResolved(tmp_path, packages)
    try:
        count_names(vm, "resolved", may_lose=50)
        assert not (vm.root / "run/systemd/resolved.conf.d/50-meshdns.conf").exists()
    finally:
        vm.close()


@pytest.mark.slow("boots a machine")
def test_says_why_it_does_not_run(tmp_path, packages):
    vm = Vm(tmp_path, packages)
    try:
        def assert_says(reason, status):
            failed = vm.run("systemctl", "restart", "meshdnsd")
            assert failed.returncode != 0 and "canceled" not in failed.stderr, failed.stderr
            shown = vm.run("systemctl", "--no-pager", "status", "meshdnsd").stdout
            assert re.search(rf'Status: "{reason}', shown), shown
            for command in ("status", "reload", "flush --zone ."):
                result = vm.run("meshdnsd", *command.split())
                assert result.returncode == 2
                assert re.search(rf"^meshdnsd (does not run|may run at an address that cannot be read): (ERROR )?{reason}", result.stderr, re.M), result.stderr
                assert re.search("^meshdnsd: no running daemon answers: .*unix:/run/meshdns/admin.sock: No such file",
                                 result.stderr, re.M), result.stderr
            assert vm.show("meshdnsd", "ExecMainStatus") == status

        path = "/etc/meshdns/meshdns.yaml"
        vm.configure(MISTAKE)
        assert_says(rf'{path}:7: error: cache.size: "none" is not a size', "78")
        vm.write(path.lstrip("/"), "")
        assert_says(f"{path}: error: is empty", "78")
        (vm.root / path.lstrip("/")).unlink()
        assert_says(f"{path}: No such file or directory", "78")
        assert (vm.state(), vm.show("meshdnsd", "NRestarts")) == ("failed", "0")
        # A good configuration: the journal knows.
        vm.configure()
        text = (vm.root / path.lstrip("/")).read_text()
        vm.write(path.lstrip("/"), text.replace('"127.0.0.1:53"', '"127.0.0.1:53", "127.0.0.1:5353"'))
        vm.must("systemd-run", "--unit=holder", "/usr/bin/python3", "-c", _HOLDER)
        eventually(lambda: "127.0.0.1:5353" in vm.must("ss", "--listening", "--udp", "--numeric"), 15)
        assert_says(r"cannot listen on 127.0.0.1:5353 \(UDP\): Address already in use", "1")
        vm.must("systemctl", "stop", "holder")
        eventually(lambda: vm.state() == "active", 20)
        vm.must("meshdnsd", "status")
        # The check of root finds what only the user of the service cannot read.
        vm.configure("hosts: { file: /etc/meshdns/hosts }\n")
        vm.write("etc/meshdns/hosts", "192.0.2.1 one.example.org\n")
        assert vm.run("meshdnsd", "check").returncode == 0
        vm.must("chmod", "600", "/etc/meshdns/hosts")
        checked = vm.run("meshdnsd", "check")
        assert checked.returncode == 1 and checked.stdout.startswith(
            f"{path}:7: error: hosts.file: the user of the service, meshdns, cannot use it: /etc/meshdns/hosts: Permission denied\n")
        vm.configure()
        # A daemon that was stopped has no reason to tell.
        vm.must("systemctl", "stop", "meshdnsd")
        stopped = vm.run("meshdnsd", "status")
        assert stopped.returncode == 2 and "does not run:" not in stopped.stderr, stopped.stderr
    finally:
        vm.close()


_HOLDER = """
import socket, time
holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
holder.bind(("127.0.0.1", 5353))
time.sleep(1000)
"""

_FLOOD = """
import contextlib, socket, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("asks", flush=True)
while True:
    with contextlib.suppress(OSError):  # nobody was there for the last one
        client.sendto(bytes.fromhex("0001 0100 0001 0000 0000 0000 03") + b"one\\x07example\\x03net\\0\\0\\1\\0\\1", ("127.0.0.1", 53))
    time.sleep(0.0001)
"""


@pytest.mark.slow("boots a machine")
def test_stays_stopped_while_clients_ask(tmp_path, packages):
    vm = Vm(tmp_path, packages)
    flood = Process(vm.inside("/usr/bin/python3", "-c", _FLOOD), "flood")
    try:
        flood.wait_for_line("asks", 15)

        def stop():
            eventually(vm.asks_meshdns, 10)
            assert vm.state("meshdnsd.socket") == "active"
            vm.must("systemctl", "stop", "meshdnsd")
            eventually(lambda: not vm.must("systemctl", "list-jobs", "--no-legend"), 20)
            assert (vm.state(), vm.state("meshdnsd.socket")) == ("inactive", "inactive")
        for _ in range(7):  # systemd's limit is five starts in ten seconds
            stop()
            vm.must("systemctl", "start", "meshdnsd")
        # As in many containers: nobody can put the former file back.
        eventually(vm.asks_meshdns, 10)
        vm.must("mount", "--bind", "/etc/resolv.conf", "/etc/resolv.conf")
        stop()
    finally:
        flood.kill()
        vm.close()


@pytest.mark.slow("boots a machine")
@pytest.mark.skipif(not binary().with_name("meshdns-kernel").exists(), reason="needs a build with kernel answers")
def test_maps_of_the_kernel_are_apart_from_those_of_other_programs(tmp_path, packages):
    vm = Vm(tmp_path, packages)
    try:
        if vm.run("mountpoint", "/sys/fs/bpf").returncode != 0:
            vm.must("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
        before = vm.must("stat", "--format=%a %G", "/sys/fs/bpf")
        vm.must("systemctl", "enable", "--now", "meshdns-kernel")
        vm.write("etc/meshdns/meshdns.yaml", CONFIG.format(more="").replace("server: {", "server: { kernel_answers: on,"))
        vm.must("systemctl", "restart", "meshdnsd")
        eventually(lambda: "answering in the kernel" in vm.journal("--unit=meshdnsd"), 10)
        assert vm.must("stat", "--file-system", "--format=%T", "/run/meshdns.bpf") == "bpf_fs\n"
        assert vm.must("stat", "--format=%a %G", "/run/meshdns.bpf", "/run/meshdns.bpf/maps") == "1711 root\n710 meshdns\n"
        assert vm.must("stat", "--format=%a %G", "/sys/fs/bpf") == before
        vm.must("systemctl", "restart", "meshdns-kernel")
        eventually(lambda: vm.state("meshdns-kernel.service") == "active", 10)
        vm.must("dpkg", "--no-triggers", "--purge", "meshdns")
        assert vm.run("mountpoint", "/run/meshdns.bpf").returncode != 0
        assert vm.run("ls", "/run/meshdns.bpf/maps").returncode != 0
    finally:
        vm.close()
