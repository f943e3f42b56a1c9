# SPDX-License-Identifier: Apache-2.0
"""The distribution's DNS servers as upstreams: each on a free loopback port, with generated configuration in
a directory of the test, run as whoever runs the tests."""

import os
import pathlib
import shutil
import signal

import dns.exception
import dns.query
import dns.message

from harness.ports import free_port
from harness.process import Process
from harness.waiting import eventually

_ZONE_HEAD = """\
$ORIGIN {zone}
$TTL {ttl}
@ SOA {soa_names} {serial} {soa_times}
@ NS {name_server}
{name_server} A 127.0.0.1
"""


def find_program(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    assert path, f"{name} is not installed; `./dev test` installs what the tests need"
    return path


def wait_until_answering(port, zone):
    def answers():
        query = dns.message.make_query(zone, "SOA")
        try:
            return bool(dns.query.udp(query, "127.0.0.1", timeout=0.5, port=port).answer)
        except (dns.exception.DNSException, OSError):
            return False

    eventually(answers, 15.0)


class Authority:
    """An authoritative server of one zone, whose records can be replaced while it runs."""

    def __init__(self, directory, zone, records, ttl=1, soa=None, name_server="ns"):
        """`soa`: the names in front of the serial, the times behind it."""
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.zone = zone
        self.ttl = ttl
        self.soa = soa or (f"{name_server} hostmaster", f"3600 600 86400 {ttl}")
        self.name_server = name_server
        self.port = free_port()
        self._serial = 0
        self._write_zone(records)
        self.process = Process(self._command(), type(self).__name__.lower(), cwd=self.directory)
        try:
            wait_until_answering(self.port, zone)
        except AssertionError as error:
            self.process.kill()
            raise AssertionError(f"{error}\n{self.process.log_tail()}") from None

    @property
    def server(self):
        return f"127.0.0.1:{self.port}"

    def _write_zone(self, records):
        self._serial += 1
        text = _ZONE_HEAD.format(zone=self.zone, ttl=self.ttl, serial=self._serial,
                                 soa_names=self.soa[0], soa_times=self.soa[1], name_server=self.name_server)
        path = self.directory / "zone"
        new = self.directory / "zone.new"
        new.write_text(text + "\n".join(records) + "\n")
        os.replace(new, path)

    def set(self, records):
        """Replaces the zone's records (zone-file lines) and waits until they are served."""
        self._write_zone(records)
        self.process.send_signal(signal.SIGHUP)
        eventually(self._serves_current_serial, 15.0)

    def _serves_current_serial(self):
        query = dns.message.make_query(self.zone, "SOA")
        try:
            answer = dns.query.udp(query, "127.0.0.1", timeout=0.5, port=self.port)
        except (dns.exception.DNSException, OSError):
            return False
        return any(rdata.serial == self._serial for rrset in answer.answer for rdata in rrset)

    def close(self):
        self.process.stop()

    def kill(self):
        self.process.kill()


class Nsd(Authority):
    def _command(self):
        config = self.directory / "nsd.conf"
        config.write_text(f"""\
server:
    ip-address: 127.0.0.1@{self.port}
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: "{self.directory}"
    database: ""
    pidfile: "{self.directory}/nsd.pid"
    zonelistfile: "{self.directory}/zone.list"
    xfrdfile: "{self.directory}/xfrd.state"
    xfrdir: "{self.directory}"
    zonefiles-check: yes
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: {self.zone}
    zonefile: zone
""")
        return [find_program("nsd"), "-d", "-c", config]


class Knot(Authority):
    def __init__(self, *arguments, cookie_secret="", **options):
        """`cookie_secret`: 32 hexadecimal digits; UDP without a cookie made with it gets BADCOOKIE."""
        self._cookie_secret = cookie_secret
        super().__init__(*arguments, **options)

    def _command(self):
        cookies, module = "", ""
        if self._cookie_secret:
            cookies = f"""mod-cookies:
  - id: shared
    secret: 0x{self._cookie_secret}
    badcookie-slip: 1
"""
            module = "    module: mod-cookies/shared\n"
        config = self.directory / "knot.conf"
        config.write_text(f"""\
server:
    rundir: "{self.directory}"
    listen: 127.0.0.1@{self.port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "{self.directory}"
log:
  - target: stderr
    any: warning
{cookies}zone:
  - domain: {self.zone}
    storage: "{self.directory}"
    file: zone
    zonefile-load: whole
    journal-content: none
{module}""")
        return [find_program("knotd"), "-c", config]


class Unbound:
    """A recursive server: names of `stubs` (zone to "ip:port") come from there, `data` is its own."""

    def __init__(self, directory, stubs=None, data=()):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        lines = [
            "server:", "  do-daemonize: no", '  username: ""', '  chroot: ""',
            f'  directory: "{self.directory}"', f'  pidfile: "{self.directory}/unbound.pid"',
            "  use-syslog: no", f"  interface: 127.0.0.1@{self.port}", "  do-ip6: no",
            "  do-not-query-localhost: no", '  module-config: "iterator"', "  num-threads: 1",
            "  so-rcvbuf: 0", "  so-sndbuf: 0",
            '  local-zone: "test." nodefault', '  local-zone: "alive.test." static',
            '  local-data: "alive.test. SOA a. b. 1 2 3 4 5"',
        ]
        for record in data:
            lines.append(f"  local-data: '{record}'")
        for zone, server in (stubs or {}).items():
            host, _, port = server.rpartition(":")
            lines += [f'  domain-insecure: "{zone}"', "stub-zone:", f'  name: "{zone}"',
                      f"  stub-addr: {host}@{port}", "server:"]
        lines += ["remote-control:", "  control-enable: no"]
        config = self.directory / "unbound.conf"
        config.write_text("\n".join(lines) + "\n")
        self.process = Process([find_program("unbound"), "-d", "-p", "-c", config], "unbound",
                               cwd=self.directory)
        try:
            wait_until_answering(self.port, "alive.test.")
        except AssertionError as error:
            self.process.kill()
            raise AssertionError(f"{error}\n{self.process.log_tail()}") from None

    @property
    def server(self):
        return f"127.0.0.1:{self.port}"

    def close(self):
        self.process.stop()

    def kill(self):
        self.process.kill()
