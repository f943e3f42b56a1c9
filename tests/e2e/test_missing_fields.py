# SPDX-License-Identifier: Apache-2.0
"""Every field of every kind, absent, null or empty: the object alone is refused with a finding, or accepted."""

import copy
import json
import re

from harness.daemon import run_tool
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

META = {"name": "x", "namespace": "shop", "labels": {"app": "api", "topology.istio.io/network": "n1"},
        "annotations": {"networking.istio.io/exportTo": "*"}, "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u"}
ENDPOINT = {"address": "10.0.0.7", "ports": {"http": 8080}, "labels": {"app": "api"}, "network": "n1", "locality": "r/z/s",
            "weight": 1, "serviceAccount": "api"}
PARENT = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "shop", "name": "x", "sectionName": "http",
          "port": 80}
ISTIO, GATEWAY_API = "networking.istio.io/v1", "gateway.networking.k8s.io/v1"

# One object of each kind, with every field that is read.
OBJECTS = [
    {"apiVersion": ISTIO, "kind": "ServiceEntry", "spec": {
        "hosts": ["x.example.org"], "addresses": ["240.0.0.7"], "location": "MESH_INTERNAL", "resolution": "STATIC",
        "ports": [{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": 8080}], "endpoints": [ENDPOINT],
        "exportTo": ["*"], "subjectAltNames": ["spiffe://a/b"]},
     "status": {"addresses": [{"value": "240.240.0.1", "host": "x.example.org"}]}},
    {"apiVersion": ISTIO, "kind": "ServiceEntry", "spec": {
        "hosts": ["x.example.org"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "STATIC",
        "location": "MESH_INTERNAL", "workloadSelector": {"labels": {"app": "api"}}}},
    {"apiVersion": ISTIO, "kind": "WorkloadEntry", "spec": ENDPOINT},
    {"apiVersion": ISTIO, "kind": "Sidecar", "spec": {
        "workloadSelector": {"labels": {"app": "api"}}, "outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"},
        "egress": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "bind": "10.0.0.1", "captureMode": "NONE",
                    "hosts": ["./*", "istio-system/*"]}]}},
    {"apiVersion": ISTIO, "kind": "VirtualService", "spec": {
        "hosts": ["x.example.org"], "gateways": ["shop/x", "mesh"], "exportTo": ["*"],
        "http": [{"match": [{"port": 80}], "route": [{"destination": {"host": "x", "port": {"number": 80}}}]}]}},
    {"apiVersion": "v1", "kind": "Service", "spec": {
        "type": "LoadBalancer", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "externalName": "x.example.org", "publishNotReadyAddresses": True,
        "selector": {"app": "api"}, "externalIPs": ["192.0.2.7"], "loadBalancerIP": "192.0.2.8", "trafficDistribution": "PreferClose",
        "internalTrafficPolicy": "Cluster", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http",
                                                       "appProtocol": "http", "nodePort": 30080}]},
     "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8", "hostname": "lb.example.org",
                                              "ports": [{"port": 80, "protocol": "TCP"}]}]}}},
    {"apiVersion": "v1", "kind": "Endpoints", "subsets": [{
        "addresses": [{"ip": "10.0.0.7", "hostname": "a", "nodeName": "n", "targetRef": {"kind": "Pod", "name": "x"}}],
        "notReadyAddresses": [{"ip": "10.0.0.8"}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}]},
    {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
     "metadata": {**META, "labels": {"kubernetes.io/service-name": "x"}},
     "endpoints": [{"addresses": ["10.0.0.7"], "hostname": "a", "nodeName": "n", "zone": "z",
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    "hints": {"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]},
                    "targetRef": {"kind": "Pod", "name": "x", "namespace": "shop", "uid": "u"}}],
     "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}]},
    {"apiVersion": "v1", "kind": "Pod", "spec": {
        "nodeName": "n", "hostNetwork": False, "hostname": "a", "subdomain": "x", "serviceAccountName": "api",
        "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}]}],
        "dnsPolicy": "ClusterFirst", "dnsConfig": {"searches": ["example.org"], "options": [{"name": "ndots", "value": "2"}]}},
     "status": {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "hostIP": "192.0.2.9",
                "conditions": [{"type": "Ready", "status": "True"}]}},
    {"apiVersion": "v1", "kind": "Node", "metadata": {**META, "labels": {"topology.kubernetes.io/region": "r"}},
     "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.9"}]}},
    {"apiVersion": "v1", "kind": "Namespace"},
    {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
     "status": {"conditions": [{"type": "Valid", "status": "True"}]}},
    {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "spec": {
        "type": "ClusterSetIP", "ips": ["10.97.0.7"], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
     "status": {"clusters": [{"cluster": "west"}]}},
    {"apiVersion": GATEWAY_API, "kind": "Gateway", "spec": {
        "gatewayClassName": "istio", "addresses": [{"type": "IPAddress", "value": "192.0.2.8"}],
        "listeners": [{"name": "http", "hostname": "*.example.org", "port": 80, "protocol": "HTTP",
                       "allowedRoutes": {"namespaces": {"from": "Selector", "selector": {
                           "matchLabels": {"a": "b"},
                           "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
                           "kinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}]}}]},
     "status": {"addresses": [{"type": "IPAddress", "value": "192.0.2.8"}],
                "conditions": [{"type": "Programmed", "status": "True"}]}},
    *({"apiVersion": GATEWAY_API if kind != "TLSRoute" else "gateway.networking.k8s.io/v1alpha2", "kind": kind,
       "spec": {"hostnames": ["x.example.org"], "parentRefs": [PARENT]},
       "status": {"parents": [{"parentRef": PARENT, "conditions": [{"type": "Accepted", "status": "True"}]}]}}
      for kind in ("HTTPRoute", "TLSRoute", "GRPCRoute")),
    {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {
        "ingressClassName": "nginx", "rules": [{"host": "x.example.org", "http": {"paths": [{"path": "/"}]}}],
        "tls": [{"hosts": ["x.example.org"]}]},
     "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8", "hostname": "lb.example.org"}]}}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "istio", "namespace": "istio-system"},
     "data": {"mesh": "rootNamespace: istio-system\ndefaultServiceExportTo: ['*']\n"}},
]
ABSENT = object()
# In place of each field, in turn.
INSTEAD = [ABSENT, None, "", 0, [], {}, [None], "\0"]


def places(value, path=()):
    """Of every field and element below."""
    for key in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
        yield (*path, key)
        yield from places(value[key], (*path, key))


def variants():
    """(object, the object with one of its fields replaced, under a name of its own)"""
    for whole in OBJECTS:
        whole = {"metadata": META, **whole}
        for place in places(whole):
            for instead in INSTEAD:
                varied = copy.deepcopy(whole)
                if varied["metadata"]["name"] == "x":
                    varied["metadata"]["name"] = f"x{next_number()}"
                parent = varied
                for step in place[:-1]:
                    parent = parent[step]
                if instead is ABSENT:
                    del parent[place[-1]]
                else:
                    parent[place[-1]] = instead
                yield whole, varied


def next_number(counter=[0]):  # noqa: B006, it counts
    counter[0] += 1
    return counter[0]


GOOD = {"apiVersion": ISTIO, "kind": "ServiceEntry", "metadata": {"name": "good", "namespace": "other"}, "spec": {
    "hosts": ["good.example.org"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "STATIC",
    "endpoints": [{"address": "10.9.9.9"}]}}


def identity(varied):
    kind, meta = varied["kind"], varied["metadata"]
    return kind, "" if kind in ("Node", "Namespace") else meta.get("namespace") or "default", meta["name"]


def is_ours(original, varied):
    """Objects of other kinds, and other ConfigMaps, are not read, and may be of any form."""
    if (varied.get("apiVersion"), varied.get("kind")) != (original["apiVersion"], original["kind"]):
        return False
    return varied["kind"] != "ConfigMap" or (isinstance(varied.get("metadata"), dict) and varied["metadata"].get("name") == "istio")


def test_a_field_that_is_missing_harms_its_object_alone(workspace, tmp_path):
    """Each object is in the registry, or has an error: what is neither would be lost without a word."""
    made = list(variants())
    resources = tmp_path / "resources.yaml"
    resources.write_text("\n---\n".join(json.dumps(varied) for _, varied in made))
    good = tmp_path / "good.json"
    good.write_text(json.dumps(GOOD))
    config = {"sources": [{"files": {"path": str(path)}} for path in (resources, good)],
              "mesh": {"gateway_names": {"kinds": ["Gateway", "HTTPRoute", "TLSRoute", "GRPCRoute", "Ingress"]}}}
    daemon = workspace.daemon({**config, "admin": {"listen": f"127.0.0.1:{free_port()}"}})
    assert daemon.ask("good.example.org.").addresses() == ["10.9.9.9"]
    good.write_text(json.dumps(GOOD).replace("10.9.9.9", "10.9.9.8"))
    eventually(lambda: daemon.ask("good.example.org.").addresses() == ["10.9.9.8"])

    assert "host=null" not in "".join(daemon.process.log_lines()), "null is no name"

    (tmp_path / "config.yaml").write_text(json.dumps(config))
    checked = json.loads(run_tool("check", "--format", "json", "--config", tmp_path / "config.yaml").stdout)
    refused = {(finding["line"] - 1) // 2 for finding in checked["findings"]
               if finding["severity"] == "error" and finding["path"] == str(resources)}
    accepted = {identity(varied) for number, (original, varied) in enumerate(made)
                if number not in refused and is_ours(original, varied)}
    assert len(refused) > 1000 and len(accepted) > 1000
    in_registry = int(re.search(r"^meshdns_registry_resources (\d+)$", daemon.get("/metrics")[1], re.M).group(1))
    assert in_registry == len(accepted) + 1
