"""The reading site by Sphinx: the notebooks as stored, nothing executed, no request to another machine."""
import logging
import os
import re
import sys
from html import escape

from docutils import nodes

sys.path.insert(0, os.environ["COURSE_DOCS"])
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # of the social cards

project = "Transformer, from nothing"
author = "The transformer_nbdev authors"
copyright = "2026 onwards, the transformer_nbdev authors"
suppress_warnings = ["mystnb.unknown_mime_type", "myst.strikethrough"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_sitemap", "notfound.extension",
              "sphinxext.opengraph"]

nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"
nb_code_prompt_hide = nb_code_prompt_show = "code"
myst_enable_extensions = ["dollarmath", "amsmath", "strikethrough"]
myst_heading_anchors = 3
myst_heading_slug_func = "make_site.slug"
myst_update_mathjax = False
html_math_renderer = "tex"  # formulas stay TeX here; make_site.py has KaTeX render them

html_theme = "furo"
html_title = project
html_baseurl = "https://transformer-nbdev.github.io/transformer_nbdev/"
html_static_path = ["_static"]
html_css_files = ["katex/katex.min.css", "course.css"]
html_js_files = ["search.js", "frames.js"]
html_favicon = "_static/favicon.svg"
html_copy_source = html_use_index = html_domain_indices = False
html_theme_options = {
    "light_css_variables": {
        "font-stack": "'Source Serif 4', Charter, Georgia, serif", "code-font-size": "78%",
    },
}
html_sidebars = {"**": ["sidebar/brand.html", "search-box.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
                        "sidebar/scroll-end.html"]}
templates_path = ["_templates"]
sitemap_url_scheme = "{link}"
sitemap_excludes = ["search.html"]
notfound_urls_prefix = "/transformer_nbdev/"
ogp_site_url = html_baseurl
ogp_social_cards = {"enable": True, "line_color": "#0072B2"}
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}
autodoc_class_signature = "separated"
autodoc_typehints = "description"
source_suffix = {".ipynb": "myst-nb", ".md": "myst-nb"}
exclude_patterns = ["_build", "**.ipynb_checkpoints", "notebooks/**"]


def tex(tag):
    "Write a formula as its TeX in an element of this kind."
    def visit(self, node):
        self.body.append(self.starttag(node, tag, "", CLASS="math") + self.encode(node.astext()) + f"</{tag}>")
        raise nodes.SkipNode
    return visit, None


def fold(app, doctree, name):
    "Sections that can wait are closed, and what stays in sight is their first sentence."
    for section in doctree.findall(nodes.section):
        if "· deeper" not in section[0].astext() or not name[:2].isdigit():
            continue
        first = next(section.findall(nodes.paragraph), None)
        parts = [(isinstance(part, nodes.math), escape(part.astext())) for part in first.children] if first else []
        text = "".join(f'<span class="math">{part}</span>' if math else part for math, part in parts)
        promise = re.split(r"(?<=[.?!:])(?<!\bal\.)\s", " ".join(text.split()))[0]
        summary = f"<summary>Optional<i>: {promise}</i></summary>"
        section.insert(1, nodes.raw("", f'<details class="deeper">{summary}', format="html"))
        section.append(nodes.raw("", "</details>", format="html"))


def fold_asserts(app, doctree, name):
    "The assertions at the end of a cell are one line that can be opened."
    for block in list(doctree.findall(nodes.literal_block)) if name[:2].isdigit() else []:
        lines, first = block.astext().rstrip().split("\n"), None
        for i in reversed(range(len(lines))):
            if lines[i].startswith("assert "):
                first = i
            elif lines[i][:1] not in tuple(" )]}"):  # not the rest of an assertion
                break
        if first is None:
            continue
        n = sum(line.startswith("assert ") for line in lines[first:])
        summary = f"<summary>checked by {n} assertion{'s' if n > 1 else ''}</summary>"
        code = ["\n".join(part).rstrip() for part in (lines[:first], lines[first:])]
        before, checks = (nodes.literal_block(text, text, **block.attributes) for text in code)
        start = nodes.raw("", f'<details class="asserts">{summary}', format="html")
        end = nodes.raw("", "</details>", format="html")
        block.replace_self([before] * bool(code[0]) + [start, checks, end])


def setup(app):
    "Sphinx calls this."
    app.connect("doctree-resolved", fold)
    app.connect("doctree-resolved", fold_asserts)
    app.add_html_math_renderer("tex", inline_renderers=tex("span"), block_renderers=tex("div"))
