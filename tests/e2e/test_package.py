# SPDX-License-Identifier: Apache-2.0
"""The Debian package: what is in it, that lintian accepts it, and that what it installs runs."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from harness.daemon import ROOT, binary
from harness.dns_client import Question, ask
from harness.ports import free_port
from harness.preset import DEEP, IS_RELEASE, ONE_THREAD
from harness.process import Process
from harness.waiting import seconds

VERSION = "0.0.1-1"
PARSER = shutil.which("apparmor_parser", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")

pytestmark = [ONE_THREAD, pytest.mark.skipif(not shutil.which("dpkg-deb") or not shutil.which("dpkg-shlibdeps"),
                                 reason="needs dpkg-dev"),
              pytest.mark.skipif(not IS_RELEASE, reason="only a release build is packaged")]


def run(*arguments, **options):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, check=False,
                            timeout=seconds(120), **options)
    assert result.returncode == 0, f"{arguments}:\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    directory = tmp_path_factory.mktemp("package")
    run(ROOT / "conf" / "debian" / "build-package", binary(), VERSION, directory)
    (made,) = directory.glob("meshdns_*.deb")
    return made


@pytest.fixture(scope="module")
def root(package, tmp_path_factory):
    directory = tmp_path_factory.mktemp("root")
    run("dpkg-deb", "--extract", package, directory)
    return directory


def test_the_same_input_gives_the_same_package_with_its_checksum(tmp_path):
    """On another file system, in whose folders the files have other sizes, and for a user with another umask."""
    shutil.copy("/bin/true", tmp_path / "meshdnsd")  # small: nothing here depends on the program
    sums = []
    for name, temporary, mask in (("one", tmp_path, 0o022), ("two", "/dev/shm", 0o077)):
        run(ROOT / "conf" / "debian" / "build-package", tmp_path / "meshdnsd", VERSION, tmp_path / name, umask=mask,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1000000000", "MESHDNS_PACKAGE_COMPRESSION": "none", "TMPDIR": str(temporary)})
        run("sha256sum", "--check", "SHA256SUMS", cwd=tmp_path / name)
        sums.append((tmp_path / name / "SHA256SUMS").read_text())
    assert sums[0] == sums[1] and f"meshdns_{VERSION}_" in sums[0]


@DEEP
@pytest.mark.slow("lintian reads the whole package")
@pytest.mark.skipif(not shutil.which("lintian"), reason="needs lintian")
def test_lintian_accepts_it(package):
    run("lintian", "--fail-on", "error,warning", package)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a compiler")
def test_debugging_information_has_a_package_of_its_own(tmp_path):
    """Made of a small program: the daemon of a release build has none."""
    (tmp_path / "small.c").write_text("int main(void) { return 0; }\n")
    program = tmp_path / "meshdnsd"
    run("cc", "-g", "-Wl,--build-id", "-o", program, tmp_path / "small.c")
    run(ROOT / "conf" / "debian" / "build-package", program, VERSION, tmp_path)
    main, symbols = (tmp_path / f"{name}_{VERSION}_{run('dpkg', '--print-architecture').strip()}.deb"
                     for name in ("meshdns", "meshdns-dbgsym"))
    for package in (main, symbols):
        run("dpkg-deb", "--extract", package, tmp_path / "root")
    identifier = re.search("Build ID: (.+)", run("readelf", "--notes", tmp_path / "root/usr/sbin/meshdnsd"))[1]
    assert ".debug_info" not in run("readelf", "--sections", "--wide", tmp_path / "root/usr/sbin/meshdnsd")
    file = tmp_path / f"root/usr/lib/debug/.build-id/{identifier[:2]}/{identifier[2:]}.debug"
    assert ".debug_info" in run("readelf", "--sections", "--wide", file)
    fields = run("dpkg-deb", "--field", symbols)
    assert f"Build-Ids: {identifier}\n" in fields and f"Depends: meshdns (= {VERSION})\n" in fields
    if shutil.which("lintian"):
        run("lintian", "--fail-on", "error,warning", symbols)


@DEEP
@pytest.mark.slow("lintian reads the whole package")
@pytest.mark.skipif(not shutil.which("lintian") or not (ROOT / ".git").exists(), reason="needs lintian and git")
def test_lintian_accepts_the_source_package(tmp_path):
    run(ROOT / "conf" / "debian" / "build-source", "0.0.1", tmp_path)
    (description,) = tmp_path.glob("*.dsc")
    run("lintian", "--fail-on", "error,warning", description)
    run("dpkg-source", "--no-check", "--extract", description, tmp_path / "tree")
    rules = tmp_path / "tree" / "debian" / "rules"
    run("make", "--dry-run", "-f", rules, "binary", cwd=tmp_path / "tree")
    assert os.access(rules, os.X_OK)


def test_declares_what_an_administrator_may_change(package):
    conffiles = run("dpkg-deb", "--info", package, "conffiles").split()
    assert conffiles == ["/etc/apparmor.d/usr.sbin.meshdnsd", "/etc/default/meshdns-resolver", "/etc/meshdns/meshdns.yaml",
                         "/etc/meshdns/resources/README"]
    fields = run("dpkg-deb", "--field", package)
    assert f"Version: {VERSION}\n" in fields and "libuv1" in fields and "@" not in fields.replace("maintainers@", "")


def test_installs_every_file_that_its_units_name(root):
    units = list((root / "usr/lib/systemd/system").iterdir())
    assert len(units) == 9
    for unit in units:
        if unit.is_dir():
            (drop_in,) = unit.iterdir()
            assert unit.name == "sysinit.target.d" and "\nWants=meshdns-resolver-boot.service\n" in drop_in.read_text()
            continue
        for path in re.findall(r"^(?:Exec\w+|EnvironmentFile)=[-+]*(/\S+)", unit.read_text(), re.M):
            if not path.startswith("/bin/"):  # Debian's essential packages have it
                assert (root / path.lstrip("/")).exists(), f"{unit.name}: {path}"


def test_its_configuration_is_valid_and_harmless(root):
    """It answers on this machine only, not on port 53, and no other program's port."""
    program = root / "usr/sbin/meshdnsd"
    config = root / "etc/meshdns/meshdns.yaml"
    # The resources are where they will be, not where they are now.
    moved = root / "moved.yaml"
    moved.write_text(config.read_text().replace("/etc/meshdns", str(root / "etc/meshdns")))
    said = run(program, "check", "--config", moved)
    assert "0 errors, 1 warning" in said and "resources: warning: holds no file named" in said
    loaded = yaml.safe_load(config.read_text())
    for address in loaded["server"]["listen"]:
        assert address.rsplit(":", 1)[0] in ("127.0.0.1", "[::1]") and not address.endswith(":53")
    socket_unit = (root / "usr/lib/systemd/system/meshdnsd.socket").read_text()
    assert re.findall(r"^ListenStream=(.+)$", socket_unit, re.M) == loaded["server"]["listen"]


