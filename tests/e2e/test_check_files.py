# SPDX-License-Identifier: Apache-2.0
"""`meshdnsd check` looks at this machine, too: it reads each file that the configuration names, as a start does."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
import yaml

from harness.authority import Authority
from harness.daemon import ROOT, binary, run_tool
from harness.preset import ONE_THREAD
from harness.scenario import to_yaml
from harness.waiting import seconds

pytestmark = ONE_THREAD

API = {"kind": "ServiceEntry", "metadata": {"name": "api", "namespace": "shop"},
       "spec": {"hosts": ["api.example.org"], "addresses": ["10.0.0.7"], "resolution": "STATIC"}}
NODE = {"address": "10.0.0.1", "name": "web", "namespace": "shop"}
PASSWORDS = "joe:$2y$05$abcdefghijklmnopqrstuuGPVUEXwyMzYo3cYwrJ3rmnA0dIIMLKK\n"
# Another program makes them while it runs, or the daemon itself does.
MADE_LATER = {"server.handover", "server.kernel_maps"}


def documented_keys():
    """The keys of the configuration whose values are paths."""
    keys = re.findall(r"^\| `([a-z_0-9.]+)` \|", (ROOT / "docs/configuration.md").read_text(), re.M)
    return {key for key in keys if re.search(r"(file|path|kubeconfig|state_dir|handover|kernel_maps|dnstap)$", key)} - MADE_LATER


class Files:
    """Good files, and a configuration that names all of them, a line for each."""

    def __init__(self, directory):
        self.directory = directory
        authority = Authority(directory)
        self.certificate, self.key = authority.issue("server", "subjectAltName=IP:127.0.0.1")
        self.authority = authority.certificate
        self.resources = directory / "resources"
        self.resources.mkdir()
        (self.resources / "api.yaml").write_text(to_yaml([API]))
        self.token = self.write("token", "0123456789abcdef\n")
        self.kubeconfig = self.write("kubeconfig", json.dumps({
            "current-context": "here", "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": str(self.authority)}}],
            "users": [{"name": "u", "user": {"client-certificate": str(self.certificate), "client-key": str(self.key),
                                             "tokenFile": str(self.token)}}]}))
        self.values = {
            "server.cookies.secret_file": self.write("cookies", "0123456789abcdef0123456789abcdef\n"),
            "admin.token_file": self.token,
            "admin.metrics_cert_file": self.certificate,
            "admin.metrics_key_file": self.key,
            "admin.metrics_password_file": self.write("passwords", PASSWORDS),
            "log.dnstap": f"file:{directory}/answers.fstrm",
            "sources.files.path": self.resources,
            "sources.kubernetes.kubeconfig": self.kubeconfig,
            "sources.name_table.path": self.write("names.json", '{"table": {}}'),
            "sources.istiod.ca_file": self.authority,
            "sources.istiod.token_file": self.token,
            "upstream.tls.ca_file": self.authority,
            "hosts.file": self.write("hosts", "192.0.2.1 one.example.org\n"),
            "state_dir": directory,
        }
        self.path = directory / "meshdns.yaml"

    def write(self, name, text):
        (self.directory / name).write_text(text)
        return self.directory / name

    def config(self, **changes):
        """A document with the values; `changes`: key to path, None leaves it out."""
        values = {key: str(value) for key, value in {**self.values, **changes}.items() if value is not None}
        document, sources = {}, {}
        for key, value in values.items():
            *sections, last = key.split(".")
            place = document
            if sections[:1] == ["sources"]:
                place, sections = sources, sections[1:]
            for section in sections:
                place = place.setdefault(section, {})
            place[last] = value
        sources["istiod"] |= {"address": "istiod.example.org", "node": NODE}
        document["sources"] = [{kind: source} for kind, source in sources.items()]
        self.path.write_text(yaml.safe_dump(document, width=1000))
        return self.path

    def line_of(self, value):
        (line,) = [number for number, line in enumerate(self.path.read_text().splitlines(), 1) if str(value) in line]
        return line


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def check(path, *arguments, **options):
    return run_tool("check", "--config", path, *arguments, **options)


def test_accepts_files_that_a_start_accepts(files):
    result = check(files.config())
    assert result.returncode == 0 and ", 0 errors" in result.stdout, result.stdout
    with_certificate = files.config(**{"sources.istiod.token_file": None, "sources.istiod.cert_file": files.certificate,
                                       "sources.istiod.key_file": files.key})
    result = check(with_certificate)
    assert result.returncode == 0 and ", 0 errors" in result.stdout, result.stdout
    assert not (files.directory / "answers.fstrm").exists() and not (files.directory / "lock").exists()


def test_finds_each_file_that_is_missing(files):
    """All keys of the documentation whose values are paths."""
    pair = {"sources.istiod.token_file": None, "sources.istiod.cert_file": files.certificate, "sources.istiod.key_file": files.key}
    for key in sorted(documented_keys()):
        missing = f"{files.directory}/missing/{key}"
        value = f"file:{missing}" if key == "log.dnstap" else missing
        more = pair if key in ("sources.istiod.cert_file", "sources.istiod.key_file") else {}
        result = check(files.config(**{**more, key: value}))
        assert result.returncode == 1, (key, result.stdout)
        findings = [line for line in result.stdout.splitlines() if missing in line]
        assert len(findings) == 1 and "No such file or directory" in findings[0], (key, result.stdout)
        shown = re.sub(r"^sources\.", r"sources[N].", key)
        place = re.sub(r"sources\[\d\]", "sources[N]", findings[0])
        assert place.startswith(f"{files.path}:{files.line_of(missing)}: error: {shown}: "), (key, findings)


def test_each_key_has_one_exit_status_for_each_kind_of_file(files, tmp_path):
    """A pipe, a device and a directory where a file belongs, and nothing at all."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pair = {"sources.istiod.token_file": None, "sources.istiod.cert_file": files.certificate, "sources.istiod.key_file": files.key}
    for key in sorted(documented_keys() - {"log.dnstap", "state_dir"}):
        more = pair if key in ("sources.istiod.cert_file", "sources.istiod.key_file") else {}
        for value in (pipe, "/dev/full", "/dev/null/below", tmp_path / "none"):
            result = check(files.config(**{**more, key: value}))
            assert result.returncode == 1, (key, value, result.stdout)
            findings = [line for line in result.stdout.splitlines() if str(value) in line]
            assert len(findings) == 1 and findings[0].startswith(f"{files.path}:{files.line_of(value)}: error: "), (key, findings)
    # It runs on the paths of the command line.
    for value in (pipe, "/dev/full", tmp_path / "none"):
        assert run_tool("check", value).returncode == 2, value


