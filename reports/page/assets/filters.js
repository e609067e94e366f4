// Filters over the lines of tables and other named elements.
"use strict";

for (const form of document.querySelectorAll("form[data-filters]")) {
  const scope = document.querySelector(form.dataset.filters);
  const items = [...scope.querySelectorAll("[data-name]")];
  const apply = () => {
    const wanted = [...form.querySelectorAll("[data-key]")].map((input) => [input.dataset.key, input.value.trim()]);
    let left = 0;
    for (const item of items) {
      item.hidden = !wanted.every(([key, value]) => matches(item.dataset[key], key, value));
      left += !item.hidden;
    }
    for (const board of scope.querySelectorAll(".board")) board.hidden = !board.querySelector("[data-name]:not([hidden])");
    form.querySelector(".count").textContent = `${left} of ${items.length} ${form.dataset.what}`;
    document.dispatchEvent(new Event("filtered"));
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("pageshow", apply); // the browser has restored earlier choices by then
  apply();
}

function matches(own, key, value) {
  if (!value) return true;
  if (key === "outcomes") return Object.hasOwn(JSON.parse(own), value);
  return key === "name" ? own.toLowerCase().includes(value.toLowerCase()) : own === value;
}
