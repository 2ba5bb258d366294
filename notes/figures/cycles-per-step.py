"""Hopper's main loop: cycles of a step of K against tokens, beside the tensor cores' own, measured on an H200."""
from kit import *

RECORD = "notes/records/2026-11-21-hopper-loops/"


def draw():
    # Read by clocks in the kernel, for a step of 128 values of K.
    kernel = [tuple(int(row[c]) for c in ("tokens", "kernel_cycles", "tensor_core_cycles"))
              for row in csv.DictReader(lines(RECORD + "cycles.csv"))]
    # issue.txt, two warpgroups, a chunk of 64 values of K: of two rows without expansion the second decodes weights.
    decoding, expanding = {}, {}
    for groups, tokens, _, warps, products, _ in (line.split() for line in lines(RECORD + "issue.txt")[1:]):
        if groups == "2":
            (decoding if warps == "0" else expanding.setdefault(int(warps), {}))[int(tokens)] = 2 * float(products)

    figure = page("Few tokens: Hopper's tensor cores wait for decoding",
                  "Measured on an H200, two warpgroups: cycles for a step of 128 values of K. In the kernel: clocks read in v1_loops. "
                  "Alone: a loop of wgmma that loads nothing, so only issuing is in the way.", 4.15)
    chart = axes(figure, 0.72, 0.52, 3.95, 2.75)
    tokens, cycles, own = zip(*kernel)
    chart.fill_between([0, 200], [0, 1600], color=PANEL)
    chart.plot([0, 200], [0, 1600], color=QUIET, lw=1)
    chart.plot(sorted(decoding), [decoding[t] for t in sorted(decoding)], "s", ms=4.6, color=GREEN)
    chart.plot(sorted(expanding[1]), [expanding[1][t] for t in sorted(expanding[1])], "^", ms=5.2, color=AMBER)
    chart.plot(tokens, cycles, "-o", ms=4.6, color=BLUE)
    for t, c, o in kernel:
        chart.text(t, c + (130 if t == 128 else 75), f"+{100 * (c / o - 1):.0f} %" if c - o > 0.005 * o else "0", ha="center", color=BLUE, size=8.5)
    chart.set(xticks=tokens + (192,), xlabel="tokens of a tile", ylabel="cycles a step", ylim=(0, 1750), xlim=(48, 196))
    right = dict(xycoords="data", va="center", size=8.5, annotation_clip=False)
    chart.annotate("the tensor cores' own:\n8 cycles a token", (194, 1400), color=QUIET, xytext=(200, 1330), **right)
    chart.annotate("v1_loops, in the kernel", (0, 0), xytext=(200, 1100), color=BLUE, **right)
    chart.annotate("alone, and tokens\nexpanded beside it", (0, 0), xytext=(200, 850), color=AMBER, **right)
    chart.annotate("alone, weights decoded", (0, 0), xytext=(200, 620), color=GREEN, **right)
    for y, mark, colour in ((1100, "o", BLUE), (850, "^", AMBER), (620, "s", GREEN)):
        chart.plot(197, y, mark, ms=4.6, color=colour, clip_on=False)
    return figure
