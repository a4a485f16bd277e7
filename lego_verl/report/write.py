"""The report as one HTML file."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lego_verl.report.collect import Report

_HERE = Path(__file__).parent


def render(report: Report) -> str:
    """The page. Its policy allows nothing but its own style, which is known by its digest."""
    style = (_HERE / "report.css").read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.get_template("report.html.jinja")
    # The style is this project's own file; everything else is escaped.
    return template.render(
        report=report, style=Markup(style), policy=f"default-src 'none'; style-src 'sha256-{digest}'"
    )
