"""Times and events in every shape, and what is said of those that are none."""

import numpy as np
import pandas as pd
import pytest

from manykernels.losses import CensoredEpsilonInsensitive
from manykernels.targets.times import Times, read_times

TIME, EVENT = np.array([5.0, 8.5, 2.0, 3.0]), np.array([True, False, True, True])
X = np.zeros((4, 2))


def structured(flag=bool, names=("event", "time")):
    y = np.zeros(4, dtype=[(names[0], flag), (names[1], float)])
    y[names[0]], y[names[1]] = EVENT, TIME
    return y


SHAPES = {
    "structured": structured(),
    "structured, other names": structured(names=("cens", "days")),
    "structured, whole numbers as events": structured(np.int64),
    "pair of arrays": (TIME, EVENT),
    "pair of lists": (TIME.tolist(), EVENT.tolist()),
    "list of two lists": [TIME.tolist(), EVENT.astype(int).tolist()],
    "two columns": np.column_stack([TIME, EVENT]),
    "rows": [[5.0, 1], [8.5, 0], [2.0, 1], [3.0, 1]],
    "frame": pd.DataFrame({"Event": EVENT.astype(int), "Time": TIME}),
    "frame, odd names": pd.DataFrame({"days": TIME, "relapse": EVENT}),
    "frame, more columns": pd.DataFrame({"id": 1, "duration": TIME, "died": EVENT}),
    "mapping": {"time": TIME, "status": EVENT.astype(float)},
    "pair of series": (pd.Series(TIME), pd.Series(EVENT, dtype="boolean")),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_says_the_same(shape):
    time, event = read_times(SHAPES[shape])
    np.testing.assert_array_equal(time, TIME)
    np.testing.assert_array_equal(event, EVENT)
    assert time.dtype == np.float64 and event.dtype == bool


def changed(time=(), event=()):
    """The pair with some entries replaced."""
    times, events = TIME.tolist(), EVENT.astype(int).tolist()
    for values, (row, value) in [(times, t) for t in time] + [
        (events, e) for e in event
    ]:
        values[row] = value
    return times, events


REFUSED = {
    "none": (None, "requires y to be passed, but the target y is None"),
    "one column": (TIME, "a time and an event for every row, got one column"),
    "three columns": (np.ones((4, 3)), r"got the shape \(4, 3\)"),
    "text": ("times", "a time and an event"),
    "number": (3, "a time and an event"),
    "unnamed columns": (
        pd.DataFrame({"a": TIME, "b": TIME}),
        r"got the columns \['a', 'b'\]; name them 'time' and 'event'",
    ),
    "two times": (
        pd.DataFrame({"time": TIME, "duration": TIME, "event": EVENT}),
        "one column of times and one of events",
    ),
    "ragged": ([[1, 0], [2], [3, 1]], "got rows that differ"),
    "lengths": ((TIME, EVENT[1:]), "got 4 times and 3 events"),
    "too few": ((TIME[1:], EVENT[1:]), "inconsistent numbers of samples"),
    "matrix in a pair": ((TIME[:, None], EVENT), r"got the shape \(4, 1\)"),
    "negative": (changed(time=[(2, -1.0)]), "positive, got -1 in row 2"),
    "zero": (changed(time=[(1, 0)]), "got 0 in row 1; .* or pass time_scale='linear'"),
    "nan": (changed(time=[(3, np.nan)]), "finite numbers, got nan in row 3"),
    "infinite": (changed(time=[(0, np.inf)]), "finite numbers, got inf in row 0"),
    "text time": (changed(time=[(0, "long")]), "finite numbers, got long in row 0"),
    "code 2": (changed(event=[(1, 2)]), "got 2 in row 1; code them so"),
    "event nan": (changed(event=[(1, np.nan)]), "got nan in row 1"),
    "event text": (changed(event=[(0, "yes")]), "got yes in row 0"),
    "swapped": ((EVENT, TIME), "put times before events"),
    "missing": (
        pd.DataFrame(
            {"time": TIME, "event": pd.Series([1, None, 0, 1], dtype="Int64")}
        ),
        "got nan in row 1",
    ),
    "no event": ((TIME, np.zeros(4)), "at least one event, got none in 4 rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_sentence(case):
    y, part = REFUSED[case]
    with pytest.raises(ValueError, match=part) as caught:
        Times.of(y, n_rows=len(X))
    message = str(caught.value)
    assert message.endswith(".") and ". " not in message and ";" in message


def test_times_as_they_are_may_be_zero_but_not_negative():
    rows = Times.of(changed(time=[(1, 0.0)]), log=False)
    np.testing.assert_array_equal(rows.target[:, 0], [5.0, 0.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="at least zero, got -2 in row 1"):
        Times.of(changed(time=[(1, -2.0)]), log=False)


def test_rows_without_weight_are_not_there():
    rows = Times.of((TIME, EVENT), [1.0, 2.0, 0.0, 0.5])
    np.testing.assert_array_equal(rows.kept, [0, 1, 3])
    np.testing.assert_allclose(rows.target[:, 0], np.log([5.0, 8.5, 3.0]))
    np.testing.assert_array_equal(rows.target[:, 1], [1, 0, 1])
    loss = CensoredEpsilonInsensitive()
    rows = Times.of((TIME, EVENT), [1.0, 2.0, 0.0, 0.5], loss=loss, center=True)
    moved = np.log([5.0, 8.5, 3.0]) - rows.intercept
    assert rows.intercept != 0.0
    np.testing.assert_allclose(rows.target[:, 0], moved)
    np.testing.assert_array_equal(rows.target[:, 1], [1, 0, 1])
    assert rows.take([0]).intercept != rows.intercept
    with pytest.raises(ValueError, match="got none in 1 rows"):
        Times.of((TIME, EVENT), [0.0, 1.0, 0.0, 0.0])


def test_frames_that_are_not_from_pandas_are_read_by_column():
    class Frame:
        columns = ("time", "event")

        def __getitem__(self, name):
            return {"time": TIME, "event": EVENT}[name]

    assert read_times(Frame())[1].tolist() == EVENT.tolist()
