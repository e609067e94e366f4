// Scatter of the first screen: distance over decision time; shape and colour tell whether plans hold.
"use strict";

const HELD = {
  yes: ["all plans hold", "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0Z"],
  no: ["workloads are late", "M-5-5 5 5M-5 5 5-5"],
  "": ["not tested", "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0Z"],
};
const LETTER = 6.6; // approximate width of a label's letter
const SIDES = [[10, 4, "start"], [-10, 4, "end"], [0, -11, "middle"], [0, 19, "middle"], [9, -8, "start"], [9, 16, "start"], [-9, -8, "end"], [-9, 16, "end"], [0, -25, "middle"], [0, -39, "middle"]];

function duration(seconds) {
  if (seconds < 1e-3) return `${say(seconds * 1e6, 3)} µs`;
  return seconds < 1 ? `${say(seconds * 1e3, 3)} ms` : `${say(seconds, 3)} s`;
}

function drawScatter(figure, { points, to }) {
  const width = Math.max(280, figure.clientWidth);
  const height = Math.round(Math.max(250, Math.min(400, width * 0.62)));
  const inner = { left: 52, right: width - 14, top: 26, bottom: height - 42 };
  const domain = [Math.min(...points.map((p) => p.x[0])), Math.max(...points.map((p) => p.x[2]))];
  const across = scale({ log: true }, domain, inner.left, inner.right, width / 110);
  const most = Math.max(1, ...points.map((p) => p.y[1])) * 1.25;
  const up = scale({ domain: [0, Math.min(100, most)] }, [], inner.bottom, inner.top, 5);
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": figure.getAttribute("aria-label") });
  svg.append(make("text", { class: "title", x: inner.left - 46, y: 14 }, `Distance to the ${to} (%)`));
  svg.append(make("text", { class: "title", x: inner.right, y: height - 6, "text-anchor": "end" }, "Decision time"));
  svg.append(...gridLines(inner, across, up, duration, "axis"));
  const within = (value) => Math.max(inner.top, Math.min(inner.bottom, up.place(value)));
  const placed = points.map((point) => ({ point, left: across.place(point.x[1]), top: within(point.y[1]) }));
  const taken = placed.map(({ left, top }) => [left - 7, top - 7, left + 7, top + 7]);
  const groups = placed.map(({ point, left, top }) => {
    const group = make("g", { class: "dot", "data-held": point.held });
    const [low, , high] = point.y.map(within);
    const [fast, , slow] = point.x.map(across.place);
    group.append(make("line", { class: "spread", x1: left, x2: left, y1: low, y2: high }));
    group.append(make("line", { class: "spread", x1: fast, x2: slow, y1: top, y2: top }));
    group.append(make("path", { class: "point", d: HELD[point.held][1], transform: `translate(${left} ${top})` }));
    svg.append(group);
    return group;
  });
  placed.forEach(({ point, left, top }, i) => {
    // A name without room loses its parameters.
    const candidates = [point.name, point.name.split(" (")[0]].flatMap((name) => SIDES.map((side) => [name, ...side]));
    for (const [name, dx, dy, anchor] of candidates) {
      const long = name.length * LETTER;
      const x = left + dx;
      const from = anchor === "start" ? x : anchor === "end" ? x - long : x - long / 2;
      const box = [from, top + dy - 11, from + long, top + dy + 3];
      if (from < inner.left + 2 || box[2] > width - 2 || box[1] < 16 || box[3] > inner.bottom + 8) continue;
      if (taken.some(([a, b, c, d], j) => j !== i && box[0] < c && a < box[2] && box[1] < d && b < box[3])) continue;
      taken.push(box);
      groups[i].append(make("text", { class: "name", x, y: top + dy, "text-anchor": anchor }, name));
      break;
    }
    whenPointed(groups[i], {
      over: () => tip.show(groups[i], groups[i].querySelector(".point").getBoundingClientRect(), [point.name, ...point.told]),
      out: () => tip.hide(),
    });
  });
  const used = Object.keys(HELD).filter((held) => points.some((point) => point.held === held));
  const legend = make("ul", { class: "legend" }, ...used.map((held) => make(
    "li", {}, make("svg", { class: "dot", "data-held": held, width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" },
      make("path", { class: "point", d: HELD[held][1] })), HELD[held][0],
  )), make("li", {}, "lines: least to largest"));
  figure.replaceChildren(svg, legend);
}

const scatterData = pageData("scatter-data");
if (scatterData) {
  const form = document.getElementById("selection");
  const shown = [...document.querySelectorAll("[data-selection]")];
  const draw = () => {
    const [objective, suite] = ["objective", "suite"].map((key) => form.querySelector(`[data-key=${key}]`).value);
    const key = `${suite}|${objective}`;
    for (const one of shown) one.hidden = one.dataset.selection !== key;
    document.getElementById("no-selection").hidden = key in scatterData;
    const figure = shown.find((one) => !one.hidden)?.querySelector(".scatter");
    if (figure) figure.hidden = !scatterData[key].points.length;
    if (figure && scatterData[key].points.length) drawScatter(figure, scatterData[key]);
  };
  form.addEventListener("input", draw);
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("pageshow", draw); // the browser has restored earlier choices by then
  addEventListener("resize", draw);
  draw();
}
