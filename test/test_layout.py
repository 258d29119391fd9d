"""The shape of the package: imports point downwards, ROS stays in node/, the repository is lean."""

import ast
import re
import subprocess
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'sparser_ros'

# From top to bottom; a folder imports from itself and from those after it.
LAYERS = [
    'demo', 'node', 'cli', 'backend/replay', 'backend/process', 'backend/session',
    'backend/calibrate', 'backend/integrity', 'backend/observability', 'frontend', 'plot', 'io',
    'solver', 'graph', 'linalg', 'config',
]
# `sparser play` publishes through ROS, and loads it only when it runs.
REACHES_UP = {('cli/bag_commands.py', 'demo')}

ROS = re.compile(
    r'(rclpy|rclcpp|rosidl\w*|builtin_interfaces|\w+_interfaces|\w+_msgs|std_srvs|tf2_\w+|launch\w*'
    r'|ament_\w+|tf_transformations|diagnostic_updater|rosbag2_py|sparser_ros\.(msg|srv))(\.|$)'
)

MODULES = sorted(PACKAGE.rglob('*.py'))
TESTS = sorted((ROOT / 'test').rglob('test_*.py'))


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
    package = '.'.join(path.relative_to(ROOT).parent.parts)
    found = []
    for statement in ast.walk(tree):
        eager = id(statement) not in deferred
        if isinstance(statement, ast.Import):
            found += [(alias.name, eager) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            module = resolve_name('.' * statement.level + (statement.module or ''), package)
            # `from sparser_ros import node` names a module by its alias.
            found += [(f'{module}.{alias.name}', eager) for alias in statement.names]
    return found


def module_of(path: Path) -> str:
    return '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')


def layer_of(module: str) -> str | None:
    """The layer of a module of the package; None of those above all layers, and of others."""
    package, *parts = module.split('.')
    names = {'/'.join(parts[:2]), *parts[:1]} if package == 'sparser_ros' else set()
    return next((name for name in LAYERS if name in names), None)


def test_every_folder_has_a_layer():
    layers = {layer_of(module_of(path)) for path in MODULES
              if path.parent != PACKAGE and path.read_text()}
    assert layers == set(LAYERS)


@pytest.mark.parametrize('path', MODULES, ids=name_of)
def test_imports_point_downwards(path: Path):
    own = layer_of(module_of(path))
    for module, eager in imports(path):
        layer = layer_of(module)
        if own and layer and LAYERS.index(layer) < LAYERS.index(own):
            assert (name_of(path), layer) in REACHES_UP and not eager, (
                f'{name_of(path)} imports {module}, which lies above {own}/')


@pytest.mark.parametrize(
    'path', [p for p in MODULES if p.parts[-2] not in ('node', 'demo')], ids=name_of)
def test_only_the_node_knows_ros(path: Path):
    for module, _ in imports(path):
        assert not ROS.match(module), f'{name_of(path)} imports {module}'


def test_one_module_speaks_to_cholmod():
    """Versions of scikit-sparse differ in every name, so one module knows them."""
    home = 'linalg/ordering.py'
    assert {
        name_of(path) for path in MODULES
        if any(module.split('.')[0] == 'sksparse' for module, _ in imports(path))} == {home}
    for path in MODULES:
        names = {node.id for node in ast.walk(tree_of(path))
                 if isinstance(node, ast.Name)}
        assert name_of(path) == home or 'cholmod' not in names, name_of(path)


def test_no_module_imports_in_a_circle():
    """Now or later; a circle is named by the error."""
    known = {module_of(path) for path in MODULES}
    imported = {}
    for path in MODULES:
        named = {name for name, _ in imports(path)}
        found = {name if name in known else name.rpartition('.')[0] for name in named}
        imported[module_of(path)] = (found & known) - {module_of(path)}
    TopologicalSorter(imported).prepare()


def test_tests_lie_where_what_they_test_lies_and_import_no_other():
    names = {path.stem for path in TESTS}
    for path in TESTS:
        folder = path.parent.relative_to(ROOT / 'test')
        assert any((home / folder).is_dir() for home in (ROOT, PACKAGE)), f'{path}: no {folder}'
        for module, _ in imports(path):
            assert not names & set(module.split('.')), f'{path} imports {module}'


def test_no_large_file_and_no_registry_address():
    """In the repository; recordings that lie in a checkout beside it are their owner's."""
    git = subprocess.run(
        ['git', 'ls-files'],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    if git.returncode:
        pytest.skip(f'not a git checkout: {git.stderr.strip()}')
    address = re.compile(r'pypi[.]org|python[h]osted|index[-_]url|find[-_]links', re.IGNORECASE)
    for path in filter(Path.is_file, map(ROOT.joinpath, git.stdout.splitlines())):
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
