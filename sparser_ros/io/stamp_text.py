"""Stamps as text: decimal seconds (or nanoseconds) in files, int nanoseconds inside."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from ..array_types import Index

SECOND = 1_000_000_000
NANOSECONDS_ABOVE = 1e14
"""A stamp beyond this is in nanoseconds: as seconds it would lie three million years ahead."""
LATEST_NS = 2**62
"""Stamps lie before this, the year 2116: differences of two still fit into 64 bits."""


def parse_stamp(text: str) -> int:
    """Int nanoseconds of a decimal stamp, exact to the digits given; ValueError if it is none."""
    whole, _, fraction = text.partition('.')
    if whole.isdecimal() and (fraction.isdecimal() or not fraction):
        seconds = int(whole)
        stamp = seconds if seconds > NANOSECONDS_ABOVE else (
            seconds * SECOND + int(fraction[:9].ljust(9, '0')))
    else:
        try:
            value = Decimal(text)
        except InvalidOperation:
            raise ValueError(f'not a stamp: {text!r}') from None
        # Even to compare numbers like 1e9999999 overflows.
        if not value.is_finite() or value.adjusted() > 18:
            raise ValueError(f'not a stamp: {text!r}')
        stamp = int(value * (1 if abs(value) > NANOSECONDS_ABOVE else SECOND))
    if abs(stamp) >= LATEST_NS:
        raise ValueError(f'not a stamp: {text!r}')
    return stamp


def format_stamp(stamp_ns: int) -> str:
    """Seconds with nine decimals."""
    sign = '-' if stamp_ns < 0 else ''
    seconds, rest = divmod(abs(stamp_ns), SECOND)
    return f'{sign}{seconds}.{rest:09d}'


def format_stamps(stamps_ns: Index) -> list[str]:
    return [format_stamp(stamp) for stamp in stamps_ns.tolist()]
