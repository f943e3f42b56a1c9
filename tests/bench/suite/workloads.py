# SPDX-License-Identifier: Apache-2.0
"""The questions of each workload, the servers that are asked, and their correct answers."""

import dataclasses
from collections.abc import Callable

from suite import data


@dataclasses.dataclass(frozen=True)
class Workload:
    """`questions` names a method of data.Questions; `expect(world, name)` is the reply (rcode, addresses)."""

    name: str
    title: str
    role: str                 # local, cache, tls or clients
    names: int                # the size of the world
    questions: str
    expect: Callable
    options: tuple = ()       # of the load generator
    tcp: bool = False
    only: tuple = ()          # servers; () = all of the role
    quick: bool = True        # part of --quick
    rate: bool = False        # latency at a fixed rate, too


def _known(world, name):
    return 0, world.expected(name)


def _unknown(_world, _name):
    return 3, []


def _searched(world, name):
    return 0, world.expected(name.split(".default.svc.")[0])


def _cached(_world, name):
    return 0, [data.address(5, int(name[7:13]))]


def _missed(_world, _name):
    return 0, ["10.99.0.1"]


TCP = ("--tcp", "--sockets", "8", "--window", "128")
OURS = ("echo", "meshdnsd")

ALL = [
    Workload("vip-1k", "one address, 1,000 names", "local", 1_000, "hits", _known, quick=False),
    Workload("vip-10k", "one address, 10,000 names", "local", 10_000, "hits", _known, rate=True),
    Workload("vip-100k", "one address, 100,000 names", "local", 100_000, "hits", _known, rate=True),
    Workload("rotation", "three addresses, rotated", "local", 10_000, "rotated", _known),
    Workload("wildcard", "below 1,000 wildcards", "local", 10_000, "wildcards", _known),
    Workload("nxdomain", "unknown names of the cluster domain", "local", 10_000, "unknown", _unknown),
    Workload("search", "with a search domain appended: CNAME and address", "local", 10_000, "searched", _searched,
             only=OURS),
    Workload("tcp", "one address, 8 TCP connections, 16 queries in flight on each", "local", 10_000, "hits", _known,
             TCP, tcp=True),
    Workload("headless-tcp", "300 addresses over TCP", "local", 10_000, "headless", _known,
             ("--tcp", "--sockets", "8", "--window", "16"), tcp=True, quick=False),
    Workload("views", "one address, clients of 200 namespaces by their source address", "clients", 10_000, "of_clients",
             _known, data.CLIENTS.option, only=OURS),
    Workload("cache-hit", "names of an upstream, cached", "cache", 10_000, "cached", _cached, rate=True),
    Workload("cache-miss", "names of an upstream, asked for the first time", "cache", 10_000, "missed", _missed,
             ("--window", "64"), quick=False),
    Workload("tls-miss", "names of an upstream over TLS, asked for the first time", "tls", 10_000, "missed", _missed,
             ("--window", "64"), quick=False),
]
