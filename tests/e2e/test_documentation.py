# SPDX-License-Identifier: Apache-2.0
"""Every `dig`, `curl` and `meshdnsd` line that the documentation shows after a `$` is run, and its output is
what is shown; every YAML block is a valid configuration or valid resources.

What a page's daemon is given stands in a comment, and holds up to the next one:

    <!-- given:
    config: {mesh: {authoritative: true}}       laid over the shipped configuration
    resources: below                            the YAML block that follows, as shop.yaml beside the files of conf/examples
    upstream: {records: [...], rules: [...]}    added to what the upstream knows
    asked: [www.example.com A]                  before each try of the lines below
    upstream_later: {rules: [{drop: true}]}     what becomes of it once these were asked
    from: 127.0.0.9                             the client's address
    -->

In what is shown, `...` stands for any text, and a line of only that for any lines.
"""

import json
import re
import shlex
import subprocess
from dataclasses import dataclass

import pytest
import yaml

from harness.daemon import ROOT, run_tool
from harness.ports import free_port
from harness.preset import ONCE, TREE
from harness.real_servers import find_program
from harness.shown import check_shown
from harness.states import table
from harness.waiting import eventually, seconds
from harness.workspace import Workspace

pytestmark = ONCE

TUTORIAL = ROOT / "docs" / "tutorial.md"  # test_tutorial.py runs it in one shell
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PROGRAMS = ("dig", "curl", "meshdnsd")
GIVEN = {"config", "resources", "upstream", "asked", "upstream_later", "from"}
RECORDS = ["example.com. 300 A 192.0.2.80", "concrete.example.com. 300 A 192.0.2.81",
           "www.example.com. 300 A 192.0.2.82", "us.foo.bar.com. 300 A 192.0.2.21",
           "uk.foo.bar.com. 300 A 192.0.2.22", "in.foo.bar.com. 300 A 192.0.2.23",
           # The endpoint names of conf/examples: without an address, /readyz has a reason.
           *(f"{name}. 300 A 192.0.2.90" for name in ("api.dropboxapi.com", "api.facebook.com", "www.googleapis.com"))]


@dataclass
class Session:
    """A command as a page shows it."""
    command: str
    shown: list
    given: dict


def given_of(comment):
    given = yaml.safe_load(comment) or {}
    assert set(given) <= GIVEN, f"unknown keys: {set(given) - GIVEN}"
    assert given.get("resources", "below") == "below", "readers need the resources: show them in a YAML block"
    return given


def sessions(page):
    """[(line number, Session)] of a page: a command stands in an indented or fenced block."""
    found, current, given, comment, block, in_fence = [], None, {}, None, None, False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if comment is not None:
            if text == "-->":
                given, comment = given_of("\n".join(comment)), None
            else:
                comment.append(line)
        elif block is not None:
            if text == "```":
                given, block = given | {"resources": "\n".join(block) + "\n"}, None
            else:
                block.append(line)
        elif text == "```yaml" and given.get("resources") == "below":
            block, current = [], None
        elif text == "<!-- given:":
            comment = []
        elif text.startswith("<!-- config:"):  # that alone, on one line
            given = {"config": yaml.safe_load(text.removeprefix("<!-- config:").removesuffix("-->"))}
        elif text.startswith("```"):
            in_fence, current = not in_fence, None
        elif text.startswith("$ "):
            is_ours = text.split()[1] in PROGRAMS
            current = Session(text[2:], [], given) if is_ours else None
            if is_ours:
                found.append((number, current))
        elif current is not None:
            if text and (in_fence or line.startswith("    ")):
                current.shown.append(text)
            else:
                current = None
    return found


SESSIONS = [pytest.param(session, id=f"{page.relative_to(ROOT)}:{number}")
            for page in PAGES if page != TUTORIAL for number, session in sessions(page)]


def test_the_readme_shows_a_dig_session():
    assert any(str(param.id).startswith("README.md:") for param in SESSIONS)


TOKEN = "0123456789abcdef0123456789abcdef"


