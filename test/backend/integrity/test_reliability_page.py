"""Every test that docs/reliability.md names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_tests_of_the_page_exist():
    page = (ROOT / 'docs' / 'reliability.md').read_text(encoding='utf-8')
    files = {path.name: path.read_text(encoding='utf-8') for path in ROOT.glob('test/**/test_*.py')}
    assert set(re.findall(r'test_\w+\.py', page)) <= set(files)
    functions = set(re.findall(r'::(test_\w+)', page))
    assert len(functions) > 10
    defined = {name for text in files.values() for name in re.findall(r'def (test_\w+)', text)}
    assert functions <= defined
