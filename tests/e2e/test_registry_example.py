# SPDX-License-Identifier: Apache-2.0
"""registry/example: a program that links the registry follows a folder and tells of each change."""

import subprocess
import time

from harness.daemon import binary
from harness.preset import ONE_THREAD

pytestmark = ONE_THREAD

ENTRY = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{ name: api, namespace: shop }}
spec: {{ hosts: [api.example.org], addresses: [{address}], ports: [{{ number: 443, name: tls, protocol: TLS }}], resolution: STATIC }}
"""


def wait_for(path, text):
    deadline = time.monotonic() + 20
    while text not in path.read_text():
        assert time.monotonic() < deadline, f"no {text!r} in:\n{path.read_text()}"
        time.sleep(0.02)


def test_it_tells_what_comes_changes_and_goes(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "api.yaml").write_text(ENTRY.format(address="10.0.0.1"))
    said = tmp_path / "said"
    with open(said, "w") as out, subprocess.Popen([binary().parent / "registry_example", folder, "API.example.org."],
                                                  stdin=subprocess.PIPE, stdout=out) as program:
        wait_for(said, "add shop/api.example.org\napi.example.org: exact 10.0.0.1\n")
        (folder / "api.yaml").write_text(ENTRY.format(address="10.0.0.2"))
        wait_for(said, "update shop/api.example.org\napi.example.org: exact 10.0.0.2\n")
        (folder / "broken.yaml").write_text("kind: ServiceEntry\n")
        wait_for(said, "broken.yaml:1: error:")
        (folder / "api.yaml").unlink()
        wait_for(said, "delete shop/api.example.org\napi.example.org: none\n")
        program.stdin.close()
        assert program.wait(20) == 0
