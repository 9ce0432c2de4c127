"use strict";
(() => {
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // Tables: sort by heading, filter by text, and show only the first rows until asked for all.
  for (const box of document.querySelectorAll(".table")) {
    const body = box.querySelector("tbody");
    const rows = [...body.rows];
    const limit = Number(box.dataset.limit || 0);
    const input = box.querySelector(".filter input");
    let all = !limit || rows.length <= limit;
    const more = all ? null : make("button", { type: "button", className: "button more" });
    const show = () => {
      const wanted = input ? input.value.trim().toLowerCase() : "";
      let shown = 0;
      for (const row of body.rows) {
        const matches = !wanted || row.textContent.toLowerCase().includes(wanted);
        row.hidden = !matches || (!all && !wanted && shown >= limit);
        shown += row.hidden ? 0 : 1;
      }
      if (more) {
        more.textContent = all ? `Show the first ${limit}` : `Show all ${rows.length}`;
        more.hidden = Boolean(wanted);
      }
    };
    if (more) {
      more.addEventListener("click", () => { all = !all; show(); });
      box.append(more);
    }
    if (input) input.addEventListener("input", show);
    const key = (row, column) => {
      const cell = row.cells[column];
      const value = cell.dataset.value;
      return value === undefined ? cell.textContent.trim() : Number(value);
    };
    const compare = (a, b) => {
      if (typeof a === "number" && typeof b === "number") return a - b;
      if (typeof a === "number") return -1;
      if (typeof b === "number") return 1;
      return a.localeCompare(b, "en", { numeric: true });
    };
    const headings = [...box.querySelectorAll("thead th")];
    headings.forEach((heading, column) => {
      const button = make("button", { type: "button" }, ...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const numbers = rows.some((row) => row.cells[column].dataset.value !== undefined);
        const last = heading.getAttribute("aria-sort");
        const down = last ? last === "ascending" : numbers;
        for (const other of headings) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sorted = [...rows].sort((a, b) => compare(key(a, column), key(b, column)));
        body.append(...(down ? sorted.reverse() : sorted));
        show();
      });
    });
    show();
  }

  // Tabs: sections named by data-tab; arrow keys move between them.
  document.querySelectorAll(".tabs").forEach((box, which) => {
    const sections = [...box.querySelectorAll(":scope > [data-tab]")];
    const list = make("div", { className: "tab-list" });
    list.setAttribute("role", "tablist");
    const tabs = sections.map((section, k) => {
      const tab = make("button", { type: "button", className: "tab", id: `tab-${which}-${k}` }, section.dataset.tab);
      tab.setAttribute("role", "tab");
      section.setAttribute("role", "tabpanel");
      section.setAttribute("aria-labelledby", tab.id);
      return tab;
    });
    const choose = (k) => tabs.forEach((tab, other) => {
      tab.setAttribute("aria-selected", String(other === k));
      tab.tabIndex = other === k ? 0 : -1;
      sections[other].hidden = other !== k;
    });
    tabs.forEach((tab, k) => {
      tab.addEventListener("click", () => choose(k));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = (k + step + tabs.length) % tabs.length;
        choose(next);
        tabs[next].focus();
      });
    });
    list.append(...tabs);
    box.prepend(list);
    choose(0);
  });

  // Contents: a link to every section that has an id and a heading.
  const contents = document.querySelector(".contents");
  const sections = [...document.querySelectorAll("main > section[id]")].filter((one) => one.querySelector("h2"));
  if (contents && sections.length > 2) {
    for (const section of sections) {
      contents.append(make("a", { href: `#${section.id}` }, section.querySelector("h2").textContent));
    }
    contents.hidden = false;
  }
})();
