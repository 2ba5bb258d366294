"""What all figures share: colours, the page, and data that knows where it came from.

A figure is a file beside this one: its docstring says what it shows (the list in README.md is made of these), and its
function draw() returns a figure made by page(). Data comes through lines(), table(), records() and command() alone.
Each of them notes what it read, and save() writes that into the SVG: so `make check-notes` can tell, without drawing
anything, that a figure is older than its data.
"""
import csv, functools, hashlib, html, io, json, os, pathlib, re, shlex, subprocess, tempfile, textwrap
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FP4LAB", str(ROOT / "build/fp4lab"))

# name: (on white, on black). Data colours are Okabe and Ito's, which colour-blind readers can tell apart, a little
# darker on white and lighter on black where they would be too faint.
PALETTE = {
    "ground": ("#ffffff", "#0d1117"), "ink": ("#1f2328", "#e6edf3"), "quiet": ("#59636e", "#9198a1"),
    "faint": ("#d8dde2", "#30363d"), "panel": ("#f3f5f7", "#161b22"),
    "blue": ("#0072b2", "#58b0f0"), "orange": ("#c85200", "#f0883e"), "green": ("#00825f", "#2fc696"),
    "pink": ("#b3578e", "#e59ac5"), "amber": ("#b07d00", "#e6b422"), "sky": ("#8cc4e8", "#2a5f87"),
    "sand": ("#efc59a", "#7a4a1e"), "mint": ("#96d3bd", "#1f6b54"), "rose": ("#e6bdd3", "#6d3a58"),
}
globals().update({name.upper(): light for name, (light, _) in PALETTE.items()})
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Liberation Sans',Arial,sans-serif"
WIDTH = 6.4  # inches of 72 points: wide enough for a desk, and 60 % of it is a phone

plt.rcParams.update({
    "svg.hashsalt": "fp4lab", "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 9,
    "text.color": INK, "axes.labelcolor": QUIET, "axes.edgecolor": QUIET, "axes.titlecolor": INK,
    "xtick.color": QUIET, "ytick.color": QUIET, "axes.linewidth": 0.7, "grid.color": FAINT, "grid.linewidth": 0.7,
    "axes.titlesize": 9.5, "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.labelsize": 9,
    "xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.major.size": 3, "ytick.major.size": 3,
    "xtick.minor.size": 0, "ytick.minor.size": 0, "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "figure.facecolor": GROUND, "axes.facecolor": "none", "savefig.facecolor": GROUND,
    "lines.linewidth": 1.4, "patch.linewidth": 0, "hatch.linewidth": 0.7,
})

# -- data, and what was read for it
inputs = {}  # a path below the project, or "$ a command": first digits of its contents' hash


