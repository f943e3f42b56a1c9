# SPDX-License-Identifier: Apache-2.0
"""Names that istiod pushes: what is answered, what is said back, and the life of the connection."""

import json
import random
import re
import shutil
import socket
import subprocess
import time

import pytest

from harness.authority import Authority, name_with_nul
from harness.daemon import binary
from harness.dns_client import Question, ask
from harness.fake_istiod import NAME_TABLE, any_table, field, name_table
from harness.istiod_mesh import Mesh
from harness.load import Load
from harness.preset import THREADS, at_most, fewer
from harness.raw_istiod import RawIstiod, compressed_message
from harness.relay import Relay
from harness.waiting import eventually

pytestmark = [THREADS, pytest.mark.skipif(not shutil.which("openssl") or not (binary().parent / "meshdns-istiod.so").exists(),
                                reason="needs openssl and the module")]

TRANSPORTS = ["delta", "state_of_the_world"]
WEB = {"ips": ["10.96.0.1"], "registry": "Kubernetes", "shortname": "web", "namespace": "shop"}
API = {"ips": ["10.0.0.7", "2001:db8::7"], "registry": "External"}
TABLE = {"web.shop.svc.cluster.local": WEB, "api.example.org": API, "*.wild.example.org": {"ips": ["10.0.0.9"]}}


@pytest.fixture
def mesh(workspace):
    return Mesh(workspace)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_answers_the_names_that_istiod_pushes(mesh, transport):
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod, transport=transport)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    for name in ("web.shop.svc.cluster.local.", "web.shop.", "web.shop.svc.", "web."):
        assert daemon.ask(name).addresses() == ["10.96.0.1"], name
    assert daemon.ask("api.example.org.", "AAAA").addresses() == ["2001:db8::7"]
    assert daemon.ask("x.wild.example.org.").addresses() == ["10.0.0.9"]
    explanation = daemon.get("/explain?name=api.example.org")[1]
    assert f"api.example.org (istiod:{istiod.address}): chosen: a name of istiod" in explanation
    istiod.push({"api.example.org": {"ips": ["10.0.0.8"]}})
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"])
    assert daemon.ask("web.shop.svc.cluster.local.").addresses() == []


def explained(daemon, name):
    """The line of the explanation of `name` that says which object was chosen."""
    (line,) = [line for line in daemon.get(f"/explain?name={name}&format=text")[1].splitlines() if "chosen: " in line]
    return line


def generation(daemon):
    texts = " ".join(daemon.ask("whoami.meshdns.", "TXT", rdclass="CH").texts())
    return re.search(r"generation (\d+)", texts)[1]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_explains_with_the_version_of_the_last_good_push(mesh, transport):
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod, transport=transport)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    chosen = f"api.example.org (istiod:{istiod.address}): chosen: a name of istiod; last good push: version "
    eventually(lambda: explained(daemon, "api.example.org").endswith(chosen + "v0"))
    before = generation(daemon)
    istiod.push(dict(TABLE))
    eventually(lambda: explained(daemon, "api.example.org").endswith(chosen + "v1"))
    assert generation(daemon) == before, "a push without a change is no change of the registry"
    istiod.push({**TABLE, "web.shop.svc.cluster.local": {**WEB, "ips": ["10.96.0.2"]}})
    mesh.wait_for(daemon, "web.shop.", ["10.96.0.2"])
    assert explained(daemon, "api.example.org").endswith(chosen + "v2")
    istiod.send(response(istiod.streams[0].method, "bad", name_table(TABLE)[:-3]))
    eventually(lambda: mesh.source(daemon)["refusedPushes"] == 1)
    assert explained(daemon, "api.example.org").endswith(chosen + "v2")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_says_who_asks_and_confirms_each_push(mesh, transport):
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod, transport=transport)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    eventually(lambda: len(istiod.requests) == 2)
    first, reply = istiod.requests
    assert (first.type_url, first.nonce, first.error) == (NAME_TABLE, "", None)
    assert first.node_id == "sidecar~10.0.0.5~vm-1.shop~shop.svc.cluster.local"
    assert first.metadata["LABELS"] == {"app": "vm"}
    told = {"NAMESPACE": "shop", "CLUSTER_ID": "east", "NETWORK": "net-1", "INSTANCE_IPS": "10.0.0.5,2001:db8::5",
            "DNS_CAPTURE": "true"}
    assert {key: first.metadata[key] for key in told} == told
    assert (reply.type_url, reply.error) == (NAME_TABLE, None)
    assert reply.nonce.startswith("nonce-")
    headers = istiod.streams[0].headers
    assert (headers["authorization"], headers["clusterid"]) == ("Bearer token-1", "east")


