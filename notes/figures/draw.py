"""Draws the figures: python3 notes/figures/draw.py [name...]. `make notes` calls it."""
import importlib.util, pathlib, sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))
import kit

names = sys.argv[1:] or sorted(p.stem for p in here.glob("*.py") if p.stem not in ("kit", "draw"))
for name in names:
    source = here / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kit.inputs.clear()
    kit.save(module.draw(), here / f"{name}.svg", source)
