// Long lists show their first elements until a button shows all.
"use strict";

const FOLDED_TO = 12; // as in page.css, which hides the others, so that sorting and filtering change the hidden ones
const WORTH_A_BUTTON = 4; // least number of hidden elements

for (const list of document.querySelectorAll("[data-folds]")) {
  const button = make("button", { type: "button", class: "more" });
  const frame = list.closest(".scroll") ?? list;
  let open = false;
  const show = () => {
    const count = list.querySelectorAll(":scope > :not([hidden])").length;
    button.hidden = count < FOLDED_TO + WORTH_A_BUTTON;
    list.classList.toggle("folded", !open && !button.hidden);
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? `Show the first ${FOLDED_TO} only` : `Show all ${count} ${list.dataset.folds}`;
  };
  button.addEventListener("click", () => {
    open = !open;
    show();
    button.scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("filtered", show);
  frame.after(button);
  show();
}
