#!/usr/bin/env python3
"""Makes what is generated in notes/ and README.md anew, or says what is stale: `make notes`, `make check-notes`.

What is generated:
  * pages and tables by the commands of PAGES, and by every notes/**/generate.py, which is run in the project's folder;
  * a code block behind the line <!-- output of: COMMAND -->: what the command prints, a line of bash that is run in the
    project's folder, with an empty folder $T. Columns named seconds and JIT ms, and "in 3.1 s", may differ. First lines
    "$ ...", for readers, stay;
  * lines between <!-- figures --> and <!-- end of figures -->: the list of the figures, from their sources;
  * the figures, by notes/figures/draw.py, which needs matplotlib.
--check makes all of it (but the figures, whose files tell what they were made of) in a copy, and compares. It also wants
that links and anchors lead somewhere, that every page is two clicks from notes/README.md at most, and that no line of
prose has more than 120 columns. tests/notes/make_test.py tests it.
"""
import ast, collections, hashlib, html, os, pathlib, re, shlex, shutil, subprocess, sys, tempfile, textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
PAGES = [  # (command, the page that it prints, or None: it writes its pages itself)
    ("build/fp4lab support", "notes/support.md"),
    ("build/fp4lab experiment show --write", None),
    ("build/fp4lab scorecard --write", None),
]
COLUMNS = 120


def run(command, root):
    words = command if isinstance(command, list) else shlex.split(command)
    words = [str(ROOT / BUILD / w[6:]) if w.startswith("build/") else w for w in words]
    environment = dict(os.environ, FP4LAB_ROOT=str(root), COLUMNS="120", FP4LAB=str(ROOT / BUILD / "fp4lab"))
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def files(suffix):
    """Tracked and new files, not ignored ones."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.splitlines()
    return [f for f in listed if f.endswith(suffix) and (ROOT / f).exists()]


# -- what is generated
def settled(text):
    """Output without what differs from run to run."""
    rows, taken = [], []
    for line in text.splitlines():
        cells = re.split(r"  +", line.strip())
        if "seconds" in cells or "JIT ms" in cells:
            taken = [i for i, cell in enumerate(cells) if cell in ("seconds", "JIT ms")]
        elif taken:
            cells = [cell for i, cell in enumerate(cells) if i not in taken]
        rows.append(re.sub(r"\bin [\d.]+ s\b", "in some s", " ".join(cells)))
    return rows


def outputs(text, root):
    def block(found):
        head, old = re.match(r"((?:\$ [^\n]*\n)*)(.*)", found[3], re.S).groups()
        command = re.sub(r"\bbuild/(?=fp4lab\b)", f"{ROOT / BUILD}/", html.unescape(found[2]))
        with tempfile.TemporaryDirectory() as folder:
            new = run(["bash", "-c", f"unset COLUMNS; T={folder}; {command}"], root).rstrip() + "\n"
        return found[1] + head + (old if settled(old) == settled(new) else new) + found[4]
    return re.sub(r"(<!-- output of: (.*?) -->\n+```\w*\n)(.*?)(^```$)", block, text, flags=re.S | re.M)


def figure_list(text, folder):
    sources = sorted(p for p in folder.glob("*.py") if p.stem not in ("kit", "draw"))
    told = ""
    for source in sources:
        said = ast.get_docstring(ast.parse(source.read_text()))
        below = textwrap.fill(f"`{source.stem}.svg`: {said}", 116, break_on_hyphens=False)
        told += f"\n![{said}]({source.stem}.svg)\n\n{below}\n"
    return re.sub(r"(<!-- figures -->\n).*(\n<!-- end of figures -->)", lambda m: m[1] + told + m[2], text, flags=re.S)


def generate(root):
    for command, page in PAGES:
        said = run(command, root)
        if page:
            (root / page).write_text(said)
    for script in sorted((root / "notes").rglob("generate.py")):
        run([sys.executable, str(script)], root)
    index = root / "notes/figures/README.md"
    index.write_text(figure_list(index.read_text(), index.parent))
    for page in sorted(root.rglob("*.md")):
        if {".toolchain", ".git", "build"}.isdisjoint(page.relative_to(root).parts):
            text = page.read_text()
            made = outputs(text, root) if "<!-- output of: " in text else text
            if made != text:
                page.write_text(made)


# -- checks; each yields "file:line: what"
def stale_pages():
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder).resolve()
        for name in files(""):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
        if (ROOT / ".toolchain").exists():
            (copy / ".toolchain").symlink_to(ROOT / ".toolchain")
        generate(copy)
        for page in sorted(copy.rglob("*")):
            name = page.relative_to(copy)
            if page.is_symlink() or not page.is_file() or ".toolchain" in name.parts:
                continue
            old = (ROOT / name).read_bytes() if (ROOT / name).exists() else b""
            if page.read_bytes() != old:
                old, new = old.decode().splitlines(), page.read_text().splitlines()
                at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
                yield f"{name}:{at + 1}: stale (make notes); it should say: {(new[at] if at < len(new) else '(nothing)')[:100]}"


def stale_figures():
    outputs_of = {}
    for source in sorted((ROOT / "notes/figures").glob("*.py")):
        if source.stem in ("kit", "draw"):
            continue
        name = f"notes/figures/{source.stem}.svg"
        if not (ROOT / name).exists():
            yield f"{name}:1: not drawn yet (make notes)"
            continue
        text = (ROOT / name).read_text()
        found = re.fullmatch(r"(.*)<metadata>drawing (\w+), made of:\n(.*)</metadata>\n</svg>\n", text, re.S)
        if not found or hashlib.sha256(found[1].encode()).hexdigest()[:12] != found[2]:
            yield f"{name}:1: changed by hand (make notes)"
            continue
        others = []
        for line in found[3].splitlines():
            said, what = line.split(" ", 1)
            what = html.unescape(what)
            if what.startswith("$ "):
                if what not in outputs_of:
                    with tempfile.TemporaryDirectory() as folder:
                        out = pathlib.Path(folder, "out")
                        printed = run("build/fp4lab " + what[2:].replace("{out}", str(out)), ROOT)
                        outputs_of[what] = (out.read_text() if out.exists() else printed).encode()
                data = outputs_of[what]
            else:
                data = (ROOT / what).read_bytes() if (ROOT / what).exists() else b""
            if hashlib.sha256(data).hexdigest()[:12] != said:
                others.append(what)
        if others:
            more = f" and {len(others) - 1} more" if others[1:] else ""
            yield f"{name}:1: drawn from another {others[0]}{more} (make notes)"


def prose(page):
    """(number, line) of a page's lines outside code blocks."""
    fence = False
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence:
            yield number, line


