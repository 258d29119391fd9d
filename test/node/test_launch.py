"""Launch files compile, and describe what they should where `launch` is installed."""

import importlib.util
import py_compile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LAUNCH_FILES = sorted((ROOT / 'launch').glob('*.launch.py'))


@pytest.mark.parametrize('path', LAUNCH_FILES, ids=lambda path: path.name)
def test_launch_file_compiles(path, tmp_path):
    py_compile.compile(str(path), cfile=str(tmp_path / 'compiled'), doraise=True)


@pytest.mark.parametrize('path', LAUNCH_FILES, ids=lambda path: path.name)
def test_launch_file_describes_its_arguments(path):
    pytest.importorskip('launch', reason='launch is not installed here')
    pytest.importorskip('launch_ros', reason='launch_ros is not installed here')
    from launch.actions import DeclareLaunchArgument

    spec = importlib.util.spec_from_file_location('described', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    declared = [entity for entity in module.generate_launch_description().entities
                if isinstance(entity, DeclareLaunchArgument)]
    names = {entity.name for entity in declared}
    assert {'params_file', 'namespace', 'rviz', 'bag', 'log_level'} <= names
    assert all(len(entity.description) > 5 for entity in declared)


def test_rviz_shows_what_the_node_publishes():
    display = yaml.safe_load((ROOT / 'config' / 'sparser.rviz').read_text())
    shown = display['Visualization Manager']['Displays']
    topics = {d['Topic']['Value']: d['Topic'] for d in shown if 'Topic' in d}
    assert {'/sparser/markers', '/sparser/beacons', '/sparser/path/A'} <= set(topics)
    assert all(t['Durability Policy'] == 'Transient Local' for t in topics.values())
    assert any(d['Class'].endswith('/TF') and d['Enabled'] for d in shown)
    assert display['Visualization Manager']['Global Options']['Fixed Frame'] == 'map'
