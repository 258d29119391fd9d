"""The pages as a site: all of them are in it, links lead somewhere, nothing needs a network."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / 'docs'
SETTINGS = ROOT / 'dev' / 'mkdocs.yml'
# Made from files at the top of the repository when the site is built (dev/site_pages.py).
ELSEWHERE = {'changelog.md': 'CHANGELOG.md', 'contributing.md': 'CONTRIBUTING.md'}


def entries(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for below in nav.values():
            yield from entries(below)
    elif isinstance(nav, list):
        for below in nav:
            yield from entries(below)


def nav() -> list[str]:
    return list(entries(yaml.safe_load(SETTINGS.read_text(encoding='utf-8'))['nav']))


def test_every_page_is_in_the_navigation_once():
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob('*.md')]
    assert sorted(nav()) == sorted([*pages, *ELSEWHERE])


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as mkdocs and GitHub make them."""
    text = re.sub(r'```.*?```', '', page.read_text(encoding='utf-8'), flags=re.DOTALL)
    return {
        re.sub(r'[-\s]+', '-', re.sub(r'[^\w\s-]', '', title.strip().lower()))
        for title in re.findall(r'^#+ (.*)$', text, re.MULTILINE)}


@pytest.mark.parametrize('page', sorted(DOCS.rglob('*.md')), ids=lambda page: page.stem)
def test_links_lead_to_pages_and_headings(page: Path):
    for target, anchor in re.findall(
            r'\]\(([^)#\s]*)(?:#([^)\s]*))?\)', page.read_text(encoding='utf-8')):
        if '://' in target:
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists() and path.is_relative_to(DOCS), f'{target} is not on the site'
        assert not anchor or anchor in anchors(path), f'{target} has no heading {anchor}'


@pytest.fixture(scope='module')
def site(tmp_path_factory) -> Path:
    """The site, built without a warning."""
    pytest.importorskip('material', reason="needs mkdocs-material: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp('site')
    done = subprocess.run(
        [sys.executable, '-m', 'mkdocs', 'build', '--strict', '--config-file', SETTINGS,
         '--site-dir', folder],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, 'NO_MKDOCS_2_WARNING': '1'})
    assert done.returncode == 0 and 'WARNING' not in done.stderr, done.stderr
    return folder


def test_the_site_has_all_pages(site: Path):
    for page in nav():
        text = (site / page).with_suffix('.html').read_text(encoding='utf-8')
        assert '<h1' in text, page


def test_nothing_on_the_site_comes_from_a_network(site: Path):
    loaded = re.compile(r'<(?:script|img|iframe)\b[^>]*\ssrc="(https?:)?//|'
                        r'<link\b[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="(https?:)?//')
    for page in site.rglob('*.html'):
        assert not loaded.search(page.read_text(encoding='utf-8')), page
