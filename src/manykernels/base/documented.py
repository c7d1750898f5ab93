"""Where the documentation of an estimator is."""

from __future__ import annotations

from importlib import import_module

SITE = "https://manykernels.github.io/manykernels/"


class Documented:
    """Mixin: scikit-learn's diagram of an estimator links to its page in our reference.

    Examples
    --------
    >>> import manykernels as mk
    >>> mk.MKLClassifier()._get_doc_link()
    'https://manykernels.github.io/.../api/generated/manykernels.MKLClassifier.html'
    """

    _doc_link_module = "manykernels"

    @property
    def _doc_link_template(self) -> str:
        """The whole address: there is nothing left to fill in."""
        name = type(self).__name__
        room = ".".join(type(self).__module__.split(".")[:2])
        public = import_module("manykernels").__all__
        home = "manykernels" if name in public else room
        return f"{SITE}api/generated/{home}.{name}.html"
