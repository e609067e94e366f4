// Line charts drawn as SVG: logarithmic or linear axes, hover, keyboard.
"use strict";

const BENT_AT = 10; // approximate transition of a bent axis from linear to logarithmic
const MARGIN = { top: 12, right: 16, bottom: 44, left: 60 };

/**
 * Draw a chart into a figure, and again whenever its width changes. Switched-off series stay off.
 *
 * series: [{ name, look, variant, points: [[x, y]], shape: "line" | "step" | "none", dashes, marks, bars: [[x, low, high]],
 *   until }]; a step line continues to ``until``.
 * x, y: { title, log, bent, domain }; an axis without a domain spans its values. A logarithmic axis draws values below
 *   its start at the start; a bent axis is linear around zero and logarithmic further out.
 * rules: [{ x | y, title, diagonal }], thin reference lines.
 */
function drawChart(figure, { series, x, y, rules = [] }) {
  const names = [...new Map(series.map((one) => [one.name, one])).keys()];
  const on = switched(figure, names);
  const plot = make("div", {
    class: "plot",
    tabindex: 0,
    role: "group",
    "aria-label": `${figure.dataset.label}. Arrow keys move between points.`,
  });
  const save = make("button", { type: "button", class: "quiet" }, "Values as CSV");
  save.addEventListener("click", () => {
    const lines = series.flatMap((one) => one.points.map(([a, b]) => [one.name, one.kind ?? "", a, b]));
    saveFile(`${figure.id}.csv`, csv([["series", "kind", x.title, y.title], ...lines]), "text/csv");
  });

  let dots = [];
  let at = -1;
  const draw = () => {
    dots = render(plot, series.filter((one) => on(one.name)), x, y, rules);
    at = -1;
  };
  const point = (next) => {
    at = next;
    const dot = dots[at];
    if (!dot) return tip.hide();
    const ring = plot.querySelector(".ring");
    const box = plot.getBoundingClientRect();
    const place = { left: box.left + dot.left, top: box.top + dot.top - 6, bottom: box.top + dot.top + 6, width: 0 };
    const lines = [
      `${dot.one.name}${dot.one.kind ? `, ${dot.one.kind}` : ""}`,
      ...(dot.point[2] ? [dot.point[2]] : []),
      `${x.title}: ${say(dot.point[0])}`,
      `${y.title}: ${say(dot.point[1])}`,
    ];
    tip.show(plot, place, lines, () => {
      ring.setAttribute("visibility", "hidden");
      emphasise(plot, null);
    });
    ring.setAttribute("transform", `translate(${dot.left} ${dot.top})`);
    ring.setAttribute("visibility", "visible");
    emphasise(plot, dot.one.name);
  };
  whenPointed(plot, {
    over: (event) => {
      const box = plot.getBoundingClientRect();
      const distance = (dot) => Math.hypot(dot.left - event.clientX + box.left, dot.top - event.clientY + box.top);
      const near = dots.reduce((best, dot, i) => (best < 0 || distance(dot) < distance(dots[best]) ? i : best), -1);
      point(near >= 0 && distance(dots[near]) < 40 ? near : -1);
    },
    out: () => point(-1),
  });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !dots.length) return;
    event.preventDefault();
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      point(Math.max(0, Math.min(dots.length - 1, at + step)));
    } else {
      const others = [...new Set(dots.map((dot) => dot.one))];
      const now = others.indexOf(dots[Math.max(0, at)].one);
      const next = others[(now + step + others.length) % others.length];
      point(dots.findIndex((dot) => dot.one === next));
    }
  });
  const switches = legend(series, names, on, draw, (name) => emphasise(plot, name));
  const note = y.bent ? [make("p", { class: "what" }, `The vertical axis is logarithmic beyond ±${BENT_AT}.`)] : [];
  figure.replaceChildren(plot, ...note, switches, save);
  let width = plot.clientWidth;
  draw();
  const observer = new ResizeObserver(() => {
    if (!plot.isConnected) {
      observer.disconnect(); // drawn anew
    } else if (plot.clientWidth !== width) {
      width = plot.clientWidth;
      draw();
    }
  });
  observer.observe(plot);
}

