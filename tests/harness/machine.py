# SPDX-License-Identifier: Apache-2.0
"""A machine that runs systemd: this Debian's files below a layer of its own, in namespaces of its own."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import uuid

from harness import namespaces
from harness.fake_upstream import FakeUpstream
from harness.process import Process
from harness.waiting import eventually, seconds

UPSTREAM = "192.0.2.53"
_ENVIRONMENT = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "TERM=dumb",
                "LC_ALL=C.UTF-8"]

# Keeps the file system: a layer in memory above the files of this machine.
_DISK = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
echo mounted
exec sleep infinity
"""

# Without a control group of its own, two machines that run at a time have the services of one name in one group: to
# kill a service of one kills that of the other.
_OWN_CGROUP = """
groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
if [ -n "$groups" ]; then
  mkdir "$groups/machine-$$"
  echo $$ >"$groups/machine-$$/cgroup.procs"
fi
exec "$@"
"""

# Runs as the first process of the machine.
_BOOT = """
set -e
cd "$1"
mount --make-rprivate /
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys  # it is the real kernel's
mount -t sysfs -o ro sys sys
mount -t tmpfs tmpfs sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
for place in run tmp dev; do mount -t tmpfs tmpfs "$place"; done
for device in null zero full random urandom tty; do
  touch "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
hostname machine
exec chroot . env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --log-target=null --show-status=no </dev/null
"""


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def has_mounted_root():
    """Whether the root folder is a mount: not so in a chroot, which a mount namespace of a machine does not have."""
    return any(line.split()[4] == "/" for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


def _runs(pid):
    """Whether the process runs.  One that has ended stays where process 1 waits for none, as in many containers."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Machine:
    """REQUIRES: root, and `directory` is the caller's.  Programs outside see it at the address 192.0.2.10; the upstream
    server at 192.0.2.53 answers every name below example.net."""

    def __init__(self, directory):
        self._directory = pathlib.Path(directory) / "machine"
        self._directory.mkdir()
        self.network = f"meshvm{uuid.uuid4().hex[:6]}"
        self._upstream = self._init = None
        self._disk = Process(["unshare", "--mount", "bash", "-c", _DISK, "bash", str(self._directory)], "disk")
        try:
            self._disk.wait_for_line("mounted", 10)
            self.root = pathlib.Path(f"/proc/{self._disk.pid}/root{self._directory}/root")
            self._make_network()
            self._make_bare()
            self.boot()
        except BaseException:
            self.close()
            raise

    def _make_network(self):
        _ip("netns", "add", self.network)
        _ip("-n", self.network, "link", "set", "lo", "up")
        _ip("-n", self.network, "link", "add", "net0", "type", "veth", "peer", "name", "net1")
        _ip("-n", self.network, "address", "add", "192.0.2.10/24", "dev", "net0")
        _ip("-n", self.network, "address", "add", f"{UPSTREAM}/32", "dev", "net0")
        for device in ("net0", "net1"):
            _ip("-n", self.network, "link", "set", device, "up")
        with namespaces.inside(self.network):
            self._upstream = FakeUpstream(["*.example.net. 60 A 203.0.113.7"], address=UPSTREAM, port=53)

    def _make_bare(self):
        """Takes away the services of this machine."""
        for place in ("etc/systemd/system", "var/lib/meshdns", "var/lib/meshdns-resolver", "etc/meshdns"):
            shutil.rmtree(self.root / place, ignore_errors=True)
        for level in "0123456S":
            shutil.rmtree(self.root / f"etc/rc{level}.d", ignore_errors=True)
        for path in ("usr/sbin/policy-rc.d", "etc/resolv.conf"):
            (self.root / path).unlink(missing_ok=True)
        (self.root / "etc/systemd/system").mkdir(parents=True)
        self.write("etc/machine-id", f"{uuid.uuid4().hex}\n")
        self.write("etc/fstab", "")
        self.write("etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n")
        self.write("etc/resolv.conf", f"nameserver {UPSTREAM}\n")
        self.write("etc/systemd/journald.conf.d/test.conf", "[Journal]\nStorage=volatile\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def boot(self):
        self._init = Process(
            ["nsenter", f"--mount=/proc/{self._disk.pid}/ns/mnt", f"--net=/run/netns/{self.network}", "--",
             "bash", "-c", _OWN_CGROUP, "bash", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup",
             "bash", "-c", _BOOT, "bash", str(self._directory / "root")], "machine")
        eventually(self._find_init, 10)
        eventually(lambda: self.run("systemctl", "is-system-running", "--wait").stdout.strip()
                   in ("running", "degraded"), 60)

    def _find_init(self):
        children = pathlib.Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text().split()
        self._pid = int(children[0]) if children else None
        try:
            return children and os.readlink(f"/proc/{self._pid}/exe").endswith("/systemd")
        except FileNotFoundError:  # one of the programs that run before systemd
            return False

    def power_off(self):
        """As if somebody pulled the plug: no service is stopped."""
        self._init.kill()
        eventually(lambda: not _runs(self._pid), 10)
        eventually(self._remove_groups, 10)

    def _remove_groups(self):
        """The control groups of _OWN_CGROUP; those of processes that still end are busy."""
        for top in pathlib.Path("/sys/fs/cgroup").glob(f"**/machine-{self._init.pid}"):
            for group, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(group)
            assert not top.exists()

    def inside(self, *arguments):
        return ["nsenter", "--target", str(self._pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup",
                "--root", "--wd", *_ENVIRONMENT, *map(str, arguments)]

    def run(self, *arguments):
        return subprocess.run(self.inside(*arguments), capture_output=True, text=True, check=False,
                              timeout=seconds(90))

    def must(self, *arguments):
        result = self.run(*arguments)
        assert result.returncode == 0, f"{arguments}:\n{result.stdout}{result.stderr}\n{self.journal()}"
        return result.stdout

    def show(self, unit, name):
        return self.must("systemctl", "show", "--property", name, "--value", unit).strip()

    def journal(self, *arguments):
        return self.run("journalctl", "--no-pager", "--quiet", "--lines=60", *arguments).stdout

    def console(self):
        """The last lines of what systemd itself has said since the boot."""
        return self._init.log_tail(100)

    def install(self, package):
        shutil.copy(package, self.root / "root" / pathlib.Path(package).name)
        self.must("dpkg", "--force-depends", "--no-triggers", "--install", f"/root/{pathlib.Path(package).name}")

    def close(self):
        if self._upstream:
            self._upstream.close()
        if self._init:
            self._init.kill()
            eventually(self._remove_groups, 10)
        self._disk.kill()
        subprocess.run(["ip", "netns", "delete", self.network], check=False, capture_output=True)


# Asks for another name every 20 ms, as a program that runs for years does, and prints what came of it.
_PROGRAM = """
import itertools, socket, sys, time
for number in itertools.count():
    begin = time.monotonic()
    try:
        address = socket.getaddrinfo(f"n{number}.example.net", None, socket.AF_INET)[0][4][0]
        result = "ok" if address == "203.0.113.7" else address
    except OSError as error:
        result = "lost " + str(error).replace("\\n", " ")
    print(result, flush=True)
    time.sleep(max(0, begin + 0.02 - time.monotonic()))
"""


class NameCount:
    """A program of the machine that asks for names all the time, and how many it did not get, state by state."""

    def __init__(self, machine):
        self.rows = []
        self._machine = machine
        self._seen = 0
        self.restart()

    def restart(self):
        self._seen = 0
        self._process = Process(self._machine.inside("/usr/bin/python3", "-c", _PROGRAM), "names")
        self._process.wait_for_line("ok", 15)

    def note(self, state):
        """Ends the state: all names asked for since the last one count for it, and some more that must be there."""
        before = len(self._process.log_lines())
        eventually(lambda: self._process.log_lines()[before:].count("ok") >= 5, 20)
        lines = self._process.log_lines()[self._seen:]
        self._seen += len(lines)
        lost = [line for line in lines if line != "ok"]
        self.rows.append((state, len(lines), len(lost), sorted(set(lost))))
        return len(lost)

    def close(self):
        self._process.kill()

    def table(self):
        return "\n".join(f"{state:40} {lost:3} of {asked:5} lost  {' '.join(why)}"
                         for state, asked, lost, why in self.rows)
