# SPDX-License-Identifier: Apache-2.0
"""Memory and start-up time: the cost of 100,000 names, compared with a server that has ten."""

import dataclasses
import shutil
import time

from suite import client, data, servers
from suite.measure import SERVER_CORE, say
from suite.process import NotMeasurable, Server, free_port

FEW = 10
# Time after which a server has read its files again and released the memory that it needed for that.
SETTLED_SECONDS = 15
WITH_DATA = ("meshdnsd", "nsd", "knot", "bind", "unbound", "pdns-recursor", "dnsmasq")


@dataclasses.dataclass
class Footprint:
    server: str
    empty_mib: float = 0
    full_mib: float = 0
    start_seconds: float = 0
    why_not: str = ""

    @property
    def data_mib(self):
        return self.full_mib - self.empty_mib


def measure(programs, scratch, names, wanted, settles):
    """A Footprint per server that holds the names itself; ours once per form of manifest.  `settles`: memory is that of
    a server that has been left alone for a while."""
    found = []
    for name in WITH_DATA:
        for form in ("yaml", "json") if name == "meshdnsd" else ("",):
            if name not in wanted:
                continue
            label = f"{name} ({form.upper()})" if form else name
            footprint = Footprint(label)
            try:
                rest = SETTLED_SECONDS if settles else 0
                footprint.empty_mib, _ = _start(programs, scratch, name, form, FEW, rest)
                footprint.full_mib, footprint.start_seconds = _start(programs, scratch, name, form, names, rest)
            except NotMeasurable as reason:
                footprint.why_not = str(reason)
            say(f"   {label:18}{footprint.why_not or _brief(footprint)}")
            found.append(footprint)
    if "meshdnsd" in wanted:
        found.append(_measure_restart(programs, scratch, names))
    return found


def _measure_restart(programs, scratch, names):
    """Our second start, from what the first has left in `state_dir`; it has nothing else to read."""
    footprint = Footprint("meshdnsd (state of the last run)")
    world, place = _prepare(programs, scratch, "meshdnsd", "json", names)
    place.state.mkdir()
    last = data.host(names - 1)
    answers = lambda: client.ask(place.port, last, 0.02) == (0, world.expected(last))  # noqa: E731
    try:
        command = servers.meshdnsd(place)
        first = Server("meshdnsd", command, place.directory, place.port, SERVER_CORE)
        try:
            first.wait_until(answers)
        finally:
            first.stop()  # it writes its state
        if not (place.state / "snapshot").exists():
            raise NotMeasurable("the first run has left no state")
        (place.directory / "resources").rename(place.directory / "hidden")
        second = Server("meshdnsd", command, place.directory, place.port, SERVER_CORE)
        try:
            footprint.start_seconds = second.wait_until(answers)
        finally:
            second.stop()
    except NotMeasurable as reason:
        footprint.why_not = str(reason)
    finally:
        shutil.rmtree(place.directory, ignore_errors=True)
    say(f"   {footprint.server}: {footprint.why_not or f'answers after {footprint.start_seconds:.2f} s'}")
    return footprint


def _prepare(programs, scratch, name, form, names):
    """The world and the place of a server that serves it."""
    directory = scratch / f"footprint-{name}-{form}-{names}"
    shutil.rmtree(directory, ignore_errors=True)
    files = directory / "zones"
    files.mkdir(parents=True)
    world = data.World(names)
    data.write_zone_file(files / f"{data.ZONE}.zone", world)
    data.write_empty_zone_file(files / f"{data.CLUSTER}.zone", data.CLUSTER)
    return world, servers.Place(directory=directory, port=free_port(), programs=programs, world=world, files=files,
                                manifests=form or "yaml", state=directory / "state")


def _start(programs, scratch, name, form, names, rest_seconds):
    """Memory in MiB after a rest, and how long the start took."""
    world, place = _prepare(programs, scratch, name, form, names)
    server = Server(name, servers.LOCAL[name](place), place.directory, place.port, SERVER_CORE)
    try:
        last = data.host(names - 1)
        seconds = server.wait_until(lambda: client.ask(place.port, last, 0.02) == (0, world.expected(last)))
        for index in range(0, names, max(1, names // 200)):
            client.ask(place.port, data.host(index))
        time.sleep(rest_seconds)
        return server.memory_mib(), seconds
    finally:
        server.stop()
        shutil.rmtree(place.directory, ignore_errors=True)


def _brief(footprint):
    return f"{footprint.data_mib:7.1f} MiB beyond {footprint.empty_mib:.1f}, answers after {footprint.start_seconds:.2f} s"
