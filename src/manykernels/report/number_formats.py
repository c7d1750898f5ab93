"""Numbers as texts of a report."""

from __future__ import annotations


def number(value: float) -> str:
    """Return three digits, without a minus before zero.

    Examples
    --------
    >>> number(0.30000000000000004), number(1e-3), number(20.0)
    ('0.3', '0.001', '20')
    """
    value = round(value, 12) + 0.0
    return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.0e}"


def percent(value: float) -> str:
    """Return a share in percent with up to three digits.

    Examples
    --------
    >>> percent(0.5), percent(-1e-20), percent(0.1234)
    ('50 %', '0 %', '12.3 %')
    """
    return "–" if value != value else f"{round(100.0 * value, 9) + 0.0:.3g} %"


def tenths(value: float) -> str:
    """Return a share in percent with one digit behind the point.

    Examples
    --------
    >>> tenths(0.96), tenths(float("nan"))
    ('96.0 %', '–')
    """
    return f"{100.0 * value:.1f} %" if value == value else "–"
