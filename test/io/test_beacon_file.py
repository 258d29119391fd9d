"""A map's beacons go out and come in again."""

import csv
import os
import time

import numpy as np
import pytest
import yaml

from sparser_ros.config import FormatError, SparserConfig
from sparser_ros.io import beacon_file
from sparser_ros.io.beacon_file import SavedBeacon

RADIOS = '/**: {ros__parameters: {radios: {%s}}}'


def test_beacons_come_back_with_their_worst_standard_deviation(tmp_path):
    covariance = np.array([[0.04, 0.0], [0.0, 0.01]])
    beacon_file.write(tmp_path, [SavedBeacon('L0', (1.5, -2.0), covariance),
                                 SavedBeacon('hall, north', (0.0, 9.0), np.zeros((2, 2)))])
    radios = beacon_file.read(tmp_path, 2)
    assert radios == beacon_file.read(tmp_path / 'beacons.yaml', 2)
    assert radios['L0'] == {'beacon': 'L0', 'position': [1.5, -2.0], 'sigma_m': 0.2}
    assert radios['hall, north']['sigma_m'] > 0, 'zero would mean exact'
    document = yaml.safe_load((tmp_path / 'beacons.yaml').read_text())
    config = SparserConfig.from_mapping(document['/**']['ros__parameters'])
    assert config.radio_specs()['L0'].position == [1.5, -2.0], 'they serve as parameters of a node'
    _, row, other = csv.reader((tmp_path / 'beacons.csv').open())
    assert row[0] == 'L0' and [float(x) for x in row[3:]] == [0.04, 0.0, 0.0, 0.01]
    assert other[0] == 'hall, north'


@pytest.mark.parametrize(('text', 'reason'), [
    ('', 'no map'), ('[1]', 'no map'), ('a: [', r':\d: not YAML'), ('a\0', 'not YAML'),
    (RADIOS % 'L0: {beacon: L0}', 'L0: expected 2 coordinates'),
    (RADIOS % 'L0: {position: [1.0]}', 'L0: expected 2 coordinates'),
    (RADIOS % 'L0: {position: [.nan, 0]}', 'L0: expected 2 coordinates'),
    (RADIOS % f'L0: {{position: [{"9" * 9000}, 0]}}', 'is no number'),
    (RADIOS % 'L0: {position: [true, 0]}', 'L0: expected 2 coordinates'),
    (RADIOS % 'L0: {position: [1, 2], sigma_m: .inf}', 'L0.sigma_m'),
    (RADIOS % 'L0: {position: [1, 2], robot: A}', "robot 'A', no beacon"),
    (RADIOS % 'L0: [1, 2]', 'L0: expected beacon'),
    (RADIOS % '"L\\e[2J": {position: [1, 2]}', r'\\x1b\[2J. is no name'),
    (RADIOS % 'L0: {beacon: [7], position: [1, 2]}', r'L0.beacon: \[7\] is no name'),
    (RADIOS % '', 'no beacon'),
    ('[' * 20_000, ':1: .*(deep|depth)'), ('#' * 1_000_001, 'larger than 1 MB'),
], ids=range(17))
def test_anything_else_is_refused(tmp_path, text, reason):
    (tmp_path / 'beacons.yaml').write_text(text)
    begin = time.process_time()
    with pytest.raises(FormatError, match=rf'beacons\.yaml.*{reason}'):
        beacon_file.read(tmp_path, 2)
    assert time.process_time() - begin < 1.0


def test_names_are_those_that_are_written(tmp_path):
    (tmp_path / 'beacons.yaml').write_text(RADIOS % (
        '81:00: {position: [1, 2]}, L0: {beacon: 0x6958, position: [1.5, 2]}'))
    radios = beacon_file.read(tmp_path, 2)
    assert [radio['beacon'] for radio in radios.values()] == ['81:00', '0x6958']


def test_what_is_no_text_or_no_file_is_not_waited_for(tmp_path):
    (tmp_path / 'bytes').write_bytes(b'a: b\n\xff')
    with pytest.raises(FormatError, match='bytes:2: byte 0xff is no UTF-8 text'):
        beacon_file.read(tmp_path / 'bytes', 2)
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'folder' / 'beacons.yaml').mkdir(parents=True)
    for name in (tmp_path / 'pipe', '/dev/zero', tmp_path / 'folder'):
        with pytest.raises(FormatError, match='folder, device, pipe or socket'):
            beacon_file.read(name, 2)


def test_no_damaged_byte_is_taken_over(tmp_path):
    beacon_file.write(tmp_path, [
        SavedBeacon('L0', (1.5, -2.0), 0.04 * np.eye(2)),
        SavedBeacon('L1', (-10.25, 9.0), 0.01 * np.eye(2))])
    saved, path = beacon_file.read(tmp_path, 2), tmp_path / 'beacons.yaml'
    whole = path.read_bytes()
    refused = 0
    for place in range(len(whole)):
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << place % 7]) + whole[place + 1:])
        try:
            assert beacon_file.read(tmp_path, 2) == saved, place
        except FormatError as error:
            refused += 1
            assert 'beacons.yaml' in str(error)
    radios = whole[whole.index(b'\n  ros__parameters'):]
    assert refused > len(radios.replace(b' ', b''))
    for length in range(0, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r'beacons\.yaml'):
            beacon_file.read(tmp_path, 2)


def test_a_map_that_was_edited_says_how_to_use_it_all_the_same(tmp_path):
    beacon_file.write(tmp_path, [SavedBeacon('L0', (1.5, -2.0), 0.04 * np.eye(2))])
    path = tmp_path / 'beacons.yaml'
    text = path.read_text().replace('1.5', '1.75')
    path.write_text(text)
    with pytest.raises(FormatError, match=r'yaml:2: the checksum .* delete this line'):
        beacon_file.read(tmp_path, 2)
    path.write_text(''.join(
        line for line in text.splitlines(keepends=True) if 'checksum of' not in line))
    assert beacon_file.read(tmp_path, 2)['L0']['position'] == [1.75, -2.0]