GARBAGE = {
    "no protobuf": (lambda method, nonce: b"\x0a\xff\xff\xff\xff\x0f", "not a valid protobuf message"),
    "a table that ends too soon": (lambda method, nonce: response(method, nonce, name_table(TABLE)[:-3]),
                                   "not a valid protobuf message"),
    "a resource of another type": (lambda method, nonce: response(method, nonce, b"", "type.example/Empty"),
                                   "another type"),
}


def response(method, nonce, table, type_url=NAME_TABLE):
    resource = any_table(table, type_url)
    is_delta = "Delta" in method
    return field(2, field(2, resource) if is_delta else resource) + field(4, NAME_TABLE) + field(5, nonce)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", GARBAGE)
def test_a_push_that_cannot_be_read_is_refused_and_changes_nothing(mesh, kind, transport):
    make, reason = GARBAGE[kind]
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod, transport=transport)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    eventually(lambda: len(istiod.requests) == 2)
    good = istiod.requests[1]
    istiod.send(make(istiod.streams[0].method, "bad"))
    eventually(lambda: len(istiod.requests) == 3)
    refusal = istiod.requests[2]
    assert reason in refusal.error
    assert refusal.version == good.version
    assert refusal.nonce == ("" if kind == "no protobuf" else "bad")
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert reason in mesh.source(daemon)["lastError"]
    assert mesh.source(daemon)["refusedPushes"] == 1
    daemon.wait_for_log("refused a push of istiod.*last good names, if any, stay in use")
    istiod.push({"api.example.org": {"ips": ["10.0.0.8"]}})
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"])
    assert mesh.source(daemon)["lastError"] == ""


def test_a_faulty_name_is_refused_by_itself(mesh):
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    istiod.push({"api.example.org": {"ips": ["ten"]}, "web.shop.svc.cluster.local": {**WEB, "ips": ["10.96.0.2"]},
                 "a_b.example.org": {"ips": ["10.0.0.1"]}})
    mesh.wait_for(daemon, "web.shop.svc.cluster.local.", ["10.96.0.2"])
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert daemon.ask("x.wild.example.org.").addresses() == []
    assert mesh.source(daemon)["refused"] == 2
    findings = daemon.get_json("/registry/findings")
    assert {(f["object"], f["field"]) for f in findings} == {
        ("api.example.org", "ips[0]"), ("api.example.org", "ips"), ("a_b.example.org", "")}
    assert istiod.requests[-1].error is None
    istiod.push(TABLE)
    mesh.wait_for(daemon, "x.wild.example.org.", ["10.0.0.9"])
    assert daemon.get_json("/registry/findings") == []


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_push_without_a_table_takes_nothing_away(mesh, transport):
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod, transport=transport)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    eventually(lambda: len(istiod.requests) == 2)
    istiod.send(field(4, NAME_TABLE) + field(5, "empty"))
    eventually(lambda: istiod.requests[-1].nonce == "empty")
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    istiod.push({})
    eventually(lambda: daemon.ask("api.example.org.").addresses() == [])


