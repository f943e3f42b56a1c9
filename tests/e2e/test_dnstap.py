# SPDX-License-Identifier: Apache-2.0
"""dnstap: what `log.dnstap` writes is what its readers read."""

import re
import socket
import struct
import subprocess
import threading
import time

import dns.message
import pytest

from harness.daemon import merge, run_tool
from harness.ports import free_port
from harness.preset import THREADS
from harness.real_servers import find_program
from harness.waiting import eventually, seconds

pytestmark = THREADS

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}
CONTENT_TYPE = b"protobuf:dnstap.Dnstap"
ACCEPT, START, STOP, READY, FINISH = 1, 2, 3, 4, 5


def control(kind, content_type=True):
    field = struct.pack(">II", 1, len(CONTENT_TYPE)) + CONTENT_TYPE if content_type else b""
    return struct.pack(">III", 0, 4 + len(field), kind) + field


class Reader:
    """Listens at a Unix socket as fstrm_capture does, for one stream after the other."""

    def __init__(self, path):
        self.events, self.frames = [], []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while True:
                connection, _ = self._socket.accept()
                with connection, connection.makefile("rb") as stream:
                    self._read(connection, stream)
        except OSError:
            pass

    def _read(self, connection, stream):
        while head := stream.read(4):
            (size,) = struct.unpack(">I", head)
            if size:
                self.frames.append(stream.read(size))
                continue
            (size,) = struct.unpack(">I", stream.read(4))
            body = stream.read(size)
            (kind,) = struct.unpack(">I", body[:4])
            assert kind == STOP or body[12:] == CONTENT_TYPE, body
            self.events.append(kind)
            if kind == READY:
                connection.sendall(control(ACCEPT))
            if kind == STOP:
                connection.sendall(control(FINISH, content_type=False))
                return

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(seconds(5))


def varint(octets, at):
    value = shift = 0
    while True:
        value |= (octets[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not octets[at - 1] & 0x80:
            return value, at


def fields(octets):
    """{number: value} of a Protocol Buffers message."""
    found, at = {}, 0
    while at < len(octets):
        key, at = varint(octets, at)
        if key & 7 == 0:
            found[key >> 3], at = varint(octets, at)
        elif key & 7 == 2:
            size, at = varint(octets, at)
            found[key >> 3], at = octets[at:at + size], at + size
        else:
            assert key & 7 == 5, key
            found[key >> 3], at = struct.unpack_from("<I", octets, at)[0], at + 4
    return found


@pytest.fixture
def config(workspace):
    workspace.write("api.yaml", API)
    return {"admin": {"listen": f"127.0.0.1:{free_port()}"}, "server": {"workers": 1}}


def test_sends_every_answer_to_a_listener(workspace, config):
    path = workspace.path / "dnstap.sock"
    reader = workspace.own(Reader(path))
    daemon = workspace.daemon(merge(config, {"log": {"dnstap": f"unix:{path}"}}), upstreams=[workspace.upstream()])
    began = time.time_ns()
    daemon.ask("api.example.org.", "A")
    daemon.ask("missing.example.org.", "A", "tcp")
    eventually(lambda: len(reader.frames) == 2, 10)
    ended = time.time_ns()
    assert reader.events == [READY, START]
    first, second = (fields(frame) for frame in reader.frames)
    assert first[15] == 1 and first[2].startswith(b"meshdns ") and first[1]
    assert first[3] == b"identity=client.default source=registry" and second[3].endswith(b"source=forward")
    message = fields(first[14])
    assert (message[1], message[2], message[3]) == (6, 1, 1), "CLIENT_RESPONSE, IPv4, UDP"
    assert message[4] == message[5] == bytes([127, 0, 0, 1]) and message[6] > 0
    asked, answered = (message[sec] * 10**9 + message[nsec] for sec, nsec in ((8, 9), (12, 13)))
    assert began < asked < answered < ended
    reply = dns.message.from_wire(message[14])
    assert str(reply.question[0].name) == "api.example.org." and str(reply.answer[0][0]) == "10.0.0.7"
    message = fields(second[14])
    assert message[3] == 2 and dns.message.from_wire(message[14]).rcode() == 3, "TCP, NXDOMAIN"
    # The stream ends as it should.
    workspace.forget(daemon)
    daemon.stop()
    eventually(lambda: reader.events == [READY, START, STOP])


def test_lookups_of_endpoint_names_are_not_in_it(workspace, config):
    workspace.write("front.yaml", {"kind": "ServiceEntry", "metadata": {"name": "front"}, "spec": {
        "hosts": ["front.example.org"], "resolution": "DNS", "endpoints": [{"address": "lb.example.net"}],
        "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}})
    path = workspace.path / "dnstap.sock"
    reader = workspace.own(Reader(path))
    daemon = workspace.daemon(merge(config, {"log": {"dnstap": f"unix:{path}"}}),
                              upstreams=[workspace.upstream(["lb.example.net. 1 A 192.0.2.1"])])

    def lookups():
        return float(re.search(r"(?m)^meshdns_resolver_lookups_total (\S+)$", daemon.get("/metrics")[1]).group(1))

    eventually(lambda: lookups() >= 4, 15)
    assert daemon.ask("front.example.org.").addresses() == ["192.0.2.1"]
    eventually(lambda: reader.frames, 10)
    asked = [dns.message.from_wire(fields(fields(frame)[14])[14]).question[0] for frame in reader.frames]
    assert [str(question.name) for question in asked] == ["front.example.org."]


def test_comes_back_when_the_reader_does_and_can_be_turned_off(workspace, config):
    path = workspace.path / "dnstap.sock"
    daemon = workspace.daemon(merge(config, {"log": {"dnstap": f"unix:{path}"}}))
    daemon.wait_for_log("WARN cannot open the dnstap target")
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    reader = workspace.own(Reader(path))
    eventually(lambda: len(reader.frames) == 1, 10)
    assert "meshdns_dnstap_frames_total 1\n" in daemon.get("/metrics")[1]
    daemon.write_config(merge(daemon.config, {"log": {"dnstap": ""}}))
    daemon.reload()
    eventually(lambda: reader.events == [READY, START, STOP], 10)
    daemon.wait_for_log("configuration changed section=log")
    for _ in range(20):
        assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert len(reader.frames) == 1
    assert "meshdns_dnstap_frames_total 1\n" in daemon.get("/metrics")[1]


def test_dnstap_read_reads_the_file(workspace, config):
    path = workspace.path / "answers.fstrm"
    daemon = workspace.daemon(merge(config, {"log": {"dnstap": f"file:{path}"}}))
    for transport in ("udp", "tcp"):
        daemon.ask("api.example.org.", "AAAA", transport)
    workspace.forget(daemon)
    daemon.stop()
    result = subprocess.run([find_program("dnstap-read"), str(path)], capture_output=True, text=True,
                            timeout=seconds(15), check=False)
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and len(lines) == 2, result
    for line, transport in zip(lines, ("UDP", "TCP")):
        assert " CR 127.0.0.1:" in line and transport in line and "api.example.org/IN/AAAA" in line, line


@pytest.mark.parametrize("wrong, reason", [("/run/x", "is neither unix:PATH nor file:PATH"),
                                           ("unix:x", "is not an absolute path")])
def test_refuses_an_invalid_target(workspace, config, wrong, reason):
    path = workspace.path / "m.yaml"
    path.write_text(f"log: {{ dnstap: \"{wrong}\" }}\n")
    result = run_tool("check", "--config", path)
    assert result.returncode == 1 and "log.dnstap" in result.stdout and reason in result.stdout, result
