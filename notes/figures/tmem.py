"""Tensor memory: its 512 columns by use in two plans, and accumulators over time."""
from kit import *


def plan(kernel):
    said = command(f"plan group --case g8k7168 --kernel {kernel}")
    knob = lambda name, otherwise: int(found[1]) if (found := re.search(rf" {name}=(\d+)", said)) else otherwise
    total, used = map(int, re.search(r"TMEM +(\d+) of \d+ columns \((\d+) used\)", said).groups())
    columns = int(re.search(r": \d+x(\d+)x\d+ ", said)[1])
    return total, used, columns, knob("acc_slots", 1), knob("scale_slots", 1)


def draw():
    figure = page("Tensor memory: what lies in it, and when", "Above: 512 columns in the plans of two rungs for g8k7168. Below: one CTA "
                  "over three tiles; the widths are a sketch, the order is the kernels'.", 4.4)
    paper = drawing(figure)
    left, wide = 104, WIDTH * 72 - 104 - 14
    for i, kernel in enumerate(("v2_warp_specialized", "v15_top")):
        total, used, columns, accumulators, scales = plan(kernel)
        slot = (used - accumulators * columns) // scales
        y = 6 + 52 * i
        paper.text(12, y + 13, kernel.replace("_warp_specialized", ""), weight="bold", va="center")
        at = 0
        for n in range(accumulators):
            paper.add_patch(plt.Rectangle((left + wide * at / 512, y), wide * columns / 512 - 1, 26, fc=[SKY, MINT][n], ec="none"))
            paper.text(left + wide * (at + columns / 2) / 512, y + 13, f"accumulator {n}", ha="center", va="center", size=8.5)
            at += columns
        for n in range(scales):
            paper.add_patch(plt.Rectangle((left + wide * at / 512, y), wide * slot / 512 - 1, 26, fc=SAND, ec="none"))
            paper.text(left + wide * (at + slot / 2) / 512, y + 13, str(n), ha="center", va="center", size=8.5)
            at += slot
        if at < total:
            paper.add_patch(plt.Rectangle((left + wide * at / 512, y + 0.5), wide * (total - at) / 512 - 1, 25, fc="none", ec=FAINT, lw=1))
            paper.text(left + wide * (at + total) / 1024, y + 13, "free" if total - at > 24 else "", ha="center", va="center", size=8, color=QUIET)
        paper.text(left, y + 35, f"sums, {accumulators} x {columns}", va="center", size=8, color=QUIET)
        paper.text(left + wide * accumulators * columns / 512, y + 35, f"scales, {scales} x {slot}: a slot for each stage",
                   va="center", size=8, color=QUIET)
    main, out = 78, 34

    def bar(x, y, width, colour, said):
        paper.add_patch(plt.Rectangle((x, y), width - 1.5, 17, fc=colour, ec="none"))
        paper.text(x + width / 2, y + 8.5, said, ha="center", va="center", size=8)
    y = 128
    paper.text(12, y + 8, "one", weight="bold", va="center")
    paper.text(12, y + 21, "accumulator", va="center", size=8.5)
    for n in range(3):
        bar(left + (main + out) * n, y, main, SKY, f"tile {n}: main loop")
        bar(left + (main + out) * n + main, y, out, PANEL, "store")
    paper.text(left, y + 29, "each store stands between two main loops", va="center", size=8.5, color=QUIET)
    y = 178
    paper.text(12, y + 8, "two", weight="bold", va="center")
    paper.text(12, y + 21, "accumulators", va="center", size=8.5)
    for n in range(3):
        bar(left + main * n, y + 20 * (n % 2), main, [SKY, MINT][n % 2], f"tile {n}: main loop")
        bar(left + main * (n + 1), y + 20 * (n % 2), out, PANEL, "store")
    paper.text(left, y + 49, "a store runs under the next main loop; only the last one is seen", va="center", size=8.5, color=QUIET)
    paper.annotate("", (left + wide, y + 64), (left, y + 64), arrowprops=dict(arrowstyle="-|>", lw=0.8, color=QUIET, mutation_scale=9))
    paper.text(left + wide, y + 56, "time", ha="right", va="center", size=8.5, color=QUIET)
    return figure