BROKEN = [
    ("server.cookies.secret_file", "short\n", "not a secret of 32 hexadecimal digits"),
    ("admin.token_file", "short\n", "the token is shorter than 16 characters"),
    ("admin.metrics_cert_file", "none\n", "{path}: "),
    ("admin.metrics_key_file", "none\n", "{path}: "),
    ("admin.metrics_password_file", "joe\n", "line 1: is not NAME:HASH"),
    ("sources.kubernetes.kubeconfig", "current-context: there\n", 'there is none named "there"'),
    ("sources.kubernetes.kubeconfig", "a: [1\n", "line 1: "),
    ("sources.istiod.ca_file", "none\n", "cannot read the authorities in {path}"),
    ("sources.istiod.token_file", "\n", "{path}: has no token"),
    ("upstream.tls.ca_file", "none\n", "cannot read the authorities in {path}"),
]


@pytest.mark.parametrize("key,text,message", BROKEN, ids=[f"{key} {text!r}" for key, text, _ in BROKEN])
def test_finds_a_file_with_the_wrong_content(files, key, text, message):
    path = files.write("broken", text)
    result = check(files.config(**{key: path}))
    assert result.returncode == 1, result.stdout
    (finding,) = [line for line in result.stdout.splitlines() if "error: " in line and "errors" not in line]
    assert finding.startswith(f"{files.path}:{files.line_of(path)}: error: ") and key.rpartition(".")[2] in finding
    assert message.format(path=path) in finding


def test_reads_the_files_of_a_kubeconfig(files):
    other = Authority(files.directory, "other").issue("other-server", "subjectAltName=IP:127.0.0.1")[1]
    good = json.loads(files.kubeconfig.read_text())
    for part, field, value, message in (
            ("clusters", "certificate-authority", "/nonexistent", "cannot read /nonexistent: No such file or directory"),
            ("clusters", "certificate-authority-data", "bm9uZQ==", "certificate-authority-data: has no certificate in PEM"),
            ("users", "client-key", str(other), f"{other}: is not the key of the certificate in {files.certificate}"),
            ("users", "tokenFile", "/nonexistent", "the token file /nonexistent cannot be read: No such file or directory")):
        bad = json.loads(json.dumps(good))
        bad[part][0][part.removesuffix("s")][field] = value
        files.kubeconfig.write_text(json.dumps(bad))
        result = check(files.config())
        line = files.line_of(files.kubeconfig)
        assert f"{files.path}:{line}: error: sources[1].kubernetes.kubeconfig: {message}" in result.stdout, result.stdout
        assert result.returncode == 1


