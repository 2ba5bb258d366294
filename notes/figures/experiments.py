"""What was claimed and what we predicted before an experiment, beside what came out: times as fast as its baseline."""
from kit import *


def draw():
    rows, inside = [], False
    for line in command("scorecard").splitlines():
        if line.startswith("## "):
            inside = line == "## Verdicts"
        cells = [c.strip() for c in line.strip("|").split("|")]
        if inside and (found := re.match(r"\[(\d\d\d)-([\w-]+)\]", cells[0])):
            numbers = [float(c) if re.fullmatch(r"[\d.]+", c) else None for c in cells[1:5]]
            if numbers[2] or numbers[3]:
                rows.append((found[1], found[2].replace("-", " "), *numbers, cells[5].lower()))
    figure = page("What was predicted, and what came out", "Times as fast as the experiment's baseline, geometric mean of its cases. "
                  "Filled: measured on an H200. Open: by the model for a B200, a prediction too. Tick: what we wrote down before. "
                  "Cross: what the contest's panel claimed.", 0.232 * len(rows) + 1.75)
    chart = axes(figure, 1.95, 0.75, 3.15, 0.232 * len(rows))
    for y, (number, name, claimed, written, measured, predicted, verdict) in enumerate(rows):
        out = measured or predicted
        chart.plot([written or out, out], [y, y], color=FAINT, lw=2.5)
        if claimed:
            chart.plot(claimed, y, "x", ms=5, mew=1.4, color=ORANGE)
        if written:
            chart.plot(written, y, "|", ms=9, mew=1.8, color=INK)
        chart.plot(out, y, "o", ms=5, color=BLUE, mfc=BLUE if measured else GROUND, mew=1.3)
        chart.text(1.04, y, verdict, transform=chart.get_yaxis_transform(), va="center", size=8.5, color=QUIET)
    chart.axvline(1, color=QUIET, lw=0.7, zorder=0)
    chart.set(xscale="log", ylim=(len(rows) - 0.4, -0.6), xlim=(0.04, 35), xlabel="times as fast as the baseline")
    log_ticks(chart.xaxis, [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 25])
    chart.set_yticks(range(len(rows)), [f"{number}  {name}" for number, name, *_ in rows], color=INK)
    chart.tick_params(axis="y", length=0)
    chart.spines["left"].set_visible(False)
    return figure
