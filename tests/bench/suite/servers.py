# SPDX-License-Identifier: Apache-2.0
"""Each server, configured at its fastest on one core: no logs, no statistics, minimal responses, one thread.

A function `NAME(place)` per server writes its configuration into `place.directory` and returns the command.  `local`
servers answer a world of their own knowledge; `cache` servers forward to an upstream.
"""

import dataclasses
import pathlib
import subprocess

from suite import data
from suite.process import find_program

TLS_NAME = "upstream.example"


@dataclasses.dataclass
class Place:
    """The port, address and directory of a server, and the data that it serves."""

    directory: pathlib.Path
    port: int
    programs: pathlib.Path            # our own: the build directory
    address: str = "127.0.0.1"
    world: data.World | None = None   # of a local server
    upstream: int = 0                 # port on 127.0.0.1, of a cache
    certificate: pathlib.Path | None = None  # of an upstream that is asked over TLS, for TLS_NAME
    manifests: str = "yaml"           # or json
    clients: data.Clients | None = None  # of many namespaces, by their source address
    files: pathlib.Path | None = None  # zone files that were written once for all
    state: pathlib.Path | None = None  # where ours keeps its state; not kept unless the directory is there
    kernel_maps: pathlib.Path | None = None  # where ours puts answers into the kernel

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path


# --- ours -------------------------------------------------------------------------------------------------------------

def echo(place):
    return [place.programs / "bench_echo", place.address, place.port]


def meshdnsd(place):
    resources = place.directory / "resources"
    resources.mkdir()
    if place.world is not None:
        write = data.write_manifests_json if place.manifests == "json" else data.write_manifests_yaml
        write(resources / f"world.{place.manifests}", place.world)
        if place.clients:
            data.write_client_manifests(resources / "clients.yaml", place.clients)
    upstream = f'"127.0.0.1:{place.upstream}"' if place.upstream else '"127.0.0.1:9"'
    tls = ""
    if place.certificate:
        upstream = f'"tls://127.0.0.1:{place.upstream}#{TLS_NAME}"'
        tls = f", tls: {{ ca_file: {place.certificate} }}"
    by_source = str(place.clients is not None).lower()
    kernel = f", kernel_answers: on, kernel_maps: {place.kernel_maps}" if place.kernel_maps else ""
    state = place.state if place.state and place.state.is_dir() else '""'
    config = place.write("meshdns.yaml", f"""\
server: {{ listen: ["{place.address}:{place.port}"], workers: 1{kernel} }}
admin: {{ listen: "" }}
log: {{ level: warn }}
mesh: {{ authoritative: true }}
client: {{ by_source_address: {by_source} }}
sources: [ {{ files: {{ path: {resources} }} }} ]
upstream: {{ servers: [{upstream}]{tls} }}
state_dir: {state}
""")
    return [place.programs / "meshdnsd", "run", "--config", config]


# --- peers that serve zones -------------------------------------------------------------------------------------------

def nsd(place):
    directory = place.directory
    zones = "".join(f'zone:\n    name: {zone}\n    zonefile: "{path}"\n' for zone, path in _zone_files(place))
    config = place.write("nsd.conf", f"""\
server:
    ip-address: {place.address}@{place.port}
    server-count: 1
    do-ip6: no
    username: ""
    chroot: ""
    zonesdir: "{directory}"
    database: ""
    pidfile: "{directory}/nsd.pid"
    zonelistfile: "{directory}/zone.list"
    xfrdfile: "{directory}/xfrd.state"
    xfrdir: "{directory}"
    minimal-responses: yes
    round-robin: yes
    rrl-ratelimit: 0
    tcp-count: 200
remote-control:
    control-enable: no
{zones}""")
    return [find_program("nsd"), "-d", "-c", config]


def knot(place):
    directory = place.directory
    zones = "".join(f'  - domain: {zone}\n    file: "{path}"\n    zonefile-load: whole\n    journal-content: none\n'
                    for zone, path in _zone_files(place))
    config = place.write("knot.conf", f"""\
server:
    rundir: "{directory}"
    listen: {place.address}@{place.port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    answer-rotation: on
database:
    storage: "{directory}"
log:
  - target: stderr
    any: error
zone:
{zones}""")
    return [find_program("knotd"), "-c", config]


