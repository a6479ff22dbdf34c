"""The documentation site: `make docs` builds it into results/site, where every page works from a file."""

import importlib.util
import os
import re
import sys
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import fedtheory  # noqa: E402

# What pages show of a command's output is made by running it, on 80 columns
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
os.environ |= {"PYTHONPATH": str(HERE.parent), "COLUMNS": "80", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
os.environ["FEDTHEORY_LESSONS"] = "strict"  # a number of a lesson's text that is wrong fails the build

project, author = "fedtheory", "The fedtheory developers"
copyright = author
version = release = fedtheory.__version__

extensions = [
    "myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_design", "sphinx_copybutton", "sphinxcontrib.programoutput", "statements", "generated",
]  # fmt: skip
highlight_language = "none"  # what is indented is a formula
smartquotes = False  # "--out" is an option
exclude_patterns = ["_ext", "_static", "**/.ipynb_checkpoints"]
root_doc = "index"

# Markdown, and notebooks written in it: cells run once and are kept until they change
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
nb_execution_mode = "off" if tags.has("quick") else "cache"  # noqa: F821
nb_execution_cache_path = str(HERE.parent / "results" / ".lessons")
nb_execution_show_tb = True  # a cell that fails is a warning with its traceback, and a warning fails `make docs`
nb_execution_timeout = 180
nb_merge_streams = True

# Docstrings are NumPy's sections and plain sentences
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_mock_imports = [name for name in ("torch",) if importlib.util.find_spec(name) is None]
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_preprocess_types = False
python_use_unqualified_type_names = True
add_module_names = False
default_role = "py:obj"  # `name` is a link where that is the name of something here, and code where it is not
toc_object_entries_show_parents = "hide"

nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # docstrings write types as words: "array (N, d)", "None or float"
suppress_warnings = ["ref.python"]  # one class may have two public places

# MathJax beside the pages, so that formulas are typeset without a network
_mathjax = importlib.util.find_spec("sphinx-mathjax-offline")
if _mathjax is None or _mathjax.origin is None:
    raise ImportError("sphinx-mathjax-offline is not installed: pip install '.[docs]'")
mathjax_path = "tex-svg.js"
mathjax3_config = {"svg": {"fontCache": "global"}, "options": {"enableMenu": False}}

html_theme = "furo"
html_title = "fedtheory"
html_static_path = ["_static", str(Path(_mathjax.origin).parent / "static" / "mathjax" / "tex-svg.js")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

programoutput_prompt_template = "$ {command}\n{output}"

copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "

linkcheck_ignore = [r"https?://.*"]  # what is outside is not asked
linkcheck_anchors = True


def _plain(app, what, name, obj, options, lines):
    """Docstrings are plain sentences: outside backticks and code no sign of theirs is markup but the mark of an item."""
    if what == "module":  # what stands indented after a sentence is an example
        for n in range(len(lines) - 1, 1, -1):
            if lines[n].startswith("    ") and not lines[n - 1].strip() and re.match(r"\S", lines[n - 2]):
                if not lines[n - 2].endswith("::"):
                    lines.insert(n, "")
                    lines.insert(n, ".. code-block:: default")
    code = -1  # how far the line stands in that opened a block of code
    for n, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if code >= 0 and line.strip() and indent <= code:
            code = -1
        if code < 0:
            head = re.match(r"\s*(:\w[^:]*:|\* |\.\. .*|-{3,}|={3,}|)", line)[0]
            lines[n] = head + _escaped(line[len(head) :])
            code = indent if line.rstrip().endswith(("::", ":: default")) else -1


def _escaped(text):
    parts = re.split(r"(``.*?``|`[^`]*`|(?<![\w*])\*\w(?:[^*]*\w)?\*(?![\w*]))", text)
    parts = [p if n % 2 else re.sub(r"([*|\\])|_(?![A-Za-z0-9])", lambda m: "\\" + m[0], p) for n, p in enumerate(parts)]
    for n in range(1, len(parts), 2):  # `step`s: a letter may follow
        parts[n] += "\\ " if parts[n + 1][:1].isalnum() else ""
    return "".join(parts)


def _fields(app, doctree):
    """Between a parameter and its words stands a colon, not two hyphens."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(": "))


def setup(app):
    app.connect("doctree-read", _fields)
    app.connect("autodoc-process-docstring", _plain, priority=900)
