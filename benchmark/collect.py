"""Copies the latest tables into docs/benchmarks.md: `python -m benchmark.collect [--out DIR]`.

A table NAME stands in a page between `<!-- NAME -->` and `<!-- /NAME -->`; tables that were not
measured stay as they are.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from .isolated import ROOT
from .table import run_main


def main(argv: list[str] | None = None) -> int:
    """Rewrite the pages; returns 0."""
    made = argparse.ArgumentParser(prog='python -m benchmark.collect', description=__doc__)
    made.add_argument('--out', type=Path, default=Path('out/bench'), metavar='DIR')
    made.add_argument('--pages', type=Path, nargs='+', metavar='FILE', default=[
        ROOT / 'docs' / 'benchmarks.md'])
    args = made.parse_args(argv)
    for page in args.pages:
        text = page.read_text()
        for name in re.findall(r'^<!-- (\w+) -->$', text, re.MULTILINE):
            table = args.out / f'{name}.md'
            if table.exists():
                text = placed(text, name, table.read_text())
        page.write_text(text)
    return 0


def placed(text: str, name: str, table: str) -> str:
    """The page with the table between its marks."""
    opening, closing = f'<!-- {name} -->', f'<!-- /{name} -->'
    before, _, rest = text.partition(opening)
    _, _, after = rest.partition(closing)
    return f'{before}{opening}\n{table.strip()}\n{closing}{after}'


if __name__ == '__main__':
    run_main(main)
