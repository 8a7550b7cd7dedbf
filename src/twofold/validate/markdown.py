"""The page of predicted against measured, as Markdown: docs/accuracy.md is this, as the command writes it."""

from collections.abc import Iterator, Sequence

from twofold.validate.evidence import MeasuredSet, Report
from twofold.validate.words import HEAD, cells, verdict

TITLE = "Accuracy"
INTRODUCTION = """\
Predicted against measured, for the sets of measurements that were at hand. This page is written by

```
twofold validate --data FOLDER --report docs/accuracy.md
```

and a test fails when its numbers drift. What is fitted is fitted on one part of a set and reported on another; the rule
stands above each table. A mean absolute error is the mean of |predicted / measured - 1|. The figures of other
simulators are those that they published on the same set, on all of it. `--report FILE.html` adds the pictures.
"""
NOT_PREDICTED = """\
## What is not predicted

Server runs of MLPerf Inference. Their results tell the rate, the tokens of all requests in a second and percentiles of
TTFT and TPOT, but neither the lengths of the prompts and of single outputs nor how the model was laid out over the
devices and batched. Lengths from elsewhere would be a fit to what is reported.
"""


def markdown(report: Report) -> str:
    """The page of ``report``."""
    parts = [f"# {TITLE}\n", INTRODUCTION, *map(_section, report.sets)]
    if report.skipped:
        lines = "\n".join(f"- `{name}`: {reason}" for name, reason in report.skipped.items())
        parts.append(f"## Sets that are not here\n\n{lines}\n")
    return "\n".join([*parts, NOT_PREDICTED])


def _section(each: MeasuredSet) -> str:
    text = f"## {each.title}\n\n`--only {each.id}`: {verdict(each.lines)}. {each.rule}\n\n"
    text += "\n".join(_table(each)) + "\n"
    for reason in each.reasons:
        text += f"\n{reason}\n"
    return text


def _table(each: MeasuredSet) -> Iterator[str]:
    yield _row(HEAD)
    yield _row(["---", *["---:"] * 4, "---", "---"])
    for line in each.lines:
        yield _row(cells(line))


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