def digest(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()[:12]


def lines(path):
    data = (ROOT / path).read_bytes()
    inputs[str(path)] = digest(data)
    return data.decode().splitlines()


def table(path):
    return list(csv.DictReader(lines(path)))


def records(path):
    return [json.loads(line) for line in lines(path)]


@functools.lru_cache(None)
def output(line):
    """What `fp4lab LINE` prints, or writes to {out}."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        words = [word.format(out=out) for word in shlex.split(line)]
        done = subprocess.run([PROGRAM, *words], cwd=ROOT, capture_output=True, text=True,
                              env=dict(os.environ, COLUMNS="120"))
        if done.returncode != 0:
            raise SystemExit(f"fp4lab {line}\n{done.stdout}{done.stderr}")
        return out.read_text() if out.exists() else done.stdout


def command(line):
    inputs["$ " + line] = digest(output(line))
    return output(line)


def command_table(line):
    return list(csv.DictReader(io.StringIO(command(line))))


FULL_CASES = ["g8k7168", "g8k2048", "g2k4096", "g2k1536", "dual-256-4096-7168", "dual-512-4096-7168",
              "dual-256-3072-4096", "dual-512-3072-7168", "gemm-128-7168-16384", "gemm-128-4096-7168",
              "gemm-128-7168-2048"]


# -- the page
def page(title, below, height):
    """A figure with its title and a line or two that say what is shown, of which device. Heights are in inches."""
    figure = plt.figure(figsize=(WIDTH, height))
    figure.text(0.12 / WIDTH, 1 - 0.24 / height, title, size=11.5, weight="bold")
    for i, line in enumerate(textwrap.wrap(below, 98)):
        figure.text(0.12 / WIDTH, 1 - (0.43 + 0.165 * i) / height, line, size=8.5, color=QUIET)
    figure.title, figure.below = title, below
    return figure


def axes(figure, left, bottom, width, height, **more):
    """Axes at a place in inches from the lower left."""
    w, h = figure.get_size_inches()
    return figure.add_axes([left / w, bottom / h, width / w, height / h], **more)


def drawing(figure, top=0.75, bottom=0.1):
    """Axes for a drawing: one unit is a point of 1/72 inch, the origin is the upper left corner, y goes down."""
    w, h = figure.get_size_inches()
    paper = axes(figure, 0, bottom, w, h - top - bottom)
    paper.set(xlim=(0, 72 * w), ylim=(72 * (h - top - bottom), 0))
    paper.axis("off")
    return paper


def log_ticks(axis, ticks):
    axis.set_ticks(ticks, [f"{t:g}" for t in ticks])
    axis.set_ticks([], minor=True)


# -- SVG: small, the same bytes each time, colours for light and dark
def style_sheet():
    def rules(which):
        return "".join(f".f-{n}{{fill:{c[which]}}}.s-{n}{{stroke:{c[which]}}}" for n, c in PALETTE.items())
    return (f"<style>text{{font-family:{FONT}}}{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}</style>")


def classes(svg):
    name_of = {light: name for name, (light, _) in PALETTE.items()}

    def element(found):
        names = []

        def colour(c):
            if c[2] not in name_of:
                raise SystemExit(f"a colour that is not in kit.py: {c[2]}")
            names.append(("f-" if c[1] == "fill" else "s-") + name_of[c[2]])
            return ""
        style = re.sub(r"(?:(?<=[ \"])|^)(fill|stroke): (#[0-9a-f]{6})(?:; |(?=\")|$)", colour, found[1])
        bold = "font-weight: bold; " if re.search(r"font: [^;]*\b(bold|700)\b", style) else ""
        style = re.sub(r"font: [^;]*?([\d.]+)px [^;]*", lambda f: f"{bold}font-size: {f[1]}px", style)
        style = style.strip("; ").replace("; ", ";").replace(": ", ":")
        return (f' class="{" ".join(names)}"' if names else "") + (f' style="{style}"' if style else "")
    return re.sub(r' style="([^"]*)"', element, svg)


def together(found):
    """Of the marks of one line, what is the same for all is said once."""
    looks = set(re.findall(r' y="[^"]*"(.*)/>', found[2]))
    if len(looks) > 1:
        return found[0]
    look = looks.pop()
    return f"<g{found[1] or ''}{look}>\n{found[2].replace(look, '')}</g>"


def save(figure, path, source):
    raw = io.StringIO()
    figure.savefig(raw, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    plt.close(figure)
    svg = raw.getvalue()
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.S)
    svg = classes(svg)
    used = set(re.findall(r'#(\w+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda i: i[0] if i[1] in used else "", svg)
    svg = re.sub(r"-?\d+\.\d{3,}", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    svg = re.sub(r"<g( clip-path=[^>]*)?>\n((?:<use [^>]*/>\n)+)</g>", together, svg)
    said = html.escape(f"{figure.title}. {figure.below}".replace("\n", " "))
    svg = re.sub(r"(<svg[^>]*>)", lambda m: f'{m[1]}\n<title>{said}</title>\n{style_sheet()}', svg, count=1)
    body = svg.rstrip()
    for own in (source, pathlib.Path(__file__)):
        lines(own.resolve().relative_to(ROOT))
    made_of = "\n".join(f"{value} {html.escape(key)}" for key, value in sorted(inputs.items()))
    tail = f"<metadata>made of:\n{made_of}\n</metadata>\n</svg>\n"
    body = body.removesuffix("</svg>").rstrip() + "\n"
    tail = tail.replace("made of:", f"drawing {digest(body)}, made of:")
    path.write_text(body + tail)
    if path.stat().st_size > 80_000:
        raise SystemExit(f"{path}: {path.stat().st_size} bytes; a figure has 80 kB at most")
