"""Reports in a real browser: 1280 and 390 px, light and dark. Skipped where there is none."""

import importlib.util
import json
import re
from pathlib import Path

import matplotlib.image
import pytest

from rlcomp.cli.report import report

HOSTILE = "</script><script>document.title = 'broken in'</script><img src=x onerror=alert(1)>"
LONG = "a_setting_with_a_name_that_no_phone_has_room_for=0.123456789"

# What leaves the window, but for what stands in a box of its own that scrolls; texts of a chart
# that leave it, or that lie on one another.
OVERFLOWS = """((width) => {
  const found = [], wide = document.documentElement.scrollWidth;
  if (wide > width) found.push(`the page is ${wide} px wide`);
  for (const one of document.body.querySelectorAll("*")) {
    const box = one.getBoundingClientRect();
    if (!box.width || one.closest(".wide > *, details:not([open]) > :not(summary)")) continue;
    if (box.right <= width + 1 && box.left >= -1) continue;
    found.push(`${one.tagName} ${one.className}: ${box.left} to ${box.right}`);
  }
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect(), ends = {};
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect(), name = `${svg.ariaLabel}: ${text.textContent}`;
      const beside = box.left < frame.left - 1 || box.right > frame.right + 1;
      const beyond = box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
      if (beside || beyond) found.push(`${name} leaves its chart`);
      const kind = text.getAttribute("class");
      if (kind === "x" && ends.x > box.left) found.push(`${name} lies on its neighbour`);
      if (kind === "y" && ends.y < box.bottom - 3) found.push(`${name} lies on its neighbour`);
      if (kind) ends[kind] = kind === "x" ? box.right : box.top;
    }
  }
  return found;
})(%d)"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("browser", Path(__file__).with_name("browser.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program = module.found()
    if program is None:
        pytest.skip("no browser: install chromium, or name one in CHROMIUM")
    browser = module.Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def answers(step, right):
    place = {"total": step, "phase": "rl", "step": step, "prompt": f"{HOSTILE} 1+1=", "answer": "2"}
    return [{**place, "response": HOSTILE + "x" * 300, "correct": right}]


@pytest.fixture
def sweep(make_run, tmp_path):
    """Two arms, three seeds, two objectives; one run has failed, and one metric never changed."""
    for number, (arm, gain) in enumerate([("plain", 0.1), (LONG, 0.2)]):
        for seed in range(3):
            rows = [
                {
                    "reward/mean": step * gain + seed / 50,
                    "evaluation/return/right": step * gain,
                    "evaluation/return/short": 1 - step * gain / (2 + seed),
                    "evaluation/hypervolume": step * gain / (2 + seed),
                    "rollout/tokens": 900,
                    "loss/policy": (-1) ** step * 1.5e-7 * step,
                    "learner/tokens": 12_000_000 * step,
                    "kl/coef": 0.04,
                }
                for step in range(5)
            ]
            about = {"overrides": [f"p={arm}"], "p": arm, "samples": answers(5, seed == 0)}
            make_run(f"{number}{seed}", rows, seed=seed, **about)
    about = {"overrides": ["p=plain"], "p": "plain"}
    folder = make_run("broken", [{"reward/mean": 0.5}], steps=5, seed=7, **about)
    (folder / "failure.json").write_text(json.dumps({"type": "DataError", "error": "x" * 500}))
    report([str(tmp_path)], None, None, [])
    return tmp_path / "report.html"


@pytest.fixture
def single(make_run):
    """One run with rollouts, token by token, one of them a stranger's."""
    tokens = {"tokens": [HOSTILE, "b" * 200], "trained": [1, 0], "advantage": [0.5, None]}
    rows = [{"reward/mean": 0.25}, {"reward/mean": 0.75}]
    folder = make_run("one", rows, samples=[row | tokens for row in answers(2, True)])
    report([str(folder)], None, None, [])
    return folder / "report.html"


