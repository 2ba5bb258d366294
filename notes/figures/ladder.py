"""Predicted time on a B200 by rung of the group ladder, for the four group cases; not measured."""
from kit import *


def draw():
    rungs = [line.split()[1] for line in command("kernels").splitlines()
             if line.startswith("sm_100a  v") and line.split()[2] == "group" or re.match(r"sm_100a +v\d+_top \(top\) +group", line)]
    best = {r["case"]: float(r["best us"]) for r in command_table("cases --csv") if r["best us"] != "-"}
    cases = FULL_CASES[:4]
    figure = page("What each rung is predicted to take on a B200", "Predicted by the model, not measured: no kernel here has run on a "
                  "B200. Bars: the 80 % interval. Line: the best honest published time. Each rung has its own plan.", 5.0)
    for i, case in enumerate(cases):
        chart = axes(figure, 1.5 + 1.21 * i, 0.55, 1.06, 3.45)
        for y, rung in enumerate(rungs):
            said = command(f"plan group --case {case} --kernel {rung}")
            us, low, high = map(float, re.search(r"predicted ([\d.]+) us \(([\d.]+) to ([\d.]+): 80 %\)", said).groups())
            chart.plot([low, high], [y, y], color=SKY, lw=5, solid_capstyle="butt")
            chart.plot(us, y, "o", ms=4, color=BLUE, mfc=GROUND, mew=1.3)
        chart.plot([best[case]] * 2, [-0.5, len(rungs) - 0.4], color=ORANGE, lw=1.2, zorder=0)
        chart.set(title=case, ylim=(len(rungs) - 0.4, -1.3), xlim=(0, None), xlabel="predicted us")
        chart.set_yticks(range(len(rungs)), rungs if i == 0 else [""] * len(rungs), color=INK)
        chart.tick_params(axis="y", length=0)
        chart.spines["left"].set_visible(False)
        chart.text(best[case], -0.85, f"{best[case]:g}", color=ORANGE, size=8.5, ha="center", va="center")
    return figure
