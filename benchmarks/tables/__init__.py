"""All tables of README and documentation by name, with those of the contest.

Each takes a function that loads what a benchmark saved, and the words after the name of
the table; it returns the head and the rows.
"""

from __future__ import annotations

from collections.abc import Callable

from contest.tables import TABLES as CONTESTS
from contest.tables import Load, Rows

from tables import (
    classification,
    cluster,
    devices,
    nugget,
    solving,
    stability,
    structured,
    study,
    survival,
    views,
)

TABLES: dict[str, Callable[[Load, str], Rows]] = {
    **CONTESTS,
    "took": classification.took,
    "demo": classification.demo,
    "speed": classification.speed,
    "rivals": classification.rivals,
    "accuracies": classification.accuracies,
    "mnist_large": classification.mnist_large,
    "approximations": classification.approximations,
    "default_p": classification.default_p,
    "missing_views": views.missing_views,
    "missing_at_predict": views.missing_at_predict,
    "noise_importance": views.noise_importance,
    "crossed_importance": views.crossed_importance,
    "unequal_importance": views.unequal_importance,
    "nugget_simulated": nugget.simulated,
    "nugget_data_sets": nugget.data_sets,
    "half_precision": solving.half_precision,
    "storages": solving.storages,
    "scaling": solving.scaling,
    "himalaya": solving.himalaya,
    "gpu": devices.fits,
    "gpu_crossover": devices.crossover,
    "gpu_profile": devices.profile,
    "cluster": cluster.fits,
    "cluster_same": cluster.same,
    "cluster_billion": cluster.billion,
    "gpu_terms": devices.terms,
    "survival": survival.data_sets,
    "survival_groups": survival.groups,
    "survival_defaults": survival.defaults,
    "smooth_wrapper": solving.smooth_wrapper,
    "streaming": solving.streaming,
    "budgets": solving.budgets,
    "recovery": structured.recovery,
    "terms_grid": structured.terms_grid,
    "parsing": structured.parsing,
    "treebanks": structured.treebanks,
    "parser_files": structured.parser_files,
    "parse_tagged": structured.parse_tagged,
    "parser_ablation": structured.parser_ablation,
    "pruning": structured.pruning,
    "templates": structured.templates,
    "mirror_objective": structured.mirror_objective,
    "mirror_planted": structured.mirror_planted,
    "mirror_data_sets": structured.mirror_data_sets,
    "ocr": structured.ocr,
    "chunking": structured.chunking,
    "chunk_choice": structured.chunk_choice,
    "chunk_ways": structured.chunk_ways,
    "chunk_pruning": structured.chunk_pruning,
    "groups": views.groups,
    "stability": stability.seconds,
    "permutation": stability.p_values,
    "study": study.seconds,
    "study_methods": study.methods,
    "view_defaults": views.view_defaults,
    "view_families": views.view_families,
    "view_lines": views.view_lines,
    "view_narrow": views.narrow_kernels,
    "view_gains": views.view_gains,
}
