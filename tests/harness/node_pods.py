# SPDX-License-Identifier: Apache-2.0
"""The Pods of the DaemonSet of conf/kubernetes on a node that is a network namespace: what the kubelet would run, as the
manifest says it, with the directories of the node in a directory of the test."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
import yaml

from harness.daemon import ROOT, binary, merge
from harness.kube_api import KubeApi, namespace, pod, service
from harness.namespaces import Node, inside
from harness.process import Process
from harness.waiting import seconds

BASE = ROOT / "conf" / "kubernetes" / "base"
CLIENTS = {"one": ("10.60.0.11", "fd60::11"), "two": ("10.60.0.12", "fd60::12")}
NAME, ADDRESS = "web.shop.svc.cluster.local.", "10.96.0.2"
TAKEN_OVER = "the next daemon answers; this one waits for SIGTERM"


class NodePod:
    """One Pod: its daemon with its configuration, and node-watch.  `run_daemon` starts the container of the daemon, and `probe`
    runs one of its probes ("readiness") there and returns whether it passed."""

    def __init__(self, config_path, run_daemon, watch, probe):
        self.config_path, self._run_daemon, self._watch, self.probe = config_path, run_daemon, watch, probe
        self.daemon = run_daemon()

    def has_ended(self):
        return not self.daemon.is_running() and not self._watch.is_running()

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


def small_api(node):
    with inside(node):
        return KubeApi()


class NodeWithPods:
    """A node, an API server, and Pods of clients.  `configuration`: the meshdns.yaml of the base or of an overlay; `make_api`
    makes the server for clients in a network namespace."""

    def __init__(self, workspace, configuration=BASE / "meshdns.yaml", make_api=small_api):
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
        self.daemonset = manifest
        self.spec = manifest["spec"]["template"]["spec"]
        self.paths = {volume["name"]: volume["hostPath"]["path"] for volume in self.spec["volumes"] if "hostPath" in volume}
        (of_pod,) = (volume["name"] for volume in self.spec["volumes"] if "emptyDir" in volume)
        (self._own_folder,) = (mount["mountPath"] for container in self.spec["containers"]
                               for mount in container["volumeMounts"] if mount["name"] == of_pod)
        for name in self.paths:
            (self._directory / name).mkdir()
        self.api = workspace.own(make_api(self.node.name))
        self.api.put(namespace("shop"), service("web", "shop", ADDRESS),
                     *(pod(name, ip) for name, (ip, _) in CLIENTS.items()))
        self._kubeconfig = self.api.kubeconfig(self._directory / "kubeconfig")
        self._number = 0
        self._inside = ["ip", "netns", "exec", self.node.name]

    def close(self):
        shutil.rmtree(self._directory)

    def start(self, change=None, program=None, workers=2):
        """Runs the init container to its end, then the others."""
        self._number += 1
        own = self._directory / f"own-{self._number}"
        own.mkdir()
        own.chmod(0o777)  # as the kubelet makes an emptyDir
        config = merge(yaml.safe_load(self._here(self._configuration, own)),
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

        def probe(kind):
            command = [self._here(word, own) for word in containers["meshdnsd"][f"{kind}Probe"]["exec"]["command"]]
            ran = subprocess.run([*self._inside, *user, binary(), *command[1:]], env=self._environment(), capture_output=True,
                                 text=True, check=False, timeout=seconds(30))
            assert "unknown option" not in ran.stderr and "not expected" not in ran.stderr, ran.stderr
            return ran.returncode == 0

        return NodePod(path, lambda: self._run([program or binary(), "run", "--config", path], f"meshdnsd-{number}", user),
                       watch, probe)

    def pull_the_plug(self, *pods):
        """The node as it is after a boot, before its Pods are started: only directories that are not below /run stay."""
        for running in pods:
            running.kill()
        self._node_setup("/bin/sh", str(BASE / "node-setup"), "remove")
        for name, path in self.paths.items():
            if path.startswith("/run/"):
                shutil.rmtree(self._directory / name)
                (self._directory / name).mkdir()

    def _here(self, text, own=""):
        """`text` with the directories of the node, that of the Pod's own socket, and the script of the ConfigMap, where they are
        in the test."""
        text = text.replace("/etc/meshdns-node/node-setup", str(BASE / "node-setup")).replace(self._own_folder, str(own))
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
        done = subprocess.run([*self._inside, *command], env=self._environment(),
                              capture_output=True, text=True, check=False, timeout=seconds(30))
        if "Operation not supported" in done.stderr:
            pytest.skip("this kernel has no nf_tables with notrack")
        assert done.returncode == 0, done.stderr

    def _run(self, arguments, name, user=()):
        return self._workspace.own_process(
            Process(arguments, name, env=self._environment(), cwd=self._directory,
                    prefix=[*self._inside, *user]))
