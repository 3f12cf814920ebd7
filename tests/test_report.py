"""The report in a real browser: nothing is missing, the explorer follows its slider, and the console stays silent."""

import io
import math
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")
from rich.console import Console

from isrlu_lab import reproduce
from isrlu_lab.experiments import figure_style, numbers, registry
from isrlu_lab.experiments.experiment import VERDICTS
from isrlu_lab.experiments.result_store import Store
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.report import build, merged_table

sys.path.insert(0, str(Path(__file__).parent))
import toy_experiment

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
ALL = registry.EXPERIMENTS
WIDTHS = {"phone": 390, "large phone": 560, "tablet": 820, "desktop": 1400}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with both figures and the toy table, and one experiment that has not run."""
    folder = tmp_path_factory.mktemp("report")
    figures = registry.select(["figure1", "figure2"])
    waiting = (
        next(entry for entry in registry.EXPERIMENTS if entry not in figures) if len(registry.EXPERIMENTS) > 2 else None
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOY_LOG", os.devnull)
        entries = (*figures, toy_experiment.entry("toy"), *([waiting] if waiting else []))
        patch.setattr(registry, "EXPERIMENTS", entries)
        silent = Console(quiet=True)
        names = ["figure1", "figure2", "toy"]
        assert reproduce.reproduce(names, folder, full=False, again=False, console=silent, errors=silent) == 0
        yield folder


@pytest.fixture(scope="module")
def driver() -> Iterator[object]:
    """Headless Chromium. It may be missing on a developer's machine; a run with CI=true must have it."""
    if not (BROWSER and DRIVER):
        message = "no browser: install Debian's chromium and chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--disable-background-networking")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield browser
    browser.quit()


@pytest.fixture
def page(driver, results: Path) -> Iterator[object]:
    """The open report; after the test, its console must be empty."""
    driver.get((results / "report.html").as_uri())
    driver.execute_script(
        "try { localStorage.clear() } catch {}; document.documentElement.removeAttribute('data-theme')"
    )
    yield driver
    assert driver.get_log("browser") == []


def find(page, selector: str) -> list:
    return page.find_elements("css selector", selector)


def text(page, selector: str) -> str:
    (element,) = find(page, selector)
    return element.text


def move(page, slider: str, value: float) -> None:
    """Move a slider as a user does: the value, then the event."""
    script = "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
    page.execute_script(script + "s.dispatchEvent(new Event('input', {bubbles: true}))", slider, value)


def curve(page, name: str = "curve") -> list[tuple[float, float]]:
    """The points of a drawn curve, in the function's own coordinates (x from -6 to 3, y from -3 to 3)."""
    path = find(page, f"#{name}")[0].get_attribute("d")
    points = re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path)
    return [(float(x) / 640 * 9 - 6, 3 - float(y) / 400 * 6) for x, y in points]


def test_needs_no_network(results: Path):
    html = (results / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']+""", re.sub(r'xlink:href="#', 'href="#', html))
    assert "@import" not in html and "url(http" not in html and "fetch(" not in html


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"<svg><g></svg>", b'<?xml version="1.0" encoding="x"?><svg/>'],
    ids=["empty", "no text", "cut", "encoding"],
)
def test_a_damaged_figure_costs_its_experiment_alone(results: Path, tmp_path: Path, content: bytes):
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    svg = next((folder / "figure1-quick").glob("*.svg"))
    svg.write_bytes(content)
    warnings: list[str] = []
    page = build.write(folder, warn=warnings.append).read_text()
    assert len(warnings) == 1 and f"its figure {svg.name} is damaged" in warnings[0]
    assert "<img" in page


def with_figure(results: Path, folder: Path, svg: str) -> Path:
    """The report with `svg` in the place of figure1's first figure."""
    shutil.copytree(results, folder)
    name = Store(OutputFolder(folder)).load("figure1", "quick").result.figures[0].name
    (folder / "figure1-quick" / f"{name}.svg").write_text(svg)
    return build.write(folder, warn=pytest.fail)


HOSTILE = """<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="document.title='taken'">
<script>document.title = 'taken'</script>
<foreignObject><img src="x" onerror="top.document.title='taken'"/></foreignObject>
</svg>"""


def test_a_figure_of_somebody_else_is_no_markup(results: Path, tmp_path: Path):
    page = with_figure(results, tmp_path / "results", HOSTILE).read_text()
    assert page.count("<script") == 1 and "taken" not in page and "foreignObject" not in page


def test_a_script_in_a_figure_does_not_run(driver, results: Path, tmp_path: Path):
    driver.get(with_figure(results, tmp_path / "results", HOSTILE).as_uri())
    assert driver.title == "ISRLU: the paper, reproduced"
    assert driver.get_log("browser") == []


