"""What of the site lies outside docs/: mkdocs reads this file as a hook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {'changelog.md': 'CHANGELOG.md', 'contributing.md': 'CONTRIBUTING.md'}


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages, and the style."""
    for page, name in PAGES.items():
        text = (ROOT / name).read_text(encoding='utf-8')
        files.append(File.generated(config, page, content=moved_into_docs(text)))
    style = (ROOT / 'dev' / 'site.css').read_text(encoding='utf-8')
    files.append(File.generated(config, 'site.css', content=style))
    return files


def moved_into_docs(text: str) -> str:
    """The text with links as seen from docs/; what is not part of the site becomes plain text."""
    inverse = {name: page for page, name in PAGES.items()}

    def moved(link: re.Match[str]) -> str:
        label, target = link.groups()
        if '://' in target:
            return link[0]
        inside = inverse.get(target) or (
            target.removeprefix('docs/') if target.startswith('docs/') else '')
        return f'[{label}]({inside})' if inside else label

    return re.sub(r'\[([^\]]*)\]\(([^)]*)\)', moved, text)
