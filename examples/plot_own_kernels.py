"""
Your own kernels: strings
=========================

Any function of two tables can be a kernel. You will see string kernels for short pieces
of DNA, written in a few lines, next to kernels that do not help, and which of them hold
on new pieces.
"""

# %%
# Pieces of DNA
# -------------
# Half of the pieces hold the motif GATTACA at a random place, with one letter drawn
# anew; the others hold the same letters in another order. Letters are coded 0 to 3,
# since tables hold numbers.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import manykernels as mk

rng = np.random.default_rng(0)
LETTERS = "ACGT"
MOTIF = [LETTERS.index(letter) for letter in "GATTACA"]


def draw(n_rows, length=40):
    X = rng.integers(4, size=(n_rows, length))
    y = np.arange(n_rows) % 2
    for row, has_motif in zip(X, y, strict=True):
        start = rng.integers(length - len(MOTIF) + 1)
        word = MOTIF if has_motif else rng.permutation(MOTIF)
        row[start : start + len(MOTIF)] = word
        row[start + rng.integers(len(MOTIF))] = rng.integers(4)
    return X, np.where(y, "motif", "none")


X, y = draw(1000)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
print("".join(LETTERS[code] for code in X_train[0]), y_train[0])

# %%
# Kernels are functions
# ---------------------
# A kernel gets two tables and returns one value for every pair of rows. The spectrum
# kernel counts the words of k letters that two pieces have in common; the other one
# counts places with equal letters. Both are inner products, so they are positive
# semi-definite; a function that is not would be refused with a sentence.


def spectrum(k):
    def words(codes):
        """How often each of the 4^k words occurs in every row."""
        n_rows, length = codes.shape
        starts = range(length - k + 1)
        counts = np.zeros((n_rows, 4**k))
        for start in starts:
            word = codes[:, start : start + k].astype(int) @ 4 ** np.arange(k)
            counts[np.arange(n_rows), word] += 1
        return counts

    return lambda A, B: words(A) @ words(B).T


def same_places(A, B):
    return (A[:, None, :] == B[None, :, :]).mean(axis=2)


kernels = [mk.kernels.Custom(spectrum(k), name=f"words of {k}") for k in range(1, 7)]
kernels.append(mk.kernels.Custom(same_places, name="same places"))

# %%
# One fit with all of them, next to each kernel alone and to their average. Kernels are
# divided by their diagonals, also on new rows, so that their weights can be compared.

settings = {"C": 10, "random_state": 0}
learned = mk.MKLClassifier(kernels, p=1, **settings).fit(X_train, y_train)
average = mk.compare.AveragedKernelClassifier(kernels, **settings).fit(X_train, y_train)
alone = [
    mk.MKLClassifier([kernel], **settings).fit(X_train, y_train).score(X_test, y_test)
    for kernel in kernels
]
print(f"learned weights {learned.score(X_test, y_test):.3f}")
print(f"averaged        {average.score(X_test, y_test):.3f}")

found = mk.kernel_importance(learned, X_test, y_test, random_state=0)

place = np.arange(len(found.names))
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.8), sharey=True, layout="constrained"
)
left.barh(place - 0.2, found.weight, 0.4, color="0.75", label="kernel weight")
left.barh(place + 0.2, found.share, 0.4, color="C0", label="share on new rows")
left.set_yticks(place, found.names)
left.invert_yaxis()
left.set(xlabel="part of the whole", title="What the model uses")
left.legend()
right.barh(place, alone, color="0.75", label="this kernel alone")
right.axvline(learned.score(X_test, y_test), color="C0", label="learned weights")
right.axvline(average.score(X_test, y_test), color="C1", ls="--", label="averaged")
right.axvline(0.5, color="black", ls=":", label="guessing")
right.set(xlabel="test accuracy", title="What each kernel knows", xlim=(0.4, 1.0))
right.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
# What it shows
# -------------
# Single letters are the same with the motif as without, and places mean nothing as the
# motif moves: these kernels have next to no share in what holds on new pieces. Long
# words find the motif, and the model finds the long words. Averaging dilutes them.

print(found)
best = int(np.argmax(alone))
print(f"best alone: {found.names[best]}, {alone[best]:.3f}")

# %%
# Data that is no table at all (texts, trees, molecules) can be kept in a list: give the
# model a column of positions in it, and let the kernel look them up. A saved model does
# not hold functions; ``mk.load`` takes them again by name (:doc:`/quickstart`).
