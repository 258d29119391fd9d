"""Damaged files: a reader gives a finite graph or names file and line, and does not hang."""

import random
import time

import numpy as np
import pytest
from graphs import random_graph

from sparser_ros.config import FormatError
from sparser_ros.graph import cost, empty, estimate_of
from sparser_ros.graph.measurements import Ranges
from sparser_ros.io import beacon_file, graph_file
from sparser_ros.io.beacon_file import SavedBeacon
from sparser_ros.io.pyfg import sidecar_path

COUNT = 250
"""Damaged files per format and dimension."""
LONGEST_S = 2.0
WORDS = [
    'nan', '-inf', '1e400', '1e308', '1e200', '1e29', '-1', '0', '-0', '1e-320', '1e9999999',
    '-1e9999999', '1e-9999999', '9' * 30, '9' * 5000, str(2**63), str(2**63 - 1), str(2**62),
    str(-(2**63)), '٣', '1_0', '0x10', '', '#', '\ufeff', 'é', 'A', 'A0', 'L0', 'B1', '1.5.2',
    '1,5', 'True', '\x00', '\x85', '\x1c', '\x0c', 'FIX', 'VERTEX_SE2', 'EDGE_SE3:QUAT',
    'EDGE_RANGE', 'PARAMS_SE3OFFSET']
MORE_RECORDS = {
    2: 'EDGE_RANGE {0} {1} 3 1\nROBOTLASER1 0 1 2\nEDGE_RANGE_SE2_XY {0} 77 2\nFIX 77\n'
       'EDGE_PRIOR_XY 77 1 2 1 0 1\nEDGE_SE2_SWITCHABLE {1} {0} 3 1 0 0\n',
    3: 'EDGE_SE3 {0} 55 1 0 0 0 0 0 1\nEDGE_SE3_PRIORXYZ {1} 1 2 3\n'
       'EDGE_POINTXYZ_PRIOR {0} 1 2 3\n'}


def records(folder, suffix, d):
    """A file with every record of a format."""
    path = folder / f'whole{suffix}'
    if suffix == '.pyfg':
        graph_file.write(path, random_graph(5, d))
        return path.read_bytes()
    if suffix == '.yaml':
        # Without its checksum, as a map that is written by hand.
        beacon_file.write(folder, [
            SavedBeacon(f'door {k}', (1.5, -2e-3, 40.0)[:d], 0.01 * np.eye(d)) for k in range(4)])
        text = (folder / 'beacons.yaml').read_text()
        return text[text.index('/**'):].encode()
    robots = ('A',) if d == 2 else ('a', 'b')
    graph_file.write(path, random_graph(5, d, robots, levers=d == 3).replaced(
        ranges=empty(Ranges, d)))
    ids = [line.split()[1] for line in path.read_text().splitlines()[:2]]
    return path.read_bytes() + MORE_RECORDS[d].format(*ids).encode()


def damaged(chance, data):
    """The file with one to five places of damage."""
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        lines = data.split(b'\n')
        row, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        place, start = chance.randrange(len(data)), chance.randrange(len(data))
        kind = chance.random()
        if kind < 0.5:
            words = lines[row].split(b' ')
            words[chance.randrange(len(words))] = chance.choice(WORDS).encode()
            lines[row] = b' '.join(words)
            data = b'\n'.join(lines)
        elif kind < 0.65:
            data = data[:place] + chance.randbytes(chance.choice([1, 3, 20])) + data[place + 1:]
        elif kind < 0.75:
            data = data[:place]
        elif kind < 0.85:
            lines[row] = lines[other]
            data = b'\n'.join(lines)
        elif kind < 0.92:
            data = b'\n'.join(lines[:row] + lines[row + 1:])
        else:
            data = data[:place] + data[start:start + chance.randrange(200)] + data[place:]
        data = data or b'#'
    return data


def read_graph(path, d):
    graph = graph_file.read(path).validate()
    assert np.isfinite(cost(graph, estimate_of(graph)))
    again = path.with_name(f'again{path.suffix}')
    graph_file.rewrite_vertices(path, again, graph)
    assert graph_file.read(again).n_poses == graph.n_poses


def read_beacons(path, d):
    for name, radio in beacon_file.read(path, d).items():
        assert isinstance(name, str) and isinstance(radio['beacon'], str)
        assert np.all(np.isfinite(radio['position']))
        assert 0 <= radio.get('sigma_m', 0.0) < np.inf


@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize(('suffix', 'check', 'most'), [
    ('.pyfg', read_graph, COUNT // 2), ('.g2o', read_graph, COUNT // 2),
    ('.yaml', read_beacons, COUNT)])
def test_damaged_files_are_read_or_refused(tmp_path, suffix, check, most, d):
    path = tmp_path / f'g{suffix}'
    whole, read = records(tmp_path, suffix, d), 0
    path.write_bytes(whole)
    check(path, d)
    for seed in range(COUNT):
        path.write_bytes(damaged(random.Random(seed), whole))
        start = time.perf_counter()
        try:
            check(path, d)
        except FormatError as error:
            assert str(error).startswith(str(path)), seed
            assert error.line is not None or 'expected' in str(error) or suffix == '.yaml', seed
        else:
            read += 1
        assert time.perf_counter() - start < LONGEST_S, seed
    assert COUNT // 20 < read < most


@pytest.mark.parametrize('text', [
    '', '[]', '3', '{"robots": [1]}', '{"robots": {"A": 3}}', '{"landmarks": {"L0": ""}}',
    '[' * 100_000, '{"robots": "abc"}', '\x00', '{"robots": {"A": null}}'])
def test_long_names_beside_a_file(tmp_path, text):
    path = tmp_path / 'g.pyfg'
    graph_file.write(path, random_graph(1, robots=('rover', 'B')))
    sidecar_path(path).write_text(text)
    with pytest.raises(FormatError, match=r'names\.json: expected names'):
        graph_file.read(path)
