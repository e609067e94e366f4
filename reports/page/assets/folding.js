// Long lists show their beginning until all is asked for.
"use strict";

const FOLDED_TO = 12; // as in page.css, which hides the others: sorting and filtering move what is hidden
const TOO_FEW = 4; // to be worth a button

for (const list of document.querySelectorAll("[data-folds]")) {
  const button = make("button", { type: "button", class: "more" });
  const frame = list.closest(".scroll") ?? list;
  let open = false;
  const show = () => {
    const count = list.querySelectorAll(":scope > :not([hidden])").length;
    button.hidden = count < FOLDED_TO + TOO_FEW;
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
