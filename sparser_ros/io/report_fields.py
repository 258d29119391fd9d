"""Units and meanings of all fields of a report; source of the page on `report.json`.

Names are paths: `a.b` is field b of a, `*` any name (a robot, a topic), `[]` every element of a
list. A field without fields of its own may hold anything below it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportField:
    """One field."""

    path: str
    unit: str
    """`-` for pure numbers, empty for text, flags and groups."""
    doc: str


@dataclass(frozen=True)
class ReportSection:
    """Fields that come together, and who writes them."""

    title: str
    writers: tuple[str, ...]
    """Among `solve`, `replay`, `calibrate`, `demo`."""
    doc: str
    fields: tuple[ReportField, ...]


def _fields(table: str) -> tuple[ReportField, ...]:
    """Fields from lines of `path | unit | meaning`."""
    rows = [line.split('|', 2) for line in table.strip().splitlines()]
    return tuple(ReportField(*(cell.strip() for cell in row)) for row in rows)


GRAPH = ReportSection(
    'Graph', ('solve', 'replay', 'demo'), 'What was solved.', _fields("""
        dataset | | name of the file or bag
        dimension | - | 2 or 3
        n_poses | - | poses; of a bag or a live run: keyframes
        n_landmarks | - | beacons and landmarks
        n_relative | - | relative poses: odometry and loop closures
        n_closures | - | loop closures among them
        n_sightings | - | landmark sightings
        n_ranges | - | ranges
        n_priors | - | absolute measurements: priors and position fixes
        """))
ROBOT_NAMES = ReportSection(
    'Robots', ('solve', 'replay'), '', _fields("""
        robots | | names of the robots, a list
        """))
SOLVE = ReportSection(
    'Solve', ('solve', 'replay', 'demo'),
    'How it was solved. A cost carries no factor ½. `null`: was not run, or is not known. A live '
    'run knows of the last tick only.', _fields("""
        status | | solved: `converged`, `target_reached`; else why not, such as `time_limit`
        message | | why it ended, in words; of a live run the text of `~/status`
        rank | - | rank of the relaxation
        init | | where the solve started
        formulation | | how positions were handled: `schur` eliminates them
        backend | | `cpu` or `gpu`
        backend_reason | | why there
        kernel | | robust kernel, `none` without one
        plan | | what was chosen for this graph, with reasons, by name
        iterations | - | steps of the trust region
        cg_steps | - | steps of truncated CG, all together
        cg_stops | - | how often CG ended for which reason
        seconds.load | s | reading the file
        seconds.setup | s | assembly, factorisations, compilation
        seconds.solve | s | relaxation, or the live solve
        seconds.refine | s | refinement at rank d
        seconds.certify | s | certificate
        seconds.* | s | further stages, by name
        seconds.total | s | from reading to the end, without the start of the interpreter
        cost_relaxed | sigma² | of the relaxation
        cost_final | sigma² | at rank d, with all robust weights at one, bearings eliminated
        cost_robust | sigma² | sum of the robust losses, where there is a kernel
        certified | | true: proven to be the global optimum; null: was not asked for
        suboptimality | sigma² | bound on how far above the global optimum the cost is
        lambda_min | - | least eigenvalue of the certificate matrix
        trace[][] | s, sigma² | seconds since the relaxation began, its cost
        ate_m | m | mean position error after alignment, where a truth is known
        ate_rmse_m | m | its root mean square: what `evo_ape --align` calls rmse
        rejected | | robust weight below 0.1; empty in a live run, where `~/rejected` lists them
        rejected[].index | - | row in the table of its type
        rejected[].type | | `ranges`, `relative_poses` or `sightings`
        rejected[].from | | first end, such as `A17` or a beacon
        rejected[].to | | second end
        rejected[].weight | - | robust weight, 0 to 1
        rejected[].whitened_residual | sigma | residual in standard deviations
        """))
WARNINGS = ReportSection(
    'Warnings', ('solve', 'replay'), 'Also printed on stderr.', _fields("""
        warnings[] | | what looks wrong, in words: units, topics, radios, false ranges, two places
        undetermined[] | | parts without a determined place; not empty means exit code 3
        """))
OTHER_PLACES = ReportSection(
    'Other places', ('solve',), '', _fields("""
        other_places | m | of ambiguous robots and landmarks by name: `position`, `distance_m`
        """))
COVARIANCE = ReportSection(
    'Covariances', ('solve', 'replay'), 'With `solve --covariance`, and in run folders.',
    _fields("""
        covariance | | null where not asked for
        covariance.error | | why there are none
        covariance.gauge | | what they are relative to
        covariance.variance_factor | - | found over claimed variance of the residuals
        covariance.order | | order of rows: `x y rz` or `x y z rx ry rz`
        covariance.units | | units of the rows
        covariance.newest_poses.* | | of the newest pose of each robot, a matrix; null = not known
        covariance.landmarks.* | m² | of the position of each beacon, a matrix
        """))
CALIBRATION = ReportSection(
    'Calibration', ('solve', 'replay', 'calibrate'), 'With `--calibrate`, and of `calibrate`.',
    _fields("""
        calibration.applied | | whether the biases are significant and were applied
        calibration.reason | | why, or why not
        calibration.rounds | - | turns of calibrating and solving
        calibration.scale | - | common factor on all ranges
        calibration.scale_sigma | - | its standard deviation
        calibration.sigma_per_m | - | noise that grows with the range; null = not determined
        calibration.sharing | - | so many neighbouring ranges carry the information of one
        calibration.odometry[].robot | | robot
        calibration.odometry[].scale | - | its lengths times this are true
        calibration.odometry[].scale_sigma | - | standard deviation
        calibration.odometry[].determined | | whether the data tell more than the prior
        calibration.odometry[].translation_sigma_factor | - | found over claimed noise, 1: kept
        calibration.odometry[].rotation_sigma_factor | - | the same of rotations
        calibration.radios[].name | | radio, by its robot or beacon
        calibration.radios[].ranges | - | ranges that it took part in
        calibration.radios[].bias_m | m | to be subtracted from its ranges
        calibration.radios[].bias_sigma_m | m | standard deviation
        calibration.radios[].determined | | whether the data tell more than the prior
        calibration.radios[].sigma_m | m | its share of the noise; null = too few ranges
        calibration.pairs[].first | | one radio
        calibration.pairs[].second | | the other
        calibration.pairs[].ranges | - | ranges between them
        calibration.pairs[].bias_m | m | sum of both biases
        calibration.pairs[].bias_sigma_m | m | standard deviation
        calibration.pairs[].claimed_sigma_m | m | median of what the ranges claim
        calibration.pairs[].sigma_m | m | noise found; null = not determined
        calibration.pairs[].blocked | - | share of the ranges that are rejected
        calibration.pairs[].residual_m | m | median residual that is left
        calibration.undetermined[] | | what could not be determined, and what to drive for it
        """))
REPLAY = ReportSection(
    'Replay', ('replay',), 'What only a replay of a bag knows.', _fields("""
        optimality | | what is proved of the map's cost, in words
        messages | - | messages read from the bag
        counts.*.received | - | of odometry, ranges, closures, fixes: messages received
        counts.*.accepted | - | taken into the graph
        counts.*.merged | - | second direction of an exchange
        counts.*.waiting | - | still waiting for odometry at the end
        counts.*.dropped | - | refused, by reason
        counts.*.warnings | - | taken with a correction, by reason
        counts.time_jumps | - | how often time went back
        counts.internal_errors | - | messages at which this package failed
        unused_topics[] | | topics with ranges or odometry that no input reads
        locations.*.location | | of each robot: `located`, `position_only`, `ambiguous`, `unlocated`
        locations.*.missing | | what is missing, in words
        fix_share.*.* | - | of each robot: share of the time with fix `none`, `float`, `fixed`
        noise.* | - | standard deviation of each source as residuals show it, over the claimed one
        beacons.*.located | | whether its position is determined
        beacons.*.position | m | in map; null where not determined
        range_residuals_m.count | - | ranges between located ends; the following are about these
        range_residuals_m.left_out | - | the others
        range_residuals_m.mean | m | predicted minus measured
        range_residuals_m.median | m | the same
        range_residuals_m.rms | m | root mean square
        range_residuals_m.median_absolute | m | median of the absolute values
        range_residuals_m.p95_absolute | m | 95 % are below
        range_residuals_m.max_absolute | m | largest
        range_residuals_m.rms_whitened | sigma | rms over claimed noise, false ones included
        truth.ate_m | m | mean position error against `backend.truth_topics`; truth is null without
        truth.ate_rmse_m | m | root mean square
        truth.aligned_on[] | | robots that the alignment was fitted to
        truth.compared | - | keyframes that the truth covers, filled in along odometry
        truth.keyframes | - | of so many of the robots that have a place
        truth.robots.*.location | | state of the robot
        truth.robots.*.poses | - | keyframes compared
        truth.robots.*.ate_m | m | mean error
        truth.robots.*.ate_max_m | m | largest error
        truth.robots.*.heading_offset_rad | rad | mean heading against the truth's frame
        truth.robots.*.heading_spread_rad | rad | spread about it
        truth.stated.*.poses | - | newest poses as they were stated, by fix `float`, `fixed`
        truth.stated.*.rmse_m | m | their root mean square error, each map laid on the truth
        truth.stated.*.inside_95 | - | share of them within its own ellipse of 95 %
        truth.relative_poses[].from | | robot
        truth.relative_poses[].to | | robot whose trajectory is placed relative to it
        truth.relative_poses[].translation_error_m | m | mean error of that
        truth.relative_poses[].rotation_error_rad | rad | angle between the two alignments
        solves[].data_s | s | time of the solve since the start of the data
        solves[].cost_final | sigma² | its cost
        solves[].full | | whether it started from scratch
        solves[].status | | as above
        solves[].located[] | | robots located by then
        solves[].seconds | s | duration
        """))
CALIBRATE = ReportSection(
    'Clocks and lever arms', ('calibrate',), 'Only in the report of `sparser calibrate`.',
    _fields("""
        dataset | | name of the file or bag
        clocks[].source | | radio whose ranges determine an offset of its clock
        clocks[].late_s | s | its stamps are late by this
        clocks[].sigma_s | s | standard deviation
        clocks[].rate_m_s | m/s | root mean square of how fast its ranges change
        lever_arms[].robot | | robot with ranges
        lever_arms[].error_m | m | true less configured lever arm, in the frame of the robot
        lever_arms[].sigma_m | m | standard deviation of each axis
        lever_arms[].determined | | whether its turns and ranges say that to 0.1 m
        lever_arms[].significant | | whether an axis is off by more than three of them
        lever_arms[].doubt | | what is likelier than an antenna so far off, in words; else empty
        antennas_or_clocks[].robot | | robot whose antenna or stamps are off, which the data do \