def test_the_installed_daemon_starts_and_answers(root, workspace):
    """As the service would, save for the addresses and the directories."""
    port = free_port()
    resources = root / "etc/meshdns/resources"
    shutil.copy(root / "usr/share/doc/meshdns/examples/bookinfo.yaml", resources / "bookinfo.yaml")
    config = yaml.safe_load((root / "etc/meshdns/meshdns.yaml").read_text())
    config["server"]["listen"] = [f"127.0.0.1:{port}"]
    config["admin"]["listen"] = f"unix:{workspace.path}/admin.sock"
    config["sources"] = [{"files": {"path": str(resources)}}]
    config["state_dir"] = str(workspace.path)
    path = workspace.path / "installed.yaml"
    path.write_text(yaml.safe_dump(config))
    daemon = workspace.own_process(Process([root / "usr/sbin/meshdnsd", "--config", path], "meshdnsd"))
    daemon.wait_for_line("ready:", 15)
    answer = ask(("127.0.0.1", port), Question("productpage.default.svc.cluster.local."), "udp", 5)
    assert answer.addresses() == ["10.96.10.1"]
    assert daemon.stop() == 0


@pytest.mark.skipif(not PARSER, reason="needs apparmor")
def test_its_apparmor_profile_can_be_compiled(root):
    run(PARSER, "--skip-kernel-load", "--skip-cache", root / "etc/apparmor.d/usr.sbin.meshdnsd")


def test_its_apparmor_profile_has_the_paths_of_the_service(root):
    profile = (root / "etc/apparmor.d/usr.sbin.meshdnsd").read_text()
    unit = (root / "usr/lib/systemd/system/meshdnsd.service").read_text()
    assert f"profile meshdnsd {re.search('ExecStart=([^ ]+)', unit)[1]} {{" in profile
    capabilities = re.search("CapabilityBoundingSet=(.*)", unit)[1].lower().split()
    assert re.findall("capability (.*),", profile) == [name.removeprefix("cap_") for name in capabilities]
    for key, place in (("RuntimeDirectory", "/run"), ("StateDirectory", "/var/lib"), ("ConfigurationDirectory", "/etc")):
        assert f" {place}/{re.search(f'^{key}=(.*)', unit, re.M)[1]}/**" in profile