def bind(place):
    directory = place.directory
    if place.world is not None:
        body = "".join(f'zone "{zone}" {{ type primary; file "{path}"; }};\n' for zone, path in _zone_files(place))
        role = "recursion no;"
    else:
        body = ""
        role = f"""recursion yes; allow-recursion {{ any; }}; forward only;
    forwarders {{ 127.0.0.1 port {place.upstream}; }};"""
    config = place.write("named.conf", f"""\
options {{
    directory "{directory}"; pid-file none; session-keyfile none; dnssec-validation no;
    listen-on port {place.port} {{ {place.address}; }}; listen-on-v6 {{ none; }};
    minimal-responses yes; zone-statistics no; notify no; empty-zones-enable no;
    max-records-per-type 0;
    {role}
}};
controls {{ }};
logging {{ category default {{ null; }}; category unmatched {{ null; }}; }};
{body}""")
    return [find_program("named"), "-f", "-n", "1", "-U", "1", "-c", config]


# --- peers that resolve, forward or cache -----------------------------------------------------------------------------

def unbound(place):
    local = []
    if place.world is not None:
        local.append(f'  local-zone: "{data.ZONE}." static')
        local += [f'  local-data: "{name}. 30 A {a}"' for name, addresses in place.world.sets for a in addresses]
        for name, a in place.world.wildcards:
            local += [f'  local-zone: "{name}." redirect', f'  local-data: "{name}. 30 A {a}"']
        local += [f'  local-zone: "{data.CLUSTER}." static',
                  f'  local-data: "{data.CLUSTER}. 5 SOA ns.{data.CLUSTER}. h.{data.CLUSTER}. 1 2 3 4 5"']
    body = "\n".join(local)
    forward = f"forward-zone:\n  name: \".\"\n  forward-addr: 127.0.0.1@{place.upstream}" if place.upstream else ""
    if place.certificate:
        forward += f"#{TLS_NAME}\n  forward-tls-upstream: yes"
        body += f'  tls-cert-bundle: "{place.certificate}"\n'
    config = place.write("unbound.conf", f"""\
server:
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{place.directory}"
  pidfile: "{place.directory}/unbound.pid"
  use-syslog: no
  verbosity: 0
  interface: {place.address}@{place.port}
  access-control: 0.0.0.0/0 allow
  do-ip6: no
  do-not-query-localhost: no
  module-config: "iterator"
  num-threads: 1
  so-reuseport: yes
  minimal-responses: yes
  rrset-roundrobin: yes
  msg-cache-size: 128m
  rrset-cache-size: 128m
  incoming-num-tcp: 200
  outgoing-range: 4096
  num-queries-per-thread: 2048
{body}
remote-control:
  control-enable: no
{forward}""")
    return [find_program("unbound"), "-d", "-c", config]


def dnsdist(place):
    tls = f', tls="openssl", caStore="{place.certificate}", subjectName="{TLS_NAME}"' if place.certificate else ""
    config = place.write("dnsdist.lua", f"""\
setLocal("{place.address}:{place.port}", {{tcpFastOpenQueueSize=0}})
setACL({{"0.0.0.0/0"}})
newServer({{address="127.0.0.1:{place.upstream}", healthCheckMode="up", sockets=4{tls}}})
setRingBuffersSize(1, 1)
setMaxUDPOutstanding(65535)
setVerboseHealthChecks(false)
pc = newPacketCache(400000, {{maxTTL=86400, minTTL=0, keepStaleData=false, numberOfShards=1}})
getPool(""):setCache(pc)
setUDPMultipleMessagesVectorSize(64)
""")
    return [find_program("dnsdist"), "--supervised", "--disable-syslog", "-C", config]