def test_tables_with_names_come_and_go_by_themselves(mesh):
    istiod = mesh.istiod()
    daemon = mesh.daemon(istiod)
    eventually(lambda: istiod.streams)
    istiod.push_delta({"a": ("1", {"a.example.org": {"ips": ["10.0.0.1"]}}),
                       "b": ("1", {"b.example.org": {"ips": ["10.0.0.2"]}})})
    mesh.wait_for(daemon, "b.example.org.", ["10.0.0.2"])
    istiod.push_delta({"b": ("2", {"b.example.org": {"ips": ["10.0.0.3"]}})})
    mesh.wait_for(daemon, "b.example.org.", ["10.0.0.3"])
    assert explained(daemon, "b.example.org").endswith("; last good push: without a version")
    assert daemon.ask("a.example.org.").addresses() == ["10.0.0.1"]
    istiod.push_delta(removed=["a"])
    mesh.wait_for(daemon, "a.example.org.", [])
    assert daemon.ask("b.example.org.").addresses() == ["10.0.0.3"]
    istiod.end_streams()
    eventually(lambda: istiod.streams, 10)
    assert istiod.requests[0].held == {"b": "2"}
    assert daemon.ask("b.example.org.").addresses() == ["10.0.0.3"]


def test_waits_for_the_first_table_before_it_is_ready(mesh):
    istiod = mesh.istiod()
    daemon = mesh.daemon(istiod)
    eventually(lambda: mesh.source(daemon)["connected"])
    assert daemon.get("/readyz")[0] == 503
    assert "has not pushed a name table yet" in mesh.source(daemon)["lastError"]
    istiod.push(TABLE)
    eventually(lambda: daemon.get("/readyz")[0] == 200)
    assert mesh.source(daemon)["lastError"] == ""


# --- TLS and credentials -------------------------------------------------------------------------


def test_takes_only_a_server_with_the_right_name_and_authority(mesh, workspace):
    other = Authority(workspace.path, "other")
    wrong_name = mesh.authority.issue("wrong", "subjectAltName=DNS:other.example.org")
    wrong_authority = other.issue("forged", "subjectAltName=DNS:istiod.istio-system.svc")
    cut_short = mesh.authority.issue("nul", name_with_nul("istiod.istio-system.svc"))
    for certificates in (wrong_name, wrong_authority, cut_short):
        istiod = mesh.istiod(table=TABLE, certificates=certificates)
        daemon = mesh.daemon(istiod)
        eventually(lambda d=daemon: mesh.source(d)["lastError"], 10)
        assert "istiod at" in mesh.source(daemon)["lastError"]
        assert not istiod.streams
        assert daemon.get("/readyz")[0] == 503


def test_a_new_token_is_used_without_a_new_start(mesh):
    istiod = mesh.istiod(table=TABLE, token="token-2")
    daemon = mesh.daemon(istiod)
    eventually(lambda: "refuses the credentials" in mesh.source(daemon)["lastError"], 10)
    assert istiod.refused_tokens[0] == "Bearer token-1"
    mesh.token.write_text("token-2\n")
    daemon.reload()
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"], 15)
    # The stream goes on when the token changes; only the next one needs it.
    mesh.token.write_text("token-3")
    istiod.token = "token-3"
    istiod.push({"api.example.org": {"ips": ["10.0.0.8"]}})
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"])
    assert mesh.source(daemon)["connected"]
    istiod.end_streams()
    eventually(lambda: istiod.streams, 10)
    assert istiod.streams[0].headers["authorization"] == "Bearer token-3"


def test_shows_a_certificate_and_takes_up_a_new_one(mesh):
    istiod = mesh.istiod(table=TABLE, client_authority=mesh.authority.certificate)
    certificate, key = mesh.authority.issue("vm", "subjectAltName=URI:spiffe://cluster.local/ns/shop/sa/vm")
    daemon = mesh.daemon(istiod, token_file="", cert_file=str(certificate), key_file=str(key))
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    renewed, _ = mesh.authority.issue("vm", "subjectAltName=URI:spiffe://cluster.local/ns/shop/sa/vm-renewed")
    assert renewed == certificate
    assert mesh.source(daemon)["connects"] == 1
    istiod.end_streams()
    eventually(lambda: istiod.streams, 10)
    assert b"spiffe://cluster.local/ns/shop/sa/vm-renewed" in istiod.streams[0].context.auth_context()[
        "peer_spiffe_id"]