not tell
        antennas_or_clocks[].axis | | axis of the antenna: 0 ahead, 1 left, 2 up
        antennas_or_clocks[].error_m | m | true less configured lever arm, if the stamps are right
        antennas_or_clocks[].late_s | s | how late the stamps are, if the lever arm is right
        """))
LIVE = ReportSection(
    'Live run', ('demo',), 'What `./dev/demo` measured at the topics of the running node.',
    _fields("""
        passed | | every robot has a pose with a covariance, settled, no message unaccounted for
        rate | - | multiple of real time
        robots.* | | state of each robot
        missing.* | | what is missing, in words
        fix_share.*.* | - | of each robot: share of the time with fix `none`, `float`, `fixed`
        stated.*.poses | - | newest poses as they were published, by fix, where a truth is known
        stated.*.rmse_m | m | their root mean square error, each map laid on the truth
        stated.*.inside_95 | - | share of them within its own ellipse of 95 %
        messages.sent.* | - | messages played, by topic
        messages.unheard[] | | topics without a subscriber
        messages.arrived.* | - | by topic
        messages.lost.* | - | sent minus arrived, where they differ
        messages.kinds | - | counts as in a replay
        messages.unaccounted | - | received minus accepted, merged, waiting and dropped, plus lost
        settled_after_s | s | from the end of the data to a map of all of them
        solutions | - | solutions published
        latency_s.p50 | s | from data to the first solution with them: median
        latency_s.p95 | s | 95 % are below
        latency_s.max | s | largest
        latency_s.p95_full_size | s | 95 %, with the graph at full size
        cpu_cores | - | processor time of the node over wall time
        worker_restarts | - | restarts of the solver process
        tf_gap_max_s.* | s | longest gap of map -> odom at a subscriber, by frame
        tf_count.* | - | transforms received, by frame
        tf_stamps_not_increasing | - | transforms stamped no later than the one before
        callback_max_ms | ms | longest callback of the node, wall time
        callback_max_cpu_ms | ms | longest callback, processor time
        callbacks.* | | times of each callback
        cost_on_file | sigma² | cost over all measurements of the graph file that was given
        cost_on_file_note | | why there is none
        range_residual_median_m | m | median absolute residual of ranges as they were measured
        node_exit_code | - | of the node after Ctrl-C
        log_lines.* | - | lines in the log of the node, by level
        """))
SECTIONS = (
    GRAPH, ROBOT_NAMES, SOLVE, WARNINGS, OTHER_PLACES, COVARIANCE, CALIBRATION, REPLAY, CALIBRATE,
    LIVE)
