#!/usr/bin/env python3
"""Fits the constants that are marked "fitted" or "sweep" in src/model, through `fp4lab predict --set`.

    python3 -m venv venv && venv/bin/pip install numpy scipy
    venv/bin/python notes/records/2026-11-28-model/fit.py build/fp4lab

Only points that are not set aside are used (--which fitted: a hash of the sizes, of our own kernels a hash of the
plan). Prints the constants; src/model has them rounded to two or three digits.
"""
import csv, pathlib, subprocess, sys, tempfile
import numpy as np
from scipy.optimize import least_squares

here, program = pathlib.Path(__file__).parent, sys.argv[1]


def errors(points, sets, harness, which, keep):
    """Logarithms of predicted / measured."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as out:
        command = [program, "predict", "--points", str(points), "--out", out.name, "--which", which]
        for name, value in sets.items():
            command += ["--set", f"{name}={value:.8g}"]
        for name, values in harness.items():
            command += ["--harness", f"{name}={values[0]:.8g},{values[1]:.8g},{values[2]:.8g}"]
        subprocess.run(command, check=True, capture_output=True)
        rows = [r for r in csv.DictReader(open(out.name)) if r["predicted_us"] and keep(r)]
        return np.array([np.log(float(r["predicted_us"]) / float(r["measured_us"])) for r in rows])


def fit(title, points, free, harness={}, keep=lambda row: True):
    """free: name -> (start, low, high); a harness figure is "source|kernel#0" (start), "#1" (floor)."""
    names, first = list(free), np.array([v[0] for v in free.values()], float)
    low, high = (np.array([v[i] for v in free.values()], float) for i in (1, 2))

    def split(x):
        rows = {name: list(values) for name, values in harness.items()}
        sets = {}
        for name, value in zip(names, x):
            row, hash_, index = name.rpartition("#")
            if hash_:
                rows[row][int(index)] = value
            else:
                sets[name] = value
        return sets, rows

    run = lambda x, which: errors(points, *split(x), which, keep)
    best = least_squares(lambda x: run(x, "fitted"), first, bounds=(low, high), loss="soft_l1", f_scale=0.05,
                         x_scale=np.maximum(abs(first), 0.1 * (high - low)), diff_step=1e-3, max_nfev=25)
    print(title)
    for name, value in zip(names, best.x):
        print(f"  {name:50} {value:.4g}")
    for which in ("fitted", "aside"):
        print(f"  {which:8} mean |error| {100 * np.mean(abs(np.expm1(run(best.x, which)))):.1f} %")


cold = 126.5  # MB of lines that a flush by writing leaves in the L2
gemm = "hbarclay/gemm-model|"
fit("hbarclay", here / "points/hbarclay_gemm_model.csv", {
    "B200.fill": (17500, 14000, 20500), "B200.drift": (0.57, 0, 1), "B200.scale_copy_pair": (18.3, 8, 26),
    "B200.tma_store.start": (630, 0, 2000), "B200.tma_store.column": (1.1, 0, 10),
    "B200.tma_store.kilobyte": (14.7, 0, 52), "B200.tma_store.exposed": (0.68, 0, 1),
    "B200.fp32_store.column": (9.5, 0, 20), "B200.fp32_store.kilobyte": (20.1, 0, 52),
    "B200.fp32_store.exposed": (0.8, 0, 1), gemm + "#0": (8.4, 0, 15), gemm + "#1": (10.7, 5, 20),
    gemm + "block-scaled#0": (8.2, 0, 15), gemm + "block-scaled#1": (23.3, 10, 30),
}, {gemm: (8.4, 10.7, cold), gemm + "block-scaled": (8.2, 23.3, cold)})
small = [f"flashinfer PR 2540|{k}" for k in ("cudnn", "cutlass", "trtllm", "cute_dsl")]
fit("flashinfer 2540, without the split-K kernels", here / "points/flashinfer_2540_nvfp4.csv",
    {"B200.scale_copy": (30, 10, 60), **{name + "#0": (1.5, -3, 6) for name in small}},
    {name: (1.5, 0, cold) for name in small}, lambda row: "later" not in row["kernel"])
fit("SemiAnalysis main loop", here / "points/semianalysis_mainloop.csv", {
    "B200.round_trip": (544, 300, 800), "B200.round_trip_row": (0.72, 0, 3), "B200.round_trip_kb": (5.3, 0, 20),
    "B200.round_trip_mma": (0.83, 0, 2), "B200.round_trip_load": (10.9, 0, 50), "B200.tma_row": (1.014, 0.9, 1.1),
    "B200.mma_stage": (9, 0, 60), "B200.stage_least": (121, 50, 200), "B200.miss": (290, 100, 600),
})
fit("Hopper sweep", here / "h200-sweep.jsonl", {
    "sm90.decode_column": (1.228, 0.5, 3), "sm90.decode": (94.5, 0, 300), "sm90.step": (104, 0, 300),
    "sm90.sizes_in_loop": (7.4, 0, 100), "sm90.trip": (2082, 500, 5000), "sm90.fill": (14350, 8000, 40000),
    "sm90.finish": (1697, 0, 5000), "sm90.finish_column": (1.08, 0, 30), "sm90.publish": (341, 0, 4000),
    "sm90.publish_column": (31.9, 0, 90), "sm90.exchange": (5986, 0, 20000), "sm90.helper": (3525, 0, 12000),
    "sm90.segment": (48, 0, 200), "sm90.item": (199, 0, 2000), "sm90.first_range": (1185, 0, 5000),
    "sm90.range": (501, 0, 3000), "sm90.dram_queue": (1.69, 1, 8), "sm90.start": (2260, 0, 6000),
})
