// Small pieces of all pages: elements, the page's data, files to save, choices of pictures, and their series.
"use strict";

/** Make an element. Text and attributes are set as such, never parsed: names may contain anything. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Return the data that the page carries under an id. */
function pageData(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** Return a number as text with a few digits. */
function say(number, digits = 4) {
  return number === null ? "-" : number.toLocaleString("en", { maximumSignificantDigits: digits });
}

/** Let the reader save a file. */
function saveFile(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name.replace(/[^A-Za-z0-9._+@-]/g, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Call a function now, at every change in a form, and after the browser has restored earlier choices. */
function follow(form, apply) {
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("pageshow", apply);
  apply();
}

// Of the elements with data-choice, a form with data-chooses shows the one that its fields name.
for (const form of document.querySelectorAll("form[data-chooses]")) {
  const choices = [...document.querySelectorAll(`${form.dataset.chooses} [data-choice]`)];
  follow(form, () => {
    const wanted = [...form.querySelectorAll("select")].map((field) => field.value).join("|");
    for (const one of choices) one.hidden = !one.dataset.choice.split("\n").includes(wanted);
    const nothing = form.parentElement.querySelector(".nothing");
    if (nothing) nothing.hidden = choices.some((one) => !one.hidden);
  });
}

// The keys of a picture switch its series; the key without a series switches all keys.
for (const keys of document.querySelectorAll(".keys")) {
  const boxes = [...keys.querySelectorAll("input")];
  keys.addEventListener("input", ({ target }) => {
    if (!target.value) for (const box of boxes) box.checked = target.checked;
  });
  follow(keys, () => {
    for (const box of boxes) {
      for (const name of box.value.split(" ").filter(Boolean)) {
        keys.closest("figure").querySelectorAll(`[data-series="${name}"]`).forEach((one) => one.classList.toggle("off", !box.checked));
      }
    }
  });
}
