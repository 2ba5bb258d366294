"""The eleven cases on a B200: speed of light, best honest published time, and the time predicted for the top rung."""
from kit import *


def draw():
    light = {r["case"]: float(r["task's speed of light"]) for r in command_table("sol --csv")}
    bound = {r["case"]: r["task bound"] for r in command_table("sol --csv")}
    best = {r["case"]: float(r["best us"]) for r in command_table("cases --csv") if r["case"] in light}
    predicted = {}
    for case in FULL_CASES:
        said = command(f"plan {case.split('-')[0] if '-' in case else 'group'} --case {case}")
        found = re.search(r"predicted ([\d.]+) us \(([\d.]+) to ([\d.]+): 80 %\)", said)
        predicted[case] = [float(v) for v in found.groups()]

    figure = page("How far from the speed of light on a B200", "Speed of light: the public task's own, at 1.5 GHz; of memory, or of "
                  "compute where it says so. Published: the best honest time that its authors measured. Predicted: our top rung by the "
                  "model, with its 80 % interval; not measured.", 5.1)
    chart = axes(figure, 1.66, 0.55, 3.5, 3.65)
    y, places = 0, {}
    for i, case in enumerate(FULL_CASES):
        y += 1.45 if i and case[0:2] != FULL_CASES[i - 1][0:2] and not case[0:2] in ("g2",) else 1
        places[case] = y
    for case, y in places.items():
        chart.plot([light[case], max(best[case], predicted[case][0])], [y, y], color=FAINT, lw=1)
        chart.plot(light[case], y, "|", ms=11, mew=2, color=INK)
        chart.plot(predicted[case][1:], [y, y], color=SKY, lw=5, solid_capstyle="butt")
        chart.plot(best[case], y, "D", ms=4.2, color=ORANGE)
        chart.plot(predicted[case][0], y, "o", ms=7.5, color=BLUE, mfc="none", mew=1.4)
        if bound[case] == "compute":
            chart.text(light[case] * 0.95, y, "compute", ha="right", va="center", size=8, color=QUIET)
        chart.text(1.1, y, f"{100 * light[case] / best[case]:.0f} %", transform=chart.get_yaxis_transform(), ha="right",
                   va="center", color=ORANGE)
        chart.text(1.28, y, f"{100 * light[case] / predicted[case][0]:.0f} %", transform=chart.get_yaxis_transform(),
                   ha="right", va="center", color=BLUE)
    head = dict(transform=chart.get_yaxis_transform(), ha="right", va="center", size=8.5)
    chart.text(1.28, -0.45, "share of the speed of light", color=QUIET, **head)
    chart.text(1.1, 0.2, "published", color=ORANGE, **head)
    chart.text(1.3, 0.2, "predicted", color=BLUE, **head)
    chart.set(xscale="log", ylim=(max(places.values()) + 0.6, -0.7), xlim=(1.2, 35), yticks=list(places.values()), xlabel="us")
    log_ticks(chart.xaxis, [2, 5, 10, 20])
    chart.vlines([2, 5, 10, 20], 0.5, max(places.values()) + 0.6, color=FAINT, lw=0.7, zorder=0)
    chart.set_yticklabels([c.replace("-", " ") for c in places], color=INK)
    chart.spines["left"].set_visible(False)
    chart.tick_params(axis="y", length=0)
    chart.text(light["g8k7168"], 0.2, "speed of light", ha="right", va="center", size=8.5)
    return figure
