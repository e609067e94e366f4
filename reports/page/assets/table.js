// Tables and lists: filtered by a form, sorted by a click on a head, and shown a part at a time.
"use strict";

const FEW = 3; // as many lines more are shown without a button

/**
 * Lines of a table's body or of a list. A line has element(), text(key) for filters and value(column) for sorting:
 * a number, a text or null, and a unit. Lines beyond the first ``most`` are hidden until a button shows ``step`` more;
 * ``lazy`` lines are made when they are shown.
 */
class Lines {
  constructor(body, lines, { most = Infinity, step = Infinity, what = "lines", lazy = false } = {}) {
    Object.assign(this, { body, lines, most, step, what, lazy, shown: most, found: lines, sorting: null });
    this.button = make("button", { type: "button", class: "more" });
    this.button.addEventListener("click", () => {
      this.shown = this.shown < this.found.length ? this.shown + this.step : this.most;
      this.draw();
      this.button.scrollIntoView({ block: "nearest" });
    });
    if (most < Infinity) (body.closest(".scroll") ?? body).after(this.button);
    for (const head of body.closest("table")?.tHead.rows[0].cells ?? []) {
      head.querySelector("button")?.addEventListener("click", () => this.sortBy(head));
    }
  }

  filter(suits) {
    this.found = this.lines.filter(suits);
    this.sort();
  }

  sortBy(head) {
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    this.sorting = { column: head.cellIndex, sign: descending ? -1 : 1 };
    this.sort();
  }

  /** Sort the lines that were found: unknown values stay last in both directions, and units are not mixed. */
  sort() {
    if (this.sorting) {
      const { column, sign } = this.sorting;
      const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
      const keyed = this.found.map((line) => [line, ...line.value(column)]);
      keyed.sort(([, a, unit], [, b, other]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        return order(unit, other) || sign * order(a, b);
      });
      this.found = keyed.map(([line]) => line);
    }
    this.draw();
  }

  draw() {
    const all = this.found.length;
    const shown = all <= this.most + FEW ? all : Math.min(this.shown, all);
    const drawn = this.lazy ? this.found.slice(0, shown) : this.found;
    const elements = drawn.map((line) => line.element());
    elements.forEach((element, at) => element.classList.toggle("beyond", at >= shown));
    this.body.replaceChildren(...elements);
    const more = Math.min(this.step, all - shown);
    this.button.hidden = all <= this.most + FEW;
    this.button.textContent =
      shown === all ? `Show the first ${this.most} only` : more < all - shown ? `Show ${more} more` : `Show all ${say(all, 9)} ${this.what}`;
  }
}

/** Let a form filter lists of lines: a choice is the whole text or one of several between bars, typed text a part. */
function filterBy(form, lists) {
  const fields = [...form.querySelectorAll("[data-key]")];
  const suits = (line) =>
    fields.every((field) => {
      const own = line.text(field.dataset.key);
      if (field.tagName === "SELECT") return !field.value || own.split("|").includes(field.value);
      if (field.dataset.exact === field.value) return own === field.value;
      return own.toLowerCase().includes(field.value.trim().toLowerCase());
    });
  follow(form, () => {
    for (const list of lists) {
      list.filter(suits);
      const board = list.body.closest(".board");
      if (board) board.hidden = list.found.length === 0;
    }
    const [left, all] = ["found", "lines"].map((part) => lists.reduce((sum, list) => sum + list[part].length, 0));
    form.querySelector(".count").textContent = `${say(left, 9)} of ${say(all, 9)} ${form.dataset.what}`;
  });
}

/** Return a line of the page's HTML. */
function htmlLine(element) {
  const value = (column) => {
    const cell = element.cells[column];
    if (!cell.classList.contains("number")) return [cell.textContent.trim(), ""];
    return ["number" in cell.dataset ? Number(cell.dataset.number) : null, cell.dataset.unit ?? ""];
  };
  return { element: () => element, text: (key) => element.dataset[key], value };
}

const listed = [...document.querySelectorAll(".sorted > tbody, .list")].map((body) => {
  const folds = body.dataset.folds;
  return new Lines(body, [...body.children].map(htmlLine), folds ? { most: 12, what: folds } : {});
});
for (const form of document.querySelectorAll("form[data-filters]")) {
  filterBy(form, listed.filter(({ body }) => body.closest(form.dataset.filters)));
}
for (const list of listed) list.draw();

/**
 * Fill a table with data: ``columns`` are lists of values by name, ``names`` those of the table, ``cell`` makes one of
 * its cells and ``unit`` tells the unit of a value. A button of the form saves the lines that were found, as CSV.
 */
function fillTable(table, form, columns, names, { cell, unit = () => "", most = 100 }) {
  const lines = columns[names[0]].map((_, at) => ({
    at,
    element: () => make("tr", {}, ...names.map((name) => cell(name, columns[name][at], at))),
    text: (key) => columns[key][at],
    value: (column) => [columns[names[column]][at], unit(names[column], at)],
  }));
  const list = new Lines(table.tBodies[0], lines, { most, step: 500, lazy: true });
  filterBy(form, [list]);
  form.querySelector("[data-csv]").addEventListener("click", (event) => {
    const values = list.found.map(({ at }) => Object.values(columns).map((column) => column[at]));
    saveFile(event.target.dataset.csv, csv([Object.keys(columns), ...values]), "text/csv");
  });
  return list;
}

/** Return rows of values as a CSV file (RFC 4180). */
function csv(rows) {
  const cell = (value) => (/[",\r\n]/.test(value ?? "") ? `"${value.replaceAll('"', '""')}"` : String(value ?? ""));
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}
