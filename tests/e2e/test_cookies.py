# SPDX-License-Identifier: Apache-2.0
"""DNS cookies for the daemon's own clients (RFC 7873, RFC 9018), as programs of others see them."""

import re
import socket
import struct
import subprocess

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest

from harness.dns_client import Question, ask, ask_wire
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.real_servers import Knot, find_program
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

ENTRY = {"kind": "ServiceEntry", "metadata": {"name": "api"},
         "spec": {"hosts": ["api.example.org"], "addresses": ["192.0.2.1"], "resolution": "STATIC"}}
COOKIE = dns.edns.OptionType.COOKIE
CLIENT = b"12345678"
SECRETS = ["e5e973e5a6b2a43f48e7dc849e37bfcf", "445536bcd2513298075a5d379663c962"]


@pytest.fixture
def start(workspace):
    workspace.write("api.yaml", ENTRY)

    def start(mode="on", secret_file="", **server):
        return workspace.daemon({"server": {"cookies": {"mode": mode, "secret_file": str(secret_file)}, **server},
                                 "admin": {"listen": f"127.0.0.1:{free_port()}"}})
    return start


def cookie_of(message):
    """Returns the data of the COOKIE option; None if there is none."""
    found = [option for option in message.options if option.otype == COOKIE]
    assert len(found) <= 1
    # Later versions of dnspython have a class of their own for it.
    return found[0].to_wire() if found else None


def ask_with(server, cookie, name="api.example.org.", transport="udp"):
    return ask(server, Question(name, options=[dns.edns.GenericOption(COOKIE, cookie)]), transport)


def learn(server, **options):
    cookie = cookie_of(ask_with(server, CLIENT, **options).message)
    assert len(cookie) == 24 and cookie.startswith(CLIENT)
    return cookie


def verdicts(daemon):
    """How many cookies were of which kind."""
    text = daemon.get("/metrics")[1]
    return {kind: int(float(count)) for kind, count
            in re.findall(r'^meshdns_dns_cookies_total{cookie="(\w+)"} (\S+)$', text, re.M)}


def ask_without_question(daemon, cookie):
    option = struct.pack("!HH", COOKIE, len(cookie)) + cookie if cookie else b""
    wire = (struct.pack("!6H", 0x1234, 0x0100, 0, 0, 0, 1)
            + b"\0" + struct.pack("!HHIH", 41, 1232, 0, len(option)) + option)
    return dns.message.from_wire(ask_wire(daemon.server, wire))


def run(program, daemon, *arguments):
    host, port = daemon.server
    result = subprocess.run([find_program(program), f"@{host}", "-p", str(port), *arguments],
                            capture_output=True, text=True, timeout=seconds(15), check=False)
    return result.stdout + result.stderr


@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
def test_dig_learns_a_cookie_that_is_good(start, transport):
    daemon = start()
    # "good": the answer repeats the client's part.
    [cookie] = re.findall(r"^; COOKIE: ([0-9a-f]{48}) \(good\)$", run("dig", daemon, "api.example.org", transport), re.M)
    output = run("dig", daemon, "api.example.org", transport, f"+cookie={cookie}")
    assert re.search(rf"^; COOKIE: {cookie[:16]}01000000[0-9a-f]{{24}} \(good\)$", output, re.M), output
    assert "192.0.2.1" in output
    assert verdicts(daemon) == {"client_only": 1, "valid": 1, "invalid": 0}


def test_dig_learns_a_cookie_without_a_question(start):
    daemon = start()
    output = run("dig", daemon, "+header-only", "+cookie")
    assert "status: NOERROR" in output and "QUERY: 0, ANSWER: 0" in output, output
    assert re.search(r"^; COOKIE: [0-9a-f]{48} \(good\)$", output, re.M), output


def test_kdig_learns_a_cookie_that_is_good(start):
    daemon = start()
    output = run("kdig", daemon, "+cookie", "api.example.org")
    [client, server] = re.findall(r"^;; COOKIE: ([0-9A-Fa-f]{16})([0-9A-Fa-f]{32})$", output, re.M)[0]
    assert "192.0.2.1" in output
    run("kdig", daemon, f"+cookie={client}{server}", "api.example.org")
    assert verdicts(daemon) == {"client_only": 1, "valid": 1, "invalid": 0}


def test_a_question_is_answered_whatever_the_cookie(start):
    daemon = start()
    good = learn(daemon.server)
    for cookie in (good, good[:-1] + bytes([good[-1] ^ 1]), good[:16], CLIENT + b"s" * 32):
        answer = ask_with(daemon.server, cookie)
        assert answer.addresses() == ["192.0.2.1"]
        assert len(cookie_of(answer.message)) == 24
    assert verdicts(daemon) == {"client_only": 1, "valid": 1, "invalid": 3}
    for length in (0, 1, 7, 9, 15, 41):
        assert ask_with(daemon.server, b"c" * length).rcode == "FORMERR", length


