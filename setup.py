"""`pip install .` of the ROS-free part; everything is declared in pyproject.toml."""

from setuptools import setup

setup()
