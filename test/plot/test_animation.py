import numpy as np
import pytest
from PIL import Image

from sparser_ros.config import SparserError
from sparser_ros.plot import animation
from sparser_ros.plot.figure import robot_colours

ROBOTS = ('A', 'B', 'C', 'D')


def growing(count, d=2):
    """Robots on circles about the origin, each located one frame later than the one before."""
    frames = []
    for number in range(count):
        angles = np.linspace(0.0, 0.1 * (number + 1), 5 * (number + 1))
        circle = np.stack([np.cos(angles), np.sin(angles), *[0 * angles] * (d - 2)], axis=1)
        paths = {r: (k + 2) * circle for k, r in enumerate(ROBOTS) if number > k}
        frames.append(animation.MapFrame(
            float(number), paths, {'door': np.ones(d)} if number > 1 else {},
            {r: 'located' if r in paths else 'position_only' for r in ROBOTS}))
    return frames


@pytest.mark.parametrize('d', [2, 3])
def test_frames_begin_with_the_first_located_robot_and_the_last_one_stays(tmp_path, d):
    path = tmp_path / 'new' / 'map.gif'
    animation.save(path, growing(10, d), title='field')
    with Image.open(path) as picture:
        assert picture.n_frames == 9
        durations = []
        for number in range(picture.n_frames):
            picture.seek(number)
            durations.append(picture.info['duration'])
    assert durations[-1] == 1000 * animation.LAST_FRAME_S > 5 * max(durations[:-1])
    assert [p.name for p in path.parent.iterdir()] == ['map.gif']


def test_thin_lines_keep_the_colours_of_their_robots(tmp_path):
    path = tmp_path / 'map.gif'
    animation.save(path, growing(8))
    with Image.open(path) as picture:
        picture.seek(picture.n_frames - 1)
        shown = set(map(tuple, np.asarray(picture.convert('RGB')).reshape(-1, 3).tolist()))
    for colour in robot_colours(ROBOTS).values():
        assert tuple(int(colour[k:k + 2], 16) for k in (1, 3, 5)) in shown


def test_without_a_located_robot_there_is_nothing_to_draw(tmp_path):
    with pytest.raises(SparserError, match='no robot was ever located'):
        animation.save(tmp_path / 'map.gif', growing(1))
    assert list(tmp_path.iterdir()) == []
