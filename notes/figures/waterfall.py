"""What each change of the Hopper kernels bought in the four group cases, measured on H200s."""
from kit import *

FOLDER = "notes/records/2026-11-21-"
LEVELS = [("h200-bench/bench.json", "v0_registers", "first kernel, v0_registers"), ("hopper-loops/bench.json", "v1_loops", "v1_loops"),
          ("hopper-start/bench.json", "v1_loops", "with the new start")]


def steps(log):
    """[(what was changed, {case: (us before, us after)})]"""
    found = {}
    for row in csv.DictReader(lines(f"{FOLDER}{log}/steps.csv")):
        found.setdefault(row["change"], {})[row["case"]] = float(row["before_us"]), float(row["after_us"])
    return list(found.items())


def draw():
    levels = []
    for file, kernel, said in LEVELS:
        levels.append((said, {r["case"]: r["us"]["median"] for r in records(FOLDER + file)
                              if r["type"] == "time" and r["kernel"] == kernel}))
    rows = [("level", *levels[0])]
    for i, log in enumerate(("hopper-loops", "hopper-start")):
        rows += [("step", said, data) for said, data in steps(log)]
        rows += [("rest", "all else, other machine", None), ("level", *levels[i + 1])]

    figure = page("What each change of the Hopper kernels bought", "Measured on H200s. Dots: whole runs, each on its own machine. Bars: a "
                  "change alone, before and after on one machine; green is time saved. Grey closes the gap to the next run.", 4.5)
    for i, case in enumerate(FULL_CASES[:4]):
        chart = axes(figure, 2.0 + 1.09 * i, 0.55, 0.94, 2.95)
        at = levels[0][1][case]
        for y, (kind, said, data) in enumerate(rows):
            if kind == "level":
                at = data[case]
                chart.plot(at, y, "o", ms=5, color=BLUE)
                right = y > 0
                chart.text(at, y - 0.42 if right else y + 0.45, f"{at:.1f}", ha="center", va="center", size=8.5, color=BLUE)
                continue
            if kind == "rest":
                after = next(d for k, _, d in rows[y:] if k == "level")[case]
                colour = FAINT
            elif case in data:
                before, after_of = data[case]
                after = at + after_of - before
                colour = GREEN if after < at else ORANGE
            else:
                continue
            chart.barh(y, after - at, left=at, height=0.6, color=colour)
            if kind == "step":
                chart.text(max(at, after), y, f" {after - at:+.1f}".replace("-", "\N{MINUS SIGN}"), va="center", size=8, color=colour)
            at = after
        low, high = chart.get_xlim()
        chart.set(title=case, ylim=(len(rows) - 0.3, -0.7), xlim=(low - 0.12 * (high - low), high + 0.28 * (high - low)), xlabel="us")
        chart.locator_params(axis="x", nbins=3)
        chart.set_yticks(range(len(rows)), [said for _, said, _ in rows] if i == 0 else [""] * len(rows), color=INK)
        chart.tick_params(axis="y", length=0)
        chart.spines["left"].set_visible(False)
    return figure