def test_without_a_question_the_rcode_says_whether_it_is_good(start):
    daemon = start()
    answer = ask_without_question(daemon, CLIENT)
    good = cookie_of(answer)
    assert answer.rcode() == dns.rcode.NOERROR and not answer.question and len(good) == 24
    assert ask_without_question(daemon, good).rcode() == dns.rcode.NOERROR
    answer = ask_without_question(daemon, good[:-1] + bytes([good[-1] ^ 1]))
    assert answer.rcode() == dns.rcode.BADCOOKIE and len(cookie_of(answer)) == 24
    assert ask_without_question(daemon, b"").rcode() == dns.rcode.FORMERR


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_loopback_clients_get_none_unless_told_so(start, mode):
    daemon = start(mode)
    assert cookie_of(ask_with(daemon.server, CLIENT).message) is None
    assert ask_without_question(daemon, CLIENT).rcode() == dns.rcode.FORMERR
    assert set(verdicts(daemon).values()) == {0}


def test_a_rate_limit_spares_who_has_a_good_one(start):
    daemon = start(workers=1, rate_limit={"responses_per_second": 1, "slip": 1})
    good = learn(daemon.server)
    forged = good[:-1] + bytes([good[-1] ^ 1])

    def truncated(cookie):
        return sum(ask_with(daemon.server, cookie).has(dns.flags.TC) for _ in range(50))
    assert truncated(good) == 0
    assert truncated(forged) > 0
    assert truncated(CLIENT) > 0


def test_servers_of_different_makers_share_a_secret(start, workspace):
    """A cookie of ours is good for Knot DNS, and one of Knot's for us."""
    secret = workspace.path / "secret"
    secret.write_text(SECRETS[0] + "\n")
    daemon = start(secret_file=secret)
    knot = workspace.own(Knot(workspace.path / "knot", "example.net.", ["www A 192.0.2.2"], cookie_secret=SECRETS[0]))
    server = ("127.0.0.1", knot.port)

    stranger = ask_with(server, CLIENT, "www.example.net.")
    assert stranger.rcode == "BADCOOKIE"
    assert ask_with(server, learn(daemon.server), "www.example.net.").addresses() == ["192.0.2.2"]
    before = verdicts(daemon)["valid"]
    ask_with(daemon.server, cookie_of(stranger.message))
    assert verdicts(daemon)["valid"] == before + 1


def test_a_reload_reads_the_secrets_again(start, workspace):
    secret = workspace.path / "secret"
    secret.write_text(SECRETS[0])
    daemon = start(secret_file=secret)
    first = learn(daemon.server)

    def is_good(cookie):
        before = verdicts(daemon)["valid"]
        ask_with(daemon.server, cookie)
        return verdicts(daemon)["valid"] > before

    secret.write_text(SECRETS[1])
    daemon.reload()
    eventually(lambda: not is_good(first))
    second = learn(daemon.server)
    assert is_good(second)
    # Two of them, while servers change from one to the other.
    secret.write_text(f"{SECRETS[0]}\n{SECRETS[1]}\n")
    daemon.reload()
    eventually(lambda: is_good(first))
    assert is_good(second)

    # A file that cannot be read leaves them as they are.
    position = daemon.log_position()
    secret.write_text("e5e9")
    daemon.reload()
    line = daemon.wait_for_log(r"cannot use server\.cookies\.secret_file", after=position)
    assert "secret:1: not a secret of 32 hexadecimal digits" in line and "e5e9" not in line
    assert is_good(first) and is_good(second)


def test_a_secret_that_is_missing_is_said_and_does_without(start, workspace):
    daemon = start(secret_file=workspace.path / "missing")
    daemon.wait_for_log(r"cannot use server\.cookies\.secret_file.*missing: No such file")
    learn(daemon.server)
    assert daemon.ask("api.example.org.").addresses() == ["192.0.2.1"]


def test_a_flood_of_cookies_from_one_socket_is_answered(start):
    """A batch: each answer has the cookie of its own query."""
    daemon = start()
    queries = []
    for i in range(64):
        query = Question("api.example.org.", options=[dns.edns.GenericOption(COOKIE, struct.pack("!Q", i))]).to_message()
        query.id = i
        queries.append(query.to_wire())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(seconds(5))
        for query in queries:
            udp.sendto(query, daemon.server)
        answers = [dns.message.from_wire(udp.recv(4096)) for _ in queries]
    assert {answer.id for answer in answers} == set(range(64))
    for answer in answers:
        assert cookie_of(answer)[:8] == struct.pack("!Q", answer.id)
