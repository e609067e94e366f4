// Legend of a chart: samples of the series, which switch them off and on.
"use strict";

const MANY_SERIES = 12; // with more series only the first are drawn until others are switched on
const FIRST_SERIES = 8;

const chosen = new WeakMap(); // by figure: the names that were switched off or on

/** Return a function that tells whether a series of a figure is drawn; ``on.turn`` switches it. */
function switched(figure, names) {
  if (!chosen.has(figure)) chosen.set(figure, new Map());
  const asked = chosen.get(figure);
  const first = new Set(names.length > MANY_SERIES ? names.slice(0, FIRST_SERIES) : names);
  const on = (name) => asked.get(name) ?? first.has(name);
  on.turn = (name, whether) => asked.set(name, whether);
  return on;
}

/** Return the legend of a chart: ``draw`` is called after a switch, ``emphasise`` with the name under the pointer. */
function legend(series, names, on, draw, emphasise) {
  const switches = make("div", { class: "switches", role: "group", "aria-label": "Series" });
  const buttons = names.map((name) => {
    const button = make("button", { type: "button" }, symbol(series.find((one) => one.name === name)), make("bdi", {}, name));
    button.addEventListener("click", () => turn([name], !on(name)));
    button.addEventListener("pointerenter", () => emphasise(name));
    button.addEventListener("pointerleave", () => emphasise(null));
    return button;
  });
  const show = () => buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(on(names[i]))));
  const turn = (which, whether) => {
    for (const name of which) on.turn(name, whether);
    show();
    draw();
  };
  if (names.length > MANY_SERIES) {
    switches.classList.add("many");
    for (const [text, whether] of [["All", true], ["None", false]]) {
      const button = make("button", { type: "button", class: "quiet" }, text);
      button.addEventListener("click", () => turn(names, whether));
      switches.append(button);
    }
  }
  switches.append(...buttons);
  show();
  return switches;
}

// Variants of a scheduler share its colour and marker; fills and dashes distinguish them.
const FILLS = ["", "hollow", "half"];
const DASHES = ["", "7 4", "7 3 1.5 3", "14 5"];

/** Number the entrants of every scheduler, by name. */
function variants(entrants) {
  const found = new Map();
  const counts = new Map();
  for (const { name, scheduler } of entrants) {
    if (found.has(name)) continue;
    found.set(name, counts.get(scheduler) ?? 0);
    counts.set(scheduler, found.get(name) + 1);
  }
  return found;
}

/** Return the style of a series' line and marks, given that of its scheduler; ``ownDashes`` never change. */
function variantLook({ variant = 0, dashes = "", ownDashes }) {
  const all = [dashes, ...DASHES.filter((other) => other !== dashes)];
  return {
    fill: FILLS[(variant + Math.floor(variant / all.length)) % FILLS.length],
    dashes: ownDashes ?? all[variant % all.length],
  };
}

function symbol(one) {
  const { fill, dashes } = variantLook(one);
  const style = `--c:${one.look.light};--d:${one.look.dark}`;
  const line = one.shape === "none" ? [] : [make("line", { x1: 0, x2: 34, y1: 7, y2: 7, "stroke-dasharray": dashes || null })];
  const mark = make("use", { href: `#mark-${one.look.marker}`, x: 10, y: 0, width: 14, height: 14 });
  const box = { width: 34, height: 14, viewBox: "0 0 34 14", "aria-hidden": "true" };
  return make("svg", { class: `sample series ${fill}`, style, ...box }, ...line, mark);
}
