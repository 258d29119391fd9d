"""Bags: what is written is read, damage is named, nothing half-written stays."""

import os
import re
import sqlite3
import struct
import zlib
from contextlib import closing
from itertools import pairwise

import lz4.frame
import numpy as np
import pytest
from backports import zstd
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from sparser_ros.config import FormatError
from sparser_ros.io.atomic import is_bag
from sparser_ros.io.bag import DEFINITIONS, UWB_RANGE, BagReader, SensorBagWriter, isotropic

IDENTITY = np.array([0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize('name', DEFINITIONS)
def test_definitions_are_those_of_the_package(name, request):
    path = request.config.rootpath / 'msg' / f'{name.rsplit("/")[-1]}.msg'
    here = get_types_from_msg(DEFINITIONS[name], name)
    there = get_types_from_msg(path.read_text(), name)
    assert here == there


@pytest.mark.parametrize(('name', 'storage'), [
    ('bag', None), ('bag', 'mcap'), ('bag.mcap', None), ('bag.mcap', 'mcap')])
def test_round_trip(tmp_path, name, storage):
    """Humble reads the metadata: a sequence of names for integer enums stops its player."""
    path = tmp_path / 'new' / name
    with SensorBagWriter(path, storage) as bag:
        bag.uwb_range('A', 'L1', 2_000_000_001, 5.5, 0.25)
        bag.odometry('A', 1_000_000_000, np.array([1.0, 2, 3]), IDENTITY, isotropic(0.1, 0.2))
        bag.loop_closure('A', 10, 'B', 3_000_000_000, np.ones(3), IDENTITY, isotropic(1, 2), 'me')
        bag.fix('B', 4_000_000_000, np.zeros(3), IDENTITY, isotropic(1, 2))
        bag.ground_truth('A', 5_000_000_000, np.zeros(3), IDENTITY)
    assert path.is_file() == name.endswith('.mcap')
    assert os.listdir(path.parent) == [name]
    if path.is_dir():
        text = (path / 'metadata.yaml').read_text()
        assert 'version: 8' in text and re.search('offered_qos_profiles: [|"]', text)
        assert 'reliability: 1' in text and f'identifier: {storage or "sqlite3"}' in text
    reader = BagReader(path)
    assert reader.topics['/uwb/ranges'] == UWB_RANGE
    assert reader.counts['/A/odom'] == 1 and len(reader) == 5
    messages = list(reader)
    assert [m.bag_time_ns for m in messages] == [
        1_000_000_000, 2_000_000_001, 3_000_000_000, 4_000_000_000, 5_000_000_000]
    odometry, uwb, closure = (m.msg for m in messages[:3])
    assert odometry.header.frame_id == 'A/odom' and odometry.child_frame_id == 'A/base_link'
    assert odometry.pose.pose.position.y == 2.0
    np.testing.assert_allclose(
        odometry.pose.covariance.reshape(6, 6), np.diag([0.1] * 3 + [0.2] * 3))
    assert (uwb.source, uwb.target, uwb.range, uwb.variance) == ('A', 'L1', 5.5, 0.25)
    assert (uwb.header.stamp.sec, uwb.header.stamp.nanosec) == (2, 1)
    assert np.isnan(uwb.rx_rssi)
    assert (closure.from_robot, closure.from_stamp.nanosec, closure.to_stamp.sec) == ('A', 10, 3)
    assert [m.topic for m in reader.messages(['/B/fix', '/none'])] == ['/B/fix']
    assert list(reader.messages([])) == []


def test_failure_leaves_nothing_and_only_bags_are_overwritten(tmp_path):
    path = tmp_path / 'bag'
    with pytest.raises(RuntimeError), SensorBagWriter(path) as bag:
        bag.uwb_range('A', 'B', 1, 5.5, 0.25)
        raise RuntimeError
    with pytest.raises(FormatError, match='nothing to write'), SensorBagWriter(path):
        pass
    assert os.listdir(tmp_path) == []
    for value in (1.0, 2.0):
        with SensorBagWriter(path, overwrite=True) as bag:
            bag.uwb_range('A', 'B', 1, value, 0.25)
    assert [m.msg.range for m in BagReader(path)] == [2.0]
    (tmp_path / 'home').mkdir()
    for taken, overwrite in ((path, False), (tmp_path / 'home', True)):
        with pytest.raises(FormatError, match='exists already'):
            SensorBagWriter(taken, overwrite=overwrite)


def test_no_bag(tmp_path):
    with pytest.raises(FormatError, match='no such bag'):
        BagReader(tmp_path / 'none')
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'a.txt').write_text('text')
    (tmp_path / 'b.mcap').write_bytes(b'not mcap')
    (tmp_path / 'c.db3').write_bytes(b'not sqlite at all' * 100)
    for name in ('folder', 'a.txt', 'b.mcap', 'c.db3'):
        with pytest.raises(FormatError, match='expected a ROS 2 bag'):
            BagReader(tmp_path / name)
    (tmp_path / 'one.bag').write_bytes(b'#ROSBAG V2.0\n')
    with pytest.raises(FormatError, match='ROS 1'):
        BagReader(tmp_path / 'one.bag')


@pytest.mark.parametrize('store', [Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY])
def test_bags_without_definitions(tmp_path, store):
    """sensor_msgs/Range has one field more since Iron; the messages tell which it is."""
    types = get_typestore(store)
    kind = 'sensor_msgs/msg/Range'
    header = types.types['std_msgs/msg/Header'](
        types.types['builtin_interfaces/msg/Time'](1, 2), 'uwb')
    values = [header, 0, 0.0, 0.0, 10.0, 3.5] + [0.5] * (store is Stores.ROS2_JAZZY)
    path = tmp_path / 'bag'
    with Writer(path, version=8, storage_plugin=StoragePlugin.SQLITE3) as writer:
        connection = writer.add_connection('/range', kind, typestore=types)
        writer.write(connection, 1, types.serialize_cdr(types.types[kind](*values), kind))
        unknown = writer.add_connection(
            '/other', 'my_msgs/msg/Thing', msgdef='float64 x\n', rihs01='RIHS01_' + '0' * 64)
        writer.write(unknown, 2, b'\x00\x01\x00\x00' + bytes(8))
    # As one that Humble has recorded: no message definitions inside.
    (file,) = path.glob('*.db3')
    with closing(sqlite3.connect(file)) as database, database:
        database.execute('DROP TABLE message_definitions')
        database.execute('UPDATE schema SET schema_version = 3')
    metadata = path / 'metadata.yaml'
    metadata.write_text(metadata.read_text().replace('version: 8', 'version: 5'))
    one, other = BagReader(path)
    assert one.msg.range == 3.5 and one.msg.header.frame_id == 'uwb'
    with pytest.raises(FormatError, match='definition of my_msgs/msg/Thing is not in the bag'):
        _ = other.msg


def recorded(path, storage, n=40):
    """A bag of 2 n messages; the file in it."""
    with SensorBagWriter(path, storage) as bag:
        for k in range(n):
            bag.odometry('A', k * 100 + 1, np.array([k, 0.0, 0.0]), IDENTITY, isotropic(0.1, 0.1))
            bag.uwb_range('A', 'L1', k * 100 + 50, 5.0, 0.25)
    (file,) = path.glob('*.mcap' if storage == 'mcap' else '*.db3')
    return file


def chunks(data, compression, count=20):
    """An mcap file with its messages in so many chunks of that compression, without a summary."""
    at = 8
    while data[at] != 6:
        at += 9 + struct.unpack_from('<Q', data, at + 1)[0]
    size = struct.unpack_from('<Q', data, at + 1)[0]
    inner, ends = data[at + 9 + 40:at + 9 + size], [0]
    while ends[-1] < len(inner):
        ends.append(ends[-1] + 9 + struct.unpack_from('<Q', inner, ends[-1] + 1)[0])
    result, every = data[:at], len(ends) // count + 1
    for first, last in pairwise([*ends[:-1:every], ends[-1]]):
        records = inner[first:last]
        packed = {'': bytes, 'lz4': lz4.frame.compress, 'zstd': zstd.compress}[compression](records)
        body = struct.pack('<QQQII', 0, 0, len(records), zlib.crc32(records), len(compression)) \
            + compression.encode() + struct.pack('<Q', len(packed)) + packed
        result += bytes([6]) + struct.pack('<Q', len(body)) + body
    return result


@pytest.mark.parametrize('storage', ['sqlite3', 'mcap'])
@pytest.mark.parametrize(('right', 'wrong'), [
    (None, None), (r'\A.*', ''), (r'\A.*', 'rosbag2_bagfile_information: {'),
    ('storage_identifier: .*?\n', "storage_identifier: ''\n"),
    ('message_count: [0-9]+', 'message_count: 0')], ids=str)
def test_a_folder_whose_metadata_are_of_no_use_is_read(tmp_path, storage, right, wrong):
    path = tmp_path / 'bag'
    recorded(path, storage)
    file = path / 'metadata.yaml'
    if right is None:
        file.unlink()
    else:
        file.write_text(re.sub(right, wrong, file.read_text(), flags=re.DOTALL))
    reader = BagReader(path)
    assert is_bag(path) and len(reader) == len(list(reader)) == 80
    assert (reader.start_ns, reader.end_ns) == (1, 3951)
    assert any('metadata.yaml' in text for text in reader.faults)
    with pytest.raises(FormatError, match='exists already'):
        path.joinpath('metadata.yaml').unlink(missing_ok=True)
        SensorBagWriter(path, overwrite=True)


@pytest.mark.parametrize('compression', ['', 'lz4', 'zstd'])
def test_of_a_cut_mcap_is_read_what_comes_before(tmp_path, compression):
    """Up to its last whole chunk, as a killed recorder leaves it; without a summary it is whole."""
    whole = chunks(recorded(tmp_path / 'bag', 'mcap', 1000).read_bytes(), compression)
    counts = []
    for share in (1.0, 0.6, 0.3):
        path = tmp_path / 'cut.mcap'
        path.write_bytes(whole[:int(share * len(whole))])
        reader = BagReader(path)
        messages = list(reader)
        counts.append(len(messages))
        assert len(reader) == len(messages)
        assert [m.bag_time_ns for m in messages] == sorted(m.bag_time_ns for m in messages)
        assert all(m.msg is not None for m in messages)
        (fault,) = reader.faults
        assert str(path) in fault and f'{len(messages)} messages' in fault
    assert counts[0] == 2000 and 0 < counts[2] < counts[1] < 2000
    if not compression:
        assert counts[1] == pytest.approx(1200, abs=120)


def test_a_damaged_database_is_named_and_odd_rows_are_left_out(tmp_path):
    path = recorded(tmp_path / 'bag', 'sqlite3', 400)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute('UPDATE messages SET timestamp = "soon" WHERE id = 3')
        database.execute('UPDATE messages SET data = 5 WHERE id = 4')
    assert len(list(BagReader(path))) == 798, 'rows that hold something else are left out'
    data = bytearray(path.read_bytes())
    page = len(data) // 2 // 4096 * 4096
    data[page:page + 4096] = bytes(4096)
    path.write_bytes(data)
    for bag in (path, path.parent):
        with pytest.raises(FormatError, match=r'malformed .*sqlite3 BAG.db3 .recover'):
            BagReader(bag)


@pytest.mark.parametrize('storage', ['sqlite3', 'mcap'])
@pytest.mark.timeout(120)
def test_mutated_bags_end_in_messages_or_one_clear_error(tmp_path, storage):
    random = np.random.default_rng(7)
    path = tmp_path / 'bag'
    file = recorded(path, storage)
    originals = {one: one.read_bytes() for one in (file, path / 'metadata.yaml')}
    read = 0
    for turn in range(24):
        victim = file if turn % 4 else path / 'metadata.yaml'
        data = bytearray(originals[victim])
        at = int(random.integers(len(data)))
        kind = turn // 4 % 5
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at + 200] = bytes(len(data[at:at + 200]))
        elif kind == 2:
            data[at:at] = data[at // 2:at // 2 + 64]
        else:
            for place in random.integers(len(data), size=8):
                data[place] = random.integers(256)
        victim.write_bytes(data)
        for bag in (path, file):
            try:
                reader = BagReader(bag)
                messages = list(reader)
                read += bool(messages)
                assert len(messages) <= 160
            except FormatError as error:
                assert str(bag) in str(error) and len(str(error)) < 2000
                continue
            for message in messages:
                try:
                    assert message.msg is not None
                except FormatError as error:
                    assert message.topic in str(error)
        victim.write_bytes(originals[victim])
    assert read > 16
