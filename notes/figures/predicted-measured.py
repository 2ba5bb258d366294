"""Predicted against measured times, of the points that were set aside from the model's fit, by kind."""
from kit import *

RECORD = "notes/records/2026-11-28-model/"
KINDS = [("published pairs, B200", ["points/hbarclay_gemm_model.csv"], BLUE),
         ("one-CTA main loops, B200", ["points/semianalysis_mainloop.csv"], GREEN),
         ("small NVFP4, B200, plan unknown", ["points/flashinfer_2540_nvfp4.csv"], ORANGE),
         ("our kernels, H200", ["h200-sweep.jsonl"], PINK)]


def draw():
    figure = page("How far off a predicted time is", "Points set aside before the fit; measured by others on B200s, by us on an H200. "
                  "Line: predicted = measured; band: 10 % off. 80 % of the points lie between the dashed lines.", 5.62)
    for i, (title, files, colour) in enumerate(KINDS):
        points = []
        for file in files:
            lines(RECORD + file)
            points += [(float(r["measured_us"]), float(r["predicted_us"]))
                       for r in command_table(f"predict --points {RECORD}{file} --which aside --out {{out}}")
                       if r["predicted_us"] and float(r["measured_us"] or 0) > 0]
        chart = axes(figure, 0.6 + 3.05 * (i % 2), 0.55 + 2.35 * (1 - i // 2), 2.55, 1.75)
        measured, predicted = zip(*points)
        low, high = min(measured) / 1.25, max(measured) * 1.25
        chart.fill_between([low, high], [0.9, 0.9], [1.1, 1.1], color=PANEL)
        chart.axhline(1, color=INK, lw=0.9)
        ratios = sorted(p / m for m, p in points)
        for share in (0.1, 0.9):
            chart.axhline(ratios[int(share * (len(ratios) - 1) + 0.5)], color=colour, lw=0.9, ls=(0, (4, 3)))
        chart.plot(measured, [p / m for m, p in points], ".", ms=4, color=colour, alpha=0.6, mew=0)
        error = sum(abs(p / m - 1) for m, p in points) / len(points)
        outside = [r for r in ratios if not 0.5 < r < 1.6]
        if outside:
            raise SystemExit(f"{title}: not in the figure: {outside}")
        chart.set(xscale="log", yscale="log", xlim=(low, high), ylim=(0.5, 1.6))
        chart.set_title(title, color=colour)
        chart.text(1, 0.93, f"{len(points)} points, mean error {100 * error:.1f} %", transform=chart.transAxes, ha="right", size=8.5,
                   color=QUIET)
        log_ticks(chart.xaxis, [t for t in (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 10000) if low < t < high and (high < 5000 or t in (20, 100, 500, 2000, 10000))])
        log_ticks(chart.yaxis, [0.5, 0.6, 0.8, 1, 1.2, 1.5])
        if i % 2 == 0:
            chart.set_ylabel("predicted / measured")
        if i > 1:
            chart.set_xlabel("measured, us")
    return figure
