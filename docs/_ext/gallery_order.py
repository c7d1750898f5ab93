"""The order of the examples: from first steps to special needs."""

STORY = (
    "first_steps",
    "which_view_matters",
    "missing_views",
    "noise_kernels",
    "choosing_p_and_c",
    "precomputed",
    "own_kernels",
    "certificate",
    "compare_methods",
    "probabilities",
    "many_targets",
    "survival",
    "gene_sets",
    "interactions",
    "learned_kernel",
    "sequences",
    "parsing",
    "streams",
    "memory",
)


class StoryOrder:
    """Sorting key: the place in the story; newcomers stand at its end."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (STORY.index(name) if name in STORY else len(STORY), name)
