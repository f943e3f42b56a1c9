# SPDX-License-Identifier: Apache-2.0
"""Two networks without a route between them, as network namespaces: Pods of one reach the other by its gateway alone.

    clients.east  servers.east  gateway.east                      clients.west ...
          \\-------- bridge -----/        \\                          |
                      \\----------------- node (routes, rules) ------/

Each network has addresses of its own, NETWORKS.  The gateway is a Pod that also has a public address.  Cluster IPs are
addresses of the servers that only Pods of the same cluster reach, as if the node ran kube-proxy for both clusters.
"""

import contextlib
import ipaddress
import pathlib
import socket
import threading

from harness.namespaces import Namespaces, inside
from harness.waiting import seconds

NETWORKS = {"east": "10.1.0", "west": "10.2.0"}  # without the last number
CLUSTER_IPS = {"east": "10.96.1", "west": "10.96.2"}
GATEWAYS = {"east": "192.0.2.1", "west": "192.0.2.2"}
SERVERS = range(20, 40)  # last numbers of the addresses on which the servers listen
CLIENTS = {"east": 11, "west": 12}  # cluster: last number of its client, in both networks
WALL = ("192.0.2.10", "192.0.2.11")
PORT = 8080
DNS_SERVER = ("169.254.20.10", 53)  # on the node


def client_address(cluster, network):
    return f"{NETWORKS[network]}.{CLIENTS[cluster]}"


class Listener:
    """Says the address to which the client has connected, and, with a `backend`, what that says."""

    def __init__(self, namespace, backend=None):
        self._backend = backend
        with inside(namespace):  # the thread stays there, too
            self._socket = socket.create_server(("0.0.0.0", PORT))
            threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                said = client.getsockname()[0]
                if self._backend:
                    said += " to " + said_by(self._backend)
                client.sendall(said.encode())

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def said_by(address, source=""):
    """The text of the listener there; connects from the calling thread's namespace."""
    with socket.create_connection((address, PORT), timeout=seconds(5), source_address=(source, 0)) as connection:
        return connection.makefile().read()


class TwoNetworks:
    def __init__(self):
        self._namespaces = Namespaces()
        self._listeners = []
        try:
            self.node = self._namespaces.make("node")
            self.clients = {network: self._namespaces.make(f"clients-{network}") for network in NETWORKS}
            self._namespaces.configure(self.node, "link set lo up", f"addr add {DNS_SERVER[0]}/32 dev lo")
            self._raise_wall()
            with inside(self.node):
                self._set("ip_forward", 1)
                for interfaces in ("all", "default"):  # a client that is redirected no longer comes by
                    self._set(f"conf/{interfaces}/send_redirects", 0)
            for network in NETWORKS:
                self._connect(network)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _set(name, value):
        pathlib.Path("/proc/sys/net/ipv4", name).write_text(str(value))

    def _raise_wall(self):
        """Connections that may not pass end where all addresses are, and nobody listens: each is refused at once.  The
        kernel tells of routes that are prohibited a few times only."""
        wall = self._namespaces.make("wall")
        commands = [f"link add wall type veth peer name eth0 netns {wall}", f"addr add {WALL[0]}/31 dev wall",
                    "link set wall up", f"route add default via {WALL[1]} table 100"]
        for network, prefix in NETWORKS.items():
            other = next(n for n in NETWORKS if n != network)
            commands += [f"rule add from {prefix}.0/24 to {NETWORKS[other]}.0/24 iif br-{network} lookup 100",
                         *(f"rule add from {client_address(other, n)} to {CLUSTER_IPS[network]}.0/24 lookup 100"
                           for n in NETWORKS)]
        self._namespaces.configure(self.node, *commands)
        everything = [*(f"{p}.{number}" for p in NETWORKS.values() for number in SERVERS),
                      *(f"{p}.1" for p in CLUSTER_IPS.values())]
        self._namespaces.configure(wall, "link set lo up", "link set eth0 up", f"addr add {WALL[1]}/31 dev eth0",
                                   f"route add default via {WALL[0]}", *(f"addr add {a}/32 dev lo" for a in everything))

    def _connect(self, network):
        prefix, bridge = NETWORKS[network], f"br-{network}"
        servers, gateway = (self._namespaces.make(f"{kind}-{network}") for kind in ("servers", "gateway"))
        at_node = [f"link add {bridge} type bridge", f"addr add {prefix}.1/24 dev {bridge}", f"link set {bridge} up"]
        for number, namespace in enumerate((self.clients[network], servers, gateway)):
            link = f"{network}-{number}"
            at_node += [f"link add {link} type veth peer name eth0 netns {namespace}",
                        f"link set {link} master {bridge} up"]
        at_node += [f"route add {CLUSTER_IPS[network]}.0/24 via {prefix}.{SERVERS[0]}",
                    f"route add {GATEWAYS[network]}/32 via {prefix}.2"]
        self._namespaces.configure(self.node, *at_node)
        up, default = ["link set lo up", "link set eth0 up"], f"route add default via {prefix}.1"
        self._namespaces.configure(self.clients[network], *up, *(f"addr add {prefix}.{number}/24 dev eth0" for number in CLIENTS.values()),
                                   default)
        self._namespaces.configure(servers, *up, *(f"addr add {prefix}.{number}/24 dev eth0" for number in SERVERS),
                                   f"addr add {CLUSTER_IPS[network]}.1/24 dev lo", default)
        self._namespaces.configure(gateway, *up, f"addr add {prefix}.2/24 dev eth0", default,
                                   f"addr add {GATEWAYS[network]}/32 dev eth0")
        self._listeners += [Listener(servers), Listener(gateway, backend=f"{prefix}.{SERVERS[0]}")]

    def connect(self, cluster, network, address):
        """The text of the listener at `address` for the client of that cluster and network; None if it is not reached."""
        with inside(self.clients[network]):
            try:
                return said_by(address, client_address(cluster, network))
            except OSError:
                return None

    def close(self):
        for listener in self._listeners:
            listener.close()
        self._namespaces.close()


def network_of(address):
    """The network to which an address of an endpoint belongs."""
    return next(n for n, prefix in NETWORKS.items()
                if ipaddress.ip_address(address) in ipaddress.ip_network(f"{prefix}.0/24"))
