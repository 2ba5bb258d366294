'use strict';
// Sorting, filters, tips, and the charts with axes. Tables, bars and lanes are in the page already.
const data = JSON.parse(document.getElementById('data').textContent);
const all = (what, within = document) => [...within.querySelectorAll(what)];
const us = (v) => v.toFixed(2);

function element(name, attributes = {}, parent = null, text = '') {
  const svg = ['svg', 'g', 'line', 'circle', 'path', 'text'].includes(name);
  const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.textContent = text;
  if (parent) parent.append(e);
  return e;
}

// -- tips: of whatever has data-t, under the pointer, the finger or the keyboard's focus
const tip = element('div', {id: 'tip', hidden: ''}, document.body);
function show(e) {
  const of = e.target.closest && e.target.closest('[data-t]');
  tip.hidden = !of;
  if (!of) return;
  tip.textContent = of.dataset.t;
  const x = e.pageX, y = e.pageY, room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(8, Math.min(x + 12, room)) + 'px';
  tip.style.top = y + 16 + 'px';
}
document.addEventListener('pointermove', show);
document.addEventListener('click', show);

// -- tables: a click on a heading sorts; numbers by value, what has none comes last
const value = (row, column) => row.cells[column].textContent.trim();
function sort(table, column, down) {
  const number = (text) => /^-?[\d.]/.test(text) ? parseFloat(text) : NaN;
  const body = table.tBodies[0], right = table.rows[0].cells[column].classList.contains('n');
  const rows = [...body.rows].sort((a, b) => {
    const s = value(a, column), t = value(b, column), x = number(s), y = number(t);
    if (right || (!isNaN(x) && !isNaN(y))) {
      if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
      if (x !== y) return down ? y - x : x - y;
    }
    return s.localeCompare(t) * (down ? -1 : 1);
  });
  body.append(...rows);
}
for (const table of all('table')) {
  [...table.tBodies[0].rows].forEach((row, i) => row.dataset.row = i);
  all('td', table).forEach((td) => {
    if (td.textContent === 'PASS') td.className = 'pass';
    if (td.textContent === 'FAIL' || td.textContent === 'ERROR') td.className = 'fail';
  });
  all('th', table).forEach((th, column) => {
    th.tabIndex = 0;
    const click = () => {
      const down = th.getAttribute('aria-sort') === 'ascending';
      all('th', table).forEach((other) => other.removeAttribute('aria-sort'));
      th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      sort(table, column, down);
    };
    th.addEventListener('click', click);
    th.addEventListener('keydown', (e) => { if (e.key === 'Enter') click(); });
  });
}

// Filters: words that a row must hold, and a choice for each column of few values.
const shown = new Map();  // of the sweep: is the row shown?
for (const box of all('.filtered')) {
  const table = box.querySelector('table'), rows = [...table.tBodies[0].rows];
  if (rows.length < 4) continue;
  const bar = element('div', {class: 'filters'});
  box.prepend(bar);
  const text = element('input', {type: 'search', placeholder: 'Filter rows', 'aria-label': 'Filter rows'}, bar);
  const choices = [];
  [...table.rows[0].cells].forEach((th, column) => {
    const values = [...new Set(rows.map((r) => value(r, column)))];
    if (values.length < 2 || values.length > 12 || values.length > rows.length / 2) return;
    if (values.some((v) => v.length > 40 || /\d\.\d/.test(v))) return;
    const select = element('select', {'aria-label': th.textContent}, bar);
    element('option', {value: ''}, select, th.textContent + ': all');
    values.sort((a, b) => a.localeCompare(b, undefined, {numeric: true}));
    for (const v of values) element('option', {value: v}, select, th.textContent + ': ' + v);
    choices.push([select, column]);
  });
  const count = element('small', {}, bar);
  const apply = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let kept = 0;
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !words.every((w) => content.includes(w)) ||
                   choices.some(([s, column]) => s.value && value(row, column) !== s.value);
      kept += !row.hidden;
      if ('sweep' in box.dataset) shown.set(+row.dataset.row, !row.hidden);
    }
    count.textContent = kept === rows.length ? `${kept} rows` : `${kept} of ${rows.length} rows`;
    if (draw) draw();
  };
  text.addEventListener('input', apply);
  for (const [select] of choices) select.addEventListener('change', apply);
  box.apply = apply;
}