def anchors(page):
    seen = {}
    for _, line in prose(page):
        if heading := re.match(r"#+ +(.*)", line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            seen[slug] = seen.get(slug, -1) + 1
            yield slug if seen[slug] == 0 else f"{slug}-{seen[slug]}"


def bad_lines():
    for page in files(".md"):
        for number, line in prose(page):
            exempt = re.match(r"\s*(\||    |<!--|!\[)", line) or re.fullmatch(r"\s*([-*] )?\[[^\]]*\]\(\S*\)[.,;:]?", line)
            if len(line) > COLUMNS and not exempt:
                yield f"{page}:{number}: {len(line)} columns; {COLUMNS} at most"
        for number, there, anchor in links(page):
            name = os.path.relpath(there, (ROOT / page).parent)
            if not there.exists():
                yield f"{page}:{number}: no such file: {name}"
            elif anchor and there.suffix == ".md" and anchor not in anchors(there):
                yield f"{page}:{number}: no such heading: {name}#{anchor}"


def links(page):
    """(number of the line, path that is linked to, anchor), links into the project only."""
    for number, line in prose(page):
        for target in [] if line.startswith("    ") else re.findall(r"\]\(<?([^)\s>]+)>?[^)]*\)", re.sub(r"`[^`]*`", "", line)):
            if not re.match(r"\w+:", target):
                path, _, anchor = target.partition("#")
                yield number, (ROOT / page).parent / path if path else ROOT / page, anchor


def far_pages():
    front = ROOT / "notes/README.md"
    clicks, queue = {front: 0}, collections.deque([front])
    while queue:
        page = queue.popleft()
        for _, there, _ in links(page.relative_to(ROOT)):
            there = there.resolve()
            if there.suffix == ".md" and there.exists() and there not in clicks:
                clicks[there] = clicks[page] + 1
                queue.append(there)
    for page in files(".md"):
        if page.startswith("notes/") and clicks.get(ROOT / page, 3) > 2:
            yield f"{page}:1: not within two clicks of notes/README.md"


def draw():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import matplotlib"], capture_output=True).returncode == 0:
            return run([python, "notes/figures/draw.py"], ROOT)
    sys.exit("figures need matplotlib: apt-get install python3-matplotlib")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        found = [*bad_lines(), *far_pages(), *stale_figures(), *stale_pages()]
        print("\n".join(found or ["notes: nothing stale, no dead link, no long line"]))
        sys.exit(1 if found else 0)
    if sys.argv[1:]:
        sys.exit(__doc__)
    generate(ROOT)
    draw()
    # The suite compares this page's tables, all but what depends on schedules; so it is written only where they differ.
    checkers = [str(ROOT / BUILD / "tests"), "-tc=check programs*"]
    if subprocess.run(checkers, cwd=ROOT, capture_output=True).returncode != 0:
        os.environ["FP4LAB_WRITE_NOTES"] = "1"
        run(checkers, ROOT)