def tls_front(place):
    """Answers over TLS what the server at `place.upstream` answers; writes its certificate to `certificate.pem`."""
    certificate, key = place.directory / "certificate.pem", place.directory / "key.pem"
    subprocess.run([find_program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-days", "2", "-subj", f"/CN={TLS_NAME}", "-addext", f"subjectAltName=DNS:{TLS_NAME}",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    config = place.write("dnsdist.lua", f"""\
setLocal("127.0.0.1:{place.port}")
addTLSLocal("127.0.0.1:{place.port + 1}", "{certificate}", "{key}", {{provider="openssl"}})
setACL({{"127.0.0.0/8"}})
newServer({{address="127.0.0.1:{place.upstream}", healthCheckMode="up", sockets=4}})
setRingBuffersSize(1, 1)
setMaxUDPOutstanding(65535)
""")
    return [find_program("dnsdist"), "--supervised", "--disable-syslog", "-C", config]


def recursor(place):
    settings = [
        f"local-address={place.address}", f"local-port={place.port}", "threads=1", "pdns-distributes-queries=no",
        "reuseport=yes", "distributor-threads=0", "quiet=yes", "loglevel=3", "daemon=no", "write-pid=no",
        f"socket-dir={place.directory}", f"config-dir={place.directory}", "security-poll-suffix=", "dnssec=off",
        "max-packetcache-entries=400000", "packetcache-ttl=86400", "stats-ringbuffer-entries=0",
        "max-cache-entries=400000", "dont-query=", "disable-syslog=yes", "any-to-tcp=no", "max-mthreads=4096",
        "statistics-interval=0", "structured-logging=no", "root-nx-trust=no", "max-negative-ttl=3600",
    ]
    if place.world is not None:
        zones = ",".join(f"{zone}={path}" for zone, path in _zone_files(place))
        settings.append(f"auth-zones={zones}")
    else:
        settings.append(f"forward-zones=.=127.0.0.1:{place.upstream}")
    place.write("recursor.conf", "\n".join(settings) + "\n")
    return [find_program("pdns_recursor"), f"--config-dir={place.directory}"]


def knot_resolver(place):
    config = place.write("kresd.conf", f"""\
net.listen('{place.address}', {place.port}, {{ kind = 'dns' }})
net.ipv6 = false
modules.unload('ta_update')
modules.unload('ta_signal_query')
modules.unload('ta_sentinel')
modules.unload('priming')
modules.unload('detect_time_skew')
trust_anchors.remove('.')
cache.open(200 * MB, 'lmdb://{place.directory}/cache')
policy.add(policy.all(policy.FORWARD('127.0.0.1@{place.upstream}')))
""")
    return [find_program("kresd"), "-n", "-q", "-c", config, place.directory]


def dnsmasq(place):
    lines = [f"port={place.port}", f"listen-address={place.address}", "bind-interfaces", "no-resolv", "no-hosts",
             "cache-size=200000", "user=root", "group=root", f"pid-file={place.directory}/dnsmasq.pid", "no-poll",
             "dns-forward-max=4096", "log-facility=-", "local-ttl=30", "max-cache-ttl=86400"]
    if place.world is not None:
        hosts = "".join(f"{a} {name}\n" for name, addresses in place.world.sets for a in addresses)
        lines += [f"addn-hosts={place.write('hosts', hosts)}", f"local=/{data.ZONE}/", f"local=/{data.CLUSTER}/"]
        lines += [f"address=/{name}/{a}" for name, a in place.world.wildcards]
    else:
        lines.append(f"server=127.0.0.1#{place.upstream}")
    config = place.write("dnsmasq.conf", "\n".join(lines) + "\n")
    return [find_program("dnsmasq"), "-k", "-C", config]


def _zone_files(place):
    yield from ((path.stem, path) for path in sorted(place.files.glob("*.zone")))


# dnsdist has no data of its own: in front of NSD its packet cache answers.
LOCAL = {"echo": echo, "meshdnsd": meshdnsd, "nsd": nsd, "knot": knot, "bind": bind, "unbound": unbound,
         "dnsdist": dnsdist, "pdns-recursor": recursor, "knot-resolver": knot_resolver, "dnsmasq": dnsmasq}
CACHE = {"echo": echo, "meshdnsd": meshdnsd, "dnsdist": dnsdist, "unbound": unbound, "bind": bind,
         "pdns-recursor": recursor, "knot-resolver": knot_resolver, "dnsmasq": dnsmasq}
TLS = {"echo": echo, "meshdnsd": meshdnsd, "dnsdist": dnsdist, "unbound": unbound}
OF_ROLE = {"cache": CACHE, "tls": TLS}  # of all others: LOCAL
# These answer local names from a cache in front of NSD.
BEHIND_NSD = {"dnsdist", "knot-resolver"}
