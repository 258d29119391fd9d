"""The shape of the package: imports point downwards, ROS stays in node/, the repository is lean."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'sparser_ros'

# From top to bottom; a folder imports from itself and from those after it.
LAYERS = [
    'demo', 'node', 'cli', 'backend', 'frontend', 'io', 'plot', 'solver', 'graph',
    'linalg', 'config',
]
# `sparser play` publishes through ROS, and loads it only when it runs.
REACHES_UP = {('cli/bag_commands.py', 'demo')}

# The same inside the rooms that have sub-packages: each imports from those after it.
SUBPACKAGES = {
    'backend': ['replay', 'process', 'session', 'calibrate', 'integrity', 'observability'],
}

ROS = re.compile(
    r'(rclpy|rclcpp|rosidl\w*|builtin_interfaces|\w+_interfaces|\w+_msgs|std_srvs|tf2_\w+|launch\w*'
    r'|ament_\w+|tf_transformations|diagnostic_updater|rosbag2_py|sparser_ros\.(msg|srv))(\.|$)'
)

MODULES = sorted(PACKAGE.rglob('*.py'))
LAYERED = [path for path in MODULES if path.parent != PACKAGE]


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """(absolute module name, whether imported when the module is) for each import statement."""
    tree = tree_of(path)
    deferred = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for inner in ast.walk(outer)
    }
    package = path.relative_to(ROOT).parent.parts
    found = []
    for statement in ast.walk(tree):
        eager = id(statement) not in deferred
        if isinstance(statement, ast.Import):
            found += [(alias.name, eager) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            base = list(package[: len(package) - statement.level + 1]) if statement.level else []
            module = '.'.join([*base, *([statement.module] if statement.module else [])])
            # `from sparser_ros import node` names a module by its alias.
            found += [(f'{module}.{alias.name}', eager) for alias in statement.names]
    return found


def test_every_folder_has_a_layer():
    folders = {path.relative_to(PACKAGE).parts[0] for path in LAYERED}
    assert folders == set(LAYERS)


@pytest.mark.parametrize('path', LAYERED, ids=name_of)
def test_imports_point_downwards(path: Path):
    layer = path.relative_to(PACKAGE).parts[0]
    for module, eager in imports(path):
        parts = module.split('.')
        if parts[0] != 'sparser_ros' or len(parts) < 2 or parts[1] not in LAYERS:
            continue
        allowed = LAYERS.index(parts[1]) >= LAYERS.index(layer) or (
            (name_of(path), parts[1]) in REACHES_UP and not eager
        )
        assert allowed, f'{name_of(path)} imports {module}, which lies above {layer}/'


@pytest.mark.parametrize(
    'path', [p for p in MODULES if p.parts[-2] not in ('node', 'demo')], ids=name_of)
def test_only_the_node_knows_ros(path: Path):
    for module, _ in imports(path):
        assert not ROS.match(module), f'{name_of(path)} imports {module}'


def test_one_module_speaks_to_cholmod():
    """Versions of scikit-sparse differ in every name, so one module knows them."""
    home = 'linalg/cholesky.py'
    assert {
        name_of(path) for path in MODULES
        if any(module.split('.')[0] == 'sksparse' for module, _ in imports(path))} == {home}
    for path in MODULES:
        names = {node.id for node in ast.walk(tree_of(path))
                 if isinstance(node, ast.Name)}
        assert name_of(path) == home or 'cholmod' not in names, name_of(path)


def test_everything_but_the_node_imports_without_ros():
    script = r'''
import importlib, pathlib, re, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if re.match(sys.argv[1], name):
            raise ModuleNotFoundError(f'{name} is blocked')

sys.meta_path.insert(0, Blocked())
for path in sorted(pathlib.Path('sparser_ros').rglob('*.py')):
    module = '.'.join(path.with_suffix('').parts).removesuffix('.__init__')
    if not re.match(r'sparser_ros\.(node|demo)|.*__main__', module):
        importlib.import_module(module)
        print(module)
'''
    done = subprocess.run(
        [sys.executable, '-c', script, ROS.pattern],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert 'sparser_ros.config' in done.stdout.split()


def module_of(path: Path) -> str:
    return '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')


def import_graph() -> dict[str, set[str]]:
    """The modules of the package that each of them imports, now or later, its own left out."""
    known = {module_of(path) for path in MODULES}
    graph = {}
    for path in MODULES:
        named = {name for name, _ in imports(path)}
        found = {name if name in known else name.rpartition('.')[0] for name in named}
        graph[module_of(path)] = (found & known) - {module_of(path)}
    return graph


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Sets of modules each of which reaches all the others."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, waiting = set(), list(graph[start])
        while waiting:
            module = waiting.pop()
            if module not in seen:
                seen.add(module)
                waiting += graph[module]
        reached[start] = seen
    return {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph if module in reached[module]}


def test_no_module_imports_in_a_circle():
    assert circles(import_graph()) == set()


def subpackage_of(module: str) -> tuple[str, str] | None:
    """(room, sub-package) of a module of one, by its name below sparser_ros."""
    parts = module.split('.')[1:]
    if len(parts) < 2 or not (PACKAGE / parts[0] / parts[1]).is_dir():
        return None
    return parts[0], parts[1]


@pytest.mark.parametrize('room', SUBPACKAGES)
def test_every_subpackage_has_a_place(room: str):
    folders = {path.parent.name for path in (PACKAGE / room).glob('*/__init__.py')}
    assert folders == set(SUBPACKAGES[room])


def test_subpackages_import_those_after_them():
    against = set()
    for path in MODULES:
        own = subpackage_of(module_of(path))
        if own is None or own[0] not in SUBPACKAGES:
            continue
        room, name = own
        order = SUBPACKAGES[room]
        for module, _ in imports(path):
            other = subpackage_of(module) if module.startswith('sparser_ros.') else None
            if other and other[0] == room and order.index(other[1]) < order.index(name):
                against.add((name_of(path), other[1]))
    assert against == set()


TESTS = sorted((ROOT / 'test').rglob('test_*.py'))


def test_tests_lie_where_what_they_test_lies_and_import_no_other():
    names = {path.stem for path in TESTS}
    for path in TESTS:
        folder = path.parent.relative_to(ROOT / 'test')
        assert any((home / folder).is_dir() for home in (ROOT, PACKAGE)), f'{path}: no {folder}'
        for module, _ in imports(path):
            assert not names & set(module.split('.')), f'{path} imports {module}'


def tracked_files() -> list[Path]:
    """Files of the repository, committed or about to be."""
    git = subprocess.run(
        ['git', 'ls-files', '-co', '--exclude-standard'],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    if git.returncode:
        pytest.skip(f'not a git checkout: {git.stderr.strip()}')
    return [path for name in git.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_no_large_file_and_no_registry_address():
    address = re.compile(r'pypi[.]org|python[h]osted|index[-_]url|find[-_]links', re.IGNORECASE)
    for path in tracked_files():
        content = path.read_bytes()
        assert len(content) < 1_000_000, f'{path} is large'
        found = address.search(content.decode('utf-8', 'replace'))
        assert not found, f'{path} names a package registry: {found.group()}'


def test_scripts_import_only_when_run():
    """A spawned child re-imports the main script: that must start and import nothing."""
    for script in (ROOT / 'scripts').iterdir():
        body = ast.parse(script.read_text()).body
        docstring, guard = body
        assert isinstance(docstring, ast.Expr)
        assert isinstance(guard, ast.If)
        assert ast.unparse(guard.test) == "__name__ == '__main__'"
