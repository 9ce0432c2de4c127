/* Sliders write the text fields, which count; the address bar loses the token; the scheme follows the system. */
"use strict";
(() => {
  if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname);

  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => { document.documentElement.dataset.bsTheme = scheme.matches ? "dark" : "light"; };
  scheme.addEventListener("change", follow);
  follow();

  delete document.documentElement.dataset.shinyBusySpinners;
  delete document.documentElement.dataset.shinyBusyPulse;

  const twoDigits = (value) => String(Number(value.toPrecision(2)));
  const fromText = (range) => {
    const text = document.getElementById(range.dataset.text);
    const value = parseFloat(text.value);
    const low = Number(range.dataset.low), high = Number(range.dataset.high);
    if (value > 0) range.value = 100 * Math.log(value / low) / Math.log(high / low);
    range.setAttribute("aria-valuetext", text.value);
  };
  const toText = (range, event) => {
    const text = document.getElementById(range.dataset.text);
    const low = Number(range.dataset.low), high = Number(range.dataset.high);
    text.value = twoDigits(low * (high / low) ** (range.value / 100)) + range.dataset.unit;
    range.setAttribute("aria-valuetext", text.value);
    text.dispatchEvent(new Event(event, { bubbles: true }));
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const range of document.querySelectorAll("input[type=range][data-text]")) {
      range.addEventListener("input", () => toText(range, "input"));
      range.addEventListener("change", () => toText(range, "change"));
      document.getElementById(range.dataset.text).addEventListener("change", () => fromText(range));
      fromText(range);
    }
    for (const field of document.querySelectorAll(".shiny-input-container input[type=text][readonly]")) {
      field.setAttribute("aria-label", "Name of the uploaded file");
      field.tabIndex = -1;
    }
    const show = () => {
      const chosen = document.querySelector("#steps [role=tab].active, #steps .nav-link.active");
      if (chosen) document.body.dataset.step = chosen.dataset.value;
    };
    document.addEventListener("shown.bs.tab", show);
    show();
    Shiny.addCustomMessageHandler("scale", (scale) => {
      const range = document.getElementById(`${scale.name}_range`);
      Object.assign(range.dataset, { low: scale.low, high: scale.high, unit: scale.unit });
      fromText(range);
    });
    Shiny.addCustomMessageHandler("show", ({ id, shown }) => { document.getElementById(id).hidden = !shown; });
    Shiny.addCustomMessageHandler("focus", ({ id }) => {
      const target = document.getElementById(id);
      if (target) { target.scrollIntoView({ block: "start" }); target.focus({ preventScroll: true }); }
    });
  });
})();
