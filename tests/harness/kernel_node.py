# SPDX-License-Identifier: Apache-2.0
"""A node with Pods, the kernel program on their links, and a daemon that lets it answer."""

import contextlib
import re

from harness.bpf import AnswerMaps
from harness.daemon import Daemon, base_config, merge
from harness.dns_client import Question, ask
from harness.kernel_program import LOADER, node_with_bpf
from harness.namespaces import inside
from harness.process import Process
from harness.routed_node import NODE_IPV4, NODE_IPV6, PODS

ADMIN = "127.0.0.1:15054"


class KernelNode:
    """The namespaces, the maps and the loader; a test starts its daemons."""

    def __init__(self, folder):
        self._stack = contextlib.ExitStack()
        try:
            self.bpffs, self.node = self._stack.enter_context(node_with_bpf(folder))
            self.maps = self.bpffs / "meshdns"
            self.loader = self.start_loader()
        except BaseException:
            self.close()
            raise

    def start_loader(self, *options):
        with inside(self.node.name):
            loader = Process([LOADER, "run", "--maps", self.maps, "--interfaces", "veth-*,br0", *options],
                             "meshdns-kernel")
        self._stack.callback(lambda: loader.is_running() and loader.stop())
        loader.wait_for_line("INFO ready|^<6>ready")
        return loader

    def close(self):
        self._stack.close()


class KernelDaemon:
    """A daemon on the node, as its Pods see it."""

    def __init__(self, node, workspace, change=None, mode="auto"):
        self._node = node
        config = merge(base_config(workspace.resources, ["127.0.0.1:1"]), {
            "server": {"listen": [f"{NODE_IPV4}:53", f"[{NODE_IPV6}]:53"], "workers": 1, "kernel_answers": mode,
                       "kernel_maps": str(node.maps), "chaos": "allowed"},
            "admin": {"listen": ADMIN},
            "client": {"by_source_address": True}})
        home = workspace.path / f"daemon-{len(list(workspace.path.iterdir()))}"
        home.mkdir()
        with inside(node.node.name):
            self.daemon = workspace.own(Daemon(merge(config, change or {}), home))

    @property
    def node(self):
        """The network namespaces."""
        return self._node.node

    def wait_until_open(self):
        self.daemon.wait_for_log("answering in the kernel")
        return self

    def get(self, path):
        with inside(self._node.node.name):
            return self.daemon.get(path)

    def ask(self, pod, name, rdtype="A", server=NODE_IPV4, transport="udp", timeout=5.0, **options):
        with inside(self._node.node.pods[pod]):
            return ask((server, 53), Question(name, rdtype, **options), transport, timeout)

    def counts(self):
        """The program's counters, at this moment."""
        with contextlib.closing(AnswerMaps(self._node.maps)) as maps:
            return maps.counters()

    def count(self):
        """Number of answers of the kernel, at this moment."""
        return sum(value for name, value in self.counts().items() if name.startswith("answered_ipv"))

    def counted(self):
        """Number of answers of the kernel, as the daemon has counted them."""
        counts = re.findall(r'meshdns_dns_responses_total{rcode="[A-Z]+",source="kernel"} (\d+)', self.get("/metrics")[1])
        return sum(map(int, counts))

    def ask_kernel(self, pod, name, rdtype="A", **options):
        """(the daemon's answer, the kernel's): the daemon gives its answers to the kernel."""
        def ask():
            before = self.count()
            answer = self.ask(pod, name, rdtype, **options)
            return answer, self.count() > before

        first, _ = ask()
        for _ in range(3):  # a worker may have begun to give answers only now
            answer, is_there = ask()
            if is_there:
                return first, answer
        raise AssertionError(f"the kernel does not answer {name} {rdtype} {options} of {pod}: {self.counts()}")


def pod_objects(**namespaces):
    """The Pods of the node by their namespaces: pod_objects(shop="shop", web="web")."""
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": namespace},
             "status": {"phase": "Running", "podIP": PODS[pod][0], "podIPs": [{"ip": ip} for ip in PODS[pod]]}}
            for pod, namespace in namespaces.items()]