function emphasise(plot, name) {
  for (const group of plot.querySelectorAll(".series")) {
    group.classList.toggle("dim", name !== null && group.dataset.name !== name);
  }
}

/** Draw everything and return the points for hover, with their positions on the screen. */
function render(plot, series, x, y, rules) {
  const width = Math.max(260, plot.clientWidth);
  const height = Math.max(240, Math.min(400, Math.round(width * 0.5)));
  const inner = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const values = (axis) => series.flatMap((one) => [
    ...one.points.map((point) => point[axis]),
    ...(axis || one.until === undefined ? [] : [one.until]),
    ...(axis && one.bars ? one.bars.flatMap((bar) => bar.slice(1)) : []),
  ]);
  const across = scale(x, values(0), inner.left, inner.right, width / 80);
  const up = scale(y, values(1), inner.bottom, inner.top, height / 50);
  const clip = `clip-${plot.parentElement.id}`;
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
  svg.append(make("clipPath", { id: clip }, make("rect", {
    x: inner.left - 6, y: inner.top - 6, width: inner.right - inner.left + 12, height: inner.bottom - inner.top + 12,
  })));
  svg.append(...gridLines(inner, across, up));
  svg.append(make("text", { class: "title", x: (inner.left + inner.right) / 2, y: height - 6, "text-anchor": "middle" }, x.title));
  const middle = (inner.top + inner.bottom) / 2;
  const turned = { class: "title", transform: `translate(14 ${middle}) rotate(-90)`, "text-anchor": "middle" };
  svg.append(make("text", turned, y.title));
  const inside = make("g", { "clip-path": `url(#${clip})` });
  svg.append(inside);
  for (const rule of rules) {
    const [low, high] = [0, 1].map((end) => Math.max(across.domain[end], up.domain[end]));
    const line = rule.diagonal
      ? { x1: across.place(low), y1: up.place(low), x2: across.place(high), y2: up.place(high) }
      : rule.x !== undefined
        ? { x1: across.place(rule.x), x2: across.place(rule.x), y1: inner.top, y2: inner.bottom }
        : { x1: inner.left, x2: inner.right, y1: up.place(rule.y), y2: up.place(rule.y) };
    inside.append(make("line", { class: "rule", ...line }));
    if (rule.title) inside.append(make("text", { class: "tick", x: line.x1 + 5, y: inner.bottom - 8 }, rule.title));
  }
  const dots = [];
  for (const one of series) {
    const style = `--c:${one.look.light};--d:${one.look.dark}`;
    const { fill, dashes } = variantLook(one);
    const group = make("g", { class: `series ${fill}`, style, "data-name": one.name });
    const placed = one.points.map(([a, b]) => [across.place(a), up.place(b)]);
    if (one.shape !== "none" && placed.length) {
      const join = one.shape === "step" ? ([left, top]) => `H${left}V${top}` : ([left, top]) => `L${left} ${top}`;
      const on = one.until === undefined ? "" : `H${Math.max(across.place(one.until), placed.at(-1)[0])}`;
      const path = `M${placed[0].join(" ")}${placed.slice(1).map(join).join("")}${on}`;
      group.append(make("path", { d: path, "stroke-dasharray": dashes || null }));
    }
    for (const [a, low, high] of one.bars ?? []) {
      const left = across.place(a);
      group.append(make("line", { x1: left, x2: left, y1: up.place(low), y2: up.place(high) }));
    }
    one.points.forEach((point, i) => {
      const [left, top] = placed[i];
      const marked = typeof one.marks === "function" ? one.marks(point, i) : one.marks !== false;
      if (marked) group.append(make("use", { href: `#mark-${one.look.marker}`, x: left - 6, y: top - 6, width: 12, height: 12 }));
      if (left >= inner.left - 6 && left <= inner.right + 6 && top >= inner.top - 6 && top <= inner.bottom + 6) {
        dots.push({ one, point, left, top });
      }
    });
    inside.append(group);
  }
  svg.append(make("circle", { class: "ring", r: 8, visibility: "hidden" }));
  plot.replaceChildren(svg);
  return dots;
}

