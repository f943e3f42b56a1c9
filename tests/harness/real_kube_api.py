# SPDX-License-Identifier: Apache-2.0
"""A kube-apiserver that runs already, with the same verbs as the small one of kube_api.py.

Its directory has `kubeconfig`, `ca.crt` and `token`, and, for tests that end the server, the programs `kill` and `start`."""

import base64
import json
import re
import ssl
import subprocess
import urllib.error
import urllib.request

import yaml

from harness.daemon import ROOT
from harness.relay import Relay

BASE = ROOT / "conf" / "kubernetes" / "base"
_RBAC = "apis/rbac.authorization.k8s.io/v1"
_SLICES = "apis/discovery.k8s.io"
_PATHS = {"Namespace": "api/v1/namespaces", "Service": "api/v1/services", "Pod": "api/v1/pods", "Node": "api/v1/nodes",
          "EndpointSlice": None}


class KubeServer:
    """Requests to it."""

    def __init__(self, directory):
        self.directory = directory
        self.url = re.search(r'https:[^"\s,}]+', (directory / "kubeconfig").read_text())[0]
        self._token = (directory / "token").read_text().strip()
        self._context = ssl.create_default_context(cafile=str(directory / "ca.crt"))

    def request(self, method, path, body=None, kind="application/json"):
        """(status, answer)"""
        request = urllib.request.Request(self.url + path, method=method, data=json.dumps(body).encode() if body else None,
                                         headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind})
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=30) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {"message": text.decode()}


class ServiceAccount:
    """The one of conf/kubernetes/base with its role."""

    def __init__(self, server):
        self._server = server
        account, self._role, self._binding = (
            item for name in ("serviceaccount", "rbac") for item in yaml.safe_load_all((BASE / f"{name}.yaml").read_text()))
        path = f"/api/v1/namespaces/{self._binding['subjects'][0]['namespace']}/serviceaccounts"
        self._post(path, account)
        self._post(f"/{_RBAC}/clusterroles", self._role)
        self.grant_role()
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        self.token = self._post(f"{path}/{account['metadata']['name']}/token", asked)["status"]["token"]

    def grant_role(self):
        self._post(f"/{_RBAC}/clusterrolebindings", self._binding)

    def revoke_role(self):
        assert self._server.request("DELETE", f"/{_RBAC}/clusterrolebindings/{self._binding['metadata']['name']}")[0] == 200

    def _post(self, path, body):
        status, answer = self._server.request("POST", path, body)
        assert status in (200, 201, 409), (path, answer)  # 409: it is there
        return answer


class RealKubeApi(KubeServer):
    """`namespace`: the network namespace of the server's clients; `token`: theirs, if not that of the directory."""

    def __init__(self, directory, namespace=None, token=None):
        super().__init__(directory)
        self._token_of_clients = token or self._token
        self._relay = Relay(int(self.url.rpartition(":")[2]), namespace)
        slices = next(v for v in ("v1", "v1beta1") if self.call("GET", f"/{_SLICES}/{v}/endpointslices?limit=1"))
        self._paths = {**_PATHS, "EndpointSlice": f"{_SLICES}/{slices}/endpointslices"}

    def call(self, method, path, body=None):
        """The answer; of a refusal, None."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        status, answer = self.request(method, path, body, kind)
        return answer if status < 300 else None

    def kubeconfig(self, path):
        """By way of the relay, for a user who may not read the server's directory."""
        authority = base64.b64encode((self.directory / "ca.crt").read_bytes()).decode()
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": {"server": f"https://{self._relay.address}",
                                                   "certificate-authority-data": authority}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": self._token_of_clients}}]}))
        return str(path)

    # --- objects --------------------------------------------------------------------------------

    def list(self, kind):
        return self.call("GET", f"/{self._paths[kind]}")["items"]

    def put(self, *objects):
        """Creates, or replaces."""
        for item in objects:
            kind, meta = item["kind"], item["metadata"]
            collection = self._path(kind, meta.get("namespace"))
            body = {"apiVersion": self._paths[kind].removeprefix("apis/").removeprefix("api/").rpartition("/")[0], **item}
            if kind == "Pod":
                body["spec"] = {"containers": [{"name": "c", "image": "x"}], **item["spec"]}
            written = self.call("POST", collection, body) or self._replace(f"{collection}/{meta['name']}", body)
            assert written, f"{kind} {meta}: refused"
            if "status" in item:
                self.call("PATCH", f"{collection}/{meta['name']}/status", {"status": item["status"]})

    def _replace(self, path, body):
        """By a merge, which leaves alone what the server has added; labels that are no more are named."""
        known = self.call("GET", path)["metadata"].get("labels", {})
        labels = {**dict.fromkeys(known), **body["metadata"].get("labels", {})}
        return self.call("PATCH", path, {**body, "metadata": {**body["metadata"], "labels": labels}})

    def delete(self, kind, name, namespace=None):
        assert self.call("DELETE", f"{self._path(kind, namespace)}/{name}?gracePeriodSeconds=0")

    def clear(self, namespace):
        """Removes what earlier tests have left there."""
        for kind in ("EndpointSlice", "Service", "Pod"):
            for item in self.list(kind):
                if item["metadata"]["namespace"] == namespace:
                    self.delete(kind, item["metadata"]["name"], namespace)

    def _path(self, kind, namespace):
        prefix, _, plural = self._paths[kind].rpartition("/")
        return f"/{prefix}/namespaces/{namespace}/{plural}" if namespace else f"/{prefix}/{plural}"

    # --- life -----------------------------------------------------------------------------------

    def stop(self):
        self._run("kill")

    def start(self):
        self._run("start")

    def _run(self, program):
        subprocess.run([self.directory / program], check=True, timeout=120, capture_output=True)

    def close(self):
        self._relay.close()
