"""Files of step times as a cost model, told by their columns: DistServe's coefficients, Splitwise's measurements.

Other forms, each in a file of its own, are told by their names.
"""

from pathlib import Path
from statistics import median

from twofold.cost.curves import decode_pieces, prompt_pieces, slope_of
from twofold.cost.fitted import Coefficients, DecodePiece, Fitted, Key, PromptPiece
from twofold.cost.measured import Measured, known_model
from twofold.cost.operators import is_profile_folder, read_operators
from twofold.cost.profile_file import is_profile, read_profile
from twofold.cost.roofline import Roofline
from twofold.cost.rows import Row, grouped, of_engine, read_rows
from twofold.cost.silicon.silicon import Silicon, is_silicon, read_silicon
from twofold.cost.step_tables import is_step_folder, read_steps
from twofold.errors import SpecError
from twofold.spec import catalog

COEFFICIENTS = ("model", "tp", "phase", "a_const_ms", "b_per_token_ms")
"""Columns of DistServe's form, besides one whose name begins with ``c_ms``; ``engine``, ``hardware`` and
``large_bs_threshold`` may be there too."""
MEASUREMENTS = ("model", "hardware", "tensor_parallel", "prompt_size", "batch_size", "token_size")
TIMES = ("prompt_time", "token_time")
"""Columns of Splitwise's form, in ms, with MEASUREMENTS; ``peak_power`` and ``average_power`` (of TDP) may be there."""
PHASES = ("prefill", "decoding_smallbs", "decoding_largebs")
COEFFICIENTS_DEVICE = "A100-80GB"
CAPPED = "-pcap"
LARGEST_BATCH, NODE = 8, 8
LEAST_PROMPT_TOKENS = 1024


def read_costs(
    path: str | Path, engine: str | None = None, roofline: Roofline | None = None
) -> Fitted | Measured | Silicon:
    """The cost model of a file or folder, or of ``silicon:ENGINE``; ``engine`` chooses among those of a file.

    ``roofline`` says what the file does not. Raises SpecError for one of no form, and for a bad cell.
    """
    file = Path(path)
    settings = roofline or Roofline()
    if is_step_folder(file):
        return read_steps(file, engine, settings)
    if engine is not None and (is_silicon(file) or is_profile(file) or is_profile_folder(file)):
        raise SpecError("cost.engine", engine, f"{file.name} is of one engine: leave it out")
    if is_silicon(file):
        return read_silicon(file, settings)
    if is_profile_folder(file):
        return read_operators(file, settings)
    return read_profile(file, settings) if is_profile(file) else _read_table(file, engine, settings)


def _read_table(file: Path, engine: str | None, roofline: Roofline) -> Fitted:
    rows = read_rows(file)
    columns = {name for name in rows[0].cells if name}
    if set(COEFFICIENTS) <= columns and _third(columns):
        found = _coefficients(of_engine(rows, engine), _third(columns))
    elif {*MEASUREMENTS, *TIMES} <= columns:
        if engine is not None:
            raise SpecError("cost.engine", engine, f"{file.name} has no column engine: leave it out")
        found = _measurements(rows)
    else:
        accepted = f"accepted: {', '.join(COEFFICIENTS)}, c_ms; or {', '.join((*MEASUREMENTS, *TIMES))}"
        raise SpecError(f"{file.name}, columns", sorted(columns), accepted)
    if roofline.graph_tokens:
        whole = f"the steps of {file.name} are whole, padding included: leave it out"
        raise SpecError("cost.graph_tokens", roofline.graph_tokens, whole)
    return Fitted(file.name, found, roofline)


def _third(columns: set[str]) -> str:
    return next((name for name in sorted(columns) if name.startswith("c_ms")), "")


def _device(name: str) -> tuple[str, float | None]:
    """The device's name, and its TDP in watts if the catalog has it."""
    try:
        device = catalog.device(name)
    except SpecError:
        return name, None
    return device.name, device.tdp_w