def seen(browser, page, folder, width, dark):
    """A page without a fault, whose picture is of its theme; gives the picture."""
    browser.open(page, width=width, dark=dark)
    browser.value("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    browser.value("redraw()")
    assert browser.value(OVERFLOWS % width) == []
    assert browser.faults() == []
    assert browser.value("document.title") == str(page.parent)
    browser.screenshot(folder / "page.png")
    picture = (matplotlib.image.imread(folder / "page.png")[..., :3] * 255).round().astype("uint8")
    assert picture.shape[1] == width
    paper = (0x16, 0x18, 0x1C) if dark else (0xFF, 0xFF, 0xFF)
    assert picture[2, 2].tolist() == [*paper]
    return picture


def has(picture, colour):
    """How many points have a colour."""
    return int((picture == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(-1).sum())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_sweep_is_seen_whole(browser, sweep, tmp_path, width, dark):
    picture = seen(browser, sweep, tmp_path, width, dark)

    # A front; five metrics in sight, two of the others: a chart each, none for the constant one.
    assert browser.value("document.querySelectorAll('figure svg').length") == 7
    for colour in ("#4aa8e0", "#ff8c42") if dark else ("#0072b2", "#c44e00"):
        assert has(picture, colour) > 500
    assert browser.value("document.querySelector('.verdicts').textContent").count("n = 3") == 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_run_is_seen_whole(browser, single, tmp_path, width, dark):
    seen(browser, single, tmp_path, width, dark)

    assert browser.value("document.querySelectorAll('.t').length") == 3  # one explains the others
    assert browser.value("document.querySelectorAll('script').length") == 2


POINT = """(() => {
  const box = document.querySelector("figure[data-chart='%d'] svg").getBoundingClientRect();
  return [box.right - 15, box.top + 60];
})()"""


def test_a_chart_shows_the_values_under_the_pointer_on_every_axis(browser, sweep):
    browser.open(sweep, width=1280, dark=False)
    browser.value("document.querySelector('figure[data-chart]').scrollIntoView()")
    names = browser.value("data.charts.map((chart) => chart.metric)")
    index = names.index("reward/mean")

    for axis, end in (("steps", "5"), ("tokens", "4500"), ("seconds", "10")):
        browser.value(f"document.getElementById('axis').value = '{axis}'; redraw()")
        browser.move(*browser.value(POINT % index))
        told = browser.value("document.querySelector('.tip').innerText").splitlines()
        browser.move(0, 0)

        # The last step of the first arm: 4 * 0.1 + seed / 50 over three seeds.
        end = "4,500" if axis == "tokens" else end
        assert told[0].strip() == f"p=plain: 0.42 (0.4 to 0.44) at {end}"
        assert told[1].strip() == f"p={LONG}: 0.82 (0.8 to 0.84) at {end}"
    assert browser.value("document.querySelector('.tip')") is None


def test_arms_and_single_seeds_are_hidden_when_they_are_ticked_off(browser, sweep):
    browser.open(sweep, width=1280, dark=False)
    lines = "document.querySelectorAll(\"figure[data-chart='0'] polyline\").length"
    # Two means, three seeds each.
    assert browser.value(lines) == 8

    browser.value("document.getElementById('seeds').click()")
    assert browser.value(lines) == 2
    browser.value("document.querySelector('input[data-group]').click()")
    assert browser.value(lines) == 1
    assert browser.value("document.querySelectorAll('.arms > :not([hidden])').length") == 1


def test_the_front_shows_its_points(browser, sweep):
    browser.open(sweep, width=1280, dark=False)
    browser.value("document.querySelector('figure[data-front]').scrollIntoView()")
    place = browser.value(
        "(() => { const box = document.querySelector('circle.mean').getBoundingClientRect();"
        "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
    )

    browser.move(*place)

    # Right ends at 4 * 0.1; short at 1 - 0.4 / 2, 1 - 0.4 / 3, 1 - 0.4 / 4.
    told = browser.value("document.querySelector('.tip').innerText").strip()
    assert told == "p=plain: right 0.4, short 0.8556"
    # At the same width of 0.8 the other arm is shorter: neither dominates.
    assert browser.value("document.querySelectorAll('circle.ring').length") == 2


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_have_contrast_in_both_themes():
    style = (Path(report.__code__.co_filename).parents[1] / "report" / "page.css").read_text()
    for theme in style.split("@media (prefers-color-scheme: dark)"):
        colours = dict(re.findall(r"--(\w+): (#\w{6})", theme.partition("}")[0]))
        assert len(colours) == 15
        for name, colour in colours.items():
            for ground in ("paper", "card"):
                ends = sorted([luminance(colour), luminance(colours[ground])])
                contrast = (ends[1] + 0.05) / (ends[0] + 0.05)
                # WCAG 2.2: 4.5 for text, 3 for what is drawn.
                least = {"ink": 4.5, "faint": 4.5, "good": 4.5, "bad": 4.5}.get(name, 3.0)
                assert name in ("paper", "card", "line") or contrast >= least, (name, contrast)
