"""Roofline of the eleven cases: an H200 as measured, a B200 as predicted; only operands and C are counted as bytes."""
from kit import *

RECORD = "notes/records/2026-11-21-hopper-start/bench.json"
COLOURS = {"g": BLUE, "d": GREEN}  # by the first letters; gemm: amber


def colour(case):
    return AMBER if case.startswith("gemm") else COLOURS[case[0]]


def roofs(chart, memory, compute, name, above):
    """`memory` in TB/s, `compute` in PFLOP/s."""
    ridge = compute / memory * 1e3
    chart.plot([120, ridge, 2200], [120 * memory / 1e3, compute, compute], color=INK, lw=1.4)
    chart.text(2150, compute * 1.06, name, ha="right", va="bottom", size=8.5)
    chart.text(135, 135 * memory / 1e3 * above, f"{memory:.2f} TB/s", rotation=46, rotation_mode="anchor", size=8,
               color=QUIET, ha="left", va="bottom")


def draw():
    shape = {r["case"]: r for r in command_table("sol --csv")}
    flops = {case: float(shape[case]["GFLOP"]) for case in FULL_CASES}
    intensity = {case: float(shape[case]["FLOP/byte"]) for case in FULL_CASES}
    taken = records(RECORD)
    limit = {r["limit"]: r["per_second"] for r in taken if r["type"] == "limit"}
    measured = {r["case"]: r["us"]["median"] for r in taken if r["type"] == "time" and r["kernel"] == "v1_loops"}
    best = {r["case"]: float(r["best us"]) for r in command_table("cases --csv") if r["case"] in flops}
    predicted, peak = {}, None
    for case in FULL_CASES:
        said = command(f"plan {case.split('-')[0] if '-' in case else 'group'} --case {case}")
        found = re.search(r"predicted ([\d.]+) us \(([\d.]+) to ([\d.]+): 80 %\)", said)
        predicted[case] = [float(v) for v in found.groups()]
        peak = [float(v) for v in re.search(r"([\d.]+) TB/s = .*?([\d.]+) PFLOP/s", said).groups()]

    figure = page("Rooflines of the eleven cases", "Left, measured: the roofs are cuBLAS fp16's best product and a copy. Right, predicted, not "
                  "measured: 80 % intervals, roofs by arithmetic, diamonds: the best honest published times.", 4.5)
    for at, title in ((0.62, "H200, measured"), (3.72, "B200, predicted")):
        chart = axes(figure, at, 0.5, 2.55, 3.0)
        chart.set(xscale="log", yscale="log", xlim=(120, 2200), ylim=(0.25, 14), xlabel="FLOP/byte", title=title)
        if at < 1:
            chart.set_ylabel("PFLOP/s")
            roofs(chart, limit["bytes"] / 1e12, limit["tensor"] / 1e15, "fp16 tensor cores", 1.06)
        else:
            roofs(chart, *peak, "FP4 tensor cores", 1.06)
        for case in FULL_CASES:
            x = intensity[case]
            if at < 1:
                chart.plot(x, flops[case] / measured[case], "o", ms=5.5, color=colour(case))
            else:
                us, low, high = predicted[case]
                chart.plot([x, x], [flops[case] / high, flops[case] / low], color=colour(case), lw=1.2)
                chart.plot(x, flops[case] / us, "o", ms=5.5, color=colour(case))
                chart.plot(x, flops[case] / best[case], "D", ms=4, color=ORANGE, mfc="none", mew=1.1)
        log_ticks(chart.xaxis, [200, 500, 1000, 2000])
        log_ticks(chart.yaxis, [0.5, 1, 2, 5, 10])
        chart.grid(True)
        for i, (name, ink) in enumerate((("group", BLUE), ("dual", GREEN), ("gemm", AMBER))):
            chart.text(0.97, 0.19 - 0.07 * i, name, transform=chart.transAxes, ha="right", color=ink, size=8.5)
    return figure