// -- a chart: points with whiskers over an axis of names or a logarithmic one
const colour = (names, name) => names.includes(name) ? `var(--c${names.indexOf(name) % 8})` : 'var(--peer)';
function steps(low, high, most) {  // round numbers
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high * (1 + 1e-9); v += step) out.push(+v.toPrecision(10));
  return out;
}
function decades(low, high) {
  const out = [];
  for (let p = Math.floor(Math.log10(low)); 10 ** p <= high; ++p)
    for (const n of [1, 2, 5]) if (n * 10 ** p >= low * 0.999 && n * 10 ** p <= high * 1.001) out.push(n * 10 ** p);
  return out;
}
function frame(card, height) {
  const width = Math.max(280, card.clientWidth - 34);
  const svg = element('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img'}, card);
  return {svg, width, left: 48, right: width - 8, top: 22, bottom: height - 40};
}
// Predicted: hollow and dashed; measured: filled.
function mark(svg, x, y, low, high, predicted, paint, text, row) {
  const g = element('g', {class: 'mark', 'data-t': text}, svg);
  element('line', {x1: x, x2: x, y1: low, y2: high, stroke: paint, 'stroke-width': 1.5, opacity: .75,
                   ...(predicted ? {'stroke-dasharray': '3 2'} : {})}, g);
  element('circle', {cx: x, cy: y, r: 9, fill: 'transparent'}, g);
  element('circle', {cx: x, cy: y, r: 4, stroke: paint, 'stroke-width': 2, fill: predicted ? 'var(--card)' : paint}, g);
  if (row !== undefined) g.addEventListener('click', () => choose(row));
}
function choose(row) {
  all('[data-sweep] tr.chosen').forEach((tr) => tr.classList.remove('chosen'));
  const tr = document.querySelector(`[data-sweep] tbody tr[data-row="${row}"]`);
  if (tr) tr.classList.add('chosen'), tr.scrollIntoView({block: 'center', behavior: 'smooth'});
}
function keys(card, names, names_of_peers = false) {
  const box = element('div', {class: 'keys'}, card);
  for (const name of names) {
    const key = element('span', {}, box);
    element('i', {style: `background:${colour(names, name)}`}, key);
    key.append(name);
  }
  if (names_of_peers) element('i', {style: 'background:var(--peer)'}, element('span', {}, box)).after('peers');
  element('span', {class: 'note'}, box, '● measured, 10 to 90 %   ○ predicted, 80 % interval');
}

const kinds = ['measured', 'predicted'];
const tipped = (p, kind, more) => `${p.series}, ${kind} ${us(p[kind][0])} us (${us(p[kind][1])} to ${us(p[kind][2])})\n${more}`;

