# SPDX-License-Identifier: Apache-2.0
"""All transitions of dpkg on a machine that runs systemd, in one table: the units, and the resolver of the machine, after each."""

import re
import subprocess

import pytest

from e2e.test_machine import MISTAKE, SOCKET, Vm, packages  # noqa: F401 (a fixture)
from e2e.test_machine import pytestmark as of_machines
from harness.daemon import ROOT
from harness.machine import UPSTREAM
from harness.preset import ONE_THREAD
from harness.waiting import eventually, seconds

pytestmark = [ONE_THREAD, *of_machines[1:]]

DAEMON = ["meshdnsd.service", "meshdnsd.socket"]
RESOLVER = ["meshdns-resolver.service"]
UNITS = re.search(r'units="([^"]*)"', (ROOT / "conf/debian/postrm").read_text()).group(1).split()

# The states of a unit: whether it starts at a boot, and whether it runs now.
ON, OFF, MASKED, GONE = "enabled active", "disabled inactive", "masked inactive", "inactive"
# The action; the daemon and its sockets; the service that makes it the resolver; who answers the programs of the machine.
TRANSITIONS = [
    ("install", ON, OFF, "network"),
    ("enable the resolver", ON, ON, "meshdns"),
    ("install again", ON, ON, "meshdns"),
    ("upgrade", ON, ON, "meshdns"),
    ("downgrade", ON, ON, "meshdns"),
    ("upgrade that fails", ON, ON, "meshdns"),
    ("removal that fails", ON, ON, "meshdns"),
    ("remove", MASKED, MASKED, "network"),
    ("install", ON, ON, "meshdns"),
    ("stop", "enabled inactive", "enabled inactive", "network"),
    ("upgrade", ON, ON, "meshdns"),
    ("spoil", ("enabled failed", "enabled inactive"), "enabled inactive", "network"),
    ("remove", MASKED, MASKED, "network"),
    ("install", ("enabled failed", "enabled inactive"), "enabled inactive", "network"),
    ("mend", ("enabled failed", "enabled inactive"), "enabled inactive", "network"),
    ("upgrade", ON, ON, "meshdns"),
    ("disable all", OFF, OFF, "network"),
    ("downgrade", OFF, OFF, "network"),
    ("remove", MASKED, MASKED, "network"),
    ("install", OFF, OFF, "network"),
    ("mask the resolver", OFF, MASKED, "network"),
    ("remove", MASKED, MASKED, "network"),
    ("install", OFF, MASKED, "network"),
    ("unmask the resolver", OFF, OFF, "network"),
    ("enable all", ON, ON, "meshdns"),
    ("forbid changes of services", ON, ON, "meshdns"),
    ("remove", "masked active", "masked active", "network"),
    ("allow changes of services", "masked active", "masked active", "network"),
    ("install", ON, ON, "meshdns"),
    ("purge", GONE, GONE, "network"),
    ("install", ON, OFF, "network"),
    ("remove", MASKED, MASKED, "network"),
    ("purge without own files", GONE, GONE, "network"),
    ("install", ON, OFF, "network"),
    ("enable the resolver", ON, ON, "meshdns"),
    ("disappear", ON, ON, "meshdns"),
]


