# SPDX-License-Identifier: Apache-2.0
"""The names that all servers serve, and the questions about them: the same in each run, whatever its size.

A world is one zone, mesh.example, with virtual addresses, services of three addresses, wildcards and one headless
service of 300 endpoints, and an empty zone, cluster.local.  Each server gets it in the form that it reads.
"""

import dataclasses
import ipaddress
import json
import random
import struct

ZONE = "mesh.example"
CLUSTER = "cluster.local"
UPSTREAM = "up.example"
TYPE_A = 1
ROTATED = 1000
WILDCARDS = 1000
ENDPOINTS = 300
SEED = 20260101
OWN_HOSTS = 10


def address(block, index):
    """Address `index` of 10.BLOCK.0.0/12 and up."""
    return str(ipaddress.IPv4Address((10 << 24) + (block << 20) + 256 + index))


def host(index):
    return f"service-{index:06d}.shop-{index % 200:03d}.{ZONE}"


def rotated_host(index):
    return f"rotated-{index:06d}.{ZONE}"


def wildcard(index):
    return f"wildcard-{index:05d}.{ZONE}"


def headless_host():
    return f"headless.{ZONE}"


@dataclasses.dataclass(frozen=True)
class Clients:
    """A Pod of each of so many namespaces, at addresses from `first` on."""

    first: str
    namespaces: int

    def address(self, index):
        return str(ipaddress.IPv4Address(self.first) + index)

    @property
    def option(self):
        """Of the load generator."""
        return ("--sources", f"{self.first}:{self.namespaces}")


CLIENTS = Clients("127.77.0.1", 200)


class World:
    """REQUIRES: `names` at most 1,000,000."""

    def __init__(self, names):
        self.names = names
        self.sets = [(host(i), [address(0, i)]) for i in range(names)]
        self.sets += [(rotated_host(i), [address(2, 4 * i + k) for k in range(3)]) for i in range(ROTATED)]
        self.sets.append((headless_host(), [address(3, i) for i in range(ENDPOINTS)]))
        self.wildcards = [(wildcard(i), address(4, i)) for i in range(WILDCARDS)]

    def expected(self, name):
        """The addresses of `name`, sorted; None if it does not exist."""
        if name.startswith("service-"):
            return [address(0, int(name[8:14]))]
        if name.startswith("rotated-"):
            return sorted(address(2, 4 * int(name[8:14]) + k) for k in range(3))
        if name == headless_host():
            return sorted(address(3, i) for i in range(ENDPOINTS))
        if ".wildcard-" in name:
            return [address(4, int(name.split(".wildcard-")[1][:5]))]
        return None


# --- forms ------------------------------------------------------------------------------------------------------------

SOA = "@ 3600 IN SOA ns hostmaster 1 3600 600 86400 5\n@ 3600 IN NS ns\nns 3600 IN A 127.0.0.1\n"


def write_zone_file(path, world):
    with open(path, "w") as out:
        out.write(f"$ORIGIN {ZONE}.\n{SOA}")
        for name, addresses in world.sets:
            out.writelines(f"{name}. 30 IN A {a}\n" for a in addresses)
        out.writelines(f"*.{name}. 30 IN A {a}\n" for name, a in world.wildcards)


def write_empty_zone_file(path, zone):
    path.write_text(f"$ORIGIN {zone}.\n{SOA}")


def write_upstream_zone_file(path, names):
    with open(path, "w") as out:
        out.write(f"$ORIGIN {UPSTREAM}.\n{SOA}")
        out.writelines(f"{cached_host(i)}. 3600 IN A {address(5, i)}\n" for i in range(names))
        out.write(f"*.miss.{UPSTREAM}. 3600 IN A 10.99.0.1\n")


def service_entry(name, hosts, addresses, namespace="shop", resolution="STATIC", endpoints=(), export_to="*"):
    entry = {
        "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hosts": hosts, "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
                 "resolution": resolution, "location": "MESH_INTERNAL", "exportTo": [export_to]},
    }
    if addresses:
        entry["spec"]["addresses"] = addresses
    if endpoints:
        entry["spec"]["endpoints"] = [{"address": a} for a in endpoints]
    return entry


