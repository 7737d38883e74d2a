"""The configuration of Sphinx: MyST, the theme of PyData, and docstrings as they are written here."""

import re
from typing import Any

from pktable import __version__
from pktable_spec.clauses import requirements

project = "pktable"
author = "the authors of pktable"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["deflist", "strikethrough"]
suppress_warnings = ["myst.strikethrough"]  # it is shown in HTML, which is what is built
myst_heading_anchors = 4
highlight_language = "text"
default_role = "literal"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = "pktable"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["playground.js"]
html_copy_source = False
html_sidebars: dict[str, list[str]] = {"clauses/*": [], "scoreboard": [], "playground": [], "index": []}
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "show_toc_level": 2,
}


def link_clauses(app: Any, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Make links of the ids of clauses in a docstring."""
    known = requirements()
    for at, line in enumerate(lines):
        lines[at] = re.sub(
            r"(?<![\w`])[A-Z]+-\d+\b",
            lambda found: f":doc:`{found[0]} </clauses/{found[0]}>`" if found[0] in known else found[0],
            line,
        )


def hide_constructor(
    app: Any,
    what: str,
    name: str,
    thing: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str, str | None] | None:
    """Leave out the parameters of a class that is made by its ``create`` and ``open``."""
    hidden = what == "class" and hasattr(thing, "create") and hasattr(thing, "open")
    return ("", None) if hidden else None


def setup(app: Any) -> None:
    """Connect what is done here."""
    app.connect("autodoc-process-signature", hide_constructor)
    app.connect("autodoc-process-docstring", link_clauses)
