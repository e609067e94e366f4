// Table of all runs, and the details of one run.
"use strict";

const columns = Object.fromEntries(
  Object.entries(pageData("runs-data")).map(([name, column]) => [
    name,
    Array.isArray(column) ? column : column.at.map((at) => column.values[at]),
  ]),
);
const pages = pageData("pages");
const form = document.getElementById("run-filters");
const dialog = document.getElementById("run");

// Units of values, by objective.
const UNITS = { cost: "$/h", capacity: "req/s", goodput: "req/s", colocation: "req/s", scale: "x" };
const unitOf = (run) => UNITS[columns.objective[run]] ?? "";
const percentOf = (fraction) => (fraction === null ? "-" : `${(100 * fraction).toFixed(1)} %`);
const secondsOf = (time) => (time === null ? "-" : time < 1 ? `${say(1000 * time, 3)} ms` : `${say(time, 3)} s`);
const heldOf = (words) => (words === "yes" ? "yes" : words.startsWith("no") ? "no" : "");

const NAMES = ["instance", "entrant", "seed", "outcome", "value", "gpus_used", "gap", "decision_s", "sim_violation_rate", "holds", "key"];
const TEXTS = {
  value: (value, run) => (value === null ? "-" : `${say(value, 7)} ${unitOf(run)}`.trim()),
  gpus_used: (value) => say(value),
  gap: percentOf,
  decision_s: secondsOf,
  sim_violation_rate: percentOf,
};

function cell(name, value, run) {
  if (name === "instance") return make("th", { scope: "row" }, make("bdi", {}, value));
  if (name === "holds") return make("td", { class: "holds", "data-holds": heldOf(value) }, value);
  if (name === "outcome") {
    const paper = heldOf(columns.holds[run]) === "no" && /^(optimal|feasible)\b/.test(value) ? ", on paper" : "";
    return make("td", {}, make("span", { class: "outcome", "data-outcome": value }, value + paper));
  }
  if (name === "key") {
    const short = value.slice(0, 8);
    const open = make("button", { type: "button", class: "quiet", "aria-label": `Run ${short}: details` }, make("code", {}, short));
    open.addEventListener("click", () => showRun(run));
    return make("td", {}, open);
  }
  return make("td", { class: name === "entrant" ? null : "number" }, make("bdi", {}, TEXTS[name]?.(value, run) ?? String(value)));
}

function showRun(run) {
  document.getElementById("run-title").textContent = `Run ${columns.key[run].slice(0, 8)}`;
  const facts = Object.keys(columns).flatMap((name) => {
    const value = columns[name][run];
    if (name !== "host") return [[name, value]];
    const { packages, ...host } = JSON.parse(value);
    return Object.entries({ ...host, ...packages });
  });
  const known = facts.filter(([, value]) => value !== null && value !== "");
  dialog.querySelector(".details").replaceChildren(
    ...known.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, ...detail(name, value, run))]),
  );
  dialog.showModal();
}

function detail(name, value, run) {
  if (name === "command") {
    const copy = make("button", { type: "button", class: "quiet" }, "Copy");
    copy.addEventListener("click", () => navigator.clipboard?.writeText(value));
    return [make("code", {}, value), " ", copy];
  }
  const page = pages[columns.instance_hash[run]];
  if (name === "instance" && page) return [make("a", { href: page }, value)];
  if (name === "gap_bound_key" && value.startsWith("library/")) return [make("a", { href: "library.html" }, value)];
  if (name === "gap_bound_key") return [make("a", { href: `#key=${value}` }, make("code", {}, value))];
  if (["value", "bound", "gap_bound"].includes(name)) return [`${value} ${unitOf(run)}`.trim()];
  return [make("bdi", {}, { true: "yes", false: "no" }[value] ?? String(value))];
}

/** Apply the address: set its filters to whole texts, clear all others, and show the run whose key it has. */
function followAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const field of form.querySelectorAll("[data-key]")) {
    field.value = asked.get(field.dataset.key) ?? "";
    if (field.value) field.dataset.exact = field.value;
  }
  form.dispatchEvent(new Event("input"));
  dialog.close();
  const run = asked.has("key") ? columns.key.indexOf(asked.get("key")) : -1;
  if (run >= 0) showRun(run);
}

// What is typed matches a part of a text again.
form.addEventListener("input", ({ target }) => delete target.dataset.exact);
const list = fillTable(document.getElementById("runs"), form, columns, NAMES, {
  cell,
  unit: (name, run) => (name === "value" ? unitOf(run) : ""),
});
addEventListener("hashchange", followAddress);
followAddress();
