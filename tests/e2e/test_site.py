# SPDX-License-Identifier: Apache-2.0
"""The site of the documentation: every link leads somewhere, and a browser loads nothing from other servers. Needs no daemon."""

import re
import subprocess
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from harness.daemon import ROOT
from harness.preset import ONCE, TREE

pytestmark = [ONCE, TREE]

# Attributes by which a browser loads something; href of other elements than `link` waits for a click.
LOADED = {"src", "srcset", "data", "poster", "action", "background"}


class Page(HTMLParser):
    """A page's links, loaded resources, anchors, headings and pictures."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors, self.pictures, self.text = [], [], set(), [], []
        self.tags, self.has_language = [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.has_language |= tag == "html" and attributes.get("lang") == "en"
        if "id" in attributes:
            assert attributes["id"] not in self.anchors, f"two elements have the id {attributes['id']}"
            self.anchors.add(attributes["id"])
        if tag == "a":
            self.links.append(attributes["href"])
        if tag == "img":
            self.pictures.append(attributes)
        self.loaded += [value for name, value in attributes.items() if name in LOADED or tag == "link" and name == "href"]

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module", name="site")
def fixture_site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    built = subprocess.run([ROOT / "docs" / "site" / "build", directory], capture_output=True, text=True, timeout=60, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return directory / "public"


@pytest.fixture(scope="module", name="pages")
def fixture_pages(site):
    return {path.name: Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}


def test_each_page_of_the_documentation_is_there(pages):
    expected = {path.stem + ".html" for path in (ROOT / "docs").rglob("*.md") if path.name != "README.md"}
    assert expected | {"index.html", "about.html", "changelog.html", "contributing.html"} <= set(pages)
    for name, page in pages.items():
        assert page.has_language and page.tags.count("title") == page.tags.count("h1") == 1, name
        assert len("".join(page.text)) > 1000, f"{name} is empty"


def dead_links(site, pages):
    for name, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or link == "data:,":
                continue
            target = unquote(parts.path) or name
            if not (site / target).is_file():
                yield f"{name}: {link}"
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link}"


def test_links_lead_somewhere(site, pages):
    assert list(dead_links(site, pages)) == []
    assert sum(len(page.links) for page in pages.values()) > 1000


def test_nothing_comes_from_other_servers(site, pages):
    loaded = {(name, link) for name, page in pages.items() for link in page.loaded if urlsplit(link).scheme not in ("", "data")}
    assert loaded == set()
    assert all("script" not in page.tags and "iframe" not in page.tags for page in pages.values())
    for path in [*site.glob("**/*.css"), *site.glob("**/*.svg")]:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"@import|https?://|url\((?!#)", text), path.name


def test_pictures_have_text_and_are_for_light_and_dark(site, pages):
    pictures = [picture for page in pages.values() for picture in page.pictures]
    assert {picture["src"] for picture in pictures} == {
        path.name for path in [*site.glob("*.svg"), *site.glob("*.png")]}
    assert all(len(picture.get("alt", "")) > 10 for picture in pictures)
    for path in site.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert re.search(r"<title|aria-label=", text) and "prefers-color-scheme: dark" in text, path.name


def test_comments_for_the_tests_are_not_shown(site):
    assert [path.name for path in site.glob("*.html") if "given:" in path.read_text(encoding="utf-8")] == []
