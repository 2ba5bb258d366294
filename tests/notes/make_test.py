#!/usr/bin/env python3
"""Tests of notes/make.py on a small project of its own: `make check-notes` runs them."""
import hashlib, importlib.util, pathlib, subprocess, tempfile, unittest

HERE = pathlib.Path(__file__).resolve()
spec = importlib.util.spec_from_file_location("make", HERE.parents[2] / "notes/make.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)


class Notes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = make.ROOT = pathlib.Path(self.folder.name).resolve()
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.write("notes/README.md", "# Notes\n\n[a](a.md)\n")
        self.write("notes/a.md", "# A\n\n## A heading, and `code`\n\n[b](b.md)\n")
        self.write("notes/b.md", "# B\n")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def test_a_good_project(self):
        self.write("notes/b.md", "[there](a.md#a-heading-and-code) `[no](link.md)`\n\n```\n" + "x" * 200 + "\n```\n")
        self.assertEqual([*make.bad_lines(), *make.far_pages(), *make.stale_figures()], [])

    def test_links(self):
        self.write("notes/b.md", "[x](none.md)\n\n[y](a.md#no-heading) [z](https://example.com/none)\n")
        self.assertEqual([*make.bad_lines()],
                         ["notes/b.md:1: no such file: none.md", "notes/b.md:3: no such heading: a.md#no-heading"])

    def test_long_lines(self):
        self.write("notes/b.md", "x " * 61 + "\n\n| " + "x" * 200 + " |\n")
        self.assertEqual([*make.bad_lines()], ["notes/b.md:1: 122 columns; 120 at most"])

    def test_pages_that_nobody_reaches(self):
        self.write("notes/b.md", "[c](c.md)\n")
        self.write("notes/c.md", "three clicks\n")
        self.write("notes/d.md", "no link\n")
        self.assertEqual([line.split(":")[0] for line in make.far_pages()], ["notes/c.md", "notes/d.md"])

    def test_outputs(self):
        page = "<!-- output of: printf 'a  seconds\\n1  2.5\\n' -->\n```\n$ for readers\n%s```\n"
        fresh = page % "a  seconds\n1  2.5\n"
        self.assertEqual(make.outputs(page % "a  seconds\n7  2.5\n", self.root), fresh)  # another result
        old = page % "a  seconds\n1  9.9\n"
        self.assertEqual(make.outputs(old, self.root), old)  # another time
        self.assertIn("\nyes\n", make.outputs("<!-- output of: echo yes > $T/f; cat $T/f -->\n```\nno\n```\n", self.root))

    def test_figures(self):
        self.write("notes/figures/f.py", "")
        self.assertEqual([*make.stale_figures()], ["notes/figures/f.svg:1: not drawn yet (make notes)"])
        digest = lambda text: hashlib.sha256(text.encode()).hexdigest()[:12]
        self.write("data.csv", "1\n")
        svg = f"<metadata>drawing {digest('<svg>')}, made of:\n{digest('1' + chr(10))} data.csv\n</metadata>\n</svg>\n"
        self.write("notes/figures/f.svg", "<svg>" + svg)
        self.assertEqual([*make.stale_figures()], [])
        self.write("data.csv", "2\n")
        self.assertEqual([*make.stale_figures()], ["notes/figures/f.svg:1: drawn from another data.csv (make notes)"])
        self.write("notes/figures/f.svg", "<svg> " + svg)
        self.assertEqual([*make.stale_figures()], ["notes/figures/f.svg:1: changed by hand (make notes)"])


if __name__ == "__main__":
    unittest.main()
