"""Thinned graphs as bytes: the layout of `codec`."""

from __future__ import annotations

from dataclasses import replace

from ...graph import Increment
from ...graph.thinning import Renumbering
from .codec import Packet, decode, decode_increment, encode, encode_increment
from .protocol import THIN

_ROWS = 'thinned_rows.'


def encode_thinned(generation: int, increment: Increment, to: Renumbering) -> bytes:
    """Go on with `increment` in place of all so far; answers belong to `generation` from now on."""
    packet = decode(encode_increment(increment, first=0))
    return encode(THIN, {**packet.values, 'generation': generation}, {
        **packet.arrays, 'kept': to.kept, 'pose': to.pose,
        'next_pose': to.next_pose, 'next_edge': to.next_edge,
        **{_ROWS + name: rows for name, rows in to.rows.items()}})


def decode_thinned(packet: Packet) -> tuple[Increment, Renumbering]:
    """The increment and the way to it of a packet of kind `thin`."""
    arrays = packet.arrays
    return decode_increment(replace(packet, kind='increment')), Renumbering(
        arrays['kept'], arrays['pose'], {
            name.removeprefix(_ROWS): rows for name, rows in arrays.items()
            if name.startswith(_ROWS)}, arrays['next_pose'], arrays['next_edge'])