@pytest.mark.parametrize("change,reason", [
    ({"ca_file": "/nonexistent/root.pem"}, "/nonexistent/root.pem: cannot be read: No such file"),
    ({"token_file": "/dev/zero"}, "/dev/zero: is not a file"),
], ids=["no authority", "no file"])
def test_says_which_file_is_missing(mesh, change, reason):
    daemon = mesh.daemon(mesh.istiod(table=TABLE), **change)
    eventually(lambda: reason in mesh.source(daemon)["lastError"])


# --- the life of the connection ------------------------------------------------------------------


def test_an_istiod_that_is_away_changes_no_answer(mesh):
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    mesh.end(istiod)
    daemon.wait_for_log("istiod at .*the names that it sent stay in use", 15)
    source = mesh.source(daemon)
    assert (source["connected"], source["complete"]) == (False, True)
    assert daemon.get("/readyz")[0] == 200
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    mesh.istiod(table={"api.example.org": {"ips": ["10.0.0.8"]}}, port=istiod.port)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"], 40)
    daemon.wait_for_log("connected to istiod")


def ask_for_a_name(dice, _state, server):
    name, expected = dice.choice([("api.example.org.", ["10.0.0.7"]), ("web.shop.", ["10.96.0.1"]),
                                  ("x.wild.example.org.", ["10.0.0.9"])])
    found = ask(server, Question(name)).addresses()
    return None if found == expected else f"{name}: {found}"


def test_no_query_is_lost_when_istiod_ends_and_returns(mesh):
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    loads = [Load(ask_for_a_name, 250, daemon.server, seed=number) for number in range(2)]
    for number in range(2):
        mesh.end(istiod)
        eventually(lambda: not mesh.source(daemon)["connected"], 15)
        istiod = mesh.istiod(table={**TABLE, "new.example.org": {"ips": [f"10.0.1.{number}"]}}, port=istiod.port)
        mesh.wait_for(daemon, "new.example.org.", [f"10.0.1.{number}"], 40)
    asked = sum(load.steps for load in loads)
    assert [load.stop() for load in loads] == [None, None]
    print(f"{asked} queries")
    assert asked > 200


def test_goes_on_with_another_istiod(mesh):
    first = mesh.istiod(table=TABLE)
    second = mesh.istiod(table={"api.example.org": {"ips": ["10.0.0.8"]}})
    daemon = mesh.daemon(first, address=[first.address, second.address])
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    mesh.end(first)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"], 10)
    assert mesh.source(daemon)["server"] == second.address


@pytest.mark.slow("the daemon's own limit of 30 s")
def test_finds_a_connection_that_is_dead_within_thirty_seconds(mesh, workspace):
    istiod = mesh.istiod(table=TABLE)
    second = mesh.istiod(table={"api.example.org": {"ips": ["10.0.0.8"]}})
    relay = workspace.own(Relay(istiod.port))
    daemon = mesh.daemon(istiod, address=[relay.address, second.address])
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    relay.freeze()
    frozen = time.monotonic()
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"], 32)
    print(f"half-open connection left after {time.monotonic() - frozen:.1f} s")


def test_a_restart_answers_from_the_saved_state(mesh, workspace):
    state = workspace.path / "state"
    state.mkdir()
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod, change={"state_dir": str(state)})
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    daemon.stop()
    workspace.forget(daemon)
    mesh.end(istiod)
    daemon = mesh.daemon(istiod, change={"state_dir": str(state)})
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    assert explained(daemon, "api.example.org").endswith("; no good push since the source was started")
    mesh.istiod(table={"api.example.org": {"ips": ["10.0.0.8"]}}, port=istiod.port)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.8"], 40)
    assert daemon.ask("web.shop.svc.cluster.local.").addresses() == []


