# SPDX-License-Identifier: Apache-2.0
"""The address of a client: IPv4 is IPv4 on a socket of both families, and a connection does not outlive who has it."""

import dns.edns
import pytest

from harness.dns_client import Question, ask, frame, open_tcp, parse, read_frame
from harness.ports import free_port
from harness.preset import THREADS
from harness.waiting import eventually

pytestmark = THREADS

BOTH = pytest.mark.parametrize("listen", ["0.0.0.0", "[::]"])
TRANSPORTS = ("udp", "tcp")


def pod(name, namespace, ip):
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": {},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}}


def private(namespace, address):
    return {"kind": "ServiceEntry", "metadata": {"name": "private", "namespace": namespace},
            "spec": {"hosts": ["private.example.org"], "addresses": [address], "resolution": "STATIC", "exportTo": ["."]}}


def start(workspace, listen, change, upstreams=("127.0.0.1:9",)):
    port = free_port()
    daemon = workspace.daemon({"server": {"listen": [f"{listen}:{port}"], **change.pop("server", {})}, **change},
                              upstreams=upstreams)
    return daemon, ("127.0.0.1", port)


@BOTH
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_allow_and_chaos_take_ipv4_for_ipv4(workspace, listen, transport):
    workspace.write("hosts.yaml", {**private("default", "10.0.0.1")})
    daemon, server = start(workspace, listen, {"server": {"allow": ["127.0.0.0/30"]}, "log": {"queries": {"class": "all"}}})
    answer = ask(server, Question("private.example.org.", source="127.0.0.1"), transport)
    assert answer.addresses() == ["10.0.0.1"]
    daemon.wait_for_log(r"INFO query client=127\.0\.0\.1:\d+ ")
    assert ask(server, Question("private.example.org.", source="127.0.0.4"), transport).rcode == "REFUSED"
    version = Question("version.server.", "TXT", rdclass="CH", source="127.0.0.1")
    assert ask(server, version, transport).rcode == "NOERROR"


@BOTH
def test_an_ipv4_mapped_prefix_is_one_of_ipv4(workspace, listen):
    workspace.write("hosts.yaml", private("default", "10.0.0.1"))
    _, server = start(workspace, listen, {"server": {"allow": ["::ffff:127.0.0.0/126"]}})
    assert ask(server, Question("private.example.org.", source="127.0.0.1")).addresses() == ["10.0.0.1"]
    assert ask(server, Question("private.example.org.", source="127.0.0.4")).rcode == "REFUSED"


@BOTH
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_identity_takes_ipv4_for_ipv4(workspace, listen, transport):
    workspace.write("all.yaml", private("shop", "10.0.0.1"), pod("a", "shop", "127.0.0.11"), pod("b", "web", "127.0.0.12"))
    upstream = workspace.upstream(["private.example.org. A 192.0.2.1"])
    _, server = start(workspace, listen, {"client": {"by_source_address": True}}, [upstream])
    for source, address in (("127.0.0.11", "10.0.0.1"), ("127.0.0.12", "192.0.2.1"), ("127.0.0.13", "192.0.2.1")):
        assert ask(server, Question("private.example.org.", source=source), transport).addresses() == [address]


@BOTH
def test_the_rate_limit_takes_each_ipv4_client_by_itself(workspace, listen):
    """By its /64, all of IPv4 would be one client."""
    workspace.write("hosts.yaml", private("default", "10.0.0.1"))
    _, server = start(workspace, listen, {"server": {"workers": 1, "rate_limit": {"responses_per_second": 2, "slip": 1},
                                                     "cookies": {"mode": "off"}}})
    answers = [ask(server, Question("private.example.org.", source="127.0.0.21")) for _ in range(20)]
    assert any(not answer.addresses() for answer in answers)
    assert ask(server, Question("private.example.org.", source="127.0.0.22")).addresses() == ["10.0.0.1"]


@BOTH
def test_a_cookie_is_good_for_the_ipv4_address_that_got_it(workspace, listen):
    workspace.write("hosts.yaml", private("default", "10.0.0.1"))
    _, server = start(workspace, listen, {"server": {"workers": 1, "cookies": {"mode": "on"},
                                                     "rate_limit": {"responses_per_second": 2, "slip": 1}}})

    def ask_with(cookie, source):
        answer = ask(server, Question("private.example.org.", source=source, options=[dns.edns.GenericOption(10, cookie)]))
        return answer, next(o.to_wire() for o in answer.message.options if o.otype == 10)

    cookie = ask_with(b"12345678", "127.0.0.21")[1]
    # The limit spares the address that the cookie was made for, and no other.
    assert all(ask_with(cookie, "127.0.0.21")[0].addresses() for _ in range(20))
    assert not all(ask_with(cookie, "127.0.0.22")[0].addresses() for _ in range(20))


@BOTH
def test_an_address_that_passes_to_another_pod_does_so_on_open_connections(workspace, listen):
    workspace.write("hosts.yaml", private("shop", "10.0.0.1"))
    workspace.write("pods.yaml", pod("a", "shop", "127.0.0.11"))
    upstream = workspace.upstream(["private.example.org. A 192.0.2.1", "slow.example.net. A 192.0.2.9"],
                                  [{"match": "slow.example.net.", "delay": 1.5}])
    _, server = start(workspace, listen, {"client": {"by_source_address": True}, "upstream": {"timeout": "10s"}}, [upstream])

    def addresses(tcp):
        wire = read_frame(tcp)
        assert wire is not None, "the connection is closed"
        answer = parse(None, "tcp", wire, 0)
        return str(answer.message.question[0].name), answer.addresses()

    def send(tcp, *names):
        tcp.sendall(b"".join(frame(Question(name).to_message().to_wire()) for name in names))

    mine = ("private.example.org.", ["10.0.0.1"])
    with open_tcp(server, "127.0.0.11", timeout=20) as tcp:
        send(tcp, "private.example.org.")
        assert addresses(tcp) == mine
        # Asked for by the first Pod, answered when the address is another's.
        send(tcp, "slow.example.net.", "private.example.org.")
        assert addresses(tcp) == mine
        workspace.write("pods.yaml", pod("b", "web", "127.0.0.11"))
        eventually(lambda: ask(server, Question("private.example.org.", source="127.0.0.11")).addresses() == ["192.0.2.1"])
        send(tcp, "private.example.org.")
        rest = dict(addresses(tcp) for _ in range(2))
        assert rest == {"slow.example.net.": ["192.0.2.9"], "private.example.org.": ["192.0.2.1"]}
        # And back again, and to nobody.
        for ip, address in (("127.0.0.11", "10.0.0.1"), ("127.0.0.99", "192.0.2.1")):
            workspace.write("pods.yaml", pod("c", "shop", ip))
            eventually(lambda: ask(server, Question("private.example.org.", source="127.0.0.11")).addresses() == [address])
            send(tcp, "private.example.org.")
            assert addresses(tcp) == ("private.example.org.", [address])
