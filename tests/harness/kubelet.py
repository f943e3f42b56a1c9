# SPDX-License-Identifier: Apache-2.0
"""Nodes with a kubelet and the controller of DaemonSets, as far as a roll-out needs them: the Pods of the manifest are real
processes, and their probes real commands.  Only the time is not: the test moves it."""

from harness.daemonset import Pod, Strategy, decide
from harness.node_pods import NodeWithPods, small_api

RESTART_AFTER = 10  # seconds until a container that has ended starts again, the least of Kubernetes' growing times


class _Probe:
    """When it is due, and what its results so far mean."""

    def __init__(self, spec, now):
        self._period, self._patience = spec["periodSeconds"], spec.get("failureThreshold", 3)
        self._due, self._failures = now, 0

    def is_due(self, now):
        return now >= self._due

    def count(self, passed, now):
        """Returns True: passed; False: failed too often; None: no change yet."""
        self._due = now + self._period
        self._failures = 0 if passed else self._failures + 1
        if passed:
            return True
        return False if self._failures >= self._patience else None


class _Container:
    """The daemon of a Pod, as the kubelet treats it."""

    def __init__(self, pod, running, spec, now):
        self._pod, self.running, self._spec = pod, running, spec
        self.restarts, self._ended_at, self.has_been_ready = 0, None, False
        self._begin(now)

    def _begin(self, now):
        self._pod.ready_since = None
        self._probes = {kind: _Probe(self._spec[f"{kind}Probe"], now) for kind in ("startup", "liveness", "readiness")}
        self.has_started = False

    def step(self, now):
        if not self.running.daemon.is_running():
            self._wait_to_restart(now)
        elif not self.has_started:
            self.has_started = self._result("startup", now) or False
        else:
            self._result("liveness", now)
            if (ready := self._result("readiness", now)) is not None:
                self._pod.ready_since = (self._pod.ready_since or now) if ready else None
                self.has_been_ready |= ready

    def _result(self, kind, now):
        probe = self._probes[kind]
        if not probe.is_due(now):
            return None
        result = probe.count(self.running.probe(kind), now)
        if result is False and kind != "readiness":
            self.running.daemon.send_signal(15)
        return result

    def _wait_to_restart(self, now):
        self._pod.ready_since = None
        self._ended_at = now if self._ended_at is None else self._ended_at
        if now >= self._ended_at + RESTART_AFTER:
            self._ended_at = None
            self.restarts += 1
            self.running.restart_daemon()
            self._begin(now)


class Cluster:
    """`revision` is that of the DaemonSet; `changes[revision]` is laid over the configuration of the manifest.  The first
    revision runs on no node yet."""

    def __init__(self, workspace, count, make_api=small_api):
        self.nodes = {f"node-{number}": NodeWithPods(workspace, make_api=make_api) for number in range(count)}
        self._strategy = Strategy.of(next(iter(self.nodes.values())).daemonset)
        self.revision, self.changes = 1, {1: {}}
        self._containers, self.now = {}, 0.0

    def roll_out(self, change):
        self.revision += 1
        self.changes[self.revision] = change

    def undo(self):
        self.revision = 1

    def tick(self):
        """A second passes."""
        self.now += 1
        for pod, container in list(self._containers.items()):
            if not pod.is_ending:
                container.step(self.now)
            elif container.running.has_ended():
                if container.has_been_ready:
                    container.running.wait()
                del self._containers[pod]
        ended, nodes = decide(list(self._containers), list(self.nodes), self.revision, self._strategy, self.now)
        for pod in ended:
            pod.is_ending = True
            self._containers[pod].running.terminate()
        for node in nodes:
            self._start(node)

    def _start(self, name):
        node, pod = self.nodes[name], Pod(name, self.revision)
        (spec,) = (container for container in node.spec["containers"] if container["name"] == "meshdnsd")
        self._containers[pod] = _Container(pod, node.start(self.changes[self.revision]), spec, self.now)

    def pods(self, node=None):
        return [pod for pod in self._containers if node in (None, pod.node)]

    def is_available(self, pod):
        return pod.is_available(self._strategy, self.now)

    def is_unable(self, pod):
        """Its daemon cannot start, or has started and answers nobody."""
        container = self._containers[pod]
        return container.restarts > 0 or container.has_started

    def is_rolled_out(self):
        """Each node has a Pod of the revision that is available, and no other one."""
        return (sorted(pod.node for pod in self.pods()) == sorted(self.nodes)
                and all(pod.revision == self.revision and self.is_available(pod) for pod in self.pods()))

    def end(self):
        for container in self._containers.values():
            container.running.terminate()
        for container in self._containers.values():
            container.running.wait()
        self._containers.clear()