// Time against one knob: of each kernel the best plan at each value, all others as small dots.
function knob_chart(place, points, knob, names) {
  const card = element('div', {class: 'card'}, place);
  element('h3', {}, card, `Time against ${knob}`);
  if (!points.length) return card.append('No row is shown.');
  const at = (p) => knob === 'kernel' ? p.series : String(p.knobs[knob]);
  const xs = [...new Set(points.map(at))].sort((a, b) => a.localeCompare(b, undefined, {numeric: true}));
  const f = frame(card, 270), values = points.flatMap((p) => kinds.flatMap((k) => p[k] || []));
  let low = Math.min(...values), high = Math.max(...values);
  const pad = (high - low) * .06 || high * .05;
  low = Math.max(0, low - pad), high += pad;
  const y = (v) => f.bottom - (v - low) / (high - low) * (f.bottom - f.top);
  const slot = (f.right - f.left) / xs.length, x = (name) => f.left + slot * (xs.indexOf(name) + .5);
  for (const v of steps(low, high, 5)) {
    element('line', {class: 'axis', x1: f.left, x2: f.right, y1: y(v), y2: y(v)}, f.svg);
    element('text', {x: f.left - 6, y: y(v) + 4, 'text-anchor': 'end'}, f.svg, v);
  }
  element('text', {x: 0, y: 12}, f.svg, 'us');
  const room = Math.max(4, Math.floor(slot / 6.5));
  for (const name of xs)
    element('text', {x: x(name), y: f.bottom + 18, 'text-anchor': 'middle'}, f.svg,
            name.length > room ? name.slice(0, room - 1) + '…' : name);
  element('text', {class: 'label', x: (f.left + f.right) / 2, y: f.bottom + 36, 'text-anchor': 'middle'}, f.svg, knob);
  const series = names.flatMap((name) => kinds.map((kind) => [name, kind, points.filter((p) => p.series === name && p[kind])]))
                      .filter(([, , own]) => own.length);
  series.forEach(([name, kind, own], i) => {
    const shift = (i - (series.length - 1) / 2) * Math.min(14, slot * .7 / series.length), paint = colour(names, name);
    const best = new Map();
    for (const p of own) if (!best.has(at(p)) || p[kind][0] < best.get(at(p))[kind][0]) best.set(at(p), p);
    for (const p of own)
      if (best.get(at(p)) !== p) element('circle', {cx: x(at(p)) + shift, cy: y(p[kind][0]), r: 1.8, fill: paint, opacity: .45}, f.svg);
    const line = xs.filter((v) => best.has(v)).map((v) => `${x(v) + shift},${y(best.get(v)[kind][0])}`);
    if (knob !== 'kernel')
      element('path', {d: 'M' + line.join('L'), fill: 'none', stroke: paint, 'stroke-width': 1.5,
                       ...(kind === 'predicted' ? {'stroke-dasharray': '5 4'} : {})}, f.svg);
    for (const [v, p] of best)
      mark(f.svg, x(v) + shift, y(p[kind][0]), y(p[kind][1]), y(p[kind][2]), kind === 'predicted', paint,
           tipped(p, kind, p.plan), p.row);
  });
  keys(card, names);
}

function sweep(place) {
  const points = data.sweep.points.filter((p) => shown.get(p.row) !== false);
  const groups = [...new Set(data.sweep.points.map((p) => p.group))];
  const chosen = groups.includes(place.dataset.group) ? place.dataset.group : groups[0];
  place.replaceChildren();
  if (groups.length > 1) {
    const select = element('select', {'aria-label': 'case'}, element('div', {class: 'pick'}, place));
    for (const g of groups) element('option', {value: g, ...(g === chosen ? {selected: ''} : {})}, select, g);
    select.addEventListener('change', () => { place.dataset.group = select.value; sweep(place); });
  }
  const unfiltered = data.sweep.points.filter((p) => p.group === chosen);  // keeps charts and colours as they are
  const own = points.filter((p) => p.group === chosen), names = [...new Set(unfiltered.map((p) => p.series))].sort();
  const knobs = data.sweep.knobs.filter((k) => new Set(unfiltered.flatMap((p) => p.knobs[k] ?? [])).size > 1);
  for (const k of knobs.length || names.length < 2 ? knobs : ['kernel'])
    knob_chart(place, own.filter((p) => k === 'kernel' || k in p.knobs), k, names);
}

