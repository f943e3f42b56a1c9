# SPDX-License-Identifier: Apache-2.0
"""The root file system of the image, made as the Containerfile makes it, without a container engine."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest
import yaml

from harness.daemon import ROOT, binary
from harness.dns_client import Question, ask
from harness.kube_api import KubeApi, make_certificates, namespace, service
from harness.namespaces import Namespaces, available
from harness.namespaces import inside as in_namespace
from harness.ports import free_port
from harness.preset import IS_RELEASE, ONE_THREAD, TREE
from harness.process import Process
from harness.waiting import seconds

pytestmark = ONE_THREAD

COLLECT = ROOT / "conf" / "kubernetes" / "collect-runtime"
BUILD_IMAGE = ROOT / "conf" / "kubernetes" / "build-image"
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


def content(archive, path):
    return archive.extractfile(f"./blobs/{path.replace(':', '/')}").read()


@needs_root
@pytest.mark.skipif(not shutil.which("umoci"), reason="needs umoci")
def test_the_archive_has_the_files_and_the_settings_of_the_containerfile(tmp_path):
    """Made of a small program, because compressing takes long."""
    program = tmp_path / "meshdnsd"
    shutil.copy("/bin/true", program)
    subprocess.run([COLLECT, program, tmp_path / "root"], check=True, timeout=seconds(60))
    made = []
    for name, mask in (("one", 0o022), ("two", 0o077)):
        subprocess.run([BUILD_IMAGE, program, "0.0.1", tmp_path / name], check=True, timeout=seconds(120), umask=mask,
                       env={**os.environ, "SOURCE_DATE_EPOCH": "1000000000"})
        subprocess.run(["sha256sum", "--check", "SHA256SUMS"], check=True, cwd=tmp_path / name, timeout=seconds(60))
        made.append((tmp_path / name / "SHA256SUMS").read_text())
    assert made[0] == made[1]
    with tarfile.open(tmp_path / "one" / made[0].split()[1]) as archive:
        (entry,) = json.load(archive.extractfile("./index.json"))["manifests"]
        manifest = json.loads(content(archive, entry["digest"]))
        config = json.loads(content(archive, manifest["config"]["digest"]))
        (layer,) = manifest["layers"]
        with tarfile.open(fileobj=io.BytesIO(content(archive, layer["digest"]))) as files:
            names = {member.name.strip("/"): member for member in files}
    final = CONTAINERFILE.read_text().rpartition("\nFROM ")[2]
    of_containerfile = {key: json.loads(re.search(rf"^{key} (\[.*\])$", final, re.M)[1]) for key in ("ENTRYPOINT", "CMD")}
    assert config["config"] == {"User": USER, "Env": [re.search(r"^ENV (.*)$", final, re.M)[1]],
                                "Entrypoint": of_containerfile["ENTRYPOINT"], "Cmd": of_containerfile["CMD"]}
    assert names.keys() - {""} == {str(path.relative_to(tmp_path / "root")) for path in (tmp_path / "root").rglob("*")}
    assert "SCHILY.xattr.security.capability" in names["usr/sbin/meshdnsd"].pax_headers
    assert (names["var/lib/meshdns"].uid, names["var/lib/meshdns"].gid) == (65532, 65532)


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


def commands_of_the_pages():
    """The commands that the pages run in the container of a daemon."""
    pages = "\n".join((ROOT / "docs" / name).read_text() for name in ("troubleshooting.md", "deploy.md"))
    found = re.findall(r"kubectl -n kube-system exec (?:-it )?\$DAEMON -- (meshdnsd [^`\n]*?)(?=`|$)", pages, re.M)
    return list(dict.fromkeys(found))


@TREE
def test_the_pages_show_every_command():
    verbs = {command.split()[1] for command in commands_of_the_pages()}
    assert verbs == {"status", "explain", "top", "check", "cache", "flush", "log-level", "reload"}


class Container:
    """The container of the manifest on a node that is a network namespace: a read-only root, and its volumes."""

    def __init__(self, workspace, image):
        namespaces = workspace.own(Namespaces())
        self._node = namespaces.make("node")
        namespaces.configure(self._node, "link set lo up", "addr add 169.254.20.10/32 dev lo")
        with in_namespace(self._node):
            api = workspace.own(KubeApi())
        api.put(namespace("shop"), service("web", "shop", "10.96.0.1"), service("kubernetes", "default", "10.96.0.2"))
        self._volumes = {}
        base = ROOT / "conf" / "kubernetes" / "base"
        pod = yaml.safe_load((base / "daemonset.yaml").read_text())["spec"]["template"]["spec"]
        for mount in pod["containers"][0]["volumeMounts"]:
            folder = workspace.path / mount["name"]
            folder.mkdir()
            os.chown(folder, 65532, 65532)
            (image / mount["mountPath"][1:]).mkdir(parents=True, exist_ok=True)
            self._volumes[mount["mountPath"]] = folder
        config = yaml.safe_load((base / "meshdns.yaml").read_text())
        api.kubeconfig(self._volumes["/etc/meshdns"] / "kubeconfig")
        config["sources"] = [{"kubernetes": {"kubeconfig": "/etc/meshdns/kubeconfig"}}]
        config["upstream"] = {"servers": ["127.0.0.9"]}
        self.config = config
        self._image = image
        self.write_config(config)

    def write_config(self, config):
        """As an edited ConfigMap: no daemon is told."""
        (self._volumes["/etc/meshdns"] / "meshdns.yaml").write_text(yaml.safe_dump(config))

    def run(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=False, timeout=seconds(30))

    def command(self, *words):
        """The command line that runs there."""
        mounts = [f"mount --bind {folder} {self._image}{path}" for path, folder in self._volumes.items()]
        script = " && ".join([f"mount --bind {self._image} {self._image}", f"mount -o remount,bind,ro {self._image}", *mounts,
                              'exec "$@"'])
        return ["ip", "netns", "exec", self._node, "unshare", "--mount", "sh", "-c", script, "sh", *inside(self._image, *words)]


@needs_root
@as_shipped
@pytest.mark.skipif(not available(), reason="needs bridged network namespaces")
def test_every_command_of_the_pages_works_in_the_container(workspace, image):
    """It has no shell, and nothing there can be written but the volumes."""
    container = Container(workspace, image)
    daemon = workspace.own_process(Process(container.command("run", "--config", "/etc/meshdns/meshdns.yaml"), "meshdnsd"))
    daemon.wait_for_line("ready:")
    places = {"NAME": "web.shop.svc.cluster.local", "ADDRESS": "10.96.0.1", "IP:80": "10.96.0.1:80"}
    # The daemon alone has read the cluster.
    remarks = {"explain": "explained by the running daemon\n",
               "check": "this command reads files, and not the source kubernetes:/etc/meshdns/kubeconfig: its objects and their "
                        "errors are known to the running daemon alone (meshdnsd status)\n"}
    for command in commands_of_the_pages():
        words = [places.get(word, word) for word in command.split()[1:]]
        ran = container.run(*words)
        assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
        assert ran.stderr == remarks.get(words[0], ""), (command, ran.stderr)
        assert words[0] != "explain" or "(kubernetes:/etc/meshdns/kubeconfig" in ran.stdout, (command, ran.stdout)
    container.write_config({**container.config, "cache": {"serve_stale": "2h"}})
    changed = container.run("explain", "web.shop.svc.cluster.local")
    assert "10.96.0.1" in changed.stdout and "by the running daemon, which has another configuration; " in changed.stderr, changed
    container.write_config({"amdin" if key == "admin" else key: value for key, value in container.config.items()})
    for words in (["reload"], ["flush", "--zone", "."], ["log-level", "info"]):
        refused = container.run(*words)
        assert refused.returncode == 1 and "/etc/meshdns/meshdns.yaml:" in refused.stderr, refused
        assert "error: amdin: unknown key" in refused.stderr, refused
    assert daemon.stop() == 0, daemon.log_tail()


def loader(image):
    (found,) = image.glob("lib*/ld-linux*")
    return f"/{found.relative_to(image)}"
