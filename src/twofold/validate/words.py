"""The figures of a line in words, the same on the screen and on the page."""

from twofold.validate.evidence import Line, Unit

ABSENT = "–"
HEAD = ("what", "predicted", "measured", "error", "goal", "", "another simulator")


def cells(line: Line) -> tuple[str, ...]:
    """One row of a table, in the columns of ``HEAD``."""
    goal = ABSENT if line.goal is None else percent(line.goal)
    single = line.predicted is not None
    return (
        line.what,
        value(line.predicted, line.unit),
        value(line.measured, line.unit),
        f"{100 * line.error:+.1f} %" if single else percent(line.error),
        goal,
        {None: "", True: "met", False: "missed"}[line.met],
        line.peer or ABSENT,
    )


def value(number: float | None, unit: Unit) -> str:
    """A value with its unit; seconds in ms."""
    if number is None:
        return ABSENT
    if unit == "s":
        return f"{1e3 * number:,.1f} ms"
    return percent(number) if unit == "share" else f"{number:,.0f} {unit}".rstrip()


def percent(share: float) -> str:
    """A share of one as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def verdict(lines: tuple[Line, ...]) -> str:
    """How many of the goals of a set are met."""
    judged = [line.met for line in lines if line.met is not None]
    if not judged:
        return "no goal was set"
    return f"{sum(judged)} of {len(judged)} goals met"
