#!/usr/bin/env python3
"""Draws the figures of ../model.md from what `fp4lab predict` says of the record's points.

    python3 -m venv venv && venv/bin/pip install matplotlib
    venv/bin/python notes/design/model/figures.py build/fp4lab
"""
import csv, pathlib, re, subprocess, sys, tempfile
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

program, here = sys.argv[1], pathlib.Path(__file__).parent
record = here.parent.parent / "records/2026-11-28-model"
grey = "#7d8590"  # readable on white and on black
colours = {"fp16": "#3b82c4", "fp8": "#d9822b", "nvfp4": "#2a9d5c", "": "#a05bc4"}
plt.rcParams.update({
    "svg.hashsalt": "fp4lab", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif",
    "text.color": grey, "axes.labelcolor": grey, "axes.edgecolor": grey, "xtick.color": grey, "ytick.color": grey,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none",
})


def rows(points):
    with tempfile.NamedTemporaryFile(suffix=".csv") as out:
        subprocess.run([program, "predict", "--points", str(points), "--out", out.name], check=True,
                       capture_output=True)
        return [r for r in csv.DictReader(open(out.name)) if r["predicted_us"] and float(r["measured_us"] or 0) > 0]


def save(figure, name):
    figure.savefig(here / name, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    text = (here / name).read_text()
    (here / name).write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
    plt.close(figure)


# -- predicted / measured of every point, by kind
panels = [
    ("one-CTA main loops (B200)", "points/semianalysis_mainloop.csv", "dtype"),
    ("persistent pairs (B200, hbarclay)", "points/hbarclay_gemm_model.csv", "dtype"),
    ("small NVFP4, plan unknown (B200)", "points/flashinfer_2540_nvfp4.csv", "kernel"),
    ("our kernels (H200)", "h200-sweep.jsonl", "case"),
]
figure, axes = plt.subplots(2, 2, figsize=(9, 6), constrained_layout=True)
for axis, (title, file, by) in zip(axes.flat, panels):
    points = rows(record / file)
    groups = {}
    for r in points:
        key = {"bf16": "fp16", "fp8_e4m3": "fp8"}.get(r[by], r[by]).split(" (")[0]
        if by == "case":
            key = re.match("g\\d|dual|gemm", key)[0]
        groups.setdefault(key, []).append((float(r["measured_us"]), float(r["predicted_us"]) / float(r["measured_us"])))
    palette = iter(["#3b82c4", "#d9822b", "#2a9d5c", "#a05bc4", "#c44e52", "#8c8c3b"])
    for key, values in sorted(groups.items()):
        x, y = zip(*values)
        axis.plot(x, y, ".", ms=3.5, alpha=0.65, color=colours.get(key) or next(palette), label=key)
    axis.axhline(1, color=grey, lw=0.8)
    axis.set(title=title, xscale="log", xlabel="measured, us", ylabel="predicted / measured", ylim=(0.45, 1.55))
    low, high = axis.get_xlim()
    ticks = [t for t in (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 10000) if low < t < high]
    axis.set_xticks(ticks, [f"{t}" for t in ticks])
    axis.set_xticks([], minor=True)
    axis.legend(loc="upper left", ncols=4, fontsize=8, handletextpad=0, columnspacing=0.8)
save(figure, "residuals.svg")

# -- where the time of one plan goes, by stages
case, stages = "g8k7168", [1, 2, 3, 4, 5, 6, 7, 8]
terms, heights = [], []
for n in stages:
    out = subprocess.run([program, "plan", case, "--kernel", "v5", "--set", f"stages={n}"], check=True,
                         capture_output=True, text=True).stdout
    found = dict((m[1], float(m[2])) for m in re.finditer(r"^  term  (.+?)  +(-?\d+\.\d+) us", out, re.M))
    heights.append(found)
    terms += [t for t in found if t not in terms]
figure, axis = plt.subplots(figsize=(7, 3.4), constrained_layout=True)
bottom = [0] * len(stages)
for term, colour in zip(terms, ["#8b949e", "#3b82c4", "#6fb1e8", "#2a9d5c", "#d9822b", "#c44e52", "#a05bc4"]):
    values = [h.get(term, 0) for h in heights]
    axis.bar(stages, values, bottom=bottom, color=colour, label=term, width=0.7)
    bottom = [a + b for a, b in zip(bottom, values)]
axis.set(title=f"{case}, v5_two_cta: predicted us on a B200 at 1850 MHz", xlabel="stages", ylabel="predicted, us",
         xticks=stages)
axis.legend(loc="upper right", fontsize=8)
save(figure, "stages.svg")
