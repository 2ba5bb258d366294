"""Writes the ladder's tables into notes/blackwell.md, from `fp4lab kernels`, `fp4lab plan`, and the experiments' pages.

A rung's experiment is one whose judged arm is the rung and whose baseline is another. A step is how many times as fast
a rung is as the one it changes, the geometric mean of the cases: once with the plans that they take, and once with the
plans that the model holds for their fastest.
"""
import csv, math, os, pathlib, re, subprocess, tomllib

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "blackwell.md"
CASES = {"group": ["g8k7168", "g8k2048", "g2k4096", "g2k1536"],
         "dual": ["dual-256-4096-7168", "dual-512-4096-7168", "dual-256-3072-4096", "dual-512-3072-7168"]}


def fp4lab(*words):
    return subprocess.run([os.environ.get("FP4LAB", "build/fp4lab"), *words], capture_output=True, text=True, check=True).stdout


def tested():
    """{(op, rung): what its experiments came to}"""
    said = {}
    for file in sorted(HERE.glob("[0-9]*.toml")):
        told = tomllib.loads(file.read_text())
        arms = told.get("variant", [])
        judged = next((a for a in arms if a["name"] == told["accept"].get("variant", a["name"])), {}).get("kernel")
        first = told["baseline"].get("kernel")
        if told.get("arch", "sm_100a") != "sm_100a" or not judged or not first or judged == first:
            continue
        head = re.search(r"^\*\*([A-Z ]+)\*\*.*?\n\n", file.with_suffix(".md").read_text(), re.M | re.S)
        factor = re.search(r"([\d.]+)\s+times\s+as\s+fast\s+in\s+geometric\s+mean\s+\(([\d.]+)\s+to\s+([\d.]+)\)", head[0])
        came = "%.2f (%.2f to %.2f) " % tuple(map(float, factor.groups())) if factor else ""
        op = "dual" if told["accept"]["cases"][0].startswith("dual") else "group"
        said.setdefault((op, judged), []).append(
            f"[{file.name[:3]}](experiments/{file.stem}.md): {came}on {first.split('_')[0]}, {head[1].lower()}")
    return said


def times(op, kernel):
    """Predicted us of the rung's own plan and of its fastest one, for each case"""
    for case in CASES[op]:
        said = fp4lab("plan", op, "--case", case, "--kernel", kernel, "--why", "--csv").splitlines()
        head = next(i for i, line in enumerate(said) if "predicted us" in line)
        said = [row["predicted us"] or "" for row in csv.DictReader(said[head:])]
        plans = [float(us) for us in said if re.fullmatch(r"[\d.]+", us)]
        yield plans[0], min(plans)


def step(before, after):
    if before == after:
        return "not seen"
    return f"{math.prod(a / b for a, b in zip(before, after)) ** (1 / len(after)):.2f}"


def table(op, rungs, experiments):
    yield ["rung", "idea", *CASES[op], "changes", "step", "of best plans", "its experiment"]
    yield ["---", "---", *["---:"] * len(CASES[op]), "---", "---:", "---:", "---"]
    own, best = {}, {}
    for r in rungs:
        name, _, top = r["kernel"].partition(" ")
        own[name], best[name] = zip(*times(op, name))
        parent = r["changes"]
        yield [name.split("_")[0], r["idea"], *[f"{us:.1f}" for us in own[name]], parent.split("_")[0],
               *[step(us[parent], us[name]) if parent in us else "-" for us in (own, best)],
               "; ".join(experiments.get((op, name), []) + (experiments.get((op, "top"), []) if top else [])) or "-"]


rungs = [r for r in csv.DictReader(fp4lab("kernels", "--csv").split("\n\n")[0].splitlines()) if r["arch"] == "sm_100a"]
experiments = tested()
text = PAGE.read_text()
for op in CASES:
    rows = table(op, [r for r in rungs if r["op"] == op], experiments)
    made = "".join("|" + "|".join(c if c.startswith("---") else f" {c} " for c in row) + "|\n" for row in rows)
    text = re.sub(rf"(<!-- ladder, {op} -->\n).*?(<!-- end of ladder -->)", rf"\1\n{made}\n\2", text, flags=re.S)
PAGE.write_text(text)
