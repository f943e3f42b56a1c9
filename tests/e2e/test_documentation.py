"""Every `dig` line that the documentation shows is run, and its output is what is shown."""

import re
import shlex
import subprocess

import pytest
import yaml

from harness.daemon import ROOT
from harness.real_servers import find_program
from harness.waiting import seconds
from harness.workspace import Workspace

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def dig_sessions(page):
    """[(line number, command, shown output lines)] of the indented or fenced blocks of a page."""
    sessions, current = [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if text.startswith("$ "):
            current = (number, text[2:], []) if text.startswith("$ dig ") else None
            if current:
                sessions.append(current)
        elif current is not None:
            if not text or text.startswith("```") or not (line.startswith(("    ", "\t")) or _in_fence(page, number)):
                current = None
            else:
                current[2].append(text)
    return sessions


def _in_fence(page, number):
    lines = page.read_text(encoding="utf-8").splitlines()[:number]
    return sum(line.strip().startswith("```") for line in lines) % 2 == 1


def page_config(page):
    """What the page says, in a comment, that its daemon has beside the shipped configuration."""
    comment = re.search(r"<!-- config: (.*?) -->", page.read_text(encoding="utf-8"))
    return yaml.safe_load(comment.group(1)) if comment else {}


SESSIONS = [pytest.param(page_config(page), command, shown, id=f"{page.relative_to(ROOT)}:{number}")
            for page in PAGES for number, command, shown in dig_sessions(page)]


def test_the_readme_shows_a_dig_session():
    assert any(str(param.id).startswith("README.md:") for param in SESSIONS)


@pytest.fixture(scope="module")
def example_daemon(tmp_path_factory, request):
    """As `./dev run` starts it: the shipped configuration, but on a free port and without the network."""
    workspace = Workspace(tmp_path_factory.mktemp("documentation"))
    upstream = workspace.upstream([
        "example.com. 300 A 192.0.2.80", "concrete.example.com. 300 A 192.0.2.81",
        "us.foo.bar.com. 300 A 192.0.2.21", "uk.foo.bar.com. 300 A 192.0.2.22",
        "in.foo.bar.com. 300 A 192.0.2.23"])
    shipped = yaml.safe_load((ROOT / "conf" / "meshdns.yaml").read_text())
    change = {"sources": shipped["sources"]} | request.param  # all else stands at its default there
    yield workspace.daemon(change, upstreams=[upstream])
    workspace.close()


def normalised(line):
    """Without what differs from run to run: TTLs, serials, IDs, times and sizes."""
    line = re.sub(r"\s+", " ", line.strip())
    line = re.sub(r"^(\S+) \d+ (IN|CH) ", r"\1 \2 ", line)
    return re.sub(r"(IN SOA \S+ \S+) \d+", r"\1", line)


@pytest.mark.parametrize("example_daemon, command, shown", SESSIONS, indirect=["example_daemon"])
def test_dig_shows_what_the_page_shows(example_daemon, command, shown):
    words = shlex.split(command)
    host, port = example_daemon.server
    replaced = [{"15053": str(port), "@127.0.0.1": f"@{host}"}.get(word, word) for word in words]
    result = subprocess.run([find_program("dig"), *replaced[1:]], capture_output=True, text=True,
                            timeout=seconds(15), check=False)
    found = {normalised(line) for line in result.stdout.splitlines()}
    volatile = re.compile(r"^;; (Query time|WHEN|MSG SIZE|SERVER|->>HEADER)|^; <<>> DiG|^;; global|COOKIE")
    for line in shown:
        if volatile.search(line) or line in ("...", "…"):
            continue
        assert normalised(line) in found, f"{line!r} is shown, but dig says:\n{result.stdout}{result.stderr}"


def test_every_page_of_the_documentation_is_reachable():
    """A link to a file of the repository leads somewhere."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:"):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"
