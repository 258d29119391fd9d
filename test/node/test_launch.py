"""Launch files fit the package, and start what they should where `launch` is installed."""

import ast
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LAUNCH_FILES = sorted((ROOT / 'launch').glob('*.launch.py'))


def strings(path):
    """All string constants of a file but those of f-strings."""
    return {node.value for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize('path', LAUNCH_FILES, ids=lambda path: path.name)
def test_files_and_executables_named_by_a_launch_file_exist(path):
    named = {text for text in strings(path) if text.endswith(('.yaml', '.rviz', '.launch.py'))
             and ' ' not in text}
    assert named
    for name in named:
        folder = 'launch' if name.endswith('.py') else 'config'
        assert (ROOT / folder / name).is_file(), name
    programs = {text for text in strings(path) if text in ('sparser', 'sparser_node')}
    installed = (ROOT / 'CMakeLists.txt').read_text()
    assert programs
    for program in programs:
        script = ROOT / 'scripts' / program
        assert script.stat().st_mode & 0o111
        assert f'scripts/{program}' in installed


def shown_topics():
    display = yaml.safe_load((ROOT / 'config' / 'sparser.rviz').read_text())
    shown = display['Visualization Manager']['Displays']
    return {d['Topic']['Value']: d['Topic'] for d in shown if 'Topic' in d}


def test_rviz_shows_what_the_node_publishes():
    display = yaml.safe_load((ROOT / 'config' / 'sparser.rviz').read_text())
    topics = shown_topics()
    assert {'/sparser/markers', '/sparser/beacons'} <= set(topics)
    assert all(t['Durability Policy'] == 'Transient Local' for t in topics.values())
    shown = display['Visualization Manager']['Displays']
    assert any(d['Class'].endswith('/TF') for d in shown)
    # One file fits any robots: no topic in it names one.
    assert not any(topic.startswith(('/sparser/path', '/sparser/pose')) for topic in topics)
    (markers,) = [d for d in shown if d.get('Topic', {}).get('Value') == '/sparser/markers']
    assert {'trajectories', 'robots', 'robots_names', 'robot_uncertainty'} <= set(
        markers['Namespaces'])
    assert display['Visualization Manager']['Global Options']['Fixed Frame'] == 'map'


def test_replay_passes_only_arguments_that_exist():
    tree = ast.parse((ROOT / 'launch' / 'replay.launch.py').read_text())
    (passed,) = [ast.literal_eval(node.value) for node in ast.walk(tree)
                 if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == 'passed']
    assert set(passed) <= strings(ROOT / 'launch' / 'sparser.launch.py')


@pytest.fixture
def launch():
    pytest.importorskip('launch_ros', reason='launch_ros is not installed here')
    return pytest.importorskip('launch', reason='launch is not installed here')


@pytest.mark.parametrize('path', LAUNCH_FILES, ids=lambda path: path.name)
def test_launch_file_describes_its_arguments(path, launch):
    description = runpy.run_path(str(path))['generate_launch_description']()
    declared = [entity for entity in description.entities
                if isinstance(entity, launch.actions.DeclareLaunchArgument)]
    names = {entity.name for entity in declared}
    assert {'params_file', 'namespace', 'rviz', 'bag', 'log_level'} <= names
    assert all(len(entity.description) > 5 for entity in declared)


RECORDER = """#!/bin/sh
printf '%s\\n' "$@" >"$0.arguments"
sleep {seconds}
"""


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An installed package whose programs only write down their arguments."""
    prefix = tmp_path / 'prefix'
    index = prefix / 'share' / 'ament_index' / 'resource_index' / 'packages'
    index.mkdir(parents=True)
    for package, program, seconds in (
        ('sparser_ros', 'sparser_node', 1), ('sparser_ros', 'sparser', 0), ('rviz2', 'rviz2', 0),
    ):
        (index / package).touch()
        path = prefix / 'lib' / package / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(RECORDER.format(seconds=seconds))
        path.chmod(0o755)
    share = prefix / 'share' / 'sparser_ros'
    share.mkdir()
    for folder in ('config', 'launch'):
        (share / folder).symlink_to(ROOT / folder)
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(prefix))
    return prefix


@pytest.fixture
def started(launch, prefix):
    """A function of launch arguments: exit code, and the arguments of each program started."""
    def run(file='sparser.launch.py', **given):
        service = launch.LaunchService(noninteractive=True)
        service.include_launch_description(launch.LaunchDescription([
            launch.actions.IncludeLaunchDescription(
                launch.launch_description_sources.PythonLaunchDescriptionSource(
                    str(ROOT / 'launch' / file)),
                launch_arguments=given.items())]))
        code = service.run()
        return code, {path.stem: path.read_text().splitlines()
                      for path in prefix.glob('lib/*/*.arguments')}
    return run


def test_the_node_alone_takes_its_time_from_its_parameters(started, prefix):
    code, programs = started(namespace='fleet', log_level='warn')
    assert code == 0
    assert set(programs) == {'sparser_node'}
    node = programs['sparser_node']
    assert {'__ns:=/fleet', '__node:=sparser', 'warn'} <= set(node)
    assert node[node.index('--params-file') + 1] == str(
        prefix / 'share' / 'sparser_ros' / 'config' / 'sparser.yaml')
    assert node.count('--params-file') == 2
    kept = yaml.safe_load(Path(node[-1]).read_text())
    (kept,) = kept.values()
    assert kept['ros__parameters']['node.journal.directory'].endswith('sparser')
    # Where no argument says so, what is in params_file holds.
    assert 'node.journal.resume' not in kept['ros__parameters']
    assert not any('use_sim_time' in word for word in node)


@pytest.mark.parametrize(('given', 'resume'), [('true', True), ('0', False)])
def test_an_argument_says_whether_the_journal_goes_on(started, given, resume):
    last, = yaml.safe_load(Path(started(resume=given)[1]['sparser_node'][-1]).read_text()).values()
    assert last['ros__parameters']['node.journal.resume'] is resume


def test_a_bag_brings_its_clock(started, tmp_path):
    code, programs = started(bag=str(tmp_path), bag_rate='2.5')
    assert code == 0
    assert set(programs) == {'sparser_node', 'sparser'}
    node = programs['sparser_node']
    assert node[-2] == '--params-file', 'what comes last wins over params_file'
    last = yaml.safe_load(Path(node[-1]).read_text())
    assert list(last.values()) == [{'ros__parameters': {'use_sim_time': True}}]
    assert programs['sparser'][:4] == ['play', str(tmp_path), '--rate', '2.5']
    assert programs['sparser'][-2:] == ['--node', '/sparser']


@pytest.mark.parametrize('fails', [True, False])
def test_a_player_that_fails_ends_the_launch(started, prefix, tmp_path, fails):
    """The node would wait for `/clock`."""
    programs = prefix / 'lib' / 'sparser_ros'
    (programs / 'sparser').write_text(f'#!/bin/sh\nexit {2 * fails}\n')
    (programs / 'sparser_node').write_text(
        f'#!/bin/sh\ntrap "exit 0" INT\nfor k in $(seq {300 if fails else 2}); do sleep 0.1; done\n'
        'touch "$0.ended"\n')
    started(bag=str(tmp_path), namespace='fleet')
    assert (programs / 'sparser_node.ended').exists() is not fails


def test_what_rviz_shows_follows_the_node_into_its_namespace(started):
    _, programs = started(rviz='true', namespace='fleet')
    rviz = programs['rviz2']
    shown = {topic for topic in shown_topics() if topic.startswith('/sparser/')}
    assert '__ns:=/fleet' in rviz
    assert {f'{topic}:={topic[1:]}' for topic in {*shown, '/initialpose'}} <= set(rviz)


@pytest.mark.parametrize(('mode', 'expected'), [
    ('online', {'sparser_node', 'sparser', 'rviz2'}), ('offline', {'sparser'})])
def test_replay_modes(started, tmp_path, mode, expected):
    code, programs = started('replay.launch.py', bag=str(tmp_path), mode=mode)
    assert code == 0
    assert set(programs) == expected
    assert programs['sparser'][:2] == [{'online': 'play', 'offline': 'replay'}[mode], str(tmp_path)]


@pytest.mark.parametrize(('given', 'reason'), [
    ({'params_file': '/no/such.yaml'}, 'params_file: no such file'),
    ({'rviz_config': '/no/such.rviz'}, 'rviz_config: no such file'),
    ({'bag': '/no/such/bag'}, 'bag: no such file'),
    ({'use_sim_time': 'perhaps'}, 'use_sim_time: true or false'),
    ({'respawn': ''}, 'respawn: true or false'),
    ({'rviz': 'true'}, 'rviz2 is not installed'),
])
def test_bad_arguments_start_nothing(started, prefix, caplog, given, reason):
    (prefix / 'share' / 'ament_index' / 'resource_index' / 'packages' / 'rviz2').unlink()
    code, programs = started(**given)
    assert (code, programs) == (1, {})
    assert reason in caplog.text