@pytest.mark.timing
def test_an_istiod_that_never_stops_pushing_does_not_hold_up_the_daemon(mesh, workspace):
    istiod = mesh.istiod(table=TABLE)
    daemon = mesh.daemon(istiod)
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    for number in range(3000):
        istiod.push({f"n{i}.example.org": {"ips": [f"10.1.{number % 256}.{i}"]} for i in range(50)})
    eventually(lambda: mesh.source(daemon)["pushes"] > 20)
    began = time.monotonic()
    daemon.stop()
    workspace.forget(daemon)
    assert time.monotonic() - began < at_most(5), "shutdown"


def peak_memory(daemon):
    return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{daemon.pid}/status").read()).group(1)) << 10


def test_a_compressed_response_is_not_inflated(mesh, workspace):
    """60 KiB would become 60 MiB."""
    size = 60 << 20
    message = compressed_message(bytes(size))
    assert len(message) < 0xFFFF
    hostile = workspace.own(RawIstiod(mesh.certificates, message))
    daemon = mesh.daemon(hostile)
    eventually(lambda: mesh.source(daemon)["connects"] >= 1)
    before = peak_memory(daemon)
    hostile.release()
    eventually(lambda: mesh.source(daemon)["refusedPushes"] or mesh.source(daemon)["connects"] > 1, 20)
    assert peak_memory(daemon) - before < size // 2
    print(mesh.source(daemon)["lastError"])


@pytest.mark.timing
@pytest.mark.parametrize("silent", ["before TLS", "after TLS"])
def test_ends_soon_while_it_connects(mesh, workspace, silent):
    listener = workspace.own(socket.create_server(("127.0.0.1", 0)))
    istiod = mesh.istiod()
    address = f"127.0.0.1:{listener.getsockname()[1]}" if silent == "before TLS" else istiod.address
    daemon = mesh.daemon(istiod, address=address)
    eventually(lambda: mesh.source(daemon)["connects"] >= 1)
    began = time.monotonic()
    daemon.stop()
    workspace.forget(daemon)
    assert time.monotonic() - began < at_most(5)


def test_a_reload_without_the_source_takes_its_names_away(mesh, workspace):
    daemon = mesh.daemon(mesh.istiod(table=TABLE))
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    config = {**daemon.config, "sources": [{"files": {"path": str(workspace.resources)}}]}
    daemon.write_config(config)
    daemon.reload()
    mesh.wait_for(daemon, "api.example.org.", [])


# --- what it costs -------------------------------------------------------------------------------


def test_a_push_of_many_names_costs_what_has_changed(mesh):
    table = {f"n{i}.s{i % 100}.svc.cluster.local": {"ips": [f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}"],
                                                   "registry": "Kubernetes", "shortname": f"n{i}",
                                                   "namespace": f"s{i % 100}"} for i in range(20_000)}
    istiod = mesh.istiod(table=table)
    daemon = mesh.daemon(istiod)
    mesh.wait_for(daemon, "n0.s0.svc.cluster.local.", ["10.0.0.0"], 20)
    assert mesh.source(daemon)["changedNames"] == 20_000
    table["n0.s0.svc.cluster.local"]["ips"] = ["10.9.9.9"]
    items = list(table.items())
    random.Random(1).shuffle(items)
    istiod.push(dict(items))
    mesh.wait_for(daemon, "n0.s0.svc.cluster.local.", ["10.9.9.9"])
    source = mesh.source(daemon)
    assert (source["changedNames"], source["names"], source["pushes"]) == (20_001, 20_000, 2)


def test_a_daemon_without_the_source_does_not_load_the_module(workspace):
    daemon = workspace.daemon()
    assert "grpc" not in open(f"/proc/{daemon.pid}/maps").read()