function roofline(place) {
  place.replaceChildren();
  for (const chart of data.roofline) {
    const card = element('div', {class: 'card'}, place), names = [...new Set(chart.points.filter((p) => !p.peer).map((p) => p.series))].sort();
    element('h3', {}, card, `${chart.arch}: ${chart.roofs.map((r) => r.name).join('; ')}`);
    const f = frame(card, 400), rate = (p, time) => p.flops / time * 1e6, intensity = (p) => p.flops / p.bytes;
    const rates = chart.points.flatMap((p) => kinds.flatMap((k) => (p[k] || []).map((t) => rate(p, t))));
    const ridges = chart.roofs.map((r) => r.flops / r.bytes);
    const x0 = Math.min(...chart.points.map(intensity), ...ridges) * .6, x1 = Math.max(...chart.points.map(intensity), ...ridges) * 2;
    const y0 = Math.min(...rates) * .3, y1 = Math.max(...chart.roofs.map((r) => r.flops), ...rates) * 1.35;
    const log = (v, a, b) => Math.log(v / a) / Math.log(b / a);
    const x = (v) => f.left + log(v, x0, x1) * (f.right - f.left), y = (v) => f.bottom - log(v, y0, y1) * (f.bottom - f.top);
    for (const v of decades(y0, y1)) {
      element('line', {class: 'axis', x1: f.left, x2: f.right, y1: y(v), y2: y(v)}, f.svg);
      element('text', {x: f.left - 6, y: y(v) + 4, 'text-anchor': 'end'}, f.svg, +(v / 1e12).toPrecision(2));
    }
    for (const v of decades(x0, x1)) element('text', {x: x(v), y: f.bottom + 18, 'text-anchor': 'middle'}, f.svg, v);
    element('text', {x: 0, y: 12}, f.svg, 'TFLOP/s');
    element('text', {class: 'label', x: (f.left + f.right) / 2, y: f.bottom + 36, 'text-anchor': 'middle'}, f.svg, 'FLOP/byte');
    chart.roofs.forEach((r, i) => {
      const ridge = r.flops / r.bytes, start = Math.max(x0, y0 / r.bytes);
      element('path', {d: `M${x(start)},${y(start * r.bytes)}L${x(ridge)},${y(r.flops)}L${f.right},${y(r.flops)}`, fill: 'none',
                       stroke: 'var(--ink)', 'stroke-width': 1.5, opacity: i ? .55 : 1, ...(i ? {'stroke-dasharray': '6 4'} : {}),
                       'data-t': `${r.name}: ${(r.flops / 1e12).toFixed(0)} TFLOP/s, ${(r.bytes / 1e12).toFixed(2)} TB/s\n${r.source}`}, f.svg);
      element('text', {class: 'label', x: f.right, y: y(r.flops) - 6 + (i ? 20 : 0), 'text-anchor': 'end'}, f.svg, r.name);
    });
    let last = -99;  // names of cases stand at the foot, where there is room
    for (const p of [...chart.points].sort((a, b) => intensity(a) - intensity(b))) {
      if (x(intensity(p)) - last < 13) continue;
      last = x(intensity(p));
      element('text', {x: last + 4, y: f.bottom - 6, transform: `rotate(-90 ${last + 4} ${f.bottom - 6})`, opacity: .8}, f.svg, p.case);
    }
    for (const p of [...chart.points].sort((a, b) => b.peer - a.peer))
      for (const kind of kinds)
        if (p[kind])
          mark(f.svg, x(intensity(p)), y(rate(p, p[kind][0])), y(rate(p, p[kind][1])), y(rate(p, p[kind][2])), kind === 'predicted',
               p.peer ? 'var(--peer)' : colour(names, p.series),
               tipped(p, kind, `${p.case}: ${(rate(p, p[kind][0]) / 1e12).toFixed(0)} TFLOP/s`));
    keys(card, names, chart.points.some((p) => p.peer));
  }
}

var draw = () => {
  for (const place of all('[data-chart=sweep]')) sweep(place);
};
const draw_all = () => {
  draw();
  for (const place of all('[data-chart=roofline]')) roofline(place);
};
for (const box of all('.filtered')) if (box.apply) box.apply();
draw_all();
let drawn = innerWidth;  // a phone's address bar changes the height only
addEventListener('resize', () => { if (innerWidth !== drawn) drawn = innerWidth, draw_all(); });
