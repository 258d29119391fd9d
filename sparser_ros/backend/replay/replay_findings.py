"""What a replay has to say about its bag, configuration and map: the sentences of the node."""

from __future__ import annotations

from ...frontend.inputs import Inputs, topic_findings
from ...graph.finding import Finding
from ..observability.location import Location
from .replay import Replay
from .truth import uncovered


def findings_of(state: Replay) -> tuple[Finding, ...]:
    """Each fault once: topics, configuration, sources of data during the whole bag, the map."""
    frontend, solution = state.frontend, state.solution
    every = (
        *(Finding('bag', text, text) for text in state.bag_faults),
        *(Finding('bag', topic, f'{len(errors)} messages of {topic} cannot be read and are left '
                  f'out; the first: {errors[0]}') for topic, errors in state.unreadable.items()),
        *topic_findings(
            Inputs(state.config), state.topics,
            tuple(state.config.backend.truth_topics.values())),
        *(Finding('configuration', text, text) for text in frontend.warnings),
        *(Finding('truth', text, text) for text in uncovered(
            state.graph, state.tracks, frontend.recorded_odometry())),
        *frontend.findings,
        *(finding for _, finding in frontend.events),
        *(() if solution is None else solution.findings))
    unique: dict[tuple[str, str], Finding] = {}
    for one in every:
        unique.setdefault((one.kind, one.subject), one)
    return tuple(unique.values())


def nothing_measured(state: Replay) -> str:
    """Why the map is odometry alone, in words; '' where something was measured."""
    counts = state.frontend.counters.as_dict()
    kinds = {kind: counts[kind] for kind in ('ranges', 'sightings', 'closures', 'fixes')}
    if any(one['accepted'] for one in kinds.values()):
        return ''
    refused = [
        f'{one["received"]} {kind} received, all refused ('
        + ', '.join(f'{reason}: {count}' for reason, count in one['dropped'].items()) + ')'
        for kind, one in kinds.items() if one['received']]
    why = '; '.join(refused) or (
        'no topic of the bag is an input for ranges, sightings, closures or fixes')
    return (f'nothing was measured beside odometry: {why}. Compare ranges.inputs, '
            'sightings.inputs, closures.inputs and radios of the configuration with the topics of '
            'the bag')


def undetermined_robots(state: Replay) -> list[str]:
    """Robots that have no place in map, each with what is missing."""
    if state.solution is None:
        return []
    return [
        f'{one.robot}: {one.missing or "not connected to the others"}'
        for one in state.solution.robots if one.location is Location.UNLOCATED]
