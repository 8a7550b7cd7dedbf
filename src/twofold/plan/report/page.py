"""The page: one HTML file that needs nothing else."""

from html import escape
from importlib.resources import files
from string import Template

from twofold import __version__
from twofold.plan.report import notes, tables
from twofold.plan.report.drawing import Drawing
from twofold.plan.report.evidence import Evidence
from twofold.plan.report.palette import dark_rules
from twofold.plan.report.pictures import Pictures
from twofold.plan.report.rivals import MOST
from twofold.plan.report.words import described, number


def page(evidence: Evidence, pictures: Pictures, command: str = "") -> str:
    """The report as HTML; ``command`` is what repeats the plan."""
    escaped = {name: escape(text) for name, text in told(evidence).items()}
    parts = tables_of(evidence) | pictures_in(pictures)
    parts |= {
        "style": Template(_asset("page.css")).substitute(dark=dark_rules("svg")),
        "facts": facts(evidence),
        "command": f"<p>To repeat it:</p><pre><code>{escape(command)}</code></pre>" if command else "",
    }
    return Template(_asset("page.html")).substitute(escaped | parts)


def told(evidence: Evidence) -> dict[str, str]:
    """What the template says in words, not escaped yet."""
    plan = evidence.plan
    row, document = plan.rows[0], plan.to_dict()
    return {
        "title": f"{row['deployment']} for {plan.model.name}",
        "eyebrow": f"Twofold plan: {plan.model.name} on {plan.resources}",
        "best": row["deployment"],
        "lead": f"{described(plan.best.deployment)}.",
        "slo": notes.readable(plan.slo),
        "rate": number(evidence.rate),
        "interval_note": notes.interval_note(row),
        "missing": notes.missing(evidence),
        "stall_note": notes.stall_note(evidence),
        "certificate": notes.certificate(document["certificate"]),
        "objective": document["objective"],
        "most": str(MOST),
        "version": __version__,
    }


def tables_of(evidence: Evidence) -> dict[str, str]:
    """The tables by their place in the template."""
    return {
        "ranking": tables.ranking(evidence),
        "cast": tables.cast(evidence),
        "curve_table": tables.curve_table(evidence),
        "percentile_table": tables.percentile_table(evidence),
        "phase_table": tables.phase_table(evidence),
        "front_table": tables.front_table(evidence),
        "bound_table": tables.bound_table(evidence),
        "assumptions": tables.facts("Assumptions", notes.assumptions(evidence)),
        "workload": tables.facts("Workload", notes.workload_facts(evidence.plan.workload.describe())),
        "words": tables.facts("Words of this report", notes.WORDS),
    }


def pictures_in(pictures: Pictures) -> dict[str, str]:
    """The pictures by their place in the template."""
    return {
        "curves": figures(pictures.curves),
        "distributions": figures(pictures.distributions),
        "stall": figures([pictures.stall]),
        "phases": figures([pictures.phases]),
        "tradeoffs": figures(pictures.tradeoffs),
    }


def figures(drawings: list[Drawing]) -> str:
    """Each picture with its caption, in both widths; the style sheet shows one of them."""
    return "\n".join(
        f'<figure role="group" aria-label="{escape(each.title)}"><figcaption>{escape(each.title)}</figcaption>'
        f'<div role="img" aria-label="{escape(each.description)}">'
        f'<div class="wide">{each.inline(each.wide)}</div><div class="narrow">{each.inline(each.narrow)}</div>'
        "</div></figure>"
        for each in drawings
    )


def facts(evidence: Evidence) -> str:
    """The figures under the headline."""
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in notes.headlines(evidence)
    )


def _asset(name: str) -> str:
    return files("twofold.plan.report").joinpath(name).read_text(encoding="utf-8")
