// Theme of the page: light, dark or that of the system. Loaded before the page is drawn, so that it never flashes.
"use strict";

const theme = {
  names: ["system", "light", "dark"],

  get() {
    try {
      return localStorage.getItem("theme") ?? "system";
    } catch {
      return "system"; // some browsers store nothing for pages from disk
    }
  },

  set(name) {
    document.documentElement.dataset.theme = name;
    try {
      localStorage.setItem("theme", name);
    } catch {
      // the choice then lasts as long as the page
    }
  },
};

theme.set(theme.names.includes(theme.get()) ? theme.get() : "system");

document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const show = () => (button.textContent = `Theme: ${document.documentElement.dataset.theme}`);
  button.addEventListener("click", () => {
    const now = theme.names.indexOf(document.documentElement.dataset.theme);
    theme.set(theme.names[(now + 1) % theme.names.length]);
    show();
  });
  show();
});
