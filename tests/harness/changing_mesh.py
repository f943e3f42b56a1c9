# SPDX-License-Identifier: Apache-2.0
"""A mesh that changes by chance, and a small model of who sees what in it.

The model knows one object for each host and namespace, exportTo, the egress hosts of a namespace's Sidecar, and that a
wildcard answers where no host does.  Each change has addresses that no version had before, so an answer tells its age."""

import itertools
import random

from harness.kernel_node import pod_objects

NAMESPACES = ("shop", "web", "third")
PODS = ("shop", "web", "bridged")
_HOSTS = ("a.example.org", "b.example.org", "c.example.org", "a.wild.example.org", "*.wild.example.org",
          "*.deep.wild.example.org")
_SERVICES = ("front", "back")
NAMES = ("a.example.org", "b.example.org", "c.example.org", "a.wild.example.org", "b.wild.example.org",
         "b.deep.wild.example.org", *(f"{name}.{ns}.svc.cluster.local" for name in _SERVICES for ns in NAMESPACES))
_EXPORTS = (["*"], ["*"], ["."], ["shop"], ["web", "third"])
_EGRESS = (None, None, ["./*"], ["*/*"], ["./*", "web/*"], ["shop/*"], ["*/*.wild.example.org", "./*"])
MARKER = "marker.example.org"
# The Pod that asks for MARKER is in this namespace, which has no Sidecar.
OBSERVER, OBSERVING_NAMESPACE = "neighbour", "observing"


class _Object:
    def __init__(self, namespace, host, addresses, exports):
        self.namespace, self.host, self.addresses, self.exports = namespace, host, addresses, exports

    def is_exported_to(self, namespace):
        return any(to == "*" or (self.namespace if to == "." else to) == namespace for to in self.exports)

    def matches(self, name):
        return name == self.host or (self.host.startswith("*.") and name.endswith(self.host[1:]))

    def is_below(self, pattern):
        """Whether an egress host covers it."""
        return pattern in ("*", self.host) or (pattern.startswith("*.") and self.host.removeprefix("*").endswith(pattern[1:])
                                               and self.host != pattern[2:])


class ChangingMesh:
    def __init__(self, seed):
        self._chance = random.Random(seed)
        self._numbers = itertools.count(1)
        self._objects = {}  # by host
        self._sidecars = dict.fromkeys(NAMESPACES)  # to egress hosts
        self._namespace_of = dict(zip(PODS, NAMESPACES))
        for host in self._all_hosts():
            self._replace(host)

    @staticmethod
    def _all_hosts():
        return [*_HOSTS, *(name for name in NAMES if name.endswith(".svc.cluster.local"))]

    def _address(self):
        number = next(self._numbers)
        return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"

    def _replace(self, host):
        if host.endswith(".svc.cluster.local"):
            namespace, count = host.split(".")[1], 1
        else:
            namespace, count = self._chance.choice(NAMESPACES), self._chance.choice((1, 1, 2, 3))
        self._objects[host] = _Object(namespace, host, [self._address() for _ in range(count)], self._chance.choice(_EXPORTS))

    def change(self):
        """One object appears, changes or goes, a Sidecar does, or a Pod moves to another namespace."""
        kind = self._chance.randrange(20)
        if kind == 0:
            self._sidecars[self._chance.choice(NAMESPACES)] = self._chance.choice(_EGRESS)
        elif kind == 1:
            self._namespace_of[self._chance.choice(PODS)] = self._chance.choice(NAMESPACES)
        else:
            host = self._chance.choice(self._all_hosts())
            if kind < 5 and host in self._objects:
                del self._objects[host]
            else:
                self._replace(host)

    # --- the model ---

    def _sees(self, namespace, thing):
        if not thing.is_exported_to(namespace):
            return False
        egress = self._sidecars[namespace]
        if egress is None:
            return True
        return any(ns in ("*", thing.namespace) or (ns == "." and thing.namespace == namespace)
                   for ns, _, pattern in (host.partition("/") for host in egress) if thing.is_below(pattern))

    def _addresses(self, namespace, name):
        seen = [thing for thing in self._objects.values() if thing.matches(name) and self._sees(namespace, thing)]
        best = max(seen, key=lambda thing: (thing.host == name, len(thing.host)), default=None)
        return frozenset(best.addresses) if best else frozenset()

    def answers(self):
        """The addresses by Pod and name."""
        return {(pod, name): self._addresses(self._namespace_of[pod], name) for pod in PODS for name in NAMES}

    # --- what the daemon reads ---

    def resources(self, version):
        """All objects, and MARKER with an address that tells the version."""
        yield from pod_objects(**self._namespace_of, **{OBSERVER: OBSERVING_NAMESPACE})
        for number, thing in enumerate(self._objects.values()):
            yield self._service(thing) if thing.host.endswith(".svc.cluster.local") else self._entry(f"e{number}", thing)
        for namespace, egress in self._sidecars.items():
            if egress:
                yield {"kind": "Sidecar", "metadata": {"name": "default", "namespace": namespace},
                       "spec": {"egress": [{"hosts": egress}]}}
        yield self._entry("marker", _Object("shop", MARKER, [marker_address(version)], ["*"]))

    @staticmethod
    def _entry(name, thing):
        # Several addresses are those of endpoints.
        where = ({"addresses": thing.addresses} if len(thing.addresses) == 1 else
                 {"endpoints": [{"address": address} for address in thing.addresses]})
        return {"kind": "ServiceEntry", "metadata": {"name": name, "namespace": thing.namespace},
                "spec": {"hosts": [thing.host], "resolution": "STATIC", "exportTo": thing.exports,
                         "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], **where}}

    @staticmethod
    def _service(thing):
        name, namespace = thing.host.split(".")[:2]
        return {"kind": "Service", "metadata": {"name": name, "namespace": namespace,
                                                "annotations": {"networking.istio.io/exportTo": ",".join(thing.exports)}},
                "spec": {"clusterIP": thing.addresses[0], "ports": [{"name": "http", "port": 80}]}}


def marker_address(version):
    return f"192.168.{version >> 8}.{version & 255}"
