"""The ring of stages: who fills a buffer, who empties it, and which mbarrier says so; numbers of a real plan."""
from kit import *


def draw():
    said = command("plan group --case g8k7168")
    stages, size = map(int, re.search(r"(\d+) stages of (\d+) bytes", said).groups())
    flight = re.search(r"bytes in flight +(\d+) per CTA, ([\d.]+ MB) in all", said)
    figure = page("The ring: loads run ahead of the tensor core",
                  f"Shared memory of one CTA in the top rung's plan for g8k7168: {stages} stages of {size} bytes, {flight[1]} bytes in "
                  f"flight, {flight[2]} on the whole GPU. A moment in the main loop.", 4.2)
    paper = drawing(figure)
    width = (WIDTH * 72 - 40) / stages
    top, high = 88, 52
    done, full = 1, stages // 2 - 1  # stages being multiplied, and full ones; the rest are loading
    for i in range(stages):
        state, colour = (("multiplied", SAND) if i < done else ("full", SKY) if i < done + full else ("loading", PANEL))
        paper.add_patch(plt.Rectangle((20 + width * i + 1.5, top), width - 3, high, fc=colour, ec=QUIET, lw=0.8,
                                      ls="-" if state != "loading" else (0, (3, 2))))
        paper.text(20 + width * (i + 0.5), top + 20, f"stage {(i + 2) % stages}", ha="center", va="center", weight="bold", size=9)
        paper.text(20 + width * (i + 0.5), top + 36, state, ha="center", va="center", size=8.5, color=QUIET)
    left, right = 20 + width * (done - 0.5), 20 + width * (stages - 0.5)
    role = dict(boxstyle="round,pad=0.45", fc=GROUND, lw=1.1)
    paper.text(left + 28, 20, "multiply warp", ha="center", va="center", weight="bold", color=ORANGE, bbox=dict(role, ec=ORANGE))
    paper.text(right - 20, 20, "load warp (TMA)", ha="center", va="center", weight="bold", color=BLUE, bbox=dict(role, ec=BLUE))
    arrow = dict(arrowstyle="-|>", lw=1.3, shrinkA=0, shrinkB=0, mutation_scale=10)
    paper.annotate("", (left, top), (left, 32), arrowprops=dict(arrow, color=ORANGE))
    paper.text(left + 7, 60, "reads: 4 MMAs of K = 64", va="center", color=ORANGE, size=8.5)
    paper.annotate("", (right, top), (right, 32), arrowprops=dict(arrow, color=BLUE))
    paper.text(right - 7, 60, "fills: loads of weights, tokens and their scales", ha="right", va="center", color=BLUE, size=8.5)
    low = top + high
    for height, start, end, colour, name, how in (
            (34, left + 6, right - 6, ORANGE, "empty[s]", "by commit, when its MMAs have read it: the load warp may fill it again"),
            (92, right + 6, left - 6, BLUE, "full[s]", f"1 arrival and {size} bytes: the multiply warp may read it")):
        paper.plot([start, start], [low, low + height], color=colour, lw=1.3)
        paper.plot([start, end], [low + height, low + height], color=colour, lw=1.3)
        paper.annotate("", (end, low + 1), (end, low + height), arrowprops=dict(arrow, color=colour))
        paper.text(left + 18, low + height - 9, f"{name}", va="center", color=colour, weight="bold", size=9)
        paper.text(left + 18, low + height + 11, how, va="center", color=QUIET, size=8)
    return figure