def test_finds_addresses_that_this_machine_does_not_have(tmp_path):
    path = tmp_path / "meshdns.yaml"
    path.write_text("server:\n  listen:\n    - 127.0.0.1:53\n    - 127.0.0.53:53\n    - 0.0.0.0:54\n"
                    '    - 203.0.113.77:53\n    - "[2001:db8::77]:53"\n    - "[fe80::1%none0]:53"\n')
    result = check(path)
    assert result.returncode == 0
    warnings = [line for line in result.stdout.splitlines() if ": warning: " in line]
    missing = "no interface of this machine has the address"
    assert len(warnings) == 3
    assert warnings[0].startswith(f"{path}:6: warning: server.listen[3]: 203.0.113.77:53: {missing}")
    assert warnings[1].startswith(f"{path}:7: warning: server.listen[4]: [2001:db8::77]:53: {missing}")
    assert warnings[2].startswith(f"{path}:8: warning: server.listen[5]: [fe80::1%none0]:53: no such interface")


_WITH_USER = """
set -e
mkdir "$1/etc"
(cat /etc/passwd; echo 'meshdns:x:61234:61234::/:/bin/false') >"$1/etc/passwd"
(cat /etc/group; echo 'meshdns:x:61234:') >"$1/etc/group"
mount --make-rprivate /
mount --bind "$1/etc/passwd" /etc/passwd
mount --bind "$1/etc/group" /etc/group
shift
exec "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
@pytest.mark.skipif("\nmeshdns:" in open("/etc/passwd", encoding="utf-8").read(), reason="the machine has the user")
def test_root_tries_it_as_the_user_of_the_service(tmp_path):
    with tempfile.TemporaryDirectory() as folder:  # those of pytest are for root alone
        os.chmod(folder, 0o755)
        try_as_the_user_of_the_service(Files(pathlib.Path(folder)), tmp_path)


def try_as_the_user_of_the_service(files, directory):
    private = [files.write("private-token", "0123456789abcdef\n"), files.resources / "private.yaml"]
    private[1].write_text(to_yaml([{**API, "metadata": {"name": "other", "namespace": "shop"}}]))
    path = files.config(**{"admin.token_file": private[0], "state_dir": None, "log.dnstap": None})

    def findings(*modes):
        for file, mode in zip(private, modes):
            file.chmod(mode)
        shutil.rmtree(directory / "etc", ignore_errors=True)
        result = subprocess.run(["unshare", "--mount", "bash", "-c", _WITH_USER, "bash", str(directory), str(binary()),
                                  "check", "--config", str(path)], capture_output=True, text=True, check=False,
                                timeout=seconds(20))
        unread = [line.partition(":")[0] for line in result.stderr.splitlines()]
        assert result.returncode == 0 and set(unread) == {f"this command reads files, and not the source {kind}"
                                                          for kind in ("kubernetes", "istiod")}, result
        return [line for line in result.stdout.splitlines() if "user of the service" in line]
    files.key.chmod(0o644)
    assert findings(0o644, 0o644) == []
    cannot = "the user of the service, meshdns, cannot use it"
    assert findings(0o600, 0o640) == [
        f"{path}:{files.line_of(private[0])}: warning: admin.token_file: {cannot}: {private[0]}: Permission denied",
        f"{path}:{files.line_of(f'path: {files.resources}')}: warning: sources[0].files.path: {cannot}: {private[1]}: "
        "Permission denied"]
    path.chmod(0o600)
    assert findings(0o644, 0o644) == [f"{path}: warning: {cannot}: {path}: Permission denied"]


def test_reads_standard_input():
    good = run_tool("check", "-", input=to_yaml([API]))
    assert (good.returncode, good.stdout) == (0, "1 resource, 0 errors, 0 warnings\n")
    bad = run_tool("check", "-", input="kind: ServiceEntry\nspec: [\n")
    assert bad.returncode == 1 and bad.stdout.startswith("standard input:2: error: "), bad
    config = run_tool("check", "--config", "-", input="cache:\n  size: none\n")
    assert config.returncode == 1 and config.stdout.startswith('standard input:2: error: cache.size: "none"'), config
    file = run_tool("check", "--config", "-", input="admin:\n  token_file: /nonexistent\n")
    assert file.returncode == 1
    assert file.stdout.startswith("standard input:2: error: admin.token_file: /nonexistent: No such file"), file
    empty = run_tool("check", "--config", "-", input="")
    assert empty.returncode == 1 and empty.stdout.startswith("standard input: error: is empty"), empty
    for arguments in (["check", "--config", "-", "-"], ["check", "-", "-"], ["run", "--config", "-"], ["status", "--config", "-"]):
        refused = run_tool(*arguments, input="")
        assert refused.returncode == 2 and "standard input" in refused.stderr, (arguments, refused)
