#!/usr/bin/env python3
"""Writes table.md and the summary in ../foreign-programs.md from programs.csv. A row that is not well formed ends it.

A cell is empty where nothing was noted; a commit that nobody noted is "unknown", and a version will do for one.
"""
import csv, datetime, pathlib, re, sys

HERE = pathlib.Path(__file__).resolve().parent
KINDS = {"cutlass": "CUTLASS examples", "tests": "CUTLASS unit tests and tutorials", "gemm": "GEMM kernels and probes",
         "attention": "Attention and recurrent layers", "contest": "Contest kernels for NVFP4",
         "compilers": "Compilers in Python", "layers": "Quantisation, mixture of experts and other layers",
         "general": "General CUDA", "own": "Our own programs"}
OUTCOMES = ["passed", "right", "ran", "wrong", "refused", "did not end"]
FORMS = {"kind": "|".join(KINDS), "program": ".+", "repository": ".+", "commit": r"[\w. ]+", "device": ".*",
         "shape": ".*", "seeds": r"(\d+(-\d+)?)?", "check": r"((silent|passed|notes|race|error)\b.*)?",
         "outcome": "|".join(OUTCOMES), "date": r"(\d{4}-\d\d-\d\d)?", "fp4lab": "([0-9a-f]{7,})?", "remark": ".*"}

join = lambda *cells: ", ".join(filter(None, cells))


def table(head, rows):
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (head, ["---"] * len(head), *rows)) + "\n"


rows = []
with open(HERE / "programs.csv", newline="") as file:
    for cells in (reader := csv.reader(file)):
        at = f"notes/foreign-programs/programs.csv:{reader.line_num}:"
        if len(cells) != len(FORMS):
            sys.exit(f"{at} {len(cells)} cells; it wants {len(FORMS)}: {', '.join(FORMS)}")
        row = dict(zip(FORMS, cells))
        if reader.line_num > 1:
            for column, form in FORMS.items():
                if not re.fullmatch(form, row[column]) or "|" in row[column]:
                    told = f"is '{row[column]}'" if row[column] else "is missing"
                    sys.exit(f"{at} {row['program']}: {column} {told}; it wants {form}")
            rows.append(row)
        elif cells != list(FORMS):
            sys.exit(f"{at} the columns are {', '.join(FORMS)}")

page = "# Programs that have run on the emulator, one by one\n\nWhat the columns mean: [foreign programs]" \
       "(../foreign-programs.md). `generate.py` makes this page of `programs.csv`.\n"
summary = []
for kind, title in KINDS.items():
    chosen, shown, above = [row for row in rows if row["kind"] == kind], [], None
    for row in chosen:
        source = f"{row['repository']} {row['commit']}"
        seeds = row["seeds"] and f"{row['seeds']} seed{'s' * (row['seeds'] != '1')}"
        shown.append([row["program"], source if source != above else "", join(row["device"], row["shape"]),
                      join(row["outcome"], seeds, row["date"], row["fp4lab"]), row["check"], row["remark"]])
        above = source
    page += f"\n## {title}\n\n" + table(["program", "from", "device, shape", "outcome", "`--check`", "remark"], shown)
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    summary.append([f"[{title}](foreign-programs/table.md#{anchor})", len(chosen)]
                   + [sum(row["outcome"] == outcome for row in chosen) for outcome in OUTCOMES])
summary.append(["all"] + [sum(column) for column in list(zip(*summary))[1:]])
(HERE / "table.md").write_text(page)
front, told = HERE.parent / "foreign-programs.md", table(["kind", "rows", *OUTCOMES], summary)
front.write_text(re.sub("(?<=<!-- begin summary -->\n).*(?=<!-- end summary -->)", told, front.read_text(), flags=re.S))
