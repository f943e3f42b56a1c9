# SPDX-License-Identifier: Apache-2.0
"""A machine that runs systemd, on networks that change: DHCP leases and VPNs, through systemd-resolved, NetworkManager and a
program that writes /etc/resolv.conf."""

import subprocess
import uuid

import pytest

from e2e.test_machine import RESOLVED_PACKAGES, Vm, VmWithResolved, packages  # noqa: F401 (a fixture)
from e2e.test_machine import pytestmark as of_machines
from harness import namespaces
from harness.fake_upstream import FakeUpstream
from harness.preset import ONE_THREAD
from harness.process import Process
from harness.real_servers import find_program
from harness.waiting import eventually

pytestmark = [ONE_THREAD, *of_machines[1:]]

NETWORKMANAGER = ("libbluetooth3", "libmm-glib0", "libndp0", "libteamdctl0", "libnm0", "network-manager")
OFFICE = "10.8.0.53"
SHORT = "+time=2 +tries=1 +short".split()


def needs(*packages):
    missing = [name for name in packages if not any(RESOLVED_PACKAGES.glob(f"{name}_*.deb"))]
    return pytest.mark.skipif(bool(missing), reason=f"needs {missing} in build/debs")


def asked(vm, name):
    return vm.run("/usr/bin/dig", "@127.0.0.1", *SHORT, name).stdout.split()


def server_at(vm, address, *records):
    with namespaces.inside(vm.network):
        return FakeUpstream(records, address=address, port=53)


def ip(network, *arguments):
    subprocess.run(["ip", "-n", network, *arguments], check=True, capture_output=True)


def add_vpn(vm):
    """A link whose server knows *.corp.example."""
    ip(vm.network, "link", "add", "tun0", "type", "veth", "peer", "name", "tun1")
    ip(vm.network, "address", "add", "10.8.0.1/24", "dev", "tun0")
    ip(vm.network, "address", "add", f"{OFFICE}/32", "dev", "tun0")
    for device in ("tun0", "tun1"):
        ip(vm.network, "link", "set", device, "up")
    return server_at(vm, OFFICE, "*.corp.example. 60 A 203.0.113.9")


@pytest.mark.slow("boots a machine")
def test_follows_a_program_that_writes_resolv_conf(tmp_path, packages):  # noqa: F811
    """As a DHCP client does: the new servers are asked, and the machine goes on asking meshdns."""
    vm = Vm(tmp_path, packages)
    try:
        ip(vm.network, "address", "add", "192.0.2.54/32", "dev", "net0")
        other = server_at(vm, "192.0.2.54", "*.example.net. 60 A 203.0.113.8")
        eventually(vm.asks_meshdns, 10)
        assert asked(vm, "one.example.net") == ["203.0.113.7"]
        new = vm.root / "etc/resolv.conf.dhclient-new"
        new.write_text("nameserver 192.0.2.54\n")
        vm.must("mv", "/etc/resolv.conf.dhclient-new", "/etc/resolv.conf")
        eventually(vm.asks_meshdns, 10)
        eventually(lambda: asked(vm, f"{uuid.uuid4().hex[:8]}.example.net") == ["203.0.113.8"], 15)
        vm.must("systemctl", "stop", "meshdnsd")
        assert (vm.root / "etc/resolv.conf").read_text() == "nameserver 192.0.2.54\n"
        other.close()
    finally:
        vm.close()


@pytest.mark.slow("boots a machine")
@needs("systemd-resolved")
def test_a_vpn_of_systemd_resolved_gets_its_domains_and_no_other_names(tmp_path, packages):  # noqa: F811
    vm = VmWithResolved(tmp_path, packages)
    try:
        office = add_vpn(vm)
        eventually(vm.asks_meshdns, 10)
        assert asked(vm, "git.corp.example") == []
        vm.must("resolvectl", "dns", "tun0", OFFICE)
        vm.must("resolvectl", "domain", "tun0", "~corp.example")
        eventually(lambda: asked(vm, "git.corp.example") == ["203.0.113.9"], 10)  # the old answer is gone from the cache
        assert asked(vm, "one.example.net") == ["203.0.113.7"]
        assert not office.received("one.example.net.")
        ip(vm.network, "link", "delete", "tun0")
        eventually(lambda: asked(vm, f"{uuid.uuid4().hex[:8]}.corp.example") == [], 10)
        eventually(lambda: "zones=none" in vm.journal("--unit=meshdnsd", "--output=cat"), 10)
        office.close()
    finally:
        vm.close()


