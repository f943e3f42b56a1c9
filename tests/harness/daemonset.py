# SPDX-License-Identifier: Apache-2.0
"""The rules of Kubernetes' controller of DaemonSets for an update with maxSurge (pkg/controller/daemon, 1.22 and later): which
Pods it makes and deletes.  It is a stand-in without a server; the time is an argument."""

import math
from dataclasses import dataclass


@dataclass(eq=False)
class Pod:
    node: str
    revision: int
    ready_since: float | None = None  # None: not ready
    is_ending: bool = False  # deleted, and not gone yet

    def is_available(self, strategy, now):
        return self.ready_since is not None and now >= self.ready_since + strategy.min_ready


@dataclass
class Strategy:
    """`surge`: a number, or a percentage of the nodes, which is rounded up."""
    surge: int | str
    min_ready: float

    @classmethod
    def of(cls, daemonset):
        spec = daemonset["spec"]
        assert spec["updateStrategy"]["type"] == "RollingUpdate" and spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 0
        return cls(spec["updateStrategy"]["rollingUpdate"]["maxSurge"], spec["minReadySeconds"])

    def surge_of(self, count):
        if isinstance(self.surge, int):
            return self.surge
        return math.ceil(count * int(self.surge.removesuffix("%")) / 100)


def decide(pods, nodes, revision, strategy, now):
    """(the Pods to delete, the nodes that get a Pod of `revision`).  The next call must see the decisions of this one.
    REQUIRES: `pods` are in the order in which they were made."""
    of_node = {node: [] for node in nodes}
    for pod in pods:
        of_node[pod.node].append(pod)
    # The controller updates nothing while it has something to mend.
    ended, new = _mend(of_node, revision, strategy, now)
    return (ended, new) if ended or new else _update(of_node, revision, strategy, now)


def _mend(of_node, revision, strategy, now):
    """Each node has a Pod.  An old Pod ends beside a new one that is available, or if it is not ready itself."""
    ended = []
    for on_node in of_node.values():
        new, old = _split(on_node, revision)
        ended += new[1:] + old[1:]
        if new and old and (old[0].ready_since is None or new[0].is_available(strategy, now)):
            ended.append(old[0])
    return ended, [node for node, on_node in of_node.items() if not on_node]


def _update(of_node, revision, strategy, now):
    surging, at_once, candidates = 0, [], []
    for node, on_node in of_node.items():
        new, old = _split(on_node, revision)
        if new and old:
            surging += 1
        elif old:
            (candidates if old[0].is_available(strategy, now) else at_once).append(node)
    room = max(0, strategy.surge_of(len(of_node)) - surging)
    return [], at_once + candidates[:room]


def _split(on_node, revision):
    """(the Pods of `revision`, the others), but for those that end."""
    going = [pod for pod in on_node if not pod.is_ending]
    return [pod for pod in going if pod.revision == revision], [pod for pod in going if pod.revision != revision]
