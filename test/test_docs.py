"""Pages that are written by programs are as the programs would write them now."""

import importlib.util
import re
from pathlib import Path

import yaml

from sparser_ros.config import SparserConfig, walk

ROOT = Path(__file__).resolve().parent.parent


def test_parameter_table_is_up_to_date():
    path = ROOT / 'dev' / 'parameters.py'
    spec = importlib.util.spec_from_file_location('parameters_page', path)
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    written = (ROOT / 'docs' / 'parameters.md').read_text(encoding='utf-8')
    assert writer.page() == written, 'run: ./dev/run python dev/parameters.py'


def test_readme_links_lead_somewhere():
    for page in (ROOT / 'README.md', *(ROOT / 'docs').glob('*.md')):
        for target in re.findall(r'\]\(([^)#]+)[^)]*\)', page.read_text(encoding='utf-8')):
            if '://' not in target:
                assert (page.parent / target).exists(), f'{page.name} links to {target}'


def test_the_example_in_the_readme_is_valid():
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    (example,) = re.findall(r'```yaml\n(.*?)```', text, re.DOTALL)
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
