"""The page in Chromium, where there is one: nothing is logged, nothing is cut off, nothing is too small to read."""

import html as escaping
import json
import re
import shutil
import subprocess

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (390, 1440)
MEASURE = """
const frame = document.querySelector("iframe");
function measure() {
  const page = frame.contentDocument, sizes = [];
  for (const text of page.querySelectorAll("p, td, th, li, dt, dd, small, code, summary, figcaption, svg text")) {
    if (text.getClientRects().length === 0) continue;
    const picture = text.closest("svg");
    const drawn = picture ? picture.getBoundingClientRect().width / picture.viewBox.baseVal.width : 1;
    sizes.push(parseFloat(frame.contentWindow.getComputedStyle(text).fontSize) * drawn);
  }
  return {across: page.documentElement.scrollWidth, smallest: Math.min(...sizes), texts: sizes.length};
}
window.onload = () => { document.body.dataset.found = JSON.stringify(measure()); };
"""


@pytest.fixture(scope="module", params=WIDTHS)
def seen(request, html, tmp_path_factory):
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    folder = tmp_path_factory.mktemp("browser")
    frame = f'<iframe style="border:0;width:{request.param}px;height:900px" srcdoc="{escaping.escape(html)}"></iframe>'
    (folder / "frame.html").write_text(f"<!doctype html><body>{frame}<script>{MEASURE}</script></body>", "utf-8")
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1600,1000")
    page = (folder / "frame.html").as_uri()
    command = [BROWSER, *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom", page]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<body data-found="([^"]*)"', ran.stdout)
    assert found is not None
    return request.param, json.loads(escaping.unescape(found[1])), ran.stderr


def test_the_page_does_not_scroll_sideways(seen):
    width, found, _ = seen
    assert found["across"] <= width


def test_no_text_is_smaller_than_12_px_as_shown(seen):
    _, found, _ = seen
    assert found["texts"] > 300
    assert found["smallest"] >= 11.99


def test_nothing_is_logged(seen):
    assert "CONSOLE" not in seen[2]
