"""Links lead somewhere, both READMEs show the same, the picture and the Makefile agree with the text."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MACHINE_PATH = re.compile(r"""["'`\s(]/(?:work|tmp|root|home)/""")

each_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@each_page
def test_no_machine_path(page: Path) -> None:
    assert not MACHINE_PATH.search(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_readme_leads_to_every_page(page: Path) -> None:
    for readme in ("README.md", "README.zh-CN.md"):
        assert f"(docs/{page.name})" in (ROOT / readme).read_text(encoding="utf-8")


def test_both_readmes_show_the_same_commands_and_outputs() -> None:
    english, chinese = (FENCE.findall((ROOT / name).read_text("utf-8")) for name in ("README.md", "README.zh-CN.md"))
    assert english == chinese


def test_the_table_of_the_readme_is_what_make_demo_prints() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shown = re.search(r"^\$ twofold (compare (?:.*\\\n)*.*)$", text, re.MULTILINE)
    made = re.search(r"\$\(BIN\)/twofold (compare (?:.*\\\n)*.*)$", makefile, re.MULTILINE)
    assert shown is not None
    assert made is not None
    assert shlex.split(shown[1].replace("\\\n", " ")) == shlex.split(made[1].replace("\\\n", " "))


def picture() -> ModuleType:
    pytest.importorskip("altair")
    spec = importlib.util.spec_from_file_location("stall_picture", ROOT / "examples" / "stall_picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["stall_picture"] = module
    spec.loader.exec_module(module)
    return module


def test_the_picture_has_the_numbers_of_this_version() -> None:
    drawn = (ROOT / "docs" / "pictures" / "stall.svg").read_text(encoding="utf-8")
    example = picture()
    for deployment in example.DEPLOYMENTS:
        assert f">{example.run(deployment).note}<" in drawn


def test_the_picture_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    example = picture()
    example.chart({name: example.run(name) for name in example.DEPLOYMENTS}).save(tmp_path / "stall.svg")
    assert (tmp_path / "stall.svg").read_text(encoding="utf-8").startswith("<svg")
