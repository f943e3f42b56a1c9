# SPDX-License-Identifier: Apache-2.0
"""A small cluster that daemons follow, and what the tests of it wait for."""

import threading
import time

from harness.kube_api import KubeApi, endpoint_slice, headless, namespace, service
from harness.ports import free_port
from harness.waiting import eventually, seconds

DOMAIN = "svc.cluster.local."
RECOVERY = 5.0  # seconds until the registry equals the API's list again


class Cluster:
    """An API with some objects, and daemons that follow it."""

    def __init__(self, workspace, **options):
        self.workspace = workspace
        self.api = workspace.own(KubeApi(**options))
        self.api.put(namespace("shop"), service("web", ip="10.96.0.1"), headless("db"),
                     endpoint_slice("db", ["10.0.0.1", "10.0.0.2"]))

    def daemon(self, kubernetes=None, change=None, user=None, kubeconfig=None, **options):
        kubeconfig = kubeconfig or self.api.kubeconfig(self.workspace.path / "kubeconfig", user)
        source = {"kubeconfig": kubeconfig, **(kubernetes or {})}
        config = {"sources": [{"kubernetes": source}], "admin": {"listen": f"127.0.0.1:{free_port()}"},
                  **(change or {})}
        upstream = self.workspace.upstream(["www.example.org. 300 A 192.0.2.1"])
        return self.workspace.daemon(config, upstreams=[upstream], **options)


def addresses(daemon, name, namespace="shop", **options):
    qname = name if name.endswith(".") else f"{name}.{namespace}.{DOMAIN}"
    return sorted(daemon.ask(qname, **options).addresses())


def wait_for(daemon, name, expected, limit=RECOVERY, namespace="shop"):
    def check():
        found = addresses(daemon, name, namespace)
        assert found == expected, f"{name}: {found}"
    eventually(check, limit)


def wait_for_rcode(daemon, name, rcode, limit=RECOVERY):
    def check():
        found = daemon.ask(f"{name}.shop.{DOMAIN}").rcode
        assert found == rcode, f"{name}: {found}"
    eventually(check, limit)


def sources(daemon):
    (source,) = daemon.get_json("/sources")
    return source


def collection(daemon, name):
    return next(c for c in sources(daemon)["collections"] if c["name"] == name)


class Asker:
    """Asks for one name on and on: every answer must be the expected one."""

    def __init__(self, daemon, name="web", expected=("10.96.0.1",)):
        self.daemon, self.name, self.expected = daemon, name, list(expected)
        self.asked, self.wrong = 0, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.over.is_set():
            try:
                found = addresses(self.daemon, self.name)
                if found != self.expected:
                    self.wrong.append(found)
            except AssertionError as failure:
                self.wrong.append(str(failure))
            self.asked += 1
            time.sleep(0.002)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(seconds(10))
        assert self.asked > 0
        assert not self.wrong, f"{len(self.wrong)} of {self.asked}: {self.wrong[:3]}"
