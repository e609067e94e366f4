// Functions of all pages: making elements, reading the page's data, the tooltip, and saving files.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Text and attributes are set as such, never parsed: names may contain anything. */
function make(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "use", "rect", "clipPath", "circle"].includes(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** Return the data that the page carries under an id; null if it carries none. */
function pageData(id) {
  const element = document.getElementById(id);
  return element && JSON.parse(element.textContent);
}

/** Return a number as text with a few digits. */
function say(number, digits = 4) {
  if (number === null || number === undefined) return "-";
  return Number(number.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
}

/** Let the reader save a file. */
function saveFile(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: url, download: name.replace(/[^A-Za-z0-9._+@-]/g, "_") });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Return rows of values as a CSV file (RFC 4180). */
function csv(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}

const tip = {
  get element() {
    return document.getElementById("tip");
  },

  of: null, // the element it describes
  forget: null,

  /** Show lines of text on an element, beside a box on the screen; the first is the title. Hiding it calls ``forget``. */
  show(of, box, lines, forget) {
    this.hide();
    [this.of, this.forget] = [of, forget];
    const element = this.element;
    element.replaceChildren(...lines.map((line, at) => make(at ? "div" : "strong", {}, line)));
    element.hidden = false;
    const own = element.getBoundingClientRect();
    const room = document.documentElement.clientWidth - own.width - 8;
    element.style.left = `${Math.max(8, Math.min(box.left + box.width / 2 - own.width / 2, room))}px`;
    element.style.top = `${box.top - own.height - 10 >= 8 ? box.top - own.height - 10 : box.bottom + 10}px`;
  },

  hide() {
    this.element.hidden = true;
    this.forget?.();
    [this.of, this.forget] = [null, null];
  },
};

/** Show a tooltip for the element under the mouse or a tap; after a tap it stays until the next tap elsewhere. */
function whenPointed(element, { over, out }) {
  const leave = () => tip.of === element && out();
  for (const kind of ["pointermove", "pointerdown"]) element.addEventListener(kind, over);
  element.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && leave());
  element.addEventListener("blur", leave);
}

document.addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
document.addEventListener("pointerdown", () => tip.hide(), { capture: true }); // before the element under the pointer shows its own
document.addEventListener("scroll", () => tip.hide(), { passive: true, capture: true });
for (const [enter, leave] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
  document.addEventListener(enter, (event) => {
    const told = event.target.closest?.("[data-tip]");
    if (told) tip.show(told, told.getBoundingClientRect(), [told.textContent, told.dataset.tip]);
  });
  document.addEventListener(leave, (event) => tip.of && event.target.closest?.("[data-tip]") === tip.of && tip.hide());
}
