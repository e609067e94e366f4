// Tables with sorting by a click on a column's head.
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
  const unit = (row) => row.cells[at].dataset.unit ?? "";
  const value = (row) => {
    const cell = row.cells[at];
    return number ? (cell.dataset.number === undefined ? null : Number(cell.dataset.number)) : cell.textContent.trim();
  };
  const order = (a, b) => (number ? a - b : a.localeCompare(b, "en", { numeric: true }));
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, value: value(row), unit: unit(row) }));
  // Unknown values stay last in both directions, and units are not mixed.
  rows.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
    if (a.unit !== b.unit) return a.unit < b.unit ? -1 : 1;
    return descending ? order(b.value, a.value) : order(a.value, b.value);
  });
  table.tBodies[0].append(...rows.map(({ row }) => row));
}
