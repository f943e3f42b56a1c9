# SPDX-License-Identifier: Apache-2.0
"""The Pods of the DaemonSet of conf/kubernetes on a node that is a network namespace: what the kubelet would run, as the
manifest says it, with the directories of the node in a directory of the test."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

import pytest
import yaml

from harness.daemon import ROOT, binary, merge
from harness.kube_api import KubeApi, namespace, pod, service
from harness.namespaces import Node, inside
from harness.process import Process
from harness.waiting import seconds

BASE = ROOT / "conf" / "kubernetes" / "base"
CLIENTS = {"one": ("10.60.0.11", "fd60::11"), "two": ("10.60.0.12", "fd60::12")}
NAME, ADDRESS = "web.shop.svc.cluster.local.", "10.96.0.1"
TAKEN_OVER = "the next daemon answers; this one waits for SIGTERM"


class NodePod:
    """One Pod: its daemon with its configuration, and node-watch.  `run_daemon` starts the container of the daemon."""

    def __init__(self, config_path, run_daemon, watch):
        self.config_path, self._run_daemon, self._watch = config_path, run_daemon, watch
        self.daemon = run_daemon()

    def restart_daemon(self):
        """As the kubelet does when it has ended."""
        assert not self.daemon.is_running()
        self.daemon = self._run_daemon()

    def terminate(self):
        """Sends all containers SIGTERM, as the kubelet does."""
        for process in (self.daemon, self._watch):
            process.send_signal(15)

    def wait(self):
        assert self.daemon.wait(30) == 0, self.daemon.log_tail()
        assert not self.daemon.sanitizer_reports(), self.daemon.log_tail(200)
        assert self._watch.wait(30) == 0, self._watch.log_tail()

    def end(self):
        self.terminate()
        self.wait()

    def end_without_daemon(self):
        """Its daemon has not started."""
        assert self.daemon.wait(20) != 0
        self._watch.send_signal(15)
        assert self._watch.wait(30) == 0, self._watch.log_tail()

    def kill(self):
        for process in (self.daemon, self._watch):
            process.kill()


class NodeWithPods:
    """A node, an API server, and Pods of clients.  `configuration`: the meshdns.yaml of the base or of an overlay."""

    def __init__(self, workspace, configuration=BASE / "meshdns.yaml"):
        self._workspace = workspace
        self._configuration = configuration.read_text()
        listen = yaml.safe_load(self._configuration)["server"]["listen"]
        self._addresses = " ".join(address.rpartition(":")[0] for address in listen)
        self.node = workspace.own(Node(CLIENTS))
        # Not the test's own directory, which the user of the Pod may not enter.
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="meshdns-node-"))
        self._directory.chmod(0o755)
        workspace.own(self)
        manifest = yaml.safe_load((BASE / "daemonset.yaml").read_text())
        self.spec = manifest["spec"]["template"]["spec"]
        self.paths = {volume["name"]: volume["hostPath"]["path"] for volume in self.spec["volumes"] if "hostPath" in volume}
        for name in self.paths:
            (self._directory / name).mkdir()
        with inside(self.node.name):
            self.api = workspace.own(KubeApi())
        self.api.put(namespace("shop"), service("web", "shop", ADDRESS),
                     *(pod(name, ip) for name, (ip, _) in CLIENTS.items()))
        self._kubeconfig = self.api.kubeconfig(self._directory / "kubeconfig")
        self._number = 0

    def close(self):
        shutil.rmtree(self._directory)

    def start(self, change=None, program=None, workers=2):
        """Runs the init container to its end, then the others."""
        self._number += 1
        config = merge(yaml.safe_load(self._here(self._configuration)),
                       {"sources": [{"kubernetes": {"kubeconfig": self._kubeconfig}}],
                        "server": {"workers": workers}, **(change or {})})
        path = self._directory / f"meshdns-{self._number}.yaml"
        path.write_text(yaml.safe_dump(config))
        self._set_up()
        containers = {container["name"]: container for container in self.spec["containers"]}
        security = containers["meshdnsd"]["securityContext"]
        (capability,) = (name.lower() for name in security["capabilities"]["add"])
        user = ["setpriv", f"--reuid={security['runAsUser']}", f"--regid={security['runAsGroup']}",
                "--clear-groups", f"--inh-caps=-all,+{capability}", f"--ambient-caps=+{capability}"]
        watch = self._run([self._here(word) for word in containers["node-watch"]["command"]],
                          f"node-watch-{self._number}")
        number = self._number
        return NodePod(path, lambda: self._run([program or binary(), "run", "--config", path], f"meshdnsd-{number}", user),
                       watch)

    def pull_the_plug(self, *pods):
        """The node as it is after a boot, before its Pods are started: only directories that are not below /run stay."""
        for running in pods:
            running.kill()
        self._node_setup("/bin/sh", str(BASE / "node-setup"), "remove")
        for name, path in self.paths.items():
            if path.startswith("/run/"):
                shutil.rmtree(self._directory / name)
                (self._directory / name).mkdir()

    def probe(self):
        """The status of the readiness probe."""
        probe = next(c for c in self.spec["containers"] if c["name"] == "meshdnsd")["readinessProbe"]["httpGet"]
        with inside(self.node.name):
            try:
                url = f"http://{probe['host']}:{probe['port']}{probe['path']}"
                with urllib.request.urlopen(url, timeout=seconds(5)) as response:
                    return response.status
            except urllib.error.HTTPError as error:
                return error.code

    def _here(self, text):
        """`text` with the directories of the node, and the script of the ConfigMap, where they are in the test."""
        text = text.replace("/etc/meshdns-node/node-setup", str(BASE / "node-setup"))
        for name, path in sorted(self.paths.items(), key=lambda item: -len(item[1])):
            text = re.sub(re.escape(path) + r"(?![\w-])", str(self._directory / name), text)
        return text

    def _environment(self):
        # lo stands for the dummy interface, which some kernels lack.  The times of the manifest are longer.
        return {"INTERVAL": "0.1", "DRAIN": "0.1", **os.environ, "NODE_NAME": "node-1", "ADDRESSES": self._addresses,
                "LINK": "lo", "LOCK": str(self._directory / "node-lock" / "node.lock")}

    def _set_up(self):
        (init,) = self.spec["initContainers"]
        self._node_setup(*init["command"], *map(self._here, init["args"]))

    def _node_setup(self, *command):
        done = subprocess.run(["ip", "netns", "exec", self.node.name, *command], env=self._environment(),
                              capture_output=True, text=True, check=False, timeout=seconds(30))
        if "Operation not supported" in done.stderr:
            pytest.skip("this kernel has no nf_tables with notrack")
        assert done.returncode == 0, done.stderr

    def _run(self, arguments, name, user=()):
        return self._workspace.own_process(
            Process(arguments, name, env=self._environment(), cwd=self._directory,
                    prefix=["ip", "netns", "exec", self.node.name, *user]))
