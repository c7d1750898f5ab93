"""The reference shows our own members, not those that other libraries bring along."""


def _skip(app, what, name, member, skip, options):
    owner = getattr(member, "__objclass__", member)  # of a method written in C
    home = getattr(owner, "__module__", None) or ""
    return True if home.startswith(("sklearn.", "builtins")) else None


def setup(app):
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
