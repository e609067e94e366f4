// Tables that are sorted by a click on a column's head, and filters over their rows.
"use strict";

for (const table of document.querySelectorAll("table.sorted")) {
  const heads = [...table.tHead.rows[0].cells];
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (head?.querySelector("button")) sortBy(table, heads, head);
  });
}

function sortBy(table, heads, head) {
  const at = heads.indexOf(head);
  const descending = head.getAttribute("aria-sort") === "ascending";
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const number = head.classList.contains("number");
  const value = (row) => {
    const cell = row.cells[at];
    return number ? (cell.dataset.number === undefined ? null : Number(cell.dataset.number)) : cell.textContent.trim();
  };
  const order = (a, b) => (number ? a - b : a.localeCompare(b, "en", { numeric: true }));
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, value: value(row) }));
  // What is unknown stays last, whichever way.
  rows.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
    return descending ? order(b.value, a.value) : order(a.value, b.value);
  });
  table.tBodies[0].append(...rows.map(({ row }) => row));
}

for (const form of document.querySelectorAll("form[data-filters]")) {
  const scope = document.querySelector(form.dataset.filters);
  const rows = [...scope.querySelectorAll("tbody tr")];
  const apply = () => {
    const wanted = [...form.querySelectorAll("[data-key]")].map((input) => [input.dataset.key, input.value.trim()]);
    let left = 0;
    for (const row of rows) {
      row.hidden = !wanted.every(([key, value]) => matches(row.dataset[key], key, value));
      left += !row.hidden;
    }
    for (const board of scope.querySelectorAll(".board")) board.hidden = !board.querySelector("tbody tr:not([hidden])");
    form.querySelector(".count").textContent = `${left} of ${rows.length} lines`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
}

function matches(own, key, value) {
  if (!value) return true;
  if (key === "outcomes") return Object.hasOwn(JSON.parse(own), value);
  return key === "name" ? own.toLowerCase().includes(value.toLowerCase()) : own === value;
}