class Example:
    """A daemon as `./dev run` starts it, but on free ports, without the network, and with what is given."""

    def __init__(self, path, given):
        self.workspace = Workspace(path)
        self._upstream_later = given.get("upstream_later")
        more = given.get("upstream", {})
        self._upstream = self.workspace.upstream(RECORDS + more.get("records", []), more.get("rules", []))
        shipped = yaml.safe_load((ROOT / "conf" / "meshdns.yaml").read_text())
        sources = list(shipped["sources"])
        if "resources" in given:
            (self.workspace.resources / "shop.yaml").write_text(given["resources"])
            sources.append({"files": {"path": str(self.workspace.resources)}})
        token = self.workspace.path / "admin.token"
        token.write_text(TOKEN + "\n")
        admin = {"listen": f"127.0.0.1:{free_port()}", "token_file": str(token)}
        change = {"sources": sources, "admin": admin} | given.get("config", {})
        self.daemon = self.workspace.daemon(change, upstreams=[self._upstream])

    def run(self, session):
        """Returns the output of the command."""
        host, port = self.daemon.server
        for question in session.given.get("asked", []):
            self._dig([f"@{host}", "-p", str(port), "+tries=1", *question.split()])
        if self._upstream_later is not None:
            self._upstream.set(self._upstream_later.get("records", ()), self._upstream_later.get("rules", ()))
            self._upstream_later = None
        words = shlex.split(session.command)
        if words[0] == "dig":
            source = ["-b", session.given["from"]] if "from" in session.given else []
            places = {"15053": str(port), "@127.0.0.1": f"@{host}"}
            return self._dig([*source, *(places.get(word, word) for word in words[1:])])
        if words[0] == "curl":
            # Replaces the admin endpoint of the package and the default one.
            admin = self.daemon.admin_url
            command = session.command.replace("--unix-socket /run/meshdns/admin.sock http://localhost", admin)
            command = command.replace("http://127.0.0.1:15054", admin)
            command = command.replace("$(cat /etc/meshdns/admin.token)", TOKEN)
            return self._program([find_program("curl"), *shlex.split(command)[1:]])
        return run_tool(*words[1:]).stdout

    def _dig(self, arguments):
        return self._program([find_program("dig"), *arguments])

    def _program(self, words):
        result = subprocess.run(words, capture_output=True, text=True, timeout=seconds(15), check=False)
        return result.stdout + result.stderr

    def close(self):
        self.workspace.close()


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The daemon for what is given; one for all lines that are given the same."""
    running = {}

    def example(given):
        key = json.dumps(given, sort_keys=True)
        if key not in running:
            running[key] = Example(tmp_path_factory.mktemp("documentation"), given)
        return running[key]

    yield example
    for each in running.values():
        each.close()


@pytest.mark.parametrize("session", SESSIONS)
def test_a_command_shows_what_the_page_shows(examples, session):
    if session.command.startswith("curl"):
        find_program("curl")
    example = examples(session.given)
    eventually(lambda: check_shown(session.command, session.shown, example.run(session)), 10)


def yaml_blocks(page):
    """[(line number, text)] of the fenced blocks of a page that are YAML."""
    blocks = re.finditer(r"^```yaml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    return [(block.string[:block.start()].count("\n") + 2, block.group(1)) for block in blocks]


YAML_BLOCKS = [pytest.param(text, id=f"{page.relative_to(ROOT)}:{number}")
               for page in PAGES for number, text in yaml_blocks(page)]


@pytest.mark.parametrize("text", YAML_BLOCKS)
def test_a_yaml_block_is_valid(text, tmp_path):
    path = tmp_path / "shown.yaml"
    path.write_text(text)
    if re.search(r"^(- )?kind:", text, re.M):
        result = run_tool("check", path)
        assert result.returncode == 0, result.stdout + result.stderr
        return
    # Paths and addresses that it names do not exist here; only findings about the file itself count.
    result = run_tool("check", "--config", path)
    problems = [line for line in (result.stdout + result.stderr).splitlines()
                if line.startswith(str(path)) and not re.search(
                    "not available in this build|No such file or directory$|no interface of this machine has", line)]
    assert problems == []


@TREE
def test_the_table_of_lost_queries_is_one_of_the_tests():
    """harness/states.py makes it from what they count."""
    page = (ROOT / "docs" / "operations.md").read_text()
    shown = page[page.index("### Queries that are lost"):].split("\n\n")[2].splitlines()
    head, line, *rows = table([]).splitlines()
    assert shown[:2] == [head, line]
    assert [row.split("|")[1] for row in shown[2:]] == [row.split("|")[1] for row in rows]
    for row in shown[2:]:
        assert all(re.fullmatch(r" \d+ of \d[\d,]* ", cell) for cell in row.split("|")[2:-1]), row