/** Return a line and a number for each tick of both scales; ``zero`` is the class of the line at height zero. */
function gridLines(inner, across, up, sayX = say, zero = "grid") {
  const rows = up.ticks.flatMap((tick) => {
    const top = up.place(tick);
    return [
      make("line", { class: tick ? "grid" : zero, x1: inner.left, x2: inner.right, y1: top, y2: top }),
      make("text", { class: "tick", x: inner.left - 8, y: top + 4, "text-anchor": "end" }, say(tick)),
    ];
  });
  const columns = across.ticks.flatMap((tick) => {
    const left = across.place(tick);
    return [
      make("line", { class: "grid", x1: left, x2: left, y1: inner.top, y2: inner.bottom }),
      make("text", { class: "tick", x: left, y: inner.bottom + 18, "text-anchor": "middle" }, sayX(tick)),
    ];
  });
  return [...rows, ...columns];
}

/** Return the mapping of values to positions on the screen, and at least two ticks. */
function scale({ log, bent, domain }, values, from, to, wanted) {
  const known = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  let [low, high] = domain ?? [Math.min(...known), Math.max(...known)];
  if (!(low <= high) || (log && high <= 0)) [low, high] = [log ? 1 : 0, log ? 10 : 1];
  if (log && low <= 0) low = Math.min(high, ...known) / 2;
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 1, high + 1];
  let ticks = bent ? bentTicks(low, high) : [];
  const inside = (tick) => tick >= low * (1 - 1e-9 * Math.sign(low)) && tick <= high * (1 + 1e-9 * Math.sign(high));
  for (let most = Math.max(2, wanted); ticks.filter(inside).length < 2; most *= 2) {
    ticks = log ? logTicks(low, high, most) : linearTicks(low, high, most);
  }
  if (!domain) [low, high] = [Math.min(low, ticks[0]), Math.max(high, ticks.at(-1))];
  const through = log ? (value) => Math.log(Math.max(value, low)) : bent ? (value) => Math.asinh(value / BENT_AT) : (value) => value;
  const place = (value) => {
    const part = (through(value) - through(low)) / (through(high) - through(low));
    return Math.round((from + part * (to - from)) * 10) / 10;
  };
  return { domain: [low, high], place, ticks: ticks.filter(inside) };
}

function linearTicks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let i = Math.floor(low / step); i <= Math.ceil(high / step); i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

/** Return ticks from the last one before a range to the first one after it, as dense as the room permits. */
function logTicks(low, high, wanted) {
  for (const factors of [[1, 2, 5], [1, 3], [1]]) {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      all.push(...factors.map((factor) => Number((factor * 10 ** power).toPrecision(3))));
    }
    const before = all.findLastIndex((tick) => tick <= low);
    const after = all.findIndex((tick) => tick >= high);
    const ticks = all.slice(Math.max(0, before), after < 0 ? all.length : after + 1);
    if (ticks.length < 4) return linearTicks(low, high, wanted).filter((tick) => tick > 0); // too short for powers of ten
    if (ticks.length <= wanted + 2) return ticks;
  }
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const step = Math.ceil((last - first) / wanted);
  const count = Math.ceil((last - first) / step);
  return Array.from({ length: count + 1 }, (_, i) => Number((10 ** (first + i * step)).toPrecision(3)));
}

function bentTicks(low, high) {
  const ticks = [0];
  for (let power = BENT_AT; power < Math.max(-low, high); power *= 10) ticks.push(-3 * power, -power, power, 3 * power);
  return ticks.sort((a, b) => a - b);
}
