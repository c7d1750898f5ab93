"""Digits with noise columns."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manykernels.datasets import load_noisy_digits


def test_blocks_hold_the_pixels_of_the_images():
    digits = load_noisy_digits(100, 4, 0)
    pixels = np.vstack([digits.data, digits.data_test])[:, :64]
    whole = load_digits().data / 16
    np.testing.assert_allclose(np.sort(pixels.sum(1)), np.sort(whole.sum(1)))
    top_left = whole.reshape(-1, 8, 8)[:, :4, :4].reshape(-1, 16)
    found = {row.tobytes() for row in pixels[:, :16]}
    assert found == {row.tobytes() for row in top_left}


def test_same_seed_same_data_other_seed_other_data():
    first, again, other = (load_noisy_digits(50, 2, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.data, again.data)
    assert not np.array_equal(first.data, other.data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_train": 5}, "n_train must be a whole number of at least 10, got 5"),
        ({"n_train": 20.5}, "n_train must be a whole number of at least 10, got 20.5"),
        ({"n_train": 1790}, "n_train must be a whole number .* up to 1787, got 1790"),
        ({"n_noise": -1}, "n_noise must be a non-negative whole number, got -1"),
    ],
)
def test_bad_counts(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_noisy_digits(**arguments)


def test_noise_kernels_take_the_width_given():
    assert "gamma=0.1," in load_noisy_digits(50, 2, 0, 0.1).kernels[-1]
