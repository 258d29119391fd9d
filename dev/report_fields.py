"""Writes docs/report_fields.md from the declarations: `./dev/run python dev/report_fields.py`."""

from __future__ import annotations

from pathlib import Path

from sparser_ros.io.report_fields import SECTIONS

PAGE = Path(__file__).resolve().parent.parent / 'docs' / 'report_fields.md'

HEADER = """# Fields of report.json

Written by `dev/report_fields.py` from `sparser_ros/io/report_fields.py`; do not edit. `--report` of
`sparser solve`, `replay` and `calibrate` writes a report, `./dev/demo` writes `out/report.json`.

`a.b` is field b of a, `*` any name (a robot, a topic), `[]` every element of a list. Numbers that
are not finite are written as `null`. A cost is a sum of squared whitened residuals, hence its unit.
"""
WRITERS = {'solve': '`solve`', 'replay': '`replay`', 'calibrate': '`calibrate`',
           'demo': '`./dev/demo`'}


def page() -> str:
    """The whole page."""
    lines = [HEADER]
    for section in SECTIONS:
        writers = ', '.join(WRITERS[one] for one in section.writers)
        lines += [f'## {section.title}', '', f'Written by {writers}. {section.doc}'.rstrip(), '',
                  '| field | unit | meaning |', '|---|---|---|']
        lines += [f'| `{one.path}` | {one.unit} | {one.doc} |' for one in section.fields]
        lines.append('')
    return '\n'.join(lines)


if __name__ == '__main__':
    PAGE.write_text(page(), encoding='utf-8')