def test_says_that_the_module_is_not_installed(mesh, workspace):
    alone = workspace.path / "meshdnsd"
    shutil.copy(binary(), alone)
    istiod = mesh.istiod()
    config = workspace.path / "alone.yaml"
    daemon = mesh.daemon(istiod)
    shutil.copy(daemon.config_path, config)
    text = re.sub(r"127\.0\.0\.1:\d+(?=\n)", "127.0.0.1:0", config.read_text(), count=1)
    config.write_text(re.sub(r"listen: 127\.0\.0\.1:\d+", "listen: ''", text))
    with subprocess.Popen([alone, "run", "--config", config], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          text=True) as process:
        try:
            line = next(line for line in process.stderr if "module for istiod sources is not installed" in line)
            assert "install the whole package" in line
        finally:
            process.terminate()


def test_has_metrics(mesh):
    daemon = mesh.daemon(mesh.istiod(table=TABLE))
    mesh.wait_for(daemon, "api.example.org.", ["10.0.0.7"])
    text = daemon.get("/metrics")[1]
    values = dict(re.findall(r"^meshdns_istiod_(\w+){[^}]*} (\S+)$", text, re.M))
    assert {key: float(values[key]) for key in ("connected", "names", "pushes_total", "refused_pushes_total")} == {
        "connected": 1, "names": 3, "pushes_total": 1, "refused_pushes_total": 0}
    assert float(values["push_bytes_total"]) > 100


# --- the same as a dump --------------------------------------------------------------------------


def random_table(dice):
    """Hosts of both registries, wildcards, aliases, names below others, and faults."""
    table = {}
    for number in range(400):
        ns = dice.choice(["shop", "bank", "Shop"])
        info = {"ips": [dice.choice([f"10.{dice.randrange(256)}.0.{number % 250 + 1}", f"2001:db8::{number + 1:x}",
                                     "0.0.0.0", "bad"]) for _ in range(dice.randrange(4))]}
        if dice.random() < 0.5:
            host = f"s{number}.{ns}.svc.cluster.local"
            info.update(registry="Kubernetes", shortname=f"s{number}", namespace=ns)
        else:
            host = dice.choice(["", "*.", "a.b."]) + f"h{number}.example.{dice.choice(['org', 'com'])}"
            info.update(registry="External")
        if dice.random() < 0.1:
            info["altHosts"] = [f"alt{number}.example.net", dice.choice([f"alt{number}.{ns}.svc", "b_d.example.net"])]
        table[host.upper() if dice.random() < 0.05 else host] = info
    return table


def random_question(dice, hosts):
    host = dice.choice(hosts).replace("*", dice.choice(["x", "x.y", "*"]))
    labels = host.split(".")
    name = dice.choice([host, host, host, labels[0], ".".join(labels[:2]), ".".join(labels[:3]), f"{host}.shop.svc.cluster.local",
                        f"q.{host}", ".".join(labels[1:]), f"alt{dice.randrange(400)}.example.net"])
    return Question(name.rstrip(".") + ".", dice.choice(["A", "A", "A", "A", "AAAA", "TXT"]))


@pytest.mark.slow("10,000 questions to two daemons")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_same_table_as_a_dump_gives_the_same_answers(mesh, workspace, transport):
    dice = random.Random(20)
    table = random_table(dice)
    dump = workspace.path / "ndsz.json"
    dump.write_text(json.dumps({"table": table}))
    pushed = mesh.daemon(mesh.istiod(table=table), transport=transport)
    dumped = workspace.daemon(mesh.config([{"name_table": {"path": str(dump)}}]), upstreams=[mesh.upstream])
    eventually(lambda: pushed.get("/readyz")[0] == 200 and dumped.get("/readyz")[0] == 200, 20)
    hosts = list(table)
    known = 0
    for _ in range(fewer(10_000)):
        question = random_question(dice, hosts)
        first, second = ask(pushed.server, question), ask(dumped.server, question)
        assert (first.rcode, sorted(first.texts())) == (second.rcode, sorted(second.texts())), question
        known += bool(first.addresses())
    assert known > fewer(1_000)