YAML_ENTRY = """\
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: {name}
  namespace: {namespace}
spec:
  hosts: ["{host}"]
  addresses: [{addresses}]
  ports: [{{ number: 80, name: http, protocol: HTTP }}]
  location: MESH_INTERNAL
  resolution: STATIC
"""


def entries(world):
    """Name, host, VIPs and endpoints of each ServiceEntry."""
    for name, addresses in world.sets:
        label = name.split(".")[0]
        if len(addresses) > 3:
            yield label, name, [], addresses
        else:
            yield label, name, addresses, []
    for name, a in world.wildcards:
        yield name.split(".")[0], f"*.{name}", [a], []


def write_manifests_yaml(path, world):
    with open(path, "w") as out:
        for name, hostname, addresses, endpoints in entries(world):
            out.write(YAML_ENTRY.format(name=name, namespace="shop", host=hostname, addresses=", ".join(addresses)))
            if endpoints:
                out.write("  endpoints:\n")
                out.writelines(f"    - address: {a}\n" for a in endpoints)


def write_manifests_json(path, world):
    with open(path, "w") as out:
        out.write('{"apiVersion": "v1", "kind": "List", "items": [\n')
        out.write(",\n".join(
            json.dumps(service_entry(name, [hostname], addresses, endpoints=endpoints), separators=(",", ":"))
            for name, hostname, addresses, endpoints in entries(world)))
        out.write("\n]}\n")


def write_client_manifests(path, clients):
    """A Pod of each namespace, and ten hosts that each namespace defines for itself."""
    with open(path, "w") as out:
        for i in range(clients.namespaces):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": f"team-{i:03d}"},
                   "spec": {}, "status": {"phase": "Running", "podIP": clients.address(i),
                                          "podIPs": [{"ip": clients.address(i)}]}}
            out.write("---\n" + json.dumps(pod) + "\n")
            for k in range(OWN_HOSTS):
                entry = service_entry(f"own-{k}", [own_host(k)], [own_address(i, k)],
                                      namespace=f"team-{i:03d}", export_to=".")
                out.write("---\n" + json.dumps(entry) + "\n")


def own_host(index):
    return f"own-{index}.{ZONE}"


def own_address(namespace, index):
    """The address that namespace number `namespace` has defined for own_host(index)."""
    return address(6, OWN_HOSTS * namespace + index)


def cached_host(index):
    return f"cached-{index:06d}.{UPSTREAM}"


# --- questions --------------------------------------------------------------------------------------------------------

def message(name, qtype=TYPE_A, message_id=1):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">6H", message_id, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, qtype, 1)


def write_queries(path, names):
    with open(path, "wb") as out:
        for name in names:
            query = message(name)
            out.write(struct.pack(">H", len(query)) + query)


class Questions:
    """The names that each workload asks for, in the order of asking; each list is shuffled once, so that no server's
    caches profit from an order."""

    COUNT = 200_000

    def __init__(self, names):
        self.names = names
        self._random = random.Random(SEED)

    def _draw(self, make, below):
        return [make(self._random.randrange(below)) for _ in range(self.COUNT)]

    def hits(self):
        return self._draw(host, self.names)

    def of_views(self, views):
        """Query number i is that of client i modulo `views`; each name belongs to one of them."""
        draw = self._random
        views = min(views, self.names)
        return [host(draw.randrange(self.names // views) * views + i % views) for i in range(self.COUNT // views * views)]

    def rotated(self):
        return self._draw(rotated_host, ROTATED)

    def wildcards(self):
        return self._draw(lambda i: f"label-{i % 10}.{wildcard(i // 10)}", 10 * WILDCARDS)

    def headless(self):
        return [headless_host()] * 64

    def unknown(self):
        return self._draw(lambda i: f"unknown-{i:06d}.shop-{i % 200:03d}.svc.{CLUSTER}", 10_000)

    def searched(self):
        return self._draw(lambda i: f"{host(i)}.default.svc.{CLUSTER}", self.names)

    def cached(self):
        return self._draw(cached_host, self.names)

    def missed(self):
        return [f"m{i:07d}.miss.{UPSTREAM}" for i in range(1_000_000)]

    def of_clients(self):
        draw = self._random
        return [own_host(draw.randrange(OWN_HOSTS)) if draw.random() < 0.1 else host(draw.randrange(self.names))
                for _ in range(self.COUNT)]
