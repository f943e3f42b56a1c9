# SPDX-License-Identifier: Apache-2.0
"""Two clusters, east and west, on two networks, and a model of the answers that their Pods get.

Most endpoints of a cluster are in the network of its name, some in the other one.  Clients of both clusters are in both
networks.  Both clusters have the Service with a cluster IP: that of another cluster would need a proxy."""

import contextlib
import os
import pathlib

from harness.dns_client import Question, ask
from harness.kube_api import KubeApi, endpoint_slice, headless, namespace, pod, service
from harness.kube_cluster import DOMAIN
from harness.namespaces import inside
from harness.real_kube_api import RealKubeApi
from harness.two_networks import CLIENTS, CLUSTER_IPS, DNS_SERVER, GATEWAYS, NETWORKS, client_address, network_of

CLUSTERS = list(CLIENTS)
VISITORS = [(cluster, network) for cluster in CLUSTERS for network in NETWORKS]
NETWORK = "topology.istio.io/network"

# {Service: {cluster that has it: {name of the endpoint: address}}}
MEMBERS = {
    "db": {"east": {"db-0": "10.1.0.20", "db-1": "10.1.0.21", "db-2": "10.2.0.22"},
           "west": {"db-0": "10.2.0.20", "db-1": "10.2.0.21", "db-2": "10.1.0.22", "db-3": "10.2.0.23"}},
    "idle-east": {"east": {}, "west": {"idle-0": "10.2.0.24"}},
    "idle-west": {"east": {"idle-0": "10.1.0.24"}, "west": {}},
    "only-east": {"east": {"only-0": "10.1.0.25"}},
    "only-west": {"west": {"only-0": "10.2.0.25"}},
}


def real_api(cluster):
    """The directory of a real API server for that cluster, or None."""
    directory = os.environ.get(f"MESHDNS_TEST_KUBE_{cluster.upper()}")
    return pathlib.Path(directory) if directory else None


class TwoClusters:
    """`mode` and `networks`: mesh.clusters and mesh.networks of the daemon that is asked."""

    def __init__(self, workspace, lab, mode, networks):
        self.mode, self.networks = mode, networks
        self.lab = lab
        self.members = {of: {cluster: dict(found) for cluster, found in by.items()} for of, by in MEMBERS.items()}
        self.gateways = dict(GATEWAYS)
        self.apis = {}
        self.kubeconfigs = {}
        for cluster in CLUSTERS:
            directory = real_api(cluster)
            with inside(lab.node):
                api = None if directory else workspace.own(KubeApi())
            self.apis[cluster] = api or workspace.own(RealKubeApi(directory, lab.node))
            self.kubeconfigs[cluster] = self.apis[cluster].kubeconfig(workspace.path / cluster)
            self._fill(cluster)

    def _fill(self, cluster):
        api = self.apis[cluster]
        if isinstance(api, RealKubeApi):
            api.clear("shop")
        api.put(namespace("shop"), namespace("istio-system", **{NETWORK: cluster}),
                service("web", ip=f"{CLUSTER_IPS[cluster]}.1"),
                *(self._pod(cluster, network, f"client-{network}", client_address(cluster, network))
                  for network in NETWORKS))
        self.set_gateway(cluster, self.gateways[cluster])
        for of, by_cluster in self.members.items():
            if cluster in by_cluster:
                self.set_members(cluster, of, by_cluster[cluster])

    @staticmethod
    def _pod(cluster, network, name, address):
        return pod(name, address, labels={} if network == cluster else {NETWORK: network})

    # --- changes --------------------------------------------------------------------------------

    def set_members(self, cluster, of, members):
        self.members.setdefault(of, {})[cluster] = members
        made = endpoint_slice(of, members.values())
        for endpoint, name in zip(made["endpoints"], members, strict=True):
            endpoint["hostname"] = name
            endpoint["targetRef"] = {"kind": "Pod", "namespace": "shop", "name": f"{of}-{name}"}
        self.apis[cluster].put(*(self._pod(cluster, network_of(address), f"{of}-{name}", address)
                                 for name, address in members.items()), headless(of), made)

    def set_gateway(self, network, address):
        """The gateway of a network, in the cluster of that name; None takes it away."""
        self.gateways[network] = address
        gateway = service("gateway", "istio-system", ip=f"{CLUSTER_IPS[network]}.9",
                          externalIPs=[address] if address else [])
        gateway["metadata"]["labels"] = {NETWORK: network}
        self.apis[network].put(gateway)

    def kill_api(self, cluster):
        self.apis[cluster].stop()

    def start_api(self, cluster):
        api = self.apis[cluster]
        with contextlib.nullcontext() if isinstance(api, RealKubeApi) else inside(self.lab.node):
            api.start()

    # --- the model ------------------------------------------------------------------------------

    def names(self):
        """Those of Services and of endpoints, without the domain."""
        endpoints = {f"{name}.{of}" for of, by in self.members.items() for found in by.values() for name in found}
        return ["web", *self.members, *sorted(endpoints)]

    def endpoints(self, cluster, name):
        """The addresses of all endpoints that a client of that cluster gets, whatever the networks."""
        endpoint, _, of = name.rpartition(".")
        by_cluster = self.members[of]
        if endpoint:
            by_cluster = {c: {endpoint: found[endpoint]} for c, found in by_cluster.items() if endpoint in found}
        own = {cluster: by_cluster[cluster]} if cluster in by_cluster else {}
        if self.mode == "local-only" or (own.get(cluster) and (endpoint or self.mode == "local-first")):
            by_cluster = own
        return {address for found in by_cluster.values() for address in found.values()}

    def expected(self, visitor, name):
        cluster, network = visitor
        if name == "web":
            return [f"{CLUSTER_IPS[cluster]}.1"]
        found = set()
        for address in self.endpoints(cluster, name):
            if network_of(address) == network:
                found.add(address)
            elif self.networks == "gateways" and self.gateways[network_of(address)]:
                found.add(self.gateways[network_of(address)])
        return sorted(found)

    # --- questions ------------------------------------------------------------------------------

    def ask(self, visitor, name):
        with inside(self.lab.clients[visitor[1]]):
            return ask(DNS_SERVER, Question(f"{name}.shop.{DOMAIN}", source=client_address(*visitor)))

    def compare(self, visitors=VISITORS):
        """Every answer is the expected one."""
        wrong = {}
        for visitor in visitors:
            for name in self.names():
                found, expected = sorted(self.ask(visitor, name).addresses()), self.expected(visitor, name)
                if found != expected:
                    wrong[visitor, name] = (found, expected)
        assert not wrong, f"(found, expected): {wrong}"
