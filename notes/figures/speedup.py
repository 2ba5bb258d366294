"""How many times as fast as cuBLAS fp16, by case, measured on an H200; the other peers beside it."""
from kit import *

RUNS = ["2026-11-21-hopper-start/bench.json", "2026-11-21-hopper-start/bench-again.json",
        "2026-11-21-hopper-start/bench-peers.json", "2026-11-28-h200-gpu/bench.jsonl"]
COLOURS = {"o": PINK, "^": PINK, "D": PINK, "s": ORANGE}
PEERS = {"torch-mm-fp16": ("PyTorch", "o"), "triton-nvfp4": ("Triton", "^"), "humming-w4a16": ("Humming", "D"),
         "cublas-fp8": ("cuBLAS fp8, not NVFP4", "s")}


def draw():
    runs = [[r for r in records("notes/records/" + run) if r["type"] == "time"] for run in RUNS]
    ours, peers = {}, {}  # case: times as fast as cuBLAS fp16 in the same run
    for run in runs:
        base = {r["case"]: r["us"]["median"] for r in run if r["kernel"] == "cublas-fp16"}
        for r in run:
            factor = base[r["case"]] / r["us"]["median"]
            if r["kernel"] == "v1_loops":
                spread = [base[r["case"]] / r["us"][p] for p in ("p90", "p10")]
                ours.setdefault(r["case"], []).append((factor, r["us"]["median"], *spread))
            elif r["kernel"] in PEERS:
                peers.setdefault((r["case"], r["kernel"]), []).append((factor, r["passed"]))

    figure = page("Exact NVFP4 on an H200, beside cuBLAS fp16",
                  "Measured in four runs on different days and machines. Bars: mean of v1_loops; whiskers: from the lowest p10 "
                  "of a run to the highest p90. Marks: other libraries in the same runs; open ones: results beyond the tolerance.", 5.12)
    chart = axes(figure, 1.66, 0.72, 3.6, 3.55)
    y, places = 0, {}
    for i, case in enumerate(FULL_CASES):
        y += 1.45 if i and case.split("-")[0][0] != FULL_CASES[i - 1].split("-")[0][0] else 1
        places[case] = y
    for case, y in places.items():
        mean = sum(f for f, *_ in ours[case]) / len(ours[case])
        us = sum(t for _, t, *_ in ours[case]) / len(ours[case])
        chart.barh(y, mean, height=0.62, color=SKY)
        low, high = min(o[2] for o in ours[case]), max(o[3] for o in ours[case])
        chart.plot([low, high], [y, y], color=BLUE, lw=1.6)
        chart.text(2.29, y, f"{mean:.2f}x", va="center", ha="right", size=9, weight="bold")
        chart.text(2.55, y, f"{us:.1f}", va="center", ha="right", size=9, color=QUIET)
        for name, (_, mark) in PEERS.items():
            values = peers.get((case, name))
            if values:
                right = all(passed for _, passed in values)
                chart.plot(sum(f for f, _ in values) / len(values), y, mark, ms=4.6, color=COLOURS[mark],
                           mfc=COLOURS[mark] if right else GROUND)
    chart.plot([1, 1], [0.5, max(places.values()) + 0.6], color=INK, lw=1)
    chart.text(1, 0.3, "cuBLAS fp16 at its best", ha="center", size=8.5)
    chart.text(2.29, 0.3, "here", ha="right", size=8.5)
    chart.text(2.55, 0.3, "us", ha="right", size=8.5, color=QUIET)
    chart.set(ylim=(max(places.values()) + 0.6, 0.1), xlim=(0, 2.02), yticks=list(places.values()),
              xlabel="times as fast as cuBLAS fp16")
    chart.set_yticklabels([c.replace("-", " ") for c in places],
                          color=INK)
    chart.spines["left"].set_visible(False)
    chart.tick_params(axis="y", length=0)
    chart.set_xticks([0, 0.5, 1, 1.5, 2], ["0", "0.5", "1", "1.5", "2"])
    key = axes(figure, 1.58, 0.08, 4.6, 0.22)
    key.set(xlim=(0, 4.6), ylim=(0, 1))
    key.axis("off")
    x = 0.05
    for said, mark in PEERS.values():
        key.plot(x, 0.5, mark, ms=4.6, color=COLOURS[mark])
        key.text(x + 0.1, 0.5, said, va="center", size=8.5, color=QUIET)
        x += 0.33 + 0.082 * len(said)
    return figure
