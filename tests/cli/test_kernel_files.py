"""Kernels in TOML files: the same kernels as the grammar, the same refusals."""

import pytest

from manykernels.cli.kernel_files import parse_kernels, read_kernels
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.kernels.grammar import as_kernels

WHOLE = """
kernels = ["rbf@0-13", "linear"]

[[kernel]]
kind = "rbf"
gamma = 0.5
columns = "pixel*"
name = "pixels"
normalize = "trace"

[[kernel]]
kind = "poly"
degree = 2
columns = ["age", "dose", 3]
center = true

[[kernel]]
kind = "rbf"
gamma = "0.1*scale"
normalize = "none"
columns = "0-2+5"
"""


def test_all_the_forms(tmp_path):
    path = tmp_path / "kernels.toml"
    path.write_text(WHOLE)
    assert read_kernels(str(path)) == [
        *as_kernels("rbf@0-13; linear"),
        RBF(0.5, columns="pixel*", name="pixels", normalize="trace"),
        Polynomial(2, columns=["age", "dose", 3], center=True),
        RBF("0.1*scale", normalize=None, columns=[0, 1, 2, 5]),
    ]


def test_names_with_special_characters_in_a_list():
    (kernel,) = parse_kernels('[[kernel]]\nkind = "linear"\ncolumns = ["a+b", "3-4"]')
    assert kernel == Linear(columns=["a+b", "3-4"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected 'kernels = .*, got nothing;"),
        ("kernel = [", "expected TOML in .* cannot be read"),
        ("[" * 5000, "expected TOML in .* cannot be read"),
        ("C = 3", "got 'C';"),
        ("kernels = 'rbf'", "expected a list of texts"),
        ("kernels = ['rbff']", "kernel kind must be one of .* did you mean 'rbf'"),
        ("[[kernel]]\ngamma = 1", "expected kind = .* got None"),
        ("[[kernel]]\nkind = 'rbff'", "kernel kind must be one of"),
        ("[[kernel]]\nkind = 'rbf'\ngama = 1", "settings of rbf among .* got 'gama'"),
        ("[[kernel]]\nkind = 'rbf'\ngamma = -1", "gamma of rbf must be a positive"),
        ("[[kernel]]\nkind = 'rbf'\ncolumns = 1.5", "expected columns as text"),
        ("[[kernel]]\nkind = 'rbf'\nnormalize = 'x'", "normalize must be"),
    ],
)
def test_refusals_are_one_sentence(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse_kernels(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))
