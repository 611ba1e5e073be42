"""A hook of the site: roles of docstrings, which Markdown does not know."""

import re


def on_page_content(html: str, **_: object) -> str:
    """Show the name alone for a role such as ``:func:`name```."""
    return re.sub(r":(?:func|class|mod|meth|attr|data|exc|ref):<code>[~.]?", "<code>", html)
