"""Memory and start: what 100,000 names cost beyond a server that has next to none."""

import dataclasses
import shutil

from suite import client, data, servers
from suite.measure import SERVER_CORE, say
from suite.process import NotMeasurable, Server, free_port

FEW = 10
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


def measure(programs, scratch, names, wanted):
    """A Footprint per server that holds the names itself; ours once per form of manifest."""
    found = []
    for name in WITH_DATA:
        for form in ("yaml", "json") if name == "meshdnsd" else ("",):
            if name not in wanted:
                continue
            label = f"{name} ({form.upper()})" if form else name
            footprint = Footprint(label)
            try:
                footprint.empty_mib, _ = _start(programs, scratch, name, form, FEW)
                footprint.full_mib, footprint.start_seconds = _start(programs, scratch, name, form, names)
            except NotMeasurable as reason:
                footprint.why_not = str(reason)
            say(f"   {label:18}{footprint.why_not or _brief(footprint)}")
            found.append(footprint)
    return found


def _start(programs, scratch, name, form, names):
    directory = scratch / f"footprint-{name}-{form}-{names}"
    shutil.rmtree(directory, ignore_errors=True)
    files = directory / "zones"
    files.mkdir(parents=True)
    world = data.World(names)
    data.write_zone_file(files / f"{data.ZONE}.zone", world)
    data.write_empty_zone_file(files / f"{data.CLUSTER}.zone", data.CLUSTER)
    place = servers.Place(directory=directory, port=free_port(), programs=programs, world=world, files=files,
                          manifests=form or "yaml")
    server = Server(name, servers.LOCAL[name](place), directory, place.port, SERVER_CORE)
    try:
        last = data.host(names - 1)
        seconds = server.wait_until(lambda: client.ask(place.port, last, 0.02) == (0, world.expected(last)))
        for index in range(0, names, max(1, names // 200)):
            client.ask(place.port, data.host(index))
        return server.memory_mib(), seconds
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _brief(footprint):
    return f"{footprint.data_mib:7.1f} MiB beyond {footprint.empty_mib:.1f}, answers after {footprint.start_seconds:.2f} s"
