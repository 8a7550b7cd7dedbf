"""The page of predicted against measured, as one HTML file with its pictures."""

from html import escape

from twofold import __version__
from twofold.validate.evidence import MeasuredSet, Report
from twofold.validate.markdown import TITLE
from twofold.validate.scatter import scatter
from twofold.validate.words import HEAD, cells, verdict

STYLE = """\
body{font:16px/1.5 Helvetica,Arial,sans-serif;color:#1b2330;background:#fff}
body{max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
div{overflow-x:auto}
th,td{text-align:right;padding:.25rem .75rem;border-bottom:1px solid #e3e6ec}
th:first-child,td:first-child,td:last-child,th:last-child{text-align:left}
.missed{color:#b8482e;font-weight:bold}
svg{max-width:100%;height:auto}
"""


def html(report: Report) -> str:
    """The page of ``report``; it needs nothing else."""
    parts = "\n".join(map(_section, report.sets))
    missing = "".join(f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in report.skipped.items())
    skipped = f"<h2>Sets that are not here</h2><ul>{missing}</ul>" if missing else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{TITLE}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{TITLE}</h1><p>Predicted against measured, by Twofold {__version__}.</p>\n{parts}\n{skipped}"
        "</body></html>\n"
    )


def _section(each: MeasuredSet) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in HEAD)
    rows = "".join(_row(cells(line)) for line in each.lines)
    reasons = "".join(f"<p>{escape(reason)}</p>" for reason in each.reasons)
    pictures = "".join(map(scatter, each.clouds))
    return (
        f"<h2>{escape(each.title)}</h2><p>{escape(verdict(each.lines))}. {escape(each.rule)}</p>"
        f"<div><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{reasons}{pictures}"
    )


def _row(texts: tuple[str, ...]) -> str:
    shown = "".join(
        f'<td class="{text}">{text}</td>' if text == "missed" else f"<td>{escape(text)}</td>" for text in texts
    )
    return f"<tr>{shown}</tr>"
