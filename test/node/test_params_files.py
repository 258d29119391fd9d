"""A parameter file for another node is named instead of passed over."""

import pytest

from sparser_ros.node.params_files import misfits


@pytest.mark.parametrize(('name', 'fits'), [
    ('/**', True), ('sparser', False), ('/fleet/sparser', True), ('/*/sparser', True),
    ('/**/sparser', True), ('/*', False), ('sparser_node', False), ('/fleet/*', True)])
def test_names_and_wildcards(tmp_path, name, fits):
    file = tmp_path / 'p.yaml'
    file.write_text(f'{name}: {{ros__parameters: {{dimension: 3}}}}\n')
    found = misfits(['node', '--ros-args', '--params-file', str(file)], '/fleet/sparser')
    assert bool(found) is not fits
    assert fits or name.strip('/') in found[0]


def test_nested_names_and_files_of_several_nodes(tmp_path):
    file = tmp_path / 'p.yaml'
    file.write_text('fleet: {sparser: {ros__parameters: {a: 1}}}\nrviz: {ros__parameters: {b: 1}}')
    arguments = ['--params-file', str(file)]
    assert not misfits(arguments, '/fleet/sparser')
    assert 'fleet/sparser, /rviz' in misfits(arguments, '/sparser')[0]
