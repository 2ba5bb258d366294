"""Where the predicted time of g8k7168 goes on a B200, by the number of stages of a v5_two_cta plan; not measured."""
from kit import *

COLOURS = [FAINT, SKY, BLUE, GREEN, MINT, SAND, AMBER, ROSE]


def draw():
    figure = page("More stages: what they buy, and when no more", "Predicted on a B200 at 1850 MHz, not measured: the terms of the model for "
                  "g8k7168 with v5_two_cta, 1 to 8 stages of 28672 bytes.", 3.7)
    chart = axes(figure, 0.65, 0.52, 4.05, 2.35)
    stages, bottom, terms = list(range(1, 9)), [0.0] * 8, {}
    for n in stages:
        said = command(f"plan group --case g8k7168 --kernel v5 --set stages={n}")
        for term, us in re.findall(r"^  term  (.+?)  +(-?\d+\.\d+) us", said, re.M):
            terms.setdefault(term, [0.0] * 8)[n - 1] = float(us)
    place = 0
    for (term, values), colour in zip(terms.items(), COLOURS):
        chart.bar(stages, values, bottom=bottom, width=0.72, color=colour, ec=GROUND, lw=0.5)
        middle = bottom[-1] + values[-1] / 2
        bottom = [a + b for a, b in zip(bottom, values)]
        place = max(middle, place)
        chart.plot([8.4, 8.75], [middle, place], color=QUIET, lw=0.6, clip_on=False)
        chart.text(8.85, place, f"{term}, {values[-1]:.1f} us", va="center", size=8.5, color=INK)
        place += 0.065 * 73
    for n, us in zip(stages, bottom):
        chart.text(n, us + 1, f"{us:.1f}", ha="center", size=8.5)
    chart.set(xticks=stages, xlabel="stages", ylabel="predicted us", xlim=(0.4, 8.6))
    return figure