class PackagedVm(Vm):
    """Nothing is installed yet."""

    def set_up(self):
        self.write("etc/systemd/system/meshdnsd.socket.d/port.conf", SOCKET)
        self.failing = self.changed_package("failing", lambda text: text.replace("0.0.1-1", "0.0.1-3"),
                                            {"preinst": "#!/bin/sh\nexit 1\n"})
        self.next = self.changed_package("next", lambda text: text.replace("Package: meshdns\n", "Package: meshdns-next\n"
                                                                           "Replaces: meshdns\n"), {})
        self.own = self.root / "etc/meshdns/resources/own.yaml"
        self.units = [unit for unit in UNITS if unit in self.contents()]

    def contents(self):
        return subprocess.run(["dpkg-deb", "--contents", str(self.packages[0])], check=True, capture_output=True,
                              text=True).stdout

    def changed_package(self, name, change, scripts):
        directory = self._directory / name
        subprocess.run(["dpkg-deb", "--raw-extract", str(self.packages[0]), str(directory)], check=True)
        control = directory / "DEBIAN/control"
        control.write_text(change(control.read_text()))
        for script, text in scripts.items():
            (directory / "DEBIAN" / script).write_text(text)
            (directory / "DEBIAN" / script).chmod(0o755)
        made = self._directory / f"{name}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(directory), str(made)], check=True,
                       capture_output=True)
        return made

    def systemctl(self, *arguments):
        self.must("systemctl", *arguments)

    def fails(self, *arguments):
        assert self.run(*arguments).returncode != 0, arguments

    def do(self, transition):
        getattr(self, "do_" + transition.replace(" ", "_"))()

    def do_install(self):
        self.install(self.packages[0])
        if "127.0.0.1:15053" in (self.root / "etc/meshdns/meshdns.yaml").read_text():  # the package's own
            self.configure()
            self.own.write_text("apiVersion: v1\nkind: Namespace\nmetadata: { name: shop }\n")
            self.write("etc/meshdns/resources/bookinfo.yaml", (ROOT / "conf/examples/bookinfo.yaml").read_text())
            self.systemctl("restart", "meshdnsd.socket")

    def do_install_again(self):
        self.install(self.packages[0])

    def do_upgrade(self):
        self.install(self.packages[1])

    def do_downgrade(self):
        self.install(self.packages[0])

    def do_upgrade_that_fails(self):
        with pytest.raises(AssertionError, match="pre-installation script"):
            self.install(self.failing)

    def do_removal_that_fails(self):
        script = self.root / "var/lib/dpkg/info/meshdns.prerm"
        text = script.read_text()
        script.write_text(text + "exit 1\n")
        self.fails("dpkg", "--no-triggers", "--remove", "meshdns")
        script.write_text(text)
        assert "install ok installed" in self.must("dpkg-query", "--status", "meshdns")

    def do_remove(self):
        self.must("dpkg", "--no-triggers", "--remove", "meshdns")

    def do_purge(self):
        self.must("dpkg", "--no-triggers", "--purge", "meshdns")
        assert self.own.exists() and self.left() == ["/etc/meshdns"]
        # Its files may be those of the daemon's user.
        self.must("id", "meshdns")

    def do_purge_without_own_files(self):
        self.must("rm", "-r", "/etc/meshdns/resources")
        self.must("dpkg", "--no-triggers", "--purge", "meshdns")
        assert self.left() == []
        self.fails("id", "meshdns")

    def left(self):
        """Files with the name of the package, but for the drop-in of the administrator."""
        found = self.must("find", "/etc", "/usr/sbin", "/usr/lib", "/usr/share", "/var/lib", "-xdev", "-name", "*meshdns*",
                          "-not", "-path", "/var/lib/dpkg/*", "-not", "-path", "/etc/systemd/system/meshdnsd.socket.d*")
        return found.split()

    def do_disappear(self):
        self.install(self.next)
        self.fails("dpkg-query", "--status", "meshdns")

    def do_stop(self):
        self.systemctl("stop", "meshdnsd")

    def do_spoil(self):
        self.configure(MISTAKE)
        self.fails("systemctl", "restart", "meshdnsd")

    def do_mend(self):
        self.configure()

    def do_enable_the_resolver(self):
        self.systemctl("enable", "--now", *RESOLVER)

    def do_disable_all(self):
        self.systemctl("disable", "--now", *RESOLVER, *DAEMON)

    def do_enable_all(self):
        self.systemctl("enable", "--now", *DAEMON, *RESOLVER)

    def do_mask_the_resolver(self):
        self.systemctl("mask", *RESOLVER)

    def do_unmask_the_resolver(self):
        self.systemctl("unmask", *RESOLVER)

    def do_forbid_changes_of_services(self):
        self.write("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")
        (self.root / "usr/sbin/policy-rc.d").chmod(0o755)

    def do_allow_changes_of_services(self):
        (self.root / "usr/sbin/policy-rc.d").unlink()

    def who_answers(self):
        text = (self.root / "etc/resolv.conf").read_text()
        if text == f"nameserver {UPSTREAM}\n":
            return "network"
        return "meshdns" if "nameserver 127.0.0.1\n" in text and self.asks_meshdns() else text

    def found(self):
        """The columns of the table, and whether all other units start at a boot."""
        shown = self.must("systemctl", "show", "--property=Id,ActiveState,UnitFileState", *self.units)
        states = [dict(line.split("=") for line in unit.splitlines()) for unit in shown.split("\n\n")]
        enabled = {state["Id"]: state["UnitFileState"] for state in states}
        active = {state["Id"]: state["ActiveState"] for state in states}
        main = [f"{enabled.pop(unit)} {active[unit]}".strip() for unit in DAEMON + RESOLVER]
        return main[:2], main[2], self.who_answers(), enabled


@pytest.mark.slow("boots a machine, and installs and removes packages")
def test_each_transition_of_dpkg_leaves_the_units_and_the_resolver_as_the_table_says(tmp_path, packages):  # noqa: F811
    vm = PackagedVm(tmp_path, packages)
    try:
        for number, (transition, daemon, resolver, who) in enumerate(TRANSITIONS):
            vm.do(transition)
            of_daemon = list(daemon) if isinstance(daemon, tuple) else [daemon, daemon]
            gone = {"masked": "masked", "inactive": ""}.get(of_daemon[0].split()[0])
            others = {unit: ("disabled" if unit == "meshdns-kernel.service" else "static") if gone is None else gone
                      for unit in vm.units if unit not in DAEMON + RESOLVER}
            wanted = of_daemon, resolver, who, others
            last = []

            def is_as_wanted():
                last[:] = [vm.found()]
                return last[0] == wanted
            try:
                eventually(is_as_wanted, 10)
            except AssertionError:
                pytest.fail(f"{number}. {transition}: {last[0]} instead of {wanted}\n{vm.journal('--boot')}\n{vm.console()}")
    finally:
        vm.close()
