"""Pages match the code, names in them exist, links lead somewhere, the site is whole."""

import pkgutil
import re
import runpy
from pathlib import Path

import pytest
import yaml
from waiting import python

from sparser_ros.config import SparserConfig, walk

ROOT = Path(__file__).resolve().parent.parent
ROOMS = sorted(path.name for path in (ROOT / 'sparser_ros').iterdir() if path.is_dir())
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]
# dev/NAME.py writes its PAGE.
GENERATED = ('parameters', 'reference', 'commands', 'messages')
CODE_PAGES = [ROOT / 'docs' / f'{name}.md' for name in ('architecture', 'method')]


@pytest.mark.parametrize('name', GENERATED)
def test_pages_made_from_the_code_are_up_to_date(name: str):
    writer = runpy.run_path(str(ROOT / 'dev' / f'{name}.py'))
    written = writer['PAGE'].read_text(encoding='utf-8')
    assert writer['page']() == written, f'run: ./dev/run python dev/{name}.py'


def test_the_example_in_the_readme_is_valid():
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    (example,) = re.findall(r'```yaml\n(/\*\*:.*?)```', text, re.DOTALL)
    parameters = yaml.safe_load(example)['/**']['ros__parameters']
    config = SparserConfig.from_mapping(parameters)
    assert config.radio_specs()['1'].position == [0.0, 0.0, 2.1]


def test_parameters_named_in_the_readme_exist():
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    known = {option.name for option in walk(SparserConfig)}
    groups = {name.split('.')[0] for name in known if '.' in name}
    named = {n for n in re.findall(r'`([a-z_]+(?:\.[a-z_]+)+)`', text) if n.split('.')[0] in groups}
    assert named
    assert named <= known


def named_objects() -> list[str]:
    """Dotted names of our modules, classes and functions in the pages about the code."""
    rooms = '|'.join(ROOMS)
    text = '\n'.join(page.read_text(encoding='utf-8') for page in CODE_PAGES)
    names = set(re.findall(rf'(?<![\w./])(?:{rooms})(?:\.\w+){{1,4}}', text))
    return sorted(names - {option.name for option in walk(SparserConfig)})


@pytest.mark.parametrize('name', named_objects())
def test_functions_named_in_the_docs_exist(name: str):
    if name.startswith(('node.', 'demo.')):
        pytest.importorskip('rclpy', reason='needs ROS 2')
        pytest.importorskip('sparser_ros.msg', reason='needs the built messages')
    pkgutil.resolve_name(f'sparser_ros.{name}')


def test_tests_named_in_the_docs_exist():
    """`test_file.py` or `test_file.py::test_name`, of whatever folder."""
    files = {path.name: path for path in (ROOT / 'test').rglob('test_*.py')}
    named = [one for page in PAGES for one in re.findall(
        r'`(test_\w+\.py)(?:::(\w+))?`', page.read_text(encoding='utf-8'))]
    missing = [f'{file}::{name}' for file, name in named if file not in files or (
        name and f'def {name}(' not in files[file].read_text())]
    assert not missing


DOCS = ROOT / 'docs'
SETTINGS = ROOT / 'dev' / 'mkdocs.yml'
# Made from files at the top of the repository when the site is built (dev/site_pages.py).
ELSEWHERE = {'changelog.md': 'CHANGELOG.md', 'contributing.md': 'CONTRIBUTING.md'}


def nav() -> list[str]:
    """The pages in the navigation of the site, in order."""
    chapters = yaml.safe_load(SETTINGS.read_text(encoding='utf-8'))['nav']
    return re.findall(r'[\w/]+\.md\b', str(chapters))


def test_every_page_is_in_the_navigation_once():
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob('*.md')]
    assert sorted(nav()) == sorted([*pages, *ELSEWHERE])


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as mkdocs and GitHub make them."""
    text = re.sub(r'```.*?```', '', page.read_text(encoding='utf-8'), flags=re.DOTALL)
    return {
        re.sub(r'[-\s]+', '-', re.sub(r'[^\w\s-]', '', title.strip().lower()))
        for title in re.findall(r'^#+ (.*)$', text, re.MULTILINE)}


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.stem)
def test_links_lead_to_pages_and_headings(page: Path):
    for target, anchor in re.findall(
            r'\]\(([^)#\s]*)(?:#([^)\s]*))?\)', page.read_text(encoding='utf-8')):
        if '://' in target:
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f'there is no {target}'
        assert page.parent == ROOT or path.is_relative_to(DOCS), f'{target} is not on the site'
        assert not anchor or anchor in anchors(path), f'{target} has no heading {anchor}'


def test_the_site_has_all_pages_and_loads_nothing_from_a_network(tmp_path: Path):
    """It is built without a warning."""
    pytest.importorskip('material', reason="needs mkdocs-material: pip install '.[docs]'")
    done = python('-m', 'mkdocs', 'build', '--strict', '--config-file', SETTINGS,
                  '--site-dir', tmp_path, check=False, NO_MKDOCS_2_WARNING='1')
    assert done.returncode == 0 and 'WARNING' not in done.stderr, done.stderr
    for page in nav():
        text = (tmp_path / page).with_suffix('.html').read_text(encoding='utf-8')
        assert '<h1' in text, page
    loaded = re.compile(r'<(?:script|img|iframe)\b[^>]*\ssrc="(https?:)?//|'
                        r'<link\b[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="(https?:)?//')
    for page in tmp_path.rglob('*.html'):
        assert not loaded.search(page.read_text(encoding='utf-8')), page