def _coefficients(rows: list[Row], third: str) -> dict[Key, Coefficients]:
    def key(row: Row) -> Key:
        return Key(
            known_model(row.text("model")), _device(row.text("hardware") or COEFFICIENTS_DEVICE)[0], row.count("tp")
        )

    return {place: _one_fit(place, group, third) for place, group in grouped(rows, key).items()}


def _one_fit(place: Key, rows: list[Row], third: str) -> Coefficients:
    phases = {row.text("phase"): row for row in rows}
    if sorted(phases) != sorted(PHASES) or len(rows) != len(PHASES):
        raise SpecError(
            f"{rows[0].where}, phase", [row.text("phase") for row in rows], f"{place} needs one of {PHASES}"
        )
    prefill, small, large = (phases[phase] for phase in PHASES)
    token, square = prefill.number("b_per_token_ms"), prefill.number(third)
    if token < 0.0 or (square < 0.0 and token + 2.0 * square * _longest(place.model) < 0.0):
        raise SpecError(f"{prefill.where}, {third}", square, "accepted: a time that grows with the prompt")
    threshold = large.number("large_bs_threshold", 1.0)
    return Coefficients(
        [PromptPiece(0.0, prefill.number("a_const_ms", 0.0) / 1e3, token / 1e3)],
        [_decodes(small, 0.0, third), _decodes(large, threshold, third)],
        2.0 * square / 1e3,
    )


def _longest(model: str) -> int:
    try:
        return catalog.model(model).max_context
    except SpecError:
        return 0


def _decodes(row: Row, start: float, third: str) -> DecodePiece:
    base, context, request = row.number("a_const_ms", 0.0), row.number("b_per_token_ms", 0.0), row.number(third, 0.0)
    return DecodePiece(start, base / 1e3, request / 1e3, context / 1e3)


def _measurements(rows: list[Row]) -> dict[Key, Coefficients]:
    def key(row: Row) -> Key:
        hardware = row.text("hardware")
        device, _ = _device(hardware.removesuffix(CAPPED))
        return Key(known_model(row.text("model")), device, row.count("tensor_parallel"), hardware.endswith(CAPPED))

    sound = [row for row in rows if row.count("batch_size") <= LARGEST_BATCH or row.count("tensor_parallel") == NODE]
    return {place: _interpolated(group) for place, group in grouped(sound, key).items()}


def _interpolated(rows: list[Row]) -> Coefficients:
    """Prompt time over the tokens of the batch; token time over the batch, with a slope for the context."""
    alone = [(_context(row), row.number("token_time", 0.0)) for row in rows if row.count("batch_size") == 1]
    slope = slope_of(alone)
    prompts: dict[float, list[float]] = {}
    decodes: dict[float, list[float]] = {}
    for row in rows:
        batch = row.count("batch_size")
        prompts.setdefault(batch * row.count("prompt_size"), []).append(row.number("prompt_time", 0.0) / 1e3)
        without = row.number("token_time", 0.0) - slope * batch * _context(row)
        decodes.setdefault(batch, []).append(without / 1e3)
    prompt_w, decode_w = _powers(rows)
    return Coefficients(prompt_pieces(prompts), decode_pieces(decodes, slope / 1e3), 0.0, prompt_w, decode_w)


def _context(row: Row) -> float:
    """KV tokens of one request, on the mean of its decode steps."""
    return row.count("prompt_size") + row.count("token_size") / 2.0


def _powers(rows: list[Row]) -> tuple[float | None, float | None]:
    """Watts of prompts (peaks of those that fill the device) and of decodes (means of runs that are mostly decodes)."""
    _, tdp = _device(rows[0].text("hardware").removesuffix(CAPPED))
    if tdp is None or not rows[0].text("peak_power") or not rows[0].text("average_power"):
        return None, None
    full = [row for row in rows if row.count("batch_size") * row.count("prompt_size") >= LEAST_PROMPT_TOKENS]
    peaks = [value for row in full if (value := row.number("peak_power", 0.0)) > 0.0]
    short = [row for row in rows if row.count("prompt_size") < LEAST_PROMPT_TOKENS]
    means = [value for row in short if (value := row.number("average_power", 0.0)) > 0.0]
    return (tdp * median(peaks) if peaks else None), (tdp * median(means) if means else None)