# The colours of the first figure as the browser filters them, at these shares of its width; and the ground below it.
COLOURS = """
const [shares, done] = arguments, image = document.querySelector("#figure1 figure img");
image.decode().then(() => {
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d", { willReadFrequently: true });
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  pen.filter = getComputedStyle(image).filter;
  pen.drawImage(image, 0, 0);
  const seen = shares.map((share) => [...pen.getImageData(share * canvas.width, canvas.height / 2, 1, 1).data]);
  done([seen, getComputedStyle(image.closest("section")).backgroundColor.match(/\\d+/g).map(Number)]);
});
"""


@pytest.mark.parametrize(("scheme", "system"), [("light", "dark"), ("dark", "light"), ("", "light"), ("", "dark")])
def test_figures_have_contrast(driver, results: Path, tmp_path: Path, scheme: str, system: str):
    """WCAG AA for the colours of figures: 4.5 to 1 for text, 3 to 1 for lines; chosen by the button or the system."""
    colours = [figure_style.INK, *(line["color"] for line in figure_style.LINES.values())]
    bars = [f'<rect x="{100 * i}" width="100" height="100" fill="{colour}"/>' for i, colour in enumerate(colours)]
    size = f'width="{100 * len(colours)}" height="100"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(bars)}</svg>'
    media = {"features": [{"name": "prefers-color-scheme", "value": system}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        driver.get(with_figure(results, tmp_path / "results", svg).as_uri())
        driver.execute_script("document.documentElement.dataset.theme = arguments[0]", scheme)
        seen, ground = driver.execute_async_script(COLOURS, [(i + 0.5) / len(colours) for i in range(len(colours))])
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    below = _luminance("#{:02x}{:02x}{:02x}".format(*ground))
    assert (below < 0.1) == ((scheme or system) == "dark")
    for colour, (*pixel, opacity) in zip(colours, seen, strict=True):
        low, high = sorted((_luminance("#{:02x}{:02x}{:02x}".format(*pixel)), below))
        assert opacity == 255
        assert (high + 0.05) / (low + 0.05) >= (4.5 if colour == figure_style.INK else 3.0), (colour, pixel, ground)


def test_a_title_is_no_formula():
    made, axes = figure_style.panel("data of a$^$b", "x", "y")
    made.savefig(io.BytesIO(), format="svg")
    assert axes.get_title("left") == "data of a$^$b"


def test_ids_are_unique_with_every_experiment_of_the_registry():
    page = build.render([build.Section(entry, build.shipped_evidence(entry)) for entry in ALL])
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert {entry.name for entry in ALL} <= set(ids)
    assert len(ids) == len(set(ids))


def test_every_table_figure_and_claim_is_there(page, results: Path):
    store = Store(OutputFolder(results))
    records = [store.load(name, "quick") for name in ("figure1", "figure2", "toy")]
    for record in records:
        section = f"#{record.experiment}"
        captions = [element.text for element in find(page, f"{section} caption")]
        assert captions == [table.caption for table in record.result.tables]
        shown = [
            [cell.text for cell in row.find_elements("css selector", "th, td:not(.shipped)")]
            for row in find(page, f"{section} tbody tr")
        ]
        assert shown == [
            [*labels, *(view.text for view in cells)]
            for table in merged_table.merge([("here", table) for table in record.result.tables])
            for labels, cells in table.rows
        ]
        assert all(cell for row in shown for cell in row)
        captions = [f"{figure.caption} here" for figure in record.result.figures]
        assert [f.text for f in find(page, f"{section} > .figures figcaption")] == captions
        images = find(page, f"{section} > .figures img")
        assert [image.get_attribute("alt") for image in images] == [f.alt for f in record.result.figures]
        for image in images:
            assert image.size["width"] > 250 and image.size["height"] > 150
            assert page.execute_script("return arguments[0].naturalWidth", image) > 250, "the browser could draw it"
        assert len(find(page, f"{section} .claims li")) == len(record.result.claims)
        assert all(claim.text in text(page, "#summary") for claim in record.result.claims)
    assert "Wood is dear: see isrlu info." in text(page, "#toy .why")


def test_summary_counts_the_verdicts(page, results: Path):
    claims = [claim for section in build.collect(results, warn=pytest.fail) for claim in section.claims]
    counts = [sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS]
    assert [int(element.text) for element in find(page, ".tile b")] == counts
    assert counts[0] >= 8 and counts[1] >= 1 and counts[3] == 0, "shipped results answer what was not run"
    assert len(find(page, "#summary .claims li")) == len(claims)


def test_what_was_not_run_says_so(page):
    waiting = registry.EXPERIMENTS[-1]
    if waiting.name == "toy":
        pytest.skip("every experiment of the registry is in the store")
    assert f"Not run here: isrlu reproduce {waiting.name}" in text(page, f"#{waiting.name} .empty")
    for claim in numbers.claims(waiting.name).values():
        assert claim["text"] in text(page, "#summary")


@pytest.mark.parametrize(("position", "alpha"), [(100, 0.1), (200, 1.0), (300, 10.0), (400, 100.0), (248, 3.02)])
def test_explorer_follows_alpha(page, position: int, alpha: float):
    move(page, "alpha-slider", position)
    assert float(text(page, "#alpha-value")) == alpha
    assert text(page, "#saturation") == f"−{1 / math.sqrt(alpha):.4f}"
    for x, y in curve(page):
        exact = x if x >= 0 else x / math.sqrt(1 + alpha * x * x)
        assert y == pytest.approx(min(exact, 4), abs=0.02)
    for x, y in curve(page, "derivative"):
        assert y == pytest.approx(1 if x >= 0 else (1 + alpha * x * x) ** -1.5, abs=0.06)


def test_explorer_at_alpha_zero_is_linear(page):
    move(page, "alpha-slider", 0)
    assert text(page, "#saturation") == "never (linear)"
    assert all(y == pytest.approx(max(x, -4), abs=0.02) for x, y in curve(page))


def test_explorer_follows_x_and_the_function(page):
    move(page, "alpha-slider", 200)
    move(page, "x", 2)
    assert (text(page, "#value"), text(page, "#slope")) == ("2.0000", "1.0000")
    page.execute_script("document.querySelector('input[value=isru]').click()")
    assert text(page, "#value") == f"{2 / math.sqrt(5):.4f}"
    assert text(page, "#slope") == f"{5**-1.5:.4f}"
    assert "tanh" in text(page, "#peers") and "±" in text(page, "#saturation")


def test_explorer_works_from_the_keyboard(page):
    from selenium.webdriver.common.keys import Keys

    before = find(page, "#curve")[0].get_attribute("d")
    find(page, "#alpha-slider")[0].send_keys(Keys.ARROW_RIGHT * 5)
    assert find(page, "#curve")[0].get_attribute("d") != before


def test_theme_button_switches_and_is_remembered(page):
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = page.execute_script(colour)
    find(page, "#theme")[0].click()
    after = page.execute_script(colour)
    assert before != after
    page.refresh()
    assert page.execute_script(colour) == after
    find(page, "#theme")[0].click()
    assert page.execute_script(colour) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(page, scheme: str):
    """WCAG AA: 4.5 to 1 for the colours that text is shown in, on each ground that it stands on."""
    page.execute_script("document.documentElement.dataset.theme = arguments[0]", scheme)
    value = "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()"
    pairs = [("--ink", "--bg"), ("--ink", "--card"), ("--ink", "--tint"), ("--soft", "--bg"), ("--soft", "--card")]
    pairs += [("--soft", "--tint"), ("--accent", "--card"), ("--accent", "--bg")]
    pairs += [("--ok", "--ok-bg"), ("--no", "--no-bg"), ("--idle", "--idle-bg")]
    for front, ground in pairs:
        a, b = sorted(_luminance(page.execute_script(value, name)) for name in (front, ground))
        assert (b + 0.05) / (a + 0.05) >= 4.5, (scheme, front, ground)


def _luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# The labels of claims (verdict, source) that overlap the text beside or below them.
COVERED = """
return [...document.querySelectorAll(".claims li")].filter((claim) => {
  const text = claim.querySelector("div").getBoundingClientRect();
  return [...claim.querySelectorAll(".verdict > *")].some((label) => {
    const box = label.getBoundingClientRect();
    return box.right > text.left && box.bottom > text.top && box.left < text.right && box.top < text.bottom;
  });
}).map((claim) => claim.innerText);"""


@pytest.mark.parametrize("screen", WIDTHS)
def test_fits_the_screen(page, screen: str):
    """No sideways scrolling of the page: a wide table scrolls in its own frame."""
    metrics = {"width": WIDTHS[screen], "height": 900, "deviceScaleFactor": 1, "mobile": "phone" in screen}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= WIDTHS[screen]
        assert page.execute_script(COVERED) == [], "a label lies on the text of its claim"
        for control in find(page, "#controls input[type=range], #theme, nav a"):
            assert control.size["height"] >= 28, "too small for a finger"
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_control_has_a_name(page):
    page.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    for control in find(page, "button, input, img, [role=img], [role=region]"):
        assert control.accessible_name, control.get_attribute("outerHTML")[-300:]


def test_prints(page):
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert len(pdf) > 20_000
