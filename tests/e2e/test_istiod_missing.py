# SPDX-License-Identifier: Apache-2.0
"""An istiod source where its module is not installed, as in a build with MESHDNS_ISTIOD=OFF."""

import json
import pathlib
import shutil

import pytest

from harness.daemon import binary
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.waiting import eventually

pytestmark = ONE_THREAD

NODE = {"address": "10.0.0.5", "name": "vm-1", "namespace": "shop"}


@pytest.fixture
def alone(workspace, monkeypatch):
    """A daemon without the module beside it."""
    if pathlib.Path("/usr/lib/meshdns/meshdns-istiod.so").exists():
        pytest.skip("the module is installed")
    copy = workspace.path / "meshdnsd"
    shutil.copy(binary(), copy)
    monkeypatch.setenv("MESHDNSD", str(copy))
    return copy


def test_the_error_has_a_remedy_and_other_sources_serve(alone, workspace):
    workspace.write_text("own.yaml", json.dumps({
        "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "own", "namespace": "shop"},
        "spec": {"hosts": ["own.example.org"], "addresses": ["10.9.9.9"], "resolution": "STATIC"}}))
    daemon = workspace.daemon({
        "admin": {"listen": f"127.0.0.1:{free_port()}"},
        "sources": [{"files": {"path": str(workspace.resources)}},
                    {"istiod": {"address": "192.0.2.1:15012", "node": NODE, "ca_file": "/nonexistent/root-cert.pem",
                                "token_file": "/nonexistent/istio-token"}}]}, upstreams=[workspace.upstream()])
    line = daemon.wait_for_log("the module for istiod sources is not installed")
    assert "there is no /usr/lib/meshdns/meshdns-istiod.so" in line
    assert "install the whole package, or build with MESHDNS_ISTIOD=ON" in line
    eventually(lambda: daemon.ask("own.example.org.").addresses() == ["10.9.9.9"])
    status, text = daemon.get("/readyz")
    assert status == 503
    assert "istiod:192.0.2.1:15012" in text
    assert "the module for istiod sources is not installed" in daemon.get("/sources")[1]
