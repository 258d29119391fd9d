"""Tests of the node are skipped where rclpy or the built messages are missing."""

import importlib.util

import pytest

MISSING = [name for name in ('rclpy', 'tf2_msgs', 'lifecycle_msgs', 'sparser_ros.msg')
           if importlib.util.find_spec(name) is None]
WITHOUT_ROS = ('test_launch.py',)


class NeedsRos(pytest.Module):
    """A module that cannot be imported here."""

    def collect(self):
        pytest.skip(f'needs {", ".join(MISSING)}', allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if MISSING and module_path.name not in WITHOUT_ROS:
        return NeedsRos.from_parent(parent, path=module_path)
    return None
