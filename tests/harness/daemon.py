# SPDX-License-Identifier: Apache-2.0
"""meshdnsd as a process: its configuration, its ports, its life."""

import copy
import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.error
import urllib.request

import yaml

from harness.dns_client import Question, ask
from harness.ports import free_port
from harness.process import Process
from harness.waiting import seconds

ROOT = pathlib.Path(__file__).resolve().parents[2]


def binary():
    """The daemon under test: $MESHDNSD, else build/meshdnsd."""
    return pathlib.Path(os.environ.get("MESHDNSD", ROOT / "build" / "meshdnsd")).resolve()


def merge(base, change):
    """`base` with `change` laid over it, mapping by mapping.  Neither is modified."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    merged = copy.deepcopy(base)
    for key, value in change.items():
        merged[key] = merge(merged[key], value) if key in merged else copy.deepcopy(value)
    return merged


def base_config(resources, upstreams=(), address="127.0.0.1"):
    """Small and complete: the files below `resources`, the given "ip:port" upstreams, no admin page."""
    return {
        "server": {"listen": [f"{address}:{free_port(address)}"], "workers": 2},
        "admin": {"listen": ""},
        "sources": [{"files": {"path": str(resources)}}],
        "upstream": {"servers": list(upstreams)},
    }


class Daemon:
    """A running daemon.  REQUIRES: `directory` is the caller's, and empty of meshdns.yaml."""

    def __init__(self, config, directory, env=None, prefix=(), wait=True, pass_fds=(), arguments=()):
        self.config = config
        self.config_path = pathlib.Path(directory) / "meshdns.yaml"
        self.write_config(config)
        self.process = Process([binary(), "run", "--config", self.config_path, *arguments], "meshdnsd",
                               env={**os.environ, **(env or {})}, cwd=ROOT, prefix=prefix,
                               pass_fds=pass_fds)
        if wait:
            self.wait_until_ready()

    def write_config(self, config):
        self.config = config
        text = config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False)
        self.config_path.write_text(text)

    def wait_until_ready(self):
        line = self.process.wait_for_line(r"\bready:|not ready yet:", 15.0)
        bound = re.search(r'listen="?\[?"?([^\s",\]]+:\d+)', line)
        configured = self.config["server"]["listen"][0]
        host, _, port = (bound.group(1) if bound else configured).rpartition(":")
        self.server = (host.strip("[]"), int(port))
        assert self.server[1] != 0, f"the ready line does not say which port was bound: {line}"

    @property
    def pid(self):
        return self.process.pid

    @property
    def admin_url(self):
        return f"http://{self.config['admin']['listen']}"

    def ask(self, name, rdtype="A", transport="udp", timeout=5.0, **options):
        return ask(self.server, Question(name, rdtype, **options), transport, timeout)

    def get(self, path, timeout=5.0):
        """(status, text) of one request to the admin endpoint."""
        try:
            with urllib.request.urlopen(self.admin_url + path, timeout=seconds(timeout)) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get_json(self, path):
        """The document at `path`; a busy control thread (503) fails an assertion, which `eventually` tries again."""
        status, text = self.get(path)
        assert status == 200, f"{path}: {status} {text}"
        return json.loads(text)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def wait_for_log(self, pattern, limit=5.0, after=0):
        return self.process.wait_for_line(pattern, limit, after)

    def log_position(self):
        return len(self.process.log_lines())

    def stop(self):
        """Ends it as systemd does, and checks that it went well."""
        was_running = self.process.is_running()
        code = self.process.stop(signal.SIGTERM)
        reports = self.process.sanitizer_reports()
        assert not reports, "the sanitizer reports:\n" + self.process.log_tail(200)
        assert was_running, f"meshdnsd had ended by itself, exit code {code}\n{self.process.log_tail()}"
        assert code == 0, f"exit code {code} after SIGTERM\n{self.process.log_tail()}"

    def kill(self):
        self.process.kill()


def run_tool(*arguments, env=None, timeout=20.0, **options):
    """A one-shot command of the daemon's binary (`check`, `explain`, `--version`)."""
    return subprocess.run([str(binary()), *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **(env or {})}, cwd=ROOT, timeout=seconds(timeout),
                          check=False, **options)
