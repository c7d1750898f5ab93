"""How the documentation site is built: `make docs`, without a network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import manykernels  # noqa: E402

project = "manykernels"
author = "manykernels developers"
copyright = "manykernels developers, BSD-3-Clause"
version = release = manykernels.__version__
language = "en"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "plain_pages",
    "public_members",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "auto_examples/**.ipynb", "auto_examples/**.py.md5"]
nitpicky = True
default_role = "code"

# --- pages --------------------------------------------------------------------

myst_enable_extensions = ["attrs_block", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]  # functions in the gallery's settings

# --- reference ------------------------------------------------------------------

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the sections of the docstrings
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template lists them
numpydoc_xref_param_type = False

# Names of other libraries have no pages here, and no inventory is fetched.
nitpick_ignore_regex = [(r"py:.*", r"(sklearn|numpy|scipy|torch|pandas|joblib)\..*")]

# --- gallery --------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "within_subsection_order": "gallery_order.StoryOrder",
    "abort_on_example_error": False,  # every failure is named, and is a warning
    "only_warn_on_example_error": False,
    "copyfile_regex": r".*\.(csv|txt)",
    "download_all_examples": True,
    "plot_gallery": "True",
    "min_reported_time": 10,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "backreferences_dir": None,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
}

# --- looks ------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "manykernels"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}  # dark or light, as the reader's system is
html_theme_options = {
    "logo": {
        "text": "manykernels",
        "image_light": "_static/favicon.svg",
        "image_dark": "_static/favicon.svg",
    },
    "header_links_before_dropdown": 6,
    "icon_links": [
        {
            "name": "Source",
            "url": "https://github.com/manykernels/manykernels",
            "icon": "fa-brands fa-github",
        }
    ],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "changelog": [], "auto_examples/index": []}
