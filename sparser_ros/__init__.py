"""Range-aided multi-robot SLAM back-end: the SPARSER method for files, bags and ROS 2."""

from pkgutil import extend_path

# The generated `sparser_ros.msg` lives in the installed copy of this package; extending the
# path lets a source checkout and the installed messages be one package.
__path__ = extend_path(__path__, __name__)

__version__ = '0.1.0'
