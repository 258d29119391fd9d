"""The node's pipeline with a bounded graph: processes, publishing and journal stay together."""

import os
import signal

import numpy as np
import pytest
from journal_world import no_objects, simulated
from waiting import until

from sparser_ros.backend.session.solution import Location
from sparser_ros.config import SparserConfig
from sparser_ros.node.picture import map_to_odom, trajectory
from sparser_ros.node.pipeline import Pipeline

MOST = 60
VALUES = {'keyframes': {'max_count': MOST, 'distance_m': 0.3}, 'odometry': {'history_s': 2.0}}


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp('bag') / 'bag', minutes=0.7)


def solved(pipeline):
    """Wait for a solution of everything."""
    def done():
        pipeline.request_solve()
        pipeline.poll()
        return pipeline.up_to_date
    until(done, 'a solution of everything')


def audited(pipeline):
    """Wait for an audit from scratch."""
    request = pipeline.request_audit()

    def done():
        pipeline.poll()
        return pipeline.answered(request)
    until(done, 'the audit')


def consistent(pipeline):
    """What is published fits the solution: rows, stamps and sizes."""
    solution, known = pipeline.solution, pipeline.graph
    graph = pipeline.graph_of(solution.sequence).validate()
    assert graph.n_poses == len(solution.estimate.translation) == known.n_poses
    np.testing.assert_array_equal(graph.poses.stamp_ns, known.poses.stamp_ns)
    for number, robot in enumerate(graph.robots):
        stamps_ns, *_ = trajectory(solution, known, robot, 10**6)
        assert np.all(np.diff(stamps_ns) > 0)
        assert len(stamps_ns) == np.sum(graph.poses.robot == number)
    located = {one.robot for one in solution.robots if one.location is Location.LOCATED}
    assert located <= set(map_to_odom(solution, known)) <= set(graph.robots)
    return graph


def played(pipeline, messages, often, every=120, first=0):
    for number, one in enumerate(messages, first):
        route = pipeline.recording.inputs.match(one.topic, one.type)
        pipeline.receive(route, one.data, one.received_ns)
        if number % every == every - 1:
            pipeline.intake()
            solved(pipeline)
            often()


def opened(parameters, folder=None, **journal):
    values = {**parameters, **VALUES, 'node': {'journal': journal}}
    return Pipeline(SparserConfig.from_mapping(values), folder=folder, deserialise=no_objects)


def test_a_graph_of_bounded_size_is_published_and_outlives_its_processes(recording):
    parameters, messages = recording
    pipeline = opened(parameters)
    sizes, killed = [], []

    def look():
        sizes.append(consistent(pipeline).n_poses)
        if pipeline.frontend.thinnings >= 2 and not killed:
            killed.append(pipeline.worker.state.pid)
            os.kill(killed[0], signal.SIGKILL)
            until(lambda: pipeline.worker.state.pid not in (None, killed[0])
                  and not pipeline.worker.state.restarting, 'another tracker')

    try:
        played(pipeline, messages, look)
        audited(pipeline)
        assert killed and pipeline.frontend.thinnings > 3
        assert max(sizes) <= MOST + 30
        assert [one.location for one in pipeline.solution.robots] == [Location.LOCATED] * 2
        assert len(pipeline.thinned) == pipeline.frontend.thinnings
        consistent(pipeline)
    finally:
        pipeline.close()


def test_a_thinned_session_is_resumed_with_its_map(recording, tmp_path):
    parameters, messages = recording
    third, half = len(messages) // 3, 2 * len(messages) // 3
    pipeline = opened(parameters, tmp_path, sync_period_s=0.0)
    played(pipeline, messages[:third], lambda: None)
    audited(pipeline)
    early = pipeline.frontend.thinnings
    played(pipeline, messages[third:half], lambda: None, first=third)
    thinnings, before = pipeline.frontend.thinnings, consistent(pipeline)
    epoch = pipeline.solution.epoch
    assert pipeline.worker.kept_map.thinnings == thinnings > early
    pipeline.close()
    pipeline = opened(parameters, tmp_path, resume=True)
    try:
        until(lambda: not pipeline.worker.state.restarting, 'the tracker')
        solved(pipeline)
        after = consistent(pipeline)
        assert pipeline.frontend.thinnings == thinnings
        assert after.n_poses == before.n_poses and len(after.ranges) == len(before.ranges)
        assert pipeline.worker.kept_map.thinnings == thinnings
        found = pipeline.solution.robots
        assert [one.location for one in found] == [Location.LOCATED] * 2, found
        assert pipeline.solution.epoch == epoch
        played(pipeline, messages[half:], lambda: consistent(pipeline), first=half)
    finally:
        pipeline.close()
