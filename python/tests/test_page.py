"""The report as a person sees it: every run that is kept in the tree, in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser

TREE = Path(__file__).parents[2]
RECORDS = [
    TREE / "crates" / "feedline-cli" / "tests" / "fixtures" / "delay.json",
    *(
        path
        for path in sorted(TREE.glob("bench/runs/*/*.json"))
        if '"feedline-bench"' in path.read_text()[:200]
    ),
]

#: Desktop and phone.
WIDTHS = {"desktop": 1280, "phone": 390}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each run, and one of all of them."""
    folder = tmp_path_factory.mktemp("pages")

    def page(name: str, records: list[Path]) -> Path:
        out = folder / f"{name}.html"
        command = [sys.executable, "-m", "feedline", "report", *map(str, records), "--out", str(out)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return out

    made = {path.stem: page(path.stem, [path]) for path in RECORDS}
    made["all"] = page("all", RECORDS)
    return made


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("name", [*(path.stem for path in RECORDS), "all"])
def test_a_page_is_drawn_without_complaints_and_asks_nobody(
    browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.open(pages[name], width, dark=dark)
    assert browser.complaints() == []
    assert browser.requests() == [pages[name].as_uri()]
    plots = browser.ask(
        "Array.from(document.querySelectorAll('svg')).map(svg => [svg.getBoundingClientRect().width,"
        " svg.querySelectorAll('rect, circle, polyline').length, svg.textContent])"
    )
    assert len(plots) >= 6
    for drawn, marks, text in plots:
        assert drawn > 250, "a plot has a size"
        assert marks > 0, f"there is something in {text!r}"
        assert not re.search(r"\b(NaN|inf|undefined)\b", text), text
    wide = browser.ask("[document.scrollingElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], "nothing has to be scrolled sideways but tables"
    colours = browser.ask(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]
    assert (light[0] < light[1]) == dark
    assert browser.picture().startswith(b"\x89PNG")


def test_a_table_is_sorted_by_the_column_that_is_pressed(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages[RECORDS[0].stem], 1280)
    rows = "Array.from(document.querySelector('table').tBodies[0].rows)"
    column = f"{rows}.map(row => parseFloat(row.cells[4].dataset.v))"
    browser.ask("document.querySelector('table').querySelectorAll('th')[4].click()")
    rising = browser.ask(column)
    assert rising == sorted(rising)
    assert len(rising) > 2
    browser.ask("document.querySelector('table').querySelectorAll('th')[4].click()")
    assert browser.ask(column) == rising[::-1]
