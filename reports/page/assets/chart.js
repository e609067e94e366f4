// Line charts drawn as SVG: logarithmic or linear axes, hover, keyboard, a legend that switches series off and on.
"use strict";

const MARGIN = { top: 12, right: 16, bottom: 44, left: 60 };

/**
 * Draw a chart into a figure, again whenever its width changes.
 *
 * series: [{ name, look, points: [[x, y]], shape: "line" | "step" | "none", dashes, marks, bars: [[x, low, high]] }]
 * x, y: { title, log, domain, say }; an axis without a domain spans its values.
 * rules: [{ x | y, title, diagonal }], thin lines to compare with.
 */
function drawChart(figure, { series, x, y, rules = [] }) {
  const hidden = new Set();
  const names = [...new Map(series.map((one) => [one.name, one.look]))];
  const plot = make("div", {
    class: "plot",
    tabindex: 0,
    role: "group",
    "aria-label": `${figure.dataset.label}. Arrow keys go from point to point.`,
  });
  const legend = make("div", { class: "switches", role: "group", "aria-label": "Series" });
  for (const [name, look] of names) {
    const button = make("button", { type: "button", "aria-pressed": "true" }, symbol(look), make("bdi", {}, name));
    button.addEventListener("click", () => {
      hidden.has(name) ? hidden.delete(name) : hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      draw();
    });
    button.addEventListener("pointerenter", () => emphasise(plot, name));
    button.addEventListener("pointerleave", () => emphasise(plot, null));
    legend.append(button);
  }
  const save = make("button", { type: "button", class: "quiet" }, "Values as CSV");
  save.addEventListener("click", () => {
    const lines = series.flatMap((one) => one.points.map(([a, b]) => [one.name, one.kind ?? "", a, b]));
    saveFile(`${figure.id}.csv`, csv([["series", "kind", x.title, y.title], ...lines]), "text/csv");
  });
  figure.replaceChildren(plot, legend, save);

  let dots = [];
  let at = -1;
  const draw = () => {
    dots = render(plot, series.filter((one) => !hidden.has(one.name)), x, y, rules);
    at = -1;
  };
  const point = (next) => {
    at = next;
    const ring = plot.querySelector(".ring");
    const dot = dots[at];
    ring.setAttribute("visibility", dot ? "visible" : "hidden");
    emphasise(plot, dot ? dot.one.name : null);
    if (!dot) return tip.hide();
    ring.setAttribute("transform", `translate(${dot.left} ${dot.top})`);
    const box = plot.getBoundingClientRect();
    const place = { left: box.left + dot.left, top: box.top + dot.top - 6, bottom: box.top + dot.top + 6, width: 0 };
    tip.show(place, [
      `${dot.one.name}${dot.one.kind ? `, ${dot.one.kind}` : ""}`,
      ...(dot.point[2] ? [dot.point[2]] : []),
      `${x.title}: ${(x.say ?? say)(dot.point[0])}`,
      `${y.title}: ${(y.say ?? say)(dot.point[1])}`,
    ]);
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const distance = (dot) => Math.hypot(dot.left - event.clientX + box.left, dot.top - event.clientY + box.top);
    const near = dots.reduce((best, dot, i) => (best < 0 || distance(dot) < distance(dots[best]) ? i : best), -1);
    point(near >= 0 && distance(dots[near]) < 40 ? near : -1);
  });
  plot.addEventListener("pointerleave", () => point(-1));
  plot.addEventListener("blur", () => point(-1));
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
  let width = plot.clientWidth;
  draw();
  new ResizeObserver(() => {
    if (plot.clientWidth !== width) {
      width = plot.clientWidth;
      draw();
    }
  }).observe(plot);
}

function symbol(look) {
  const style = `--c:${look.light};--d:${look.dark}`;
  return make("svg", { class: "mark", style, "aria-hidden": "true" }, make("use", { href: `#mark-${look.marker}` }));
}

function emphasise(plot, name) {
  for (const group of plot.querySelectorAll(".series")) {
    group.classList.toggle("dim", name !== null && group.dataset.name !== name);
  }
}

/** Draw everything and return the points that can be pointed at, with their places on the screen. */
function render(plot, series, x, y, rules) {
  const width = Math.max(260, plot.clientWidth);
  const height = Math.max(240, Math.min(400, Math.round(width * 0.5)));
  const inner = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const values = (axis) => series.flatMap((one) => [
    ...one.points.map((point) => point[axis]),
    ...(axis && one.bars ? one.bars.flatMap((bar) => bar.slice(1)) : []),
  ]);
  const across = scale(x, values(0), inner.left, inner.right, width / 90);
  const up = scale(y, values(1), inner.bottom, inner.top, height / 50);
  const clip = `clip-${plot.parentElement.id}`;
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
  svg.append(make("clipPath", { id: clip }, make("rect", {
    x: inner.left, y: inner.top - 6, width: inner.right - inner.left + 6, height: inner.bottom - inner.top + 12,
  })));
  for (const tick of up.ticks) {
    const top = up.place(tick);
    svg.append(make("line", { class: "grid", x1: inner.left, x2: inner.right, y1: top, y2: top }));
    svg.append(make("text", { class: "tick", x: inner.left - 8, y: top + 4, "text-anchor": "end" }, (y.say ?? say)(tick)));
  }
  for (const tick of across.ticks) {
    const left = across.place(tick);
    svg.append(make("line", { class: "grid", x1: left, x2: left, y1: inner.top, y2: inner.bottom }));
    const text = { class: "tick", x: left, y: inner.bottom + 18, "text-anchor": "middle" };
    svg.append(make("text", text, (x.say ?? say)(tick)));
  }
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
    const group = make("g", { class: "series", style, "data-name": one.name });
    const placed = one.points.map(([a, b]) => [across.place(a), up.place(b)]);
    if (one.shape !== "none" && placed.length) {
      const join = one.shape === "step" ? ([left, top]) => `H${left}V${top}` : ([left, top]) => `L${left} ${top}`;
      const path = `M${placed[0].join(" ")}${placed.slice(1).map(join).join("")}`;
      group.append(make("path", { d: path, "stroke-dasharray": one.dashes || null }));
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

/** Return where values lie between two places on the screen, and ticks. */
function scale({ log, domain }, values, from, to, wanted) {
  const known = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  let [low, high] = domain ?? [Math.min(...known), Math.max(...known)];
  if (!(low <= high)) [low, high] = [log ? 1 : 0, log ? 10 : 1];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 1, high + 1];
  const ticks = log ? logTicks(low, high) : linearTicks(low, high, wanted);
  if (!domain && !log) [low, high] = [Math.min(low, ticks[0]), Math.max(high, ticks.at(-1))];
  const through = log ? Math.log : (value) => value;
  const place = (value) => {
    const part = (through(log ? Math.max(value, low / 10) : value) - through(low)) / (through(high) - through(low));
    return Math.round((from + part * (to - from)) * 10) / 10;
  };
  return { domain: [low, high], place, ticks: ticks.filter((tick) => tick >= low * (1 - 1e-9) - 1e-12 && tick <= high * (1 + 1e-9)) };
}

function linearTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(2, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let i = Math.floor(low / step); i <= Math.ceil(high / step); i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const factors = high / low < 8 ? [1, 1.5, 2, 3, 4, 6, 8] : last - first <= 3 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = first; power <= last; power++) {
    for (const factor of factors) ticks.push(Number((factor * 10 ** power).toPrecision(3)));
  }
  return ticks;
}
