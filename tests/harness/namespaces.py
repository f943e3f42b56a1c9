# SPDX-License-Identifier: Apache-2.0
"""Network namespaces as a node and its pods: a bridge, one link per pod, nothing outside is touched."""

import contextlib
import ctypes
import os
import subprocess
import uuid

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

NODE_IPV4, NODE_IPV6 = "10.60.0.1", "fd60::1"
LINK_LOCAL = "169.254.20.10"


def available():
    """Whether this user on this kernel may make namespaces with bridged links."""
    if os.geteuid() != 0:
        return False
    try:
        with Node({"probe": ("10.60.0.9", "fd60::9")}):
            return True
    except (subprocess.CalledProcessError, OSError):
        return False


def _ip(*arguments, commands=None):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, input=commands, text=True)


class Namespaces:
    """Network namespaces whose names begin alike and are nobody else's."""

    def __init__(self):
        self._prefix = f"mesh{uuid.uuid4().hex[:6]}"
        self._made = []

    def make(self, name):
        """Returns the full name."""
        namespace = f"{self._prefix}-{name}"
        _ip("netns", "add", namespace)
        self._made.append(namespace)
        return namespace

    @staticmethod
    def configure(namespace, *commands):
        """Runs commands of ip(8) there, such as "link set lo up"."""
        _ip("-n", namespace, "-batch", "-", commands="\n".join(commands))

    def close(self):
        while self._made:
            subprocess.run(["ip", "netns", "del", self._made.pop()], check=False, capture_output=True)


def _set_namespace(descriptor):
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def inside(namespace):
    """Sockets that this thread opens meanwhile belong to that namespace, and stay there."""
    with open("/proc/thread-self/ns/net", "rb") as here, open(f"/run/netns/{namespace}", "rb") as there:
        _set_namespace(there.fileno())
        try:
            yield
        finally:
            _set_namespace(here.fileno())


class Node:
    """`pods`: name to (IPv4, IPv6).  The node has the addresses above, and LINK_LOCAL on a device of its own."""

    def __init__(self, pods):
        self._namespaces = Namespaces()
        self.pods = {}
        try:
            self.name = self._make("node")
            _ip("-n", self.name, "link", "add", "br0", "type", "bridge")
            for address in (f"{NODE_IPV4}/24", f"{NODE_IPV6}/64"):
                _ip("-n", self.name, "addr", "add", address, "dev", "br0", *self._nodad(address))
            _ip("-n", self.name, "link", "set", "br0", "up")
            _ip("-n", self.name, "addr", "add", f"{LINK_LOCAL}/32", "dev", self._own_device())
            for pod, addresses in pods.items():
                self._add_pod(pod, addresses)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _nodad(address):
        return ["nodad"] if ":" in address else []

    def _make(self, name):
        namespace = self._namespaces.make(name)
        _ip("-n", namespace, "link", "set", "lo", "up")
        return namespace

    def _own_device(self):
        """A dummy device, as node-local-dns has; loopback on kernels without."""
        try:
            _ip("-n", self.name, "link", "add", "nodelocaldns", "type", "dummy")
            _ip("-n", self.name, "link", "set", "nodelocaldns", "up")
            return "nodelocaldns"
        except subprocess.CalledProcessError:
            return "lo"

    def _add_pod(self, pod, addresses):
        namespace = self.pods[pod] = self._make(pod)
        _ip("-n", self.name, "link", "add", f"v-{pod}", "type", "veth", "peer", "name", "eth0",
            "netns", namespace)
        _ip("-n", self.name, "link", "set", f"v-{pod}", "master", "br0", "up")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        for address, length, gateway in zip(addresses, (24, 64), (NODE_IPV4, NODE_IPV6)):
            full = f"{address}/{length}"
            _ip("-n", namespace, "addr", "add", full, "dev", "eth0", *self._nodad(full))
            _ip("-n", namespace, "route", "add", "default", "via", gateway)

    def run(self, pod, *command, resolv_conf="", timeout=20):
        """A command in a pod, with its own /etc/resolv.conf where a path is given."""
        if resolv_conf:
            script = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", script, "sh", str(resolv_conf), *command]
        return subprocess.run(["ip", "netns", "exec", self.pods[pod], *command], capture_output=True,
                              text=True, timeout=timeout, check=False)

    def close(self):
        self._namespaces.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
