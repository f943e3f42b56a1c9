# SPDX-License-Identifier: Apache-2.0
"""`meshdnsd run --istio-vm DIR`: the files that istioctl writes for a VM are the configuration."""

import json
import shutil
import socket
import subprocess

import pytest

from harness.daemon import binary
from harness.istiod_mesh import Mesh
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = [ONE_THREAD, pytest.mark.skipif(not shutil.which("openssl") or not (binary().parent / "meshdns-istiod.so").exists(),
                                reason="needs openssl and the module")]

TABLE = {"web.shop.svc.cluster.local": {"ips": ["10.96.0.1"], "registry": "Kubernetes", "shortname": "web",
                                        "namespace": "shop"},
         "web.bank.svc.cluster.local": {"ips": ["10.96.0.2"], "registry": "Kubernetes", "shortname": "web",
                                        "namespace": "bank"}}


@pytest.fixture
def mesh(workspace):
    return Mesh(workspace)


def start(mesh, directory, sources=(), client=None):
    config = mesh.config(list(sources))
    config["client"] = client or {}
    return mesh.workspace.daemon(config, upstreams=[mesh.upstream], arguments=["--istio-vm", directory])


def run(*arguments):
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=20)


def test_the_files_of_istioctl_give_the_first_answer(mesh):
    istiod = mesh.istiod(table=TABLE, token="token-1")
    daemon = start(mesh, mesh.vm_directory(istiod))
    mesh.wait_for(daemon, "web.shop.svc.cluster.local.", ["10.96.0.1"])
    assert daemon.ask("web.").addresses() == ["10.96.0.1"]
    request = istiod.requests[0]
    assert request.node_id == f"sidecar~10.0.0.5~{socket.gethostname().split('.')[0]}.shop~shop.svc.cluster.local"
    told = {"NAMESPACE": "shop", "CLUSTER_ID": "east", "NETWORK": "net-1", "LABELS": {"app": "vm"},
            "INSTANCE_IPS": "10.0.0.5"}
    assert {key: request.metadata[key] for key in told} == told


def test_adds_to_the_configuration_file_whose_keys_win(mesh):
    mesh.workspace.write_text("own.yaml", json.dumps({
        "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "own", "namespace": "bank"},
        "spec": {"hosts": ["own.example.org"], "addresses": ["10.9.9.9"], "resolution": "STATIC"}}))
    daemon = start(mesh, mesh.vm_directory(mesh.istiod(table=TABLE)),
                   sources=[{"files": {"path": str(mesh.workspace.resources)}}],
                   client={"default": {"namespace": "bank"}})
    mesh.wait_for(daemon, "web.", ["10.96.0.2"])
    assert daemon.ask("own.example.org.").addresses() == ["10.9.9.9"]


def test_a_reload_reads_the_files_again(mesh):
    istiod = mesh.istiod(table=TABLE)
    directory = mesh.vm_directory(istiod)
    daemon = start(mesh, directory)
    mesh.wait_for(daemon, "web.", ["10.96.0.1"])
    (directory / "cluster.env").write_text("POD_NAMESPACE=$NS\n")
    daemon.reload()
    daemon.wait_for_log("cluster.env:1: error: POD_NAMESPACE: has an unquoted")
    daemon.wait_for_log("the previous configuration stays in use")
    assert daemon.ask("web.").addresses() == ["10.96.0.1"]
    mesh.vm_directory(istiod, {"POD_NAMESPACE": "bank", "ISTIO_NAMESPACE": "bank"})
    daemon.reload()
    mesh.wait_for(daemon, "web.", ["10.96.0.2"])
    eventually(lambda: ".bank~bank." in istiod.requests[0].node_id)


@pytest.mark.parametrize("file", ["cluster.env", "mesh.yaml", "root-cert.pem", "istio-token"])
def test_says_which_file_is_missing(mesh, file):
    directory = mesh.vm_directory(mesh.istiod())
    (directory / file).unlink()
    for command in ("run", "check"):
        result = run(command, "--istio-vm", directory)
        assert result.returncode == 1, result
        assert f"{directory}/{file}: error: No such file" in result.stdout + result.stderr
        assert "istioctl x workload entry configure" in result.stdout + result.stderr


def test_refuses_a_second_istiod_source(mesh):
    istiod = mesh.istiod()
    config = mesh.workspace.path / "second.yaml"
    config.write_text(json.dumps({"sources": [mesh.entry(istiod)]}))
    result = run("run", "--config", config, "--istio-vm", mesh.vm_directory(istiod))
    assert result.returncode == 1
    assert "the configuration file has one, too" in result.stderr


def test_check_accepts_good_files(mesh):
    result = run("check", "--istio-vm", mesh.vm_directory(mesh.istiod()))
    assert result.returncode == 0, result
