"""The process of the node starts with a sentence where it cannot, and ends as it is told."""

import re
import signal
import sys
import time
from pathlib import Path

import pytest
from node_world import friend
from waiting import ended, logged

from sparser_ros.demo.processes import Child, free_domain, isolated_environment, taken

FIRST_DOMAIN_PORT = 7400
"""Of domain 0, by the DDS specification; ports below are those of all processes of a machine."""


def node(tmp_path, *arguments):
    return Child([sys.executable, '-m', 'sparser_ros.node.main', '--ros-args', *arguments],
                 tmp_path / 'log', isolated_environment())


def shared_memory(pid):
    """Files of the middleware in /dev/shm that a process alone in its domain has mapped."""
    found = set()
    for line in Path(f'/proc/{pid}/maps').read_text().splitlines():
        match = re.search(r'/dev/shm/(?:sem\.)?fastrtps_(?:port(\d+))?\w*$', line)
        if match and int(match[1] or FIRST_DOMAIN_PORT) >= FIRST_DOMAIN_PORT:
            found.add(match[0])
    return found


def test_more_interrupts_do_not_disturb_the_end(tmp_path):
    """A launch file without a terminal passes on the Ctrl-C that its group had already."""
    with node(tmp_path) as process:
        logged(process, 'robots: robot')
        while process.poll() is None:
            process._signal(signal.SIGINT)
            time.sleep(0.002)
        assert ended(process) == 0, process.tail()
        assert 'Traceback' not in process.tail(100)


def test_a_closed_terminal_ends_it_like_ctrl_c(tmp_path):
    """Otherwise its shared memory stays behind."""
    # Ports of killed processes lie there for whoever is in their domain next.
    before = {str(path) for path in Path('/dev/shm').iterdir()}
    with node(tmp_path) as process:
        logged(process, 'robots: robot')
        shared = shared_memory(process.pid) - before
        assert shared, 'what this test is about'
        process._signal(signal.SIGHUP)
        assert ended(process) == 0, process.tail()
        assert not [name for name in shared if Path(name).exists()]


@pytest.mark.parametrize(('file', 'level', 'reason'), [
    ('/**:\n  ros__parameters: {dimension: 2}\n', 'loud', 'parse log level'),
    ('a: [', 'info', 'parse params file'),
    ('sparsr:\n  ros__parameters: {dimension: 3}\n', 'info', 'parameters of /sparsr'),
    ('/**: {ros__parameters: {dimension: 3, dimension: 2}}\n', 'info', 'stands there twice'),
])
def test_bad_arguments_are_explained(tmp_path, file, level, reason):
    (tmp_path / 'params.yaml').write_text(file)
    with node(tmp_path, '--log-level', level,
              '--params-file', str(tmp_path / 'params.yaml')) as process:
        assert ended(process) == 2, process.tail()
        text = process.tail(100)
    assert reason in text
    assert 'Traceback' not in text


@pytest.mark.parametrize(('text', 'reason'), [
    ('/**: {ros__parameters: {}}', 'the map has no beacon'), ('[', 'not YAML')])
def test_a_bad_map_ends_the_start_with_one_line(tmp_path, text, reason):
    (tmp_path / 'beacons.yaml').write_text(text)
    with node(tmp_path, '-p', f'node.map_file:={tmp_path}') as process:
        assert ended(process) == 2, process.tail()
        lines = process.tail(100).splitlines()
    assert len(lines) == 1 and '[FATAL]' in lines[0] and reason in lines[0], lines


def test_a_domain_of_its_own_is_one_that_nobody_is_in():
    domain = free_domain()
    assert not taken(domain)
    with friend('somebody', domain):
        assert taken(domain)
    assert not taken(domain)
