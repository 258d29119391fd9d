"""A map's beacons go out and come in again."""

import numpy as np
import pytest
import yaml

from sparser_ros.config import FormatError, SparserConfig
from sparser_ros.io import beacon_file
from sparser_ros.io.beacon_file import SavedBeacon


def test_beacons_come_back_with_their_worst_standard_deviation(tmp_path):
    covariance = np.array([[0.04, 0.0], [0.0, 0.01]])
    beacon_file.write(tmp_path, [SavedBeacon('L0', (1.5, -2.0), covariance),
                                 SavedBeacon('L1', (0.0, 9.0), np.zeros((2, 2)))])
    radios = beacon_file.read(tmp_path, 2)
    assert radios == beacon_file.read(tmp_path / 'beacons.yaml', 2)
    assert radios['L0'] == {'beacon': 'L0', 'position': [1.5, -2.0], 'sigma_m': 0.2}
    assert radios['L1']['sigma_m'] > 0, 'zero would mean exact'
    row = (tmp_path / 'beacons.csv').read_text().splitlines()[1].split(',')
    assert row[0] == 'L0' and [float(x) for x in row[3:]] == [0.04, 0.0, 0.0, 0.01]


def test_the_file_serves_as_parameters_of_a_node(tmp_path):
    beacon_file.write(tmp_path, [SavedBeacon('L0', (1.5, -2.0), 0.01 * np.eye(2))])
    document = yaml.safe_load((tmp_path / 'beacons.yaml').read_text())
    config = SparserConfig.from_mapping(document['/**']['ros__parameters'])
    assert config.radio_specs()['L0'].position == [1.5, -2.0]


@pytest.mark.parametrize('text', [
    '', 'a: [', '/**: {ros__parameters: {radios: {L0: {beacon: L0}}}}', '[1]',
    '/**: {ros__parameters: {radios: {L0: {beacon: L0, position: [1.0]}}}}',
    '/**: {ros__parameters: {radios: {L0: {beacon: L0, position: [.nan, 0]}}}}'])
def test_anything_else_is_refused(tmp_path, text):
    (tmp_path / 'beacons.yaml').write_text(text)
    with pytest.raises(FormatError, match=r'beacons\.yaml'):
        beacon_file.read(tmp_path, 2)


def test_a_missing_map_is_named(tmp_path):
    with pytest.raises(FormatError, match='nowhere'):
        beacon_file.read(tmp_path / 'nowhere', 2)
