"""
Kernels that know nothing
=========================

Twelve good kernels and more and more useless ones. You will see when learning the
weights pays (when some kernels are useless and you do not know which) and when it does
not (when all of them are good).
"""

# %%
# Digits with noise
# -----------------
# ``load_noisy_digits`` cuts scikit-learn's digits into four blocks of pixels with three
# kernels each, and adds RBF kernels on columns of Gaussian noise.

import matplotlib.pyplot as plt

import manykernels as mk

counts = [0, 6, 12, 24, 48, 96]
methods = {
    "learned, p = 1": lambda kernels: mk.MKLClassifier(
        kernels, p=1, C=10, random_state=0
    ),
    "learned, p = 1.1": lambda kernels: mk.MKLClassifier(kernels, C=10, random_state=0),
    "averaged": lambda kernels: mk.compare.AveragedKernelClassifier(
        kernels, C=10, random_state=0
    ),
    "best single": lambda kernels: mk.compare.BestKernelClassifier(
        kernels, Cs=[10], cv=3, random_state=0
    ),
}
accuracy = {name: [] for name in methods}
share_of_noise = {name: [] for name in methods}
for n_noise in counts:
    data = mk.datasets.load_noisy_digits(n_train=200, n_noise=n_noise)
    for name, method in methods.items():
        model = method(data.kernels).fit(data.data, data.target)
        accuracy[name].append(100 * model.score(data.data_test, data.target_test))
        share_of_noise[name].append(100 * model.kernel_weights_[12:].sum())

# %%
# C is the same for all methods here, for speed; :doc:`/benchmarks` has the comparison
# in which every method chooses its own.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for (name, values), marker in zip(accuracy.items(), "osD^", strict=True):
    left.plot(counts, values, marker=marker, label=name)
    right.plot(counts, share_of_noise[name], marker=marker, label=name)
left.set(
    xlabel="useless kernels beside 12 good ones",
    ylabel="test accuracy, %",
    title="200 training images",
)
right.set(
    xlabel="useless kernels beside 12 good ones",
    ylabel="weight on useless kernels, %",
    title="Where the weight goes",
)
left.legend()
plt.show()

# %%
# What it shows
# -------------
# Without useless kernels the plain average is as good as anything. With them it loses
# point after point, since their share of the sum grows, while p = 1 hardly notices.

for name, values in accuracy.items():
    print(f"{name:18} {values[0]:.1f} % without, {values[-1]:.1f} % with {counts[-1]}")
