"""Pages that are written by programs are as the programs would write them now."""

import importlib.util
import re
from pathlib import Path

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
