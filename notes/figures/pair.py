"""A pair of CTAs and one MMA of M = 256: who holds which rows, with the bytes of a real plan."""
from kit import *


def draw():
    said = command("plan group --case g8k7168")
    mma_m, mma_n, block_k = map(int, re.search(r": (\d+)x(\d+)x(\d+) ", said).groups())
    size = int(re.search(r"stages of (\d+) bytes", said)[1])
    half = mma_m // 2
    held = [("weights", half * block_k // 2), ("tokens", mma_n // 2 * block_k // 2), ("scales of its weights", block_k // 64 * 512),
            ("scales of all tokens", (mma_n + 127) // 128 * block_k // 64 * 512)]
    if sum(b for _, b in held) != size:
        raise SystemExit(f"pair: {held} is not the plan's stage of {size} bytes")
    figure = page("The pair: two CTAs, one MMA", f"One stage (K = {block_k}) of the top rung's plan for g8k7168: MMA {mma_m} x {mma_n}, "
                  f"{size} bytes in each CTA. One thread of the even CTA issues for both.", 4.42)
    paper = drawing(figure)
    wide = 205
    for side, x in (("even", 14), ("odd", WIDTH * 72 - 14 - wide)):
        first = 0 if side == "even" else 1
        colour, pale = (BLUE, SKY) if side == "even" else (GREEN, MINT)
        paper.text(x, 6, f"{side} CTA", weight="bold", color=colour, va="center", size=10)
        paper.text(x + wide, 6, "shared memory", color=QUIET, va="center", ha="right", size=8.5)
        rows = [f"rows {first * half} to {first * half + half - 1}", f"rows {first * mma_n // 2} to {(first + 1) * mma_n // 2 - 1}", "",
                "half loaded here, multicast"]
        y = 18
        for (name, count), rows_of in zip(held, rows):
            height = 22 + count / 16384 * 26
            paper.add_patch(plt.Rectangle((x, y), wide, height - 3, fc=pale if name in ("weights", "tokens") else PANEL, ec="none"))
            paper.text(x + 7, y + (height - 3) / 2 - (5.5 if rows_of and height > 30 else 0), name, va="center", weight="bold", size=9)
            if rows_of and height > 30:
                paper.text(x + 7, y + (height - 3) / 2 + 6.5, rows_of, va="center", size=8.5)
            elif rows_of:
                paper.text(x + 7, y + height + 4, rows_of, va="center", size=8, color=QUIET)
            paper.text(x + wide - 7, y + (height - 3) / 2, f"{count} B", va="center", ha="right", size=8.5)
            y += height
        arrow = dict(arrowstyle="-|>", lw=1.3, color=colour, mutation_scale=10)
        middle = WIDTH * 36
        paper.annotate("", (middle + (-40 if side == "even" else 40), 171), (x + wide / 2, y + 12), arrowprops=arrow)
        paper.annotate("", (x + wide / 2, 214), (middle + (-40 if side == "even" else 40), 189), arrowprops=arrow)
        paper.add_patch(plt.Rectangle((x, 216), wide, 34, fc=pale, ec="none"))
        paper.text(x + 7, 226, f"TMEM: C of weights {first * half} to {first * half + half - 1}", va="center", weight="bold", size=9)
        paper.text(x + 7, 240, f"{half} lanes x {mma_n} columns, warps 0 to 3", va="center", size=8.5)
    paper.text(WIDTH * 36, 180, f"tcgen05.mma, M = {mma_m}", ha="center", va="center", weight="bold", color=ORANGE, size=9,
               bbox=dict(boxstyle="round,pad=0.5", fc=GROUND, ec=ORANGE, lw=1.2))
    return figure