class Lan:
    """A network beside the machine with a DHCP server, and two DNS servers in the machine's way there."""

    def __init__(self, vm, directory):
        self.vm, self.directory, self.dhcp = vm, directory, None
        self.network = f"meshlan{uuid.uuid4().hex[:6]}"
        subprocess.run(["ip", "netns", "add", self.network], check=True, capture_output=True)
        ip(vm.network, "link", "add", "lan0", "type", "veth", "peer", "name", "lan1", "netns", self.network)
        for address in ("198.51.100.1/24", "198.51.100.2/24"):
            ip(self.network, "address", "add", address, "dev", "lan1")
        ip(self.network, "link", "set", "lan1", "up")
        with namespaces.inside(self.network):
            self.servers = [FakeUpstream([f"*.example.net. 60 A 203.0.113.{number}"], address=f"198.51.100.{number}", port=53)
                            for number in (1, 2)]

    def lease(self, server):
        """Leases name this DNS server from now on."""
        if self.dhcp:
            self.dhcp.kill()
        self.dhcp = Process(["ip", "netns", "exec", self.network, find_program("dnsmasq"), "--no-daemon", "--port=0",
                             "--conf-file=/dev/null", "--interface=lan1", "--bind-interfaces", "--user=root",
                             f"--dhcp-leasefile={self.directory}/leases", "--dhcp-authoritative",
                             "--dhcp-range=198.51.100.100,198.51.100.150,2m", f"--dhcp-option=6,{server}"], "dhcp")

    def close(self):
        for server in self.servers:
            server.close()
        if self.dhcp:
            self.dhcp.kill()
        subprocess.run(["ip", "netns", "delete", self.network], check=False, capture_output=True)


class VmWithNetworkManager(Vm):
    """NetworkManager has the link lan0, with DHCP."""

    def __init__(self, directory, packages):  # noqa: F811
        self.lan, self.lan_directory = None, directory
        super().__init__(directory, packages)

    def prepare(self):
        self.lan = Lan(self, self.lan_directory)
        self.lan.lease("198.51.100.1")
        self.write("etc/NetworkManager/conf.d/test.conf", "[keyfile]\nunmanaged-devices=interface-name:net*;interface-name:tun1\n")
        self.write("etc/NetworkManager/system-connections/lan.nmconnection",
                   "[connection]\nid=lan\nuuid=" + str(uuid.uuid4()) + "\ntype=ethernet\ninterface-name=lan0\n"
                   "[ipv4]\nmethod=auto\n[ipv6]\nmethod=disabled\n")
        (self.root / "etc/NetworkManager/system-connections/lan.nmconnection").chmod(0o600)
        for name in NETWORKMANAGER:
            self.install(next(RESOLVED_PACKAGES.glob(f"{name}_*.deb")))
        self.must("systemctl", "daemon-reload")
        self.must("systemctl", "reload", "dbus")
        self.must("systemctl", "enable", "--now", "NetworkManager")
        eventually(lambda: "198.51.100.1" in (self.root / "etc/resolv.conf").read_text(), 30)

    def close(self):
        if self.lan:
            self.lan.close()
        super().close()


@pytest.mark.slow("boots a machine")
@needs(*NETWORKMANAGER)
def test_follows_the_leases_and_vpns_of_networkmanager(tmp_path, packages):  # noqa: F811
    vm = VmWithNetworkManager(tmp_path, packages)
    try:
        eventually(vm.asks_meshdns, 10)
        assert asked(vm, "one.example.net") == ["203.0.113.1"]

        vm.lan.lease("198.51.100.2")
        vm.must("nmcli", "connection", "up", "lan")
        eventually(lambda: asked(vm, f"{uuid.uuid4().hex[:8]}.example.net") == ["203.0.113.2"], 15)
        assert vm.asks_meshdns()

        office = add_vpn(vm)
        vm.must("nmcli", "connection", "add", "type", "ethernet", "con-name", "office", "ifname", "tun0",
                "ipv4.method", "manual", "ipv4.addresses", f"10.8.0.1/24,{OFFICE}/32", "ipv4.dns", OFFICE,
                "ipv4.dns-search", "~corp.example", "ipv4.never-default", "yes", "ipv6.method", "disabled")
        vm.must("nmcli", "connection", "up", "office")
        eventually(lambda: asked(vm, f"{uuid.uuid4().hex[:8]}.corp.example") == ["203.0.113.9"], 15)
        assert asked(vm, "two.example.net") == ["203.0.113.2"]
        assert not office.received("two.example.net.")
        vm.must("nmcli", "connection", "down", "office")
        eventually(lambda: asked(vm, f"{uuid.uuid4().hex[:8]}.corp.example") == [], 10)

        vm.must("systemctl", "stop", "meshdnsd")
        eventually(lambda: "198.51.100.2" in (vm.root / "etc/resolv.conf").read_text(), 10)
        office.close()
    finally:
        vm.close()
