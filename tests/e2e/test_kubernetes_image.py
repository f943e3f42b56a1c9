# SPDX-License-Identifier: Apache-2.0
"""The root file system of the image, made as the Containerfile makes it, without a container engine."""

import hashlib
import os
import re
import shutil
import subprocess

import pytest
import yaml

from harness.daemon import ROOT, binary
from harness.dns_client import Question, ask
from harness.kube_api import make_certificates
from harness.ports import free_port
from harness.preset import IS_RELEASE, ONE_THREAD, TREE
from harness.process import Process
from harness.waiting import seconds

pytestmark = ONE_THREAD

COLLECT = ROOT / "conf" / "kubernetes" / "collect-runtime"
CONTAINERFILE = ROOT / "conf" / "kubernetes" / "Containerfile"
USER = "65532:65532"

needs_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setcap"), reason="needs root and setcap")
# A sanitizer's runtime needs /proc, which the image does not have by itself.
as_shipped = pytest.mark.skipif(not IS_RELEASE, reason="images have release builds")


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    root = tmp_path_factory.mktemp("root") / "image"
    subprocess.run([COLLECT, binary(), root], check=True, timeout=seconds(60))
    return root


def inside(image, *arguments):
    return ["chroot", f"--userspec={USER}", str(image), "/usr/sbin/meshdnsd", *arguments]


@TREE
def test_the_containerfile_uses_what_is_there_and_runs_as_nobody():
    text = CONTAINERFILE.read_text()
    final = text.rpartition("\nFROM ")[2]
    assert final.startswith("scratch\n") and f"USER {USER}\n" in final
    assert "./dev build && apt-get" in text and f"{COLLECT.relative_to(ROOT)} build/meshdnsd" in text
    build = (ROOT / "scripts" / "build.sh").read_text()
    assert "targets=(meshdnsd meshdns-istiod meshdns-kernel)" in build, "`./dev build` makes no program that is not in the image"
    assert "ENV PATH=/usr/sbin\n" in final, "for `kubectl exec POD -- meshdnsd COMMAND`"
    program = re.search(r'ENTRYPOINT \["(.*?)"\]', final).group(1)
    assert program == "/usr/sbin/meshdnsd"


@TREE
def test_the_build_context_has_no_build_of_the_host():
    ignored = (ROOT / ".containerignore").read_text().splitlines()
    of_git = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("/")]
    assert {"build", ".git", *of_git} <= set(ignored)


@needs_root
@as_shipped
def test_the_image_asks_upstream_servers_over_tls(workspace, image):
    """With the authorities at their place in the image, and a port below 1024."""
    certificate, key = make_certificates(workspace.path)
    upstream = workspace.upstream(["*. 300 A 192.0.2.1"], certificates=(certificate, key))
    bundle = image / "etc/ssl/certs/ca-certificates.crt"
    assert b"BEGIN CERTIFICATE" in bundle.read_bytes()
    shutil.copyfile(certificate, bundle)
    address = "127.0.7.1"  # which no other test uses
    config = {"server": {"listen": [f"{address}:53"]}, "admin": {"listen": f"127.0.0.1:{free_port()}"},
              "upstream": {"servers": [upstream.server]}, "state_dir": "/var/lib/meshdns"}
    (image / "etc/meshdns/meshdns.yaml").write_text(yaml.safe_dump(config))
    daemon = workspace.own_process(Process(inside(image, "run", "--config", "/etc/meshdns/meshdns.yaml"), "meshdnsd"))
    daemon.wait_for_line("ready:")
    assert ask((address, 53), Question("www.example.org."), "udp").addresses() == ["192.0.2.1"]
    assert daemon.stop() == 0, daemon.log_tail()
    assert {path.name for path in (image / "var/lib/meshdns").iterdir()} >= {"cache"}, "the user may write there"


@needs_root
def test_two_images_of_one_program_are_equal(tmp_path):
    """All bytes of their archives: names, modes, owners, times, capabilities."""
    archives = []
    for name, mask in (("one", 0o022), ("two", 0o077)):
        root = tmp_path / name
        subprocess.run([COLLECT, binary(), root], check=True, timeout=seconds(60), umask=mask,
                       env={**os.environ, "SOURCE_DATE_EPOCH": "1000000000"})
        archives.append(hashlib.sha256(subprocess.run(
            ["tar", "--create", "--sort=name", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--directory", root,
             "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", "."],
            check=True, capture_output=True, timeout=seconds(60)).stdout).hexdigest())
    assert archives[0] == archives[1]


@needs_root
@as_shipped
def test_the_image_has_all_that_the_program_loads(image):
    """Also the module for the source `istiod`, and nothing that runs something else."""
    version = subprocess.run(inside(image, "--version"), capture_output=True, text=True, check=False, timeout=seconds(30))
    assert version.returncode == 0 and version.stdout.startswith("meshdnsd "), version.stderr
    assert sorted(os.listdir(image / "usr/sbin")) == ["meshdns-kernel", "meshdnsd"]
    assert not any((image / folder).exists() for folder in ("bin/sh", "usr/bin", "sbin/init"))
    paths = ("usr/sbin/meshdnsd", "usr/sbin/meshdns-kernel", "usr/lib/meshdns/meshdns-istiod.so")
    programs = [path for path in paths if (image / path).exists()]
    listed = [subprocess.run(["chroot", image, loader(image), "--list", f"/{path}"], capture_output=True, text=True,
                             check=True, timeout=seconds(30)).stdout for path in programs]
    assert all("libc.so.6 => /" in text and "not found" not in text for text in listed), listed
    if (binary().parent / "meshdns-istiod.so").exists():
        assert (image / "usr/lib/meshdns/meshdns-istiod.so").exists()


def loader(image):
    (found,) = image.glob("lib*/ld-linux*")
    return f"/{found.relative_to(image)}"