def test_recommends_the_certificates_that_tls_upstreams_need(package):
    assert "ca-certificates" in run("dpkg-deb", "--field", package, "Recommends")


def test_its_documents_lead_only_to_files_that_it_has(root):
    directory = root / "usr/share/doc/meshdns"
    pages = list(directory.rglob("*.md"))
    assert len(pages) > 15
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#]+)", page.read_text())]
    assert len(links) > 50
    dead = [(page, link) for page, link in links if not re.match("https?:", link) and not (page.parent / link).exists()]
    assert dead == []
    for path in ("prometheus/meshdns.rules.yaml", "grafana/meshdns.json", "kubernetes/base/daemonset.yaml"):
        assert (directory / path).exists(), path


@pytest.mark.skipif(not shutil.which("journalctl"), reason="needs the package systemd")
def test_its_catalog_explains_each_identifier_of_the_log(root, tmp_path):
    """An identifier is for ever; its message is one that the sources have."""
    text = (root / "usr/lib/systemd/catalog/meshdns.catalog").read_text()
    explained = re.findall(r"^-- ([0-9a-f]{32})$", text, re.M)
    known = re.findall(r'\{"([^"]+)",\s*"([0-9a-f]{32})"\}', (ROOT / "dnsd/log/journal.cpp").read_text())
    assert sorted(explained) == sorted(identifier for _, identifier in known) and len(set(explained)) == len(known) > 15
    sources = "".join(path.read_text() for path in (ROOT / "dnsd").rglob("*.?pp") if path.name != "journal.cpp")
    missing = [message for message, _ in known if f'"{message}' not in sources]
    assert missing == []
    journal = tmp_path / "usr/lib/systemd/catalog"
    journal.mkdir(parents=True)
    (tmp_path / "var/lib/systemd/catalog").mkdir(parents=True)
    shutil.copy(root / "usr/lib/systemd/catalog/meshdns.catalog", journal)
    run("journalctl", f"--root={tmp_path}", "--update-catalog")
    assert "A restart of the daemon would fail" in run("journalctl", f"--root={tmp_path}", "--dump-catalog")


@pytest.mark.skipif(not shutil.which("man"), reason="needs man-db")
def test_its_manual_pages_are_well_formed_and_explain_every_key(root):
    pages = sorted((root / "usr/share/man").glob("man*/*.gz"))
    assert [page.name for page in pages] == ["meshdns.yaml.5.gz", "meshdns-kernel.8.gz", "meshdns-resolver.8.gz",
                                              "meshdnsd.8.gz"]
    environment = {**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    texts = {}
    for page in pages:
        result = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(page)], env=environment,
                                capture_output=True, text=True, timeout=seconds(30), check=False)
        assert (result.returncode, result.stderr) == (0, ""), page.name
        # Without bold letters, and with words that go on in the next line.
        plain = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", result.stdout)
        texts[page.name] = re.sub(r"(\u2010|(?<=\.))\n\s+(?=\w)", "", plain)
    # The tables of the document are the page's; another test holds those to the loader's keys.
    document = (ROOT / "docs" / "configuration.md").read_text()
    keys = re.findall(r"^\| `([a-z_0-9.A-Z]+)` \|", document, re.M)
    assert len(keys) > 60
    missing = [key for key in keys if key not in texts["meshdns.yaml.5.gz"]]
    assert missing == []


def test_completes_its_commands(root):
    for shell, path in (("zsh", "zsh/vendor-completions/_meshdnsd"), ("fish", "fish/vendor_completions.d/meshdnsd.fish")):
        assert (root / "usr/share" / path).read_text() == (ROOT / "conf" / "debian" / f"meshdnsd.{shell}-completion").read_text()
    script = root / "usr/share/bash-completion/completions/meshdnsd"

    def complete(*words):
        return run("bash", "-c", f'source "{script}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _meshdnsd;'
                   ' printf "%s\\n" "${COMPREPLY[@]}"', "bash", *words).split()

    commands = ["run", "check", "explain", "status", "reload", "cache", "flush", "log-level", "top", "dependencies", "help"]
    assert complete("meshdnsd", "") == commands
    assert complete("meshdnsd", "ex") == ["explain"]
    assert complete("meshdnsd", "log-level", "w") == ["warn"]
    # Every command and option that the daemon has, and no other.
    for command in commands:
        usage = run(root / "usr/sbin/meshdnsd", command, "--help")
        assert set(complete("meshdnsd", command, "-")) == set(re.findall(r"--[a-z-]+", usage)), command
    assert "--from" in complete("meshdnsd", "explain", "-")
    assert complete("meshdnsd", "explain", "api.example.org", "AA") == ["AAAA"]
