"""`python -m sparser_ros` is the `sparser` command."""

import sys

if __name__ == '__main__':
    from sparser_ros.cli.main import command

    sys.exit(command())
