# SPDX-License-Identifier: Apache-2.0
"""Network namespaces as a node and its Pods, with a route to each Pod's link (as Calico and Cilium do it) and a bridge.

The node has NODE_IPV4 and NODE_IPV6 for all.  Neighbours are fixed, so that no packet waits for one."""

import ctypes
import pathlib
import socket
import struct
import subprocess
import uuid

from harness.namespaces import inside

NODE_IPV4, NODE_IPV6 = "10.61.0.1", "fd61::1"
BRIDGE_POD = "bridged"
# Name to addresses.  The bridge is br0; the node's ends of the links are veth-NAME.
PODS = {"shop": ("10.61.0.11", "fd61::11"), "web": ("10.61.0.12", "fd61::12"), BRIDGE_POD: ("10.61.9.13", "fd61:0:0:9::13"),
        "neighbour": ("10.61.9.14", "fd61:0:0:9::14")}
BRIDGED = (BRIDGE_POD, "neighbour")


def node_mac(pod):
    return "02:61:00:00:00:aa" if pod in BRIDGED else f"02:61:00:00:01:{list(PODS).index(pod):02x}"


def pod_mac(pod):
    return f"02:61:00:00:02:{list(PODS).index(pod):02x}"


def _batch(commands, namespace=None):
    """One process for all of them: a process each takes longer than its work."""
    where = ["-n", namespace] if namespace else []
    subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(commands), text=True, check=True, capture_output=True)


class RoutedNode:
    def __init__(self):
        prefix = f"kern{uuid.uuid4().hex[:6]}"
        self.name = f"{prefix}-node"
        self.pods = {pod: f"{prefix}-{pod}" for pod in PODS}
        try:
            _batch([f"netns add {namespace}" for namespace in (self.name, *self.pods.values())])
            with inside(self.name):
                for family in ("ipv4", "ipv6"):
                    pathlib.Path(f"/proc/sys/net/{family}/conf/all/forwarding").write_text("1", encoding="ascii")
            _batch(self._node_commands(), self.name)
            for pod in PODS:
                _batch(self._pod_commands(pod), self.pods[pod])
        except BaseException:
            self.close()
            raise

    def _node_commands(self):
        yield "link set lo up"
        yield f"addr add {NODE_IPV4}/32 dev lo"
        yield f"addr add {NODE_IPV6}/128 dev lo"
        yield f"link add br0 address {node_mac(BRIDGE_POD)} type bridge"
        yield "link set br0 up"
        for pod, namespace in self.pods.items():
            link = f"veth-{pod}"
            to_pod = "br0" if pod in BRIDGED else link
            yield (f"link add {link} address {node_mac('shop') if pod in BRIDGED else node_mac(pod)} "
                   f"type veth peer name eth0 address {pod_mac(pod)} netns {namespace}")
            yield f"link set {link} {'master br0' if pod in BRIDGED else ''} up"
            for address, length in zip(PODS[pod], (32, 128)):
                yield f"route add {address}/{length} dev {to_pod}"
                yield f"neigh add {address} lladdr {pod_mac(pod)} dev {to_pod} nud permanent"

    @staticmethod
    def _pod_commands(pod):
        yield "link set lo up"
        yield "link set eth0 up"
        for address, gateway, length in zip(PODS[pod], (NODE_IPV4, NODE_IPV6), (32, 128)):
            yield f"addr add {address}/{length} dev eth0 {'nodad' if ':' in address else ''}"
            yield f"route add {gateway} dev eth0"
            yield f"route add default via {gateway} dev eth0"
            yield f"neigh add {gateway} lladdr {node_mac(pod)} dev eth0 nud permanent"

    def ip(self, *arguments):
        subprocess.run(["ip", "-n", self.name, *arguments], check=True, capture_output=True)

    def tc(self, *arguments):
        done = subprocess.run(["tc", "-n", self.name, *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    def set_checksum_offload(self, pod, on):
        """As `ethtool -K eth0 tx on|off` in the Pod."""
        with inside(self.pods[pod]):
            control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with control:
            value = ctypes.create_string_buffer(struct.pack("II", 0x17, int(on)))  # ETHTOOL_STXCSUM
            request = ctypes.create_string_buffer(struct.pack("16sQ16x", b"eth0", ctypes.addressof(value)))
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.ioctl(control.fileno(), 0x8946, request) != 0:  # SIOCETHTOOL
                raise OSError(ctypes.get_errno(), "SIOCETHTOOL")

    def close(self):
        for namespace in (*self.pods.values(), self.name):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
