"""Pages match the code: generated pages are up to date, and every name in the others exists."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from sparser_ros.config import SparserConfig, walk

ROOT = Path(__file__).resolve().parent.parent
ROOMS = sorted(path.name for path in (ROOT / 'sparser_ros').iterdir() if path.is_dir())
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]
# dev/NAME.py writes its PAGE.
GENERATED = ('parameters', 'reference', 'commands', 'messages')
CODE_PAGES = [ROOT / 'docs' / f'{name}.md' for name in ('architecture', 'method')]


@pytest.mark.parametrize('name', GENERATED)
def test_pages_made_from_the_code_are_up_to_date(name: str):
    spec = importlib.util.spec_from_file_location(f'{name}_page', ROOT / 'dev' / f'{name}.py')
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    written = writer.PAGE.read_text(encoding='utf-8')
    assert writer.page() == written, f'run: ./dev/run python dev/{name}.py'


def test_readme_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r'\]\(([^)#]+)[^)]*\)', page.read_text(encoding='utf-8')):
            if '://' not in target:
                assert (page.parent / target).exists(), f'{page.name} links to {target}'


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


def resolved(name: str) -> object:
    """The object that a dotted name below sparser_ros leads to."""
    parts = name.split('.')
    for count in range(len(parts), 0, -1):
        module = '.'.join(['sparser_ros', *parts[:count]])
        try:
            found: object = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module and not module.startswith(f'{error.name}.'):
                raise
            continue
        for attribute in parts[count:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(name)


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
    resolved(name)


@pytest.mark.parametrize('page', CODE_PAGES, ids=lambda page: page.stem)
def test_names_in_the_docs_are_whole(page: Path):
    """`schur.SchurOperator` has to be looked for; `solver.model.schur.SchurOperator` has not."""
    rooms = '|'.join(ROOMS)
    dotted = re.findall(r'`((?:\w+\.)+\w+)`', page.read_text(encoding='utf-8'))
    options = {option.name for option in walk(SparserConfig)}
    files = ('.g2o', '.md', '.py', '.pyfg', '.yaml')
    assert [
        name for name in dotted
        if not re.match(rf'({rooms})\.', name) and name not in options
        and not name.endswith(files)] == []


def test_no_table_stands_twice():
    """A row of three cells or more belongs to one page; heads and rules of tables recur."""
    seen: dict[str, str] = {}
    for page in PAGES:
        rows = {
            line for line in page.read_text(encoding='utf-8').splitlines()
            if line.startswith('|') and line.count('|') > 3 and re.search(r'\d', line)}
        for row in rows:
            assert row not in seen, f'{page.name} and {seen[row]}: {row}'
            seen[row] = page.name


def test_tests_named_in_the_docs_exist():
    """`test_file.py` or `test_file.py::test_name`, of whatever folder."""
    files = {path.name: path for path in (ROOT / 'test').rglob('test_*.py')}
    named = [one for page in PAGES for one in re.findall(
        r'`(test_\w+\.py)(?:::(\w+))?`', page.read_text(encoding='utf-8'))]
    missing = [f'{file}::{name}' for file, name in named if file not in files or (
        name and f'def {name}(' not in files[file].read_text())]
    assert not missing
