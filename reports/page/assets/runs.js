// Table of all runs: filters, sorting, a few lines at a time, details of one run, and a CSV file of all.
"use strict";

const AT_A_TIME = 100;

const columns = Object.fromEntries(
  Object.entries(pageData("runs-data")).map(([name, column]) => [
    name,
    Array.isArray(column) ? column : column.at.map((at) => column.values[at]),
  ]),
);
const pages = pageData("pages");
const count = columns.key.length;
const percentOf = (fraction) => (fraction === null ? "-" : `${(100 * fraction).toFixed(1)} %`);
const secondsOf = (time) => (time === null ? "-" : time < 1 ? `${say(1000 * time, 3)} ms` : `${say(time, 3)} s`);
const heldOf = (told) => (told === "yes" ? "yes" : told.startsWith("no") ? "no" : "");
const inOrder = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));

// Units of values, by objective.
const UNITS = { cost: "$/h", capacity: "req/s", goodput: "req/s", colocation: "req/s", scale: "x" };
const unitOf = (run) => UNITS[columns.objective[run]] ?? "";

// Columns of the table: head, name of the column, text of a value, whether it is a number.
const TABLE = [
  ["Instance", "instance"],
  ["Scheduler", "entrant"],
  ["Seed", "seed", String, true],
  ["Outcome", "outcome"],
  ["Value", "value", (value, run) => (value === null ? "-" : `${say(value, 7)} ${unitOf(run)}`.trim()), true],
  ["GPUs", "gpus_used", (value) => say(value), true],
  ["Gap", "gap", percentOf, true],
  ["Decision", "decision_s", secondsOf, true],
  ["Not in time", "sim_violation_rate", percentOf, true],
  ["Holds", "holds"],
];

const filters = [...document.querySelectorAll("#run-filters [data-key]")];
const body = document.querySelector("#runs tbody");
const more = document.getElementById("more");
let found = [];
let sorting = { name: null, descending: false };

// Filters from the address match the whole name; typed filters match a part of it.
const exact = new Map();

for (const select of filters.filter((one) => one.tagName === "SELECT")) {
  const values = [...new Set(columns[select.dataset.key])].sort(inOrder);
  select.append(...values.map((value) => make("option", {}, value)));
}

const heads = document.querySelector("#runs thead tr");
for (const [text, name, , number] of TABLE) {
  const head = make("th", { scope: "col", class: number ? "number" : null }, make("button", { type: "button", class: "sort" }, text));
  head.addEventListener("click", () => {
    sorting = { name, descending: sorting.name === name && !sorting.descending };
    for (const other of heads.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sorting.descending ? "descending" : "ascending");
    show();
  });
  heads.append(head);
}
heads.append(make("th", { scope: "col" }, "Run"));

function show() {
  const wanted = filters.map((one) => {
    const whole = one.tagName === "SELECT" || exact.get(one) === one.value;
    return [columns[one.dataset.key], whole ? one.value : one.value.trim().toLowerCase(), whole];
  });
  const suits = (run) =>
    wanted.every(([column, value, whole]) =>
      !value || (whole ? column[run] === value : column[run].toLowerCase().includes(value)),
    );
  found = [...Array(count).keys()].filter(suits);
  if (sorting.name) {
    const column = columns[sorting.name];
    const sign = sorting.descending ? -1 : 1;
    found.sort((a, b) => {
      if (column[a] === null || column[b] === null) return (column[a] === null) - (column[b] === null);
      const units = sorting.name === "value" ? inOrder(unitOf(a), unitOf(b)) : 0; // do not mix dollars and requests
      return units || sign * inOrder(column[a], column[b]);
    });
  }
  document.querySelector("#run-filters .count").textContent = `${found.length.toLocaleString("en")} of ${count.toLocaleString("en")} runs`;
  body.replaceChildren();
  showMore();
}

function showMore() {
  const shown = body.rows.length;
  for (const run of found.slice(shown, shown + AT_A_TIME)) body.append(line(run));
  more.hidden = body.rows.length >= found.length;
}

function line(run) {
  const cells = TABLE.map(([, name, read, number]) => {
    const value = columns[name][run];
    const text = make("bdi", {}, read ? read(value, run) : String(value));
    if (name === "instance") return make("th", { scope: "row" }, text);
    if (name === "outcome") {
      const paper = heldOf(columns.holds[run]) === "no" && /^(optimal|feasible)\b/.test(value) ? ", on paper" : "";
      return make("td", {}, make("span", { class: "outcome", "data-outcome": value }, value + paper));
    }
    if (name === "holds") return make("td", { class: "holds", "data-holds": heldOf(value) }, value);
    return make("td", { class: number ? "number" : null }, text);
  });
  const open = make("button", { type: "button", class: "quiet" }, make("code", {}, columns.key[run].slice(0, 8)));
  open.setAttribute("aria-label", `Run ${columns.key[run].slice(0, 8)}: details`);
  open.addEventListener("click", () => showRun(run));
  return make("tr", {}, ...cells, make("td", {}, open));
}

const dialog = document.getElementById("run");

function showRun(run) {
  document.getElementById("run-title").textContent = `Run ${columns.key[run].slice(0, 8)}`;
  const details = dialog.querySelector(".details");
  details.replaceChildren();
  const add = (name, ...content) => details.append(make("dt", {}, name), make("dd", {}, ...content));
  for (const name of Object.keys(columns)) {
    const value = columns[name][run];
    if (value === null || value === "") continue;
    if (name === "host") {
      const told = JSON.parse(value);
      for (const [key, fact] of Object.entries({ ...told, packages: null, ...told.packages })) {
        if (fact !== null) add(key, String(fact));
      }
    } else if (name === "command") {
      const copy = make("button", { type: "button", class: "quiet" }, "Copy");
      copy.addEventListener("click", () => navigator.clipboard?.writeText(value));
      add(name, make("code", {}, value), " ", copy);
    } else if (name === "instance" && pages[columns.instance_hash[run]]) {
      add(name, make("a", { href: pages[columns.instance_hash[run]] }, value));
    } else if (name === "gap_bound_key") {
      add(name, make("a", { href: `#key=${value}` }, make("code", {}, value)));
    } else if (["value", "bound", "gap_bound"].includes(name)) {
      add(name, `${value} ${unitOf(run)}`.trim());
    } else {
      add(name, make("bdi", {}, typeof value === "number" ? String(value) : value === true ? "yes" : value === false ? "no" : value));
    }
  }
  dialog.showModal();
}

/** Apply the address: set its filters, clear all others, and show the run whose key it has. */
function follow() {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const filter of filters) {
    filter.value = asked.get(filter.dataset.key) ?? "";
    exact.set(filter, asked.get(filter.dataset.key));
  }
  show();
  dialog.close();
  const run = asked.has("key") ? columns.key.indexOf(asked.get("key")) : -1;
  if (run >= 0) showRun(run);
}

document.getElementById("run-filters").addEventListener("input", (event) => {
  exact.delete(event.target);
  show();
});
document.getElementById("run-filters").addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", showMore);
document.getElementById("csv").addEventListener("click", () => {
  const names = Object.keys(columns);
  const rows = found.map((run) => names.map((name) => columns[name][run]));
  saveFile("runs.csv", csv([names, ...rows]), "text/csv");
});
addEventListener("hashchange", follow);
addEventListener("pageshow", show); // the browser has restored earlier choices by then
follow();
