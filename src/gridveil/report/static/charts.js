"use strict";
(() => {
  // What a chart tells where a reader points: the nearest dot's numbers, or the values of its curves.
  const REACH = 22; // px
  const tip = document.createElement("div");
  tip.className = "chart-tip";
  tip.hidden = true;
  document.body.append(tip);
  const tables = new Map();
  const table = (name) => {
    if (!tables.has(name)) tables.set(name, JSON.parse(document.getElementById(name).textContent));
    return tables.get(name);
  };
  const written = (value) => Number(value.toPrecision(4)).toLocaleString("en-GB", { maximumFractionDigits: 6 });
  const coordinates = (path) => [...path.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map((pair) => [Number(pair[1]), Number(pair[2])]);

  const linesOf = (tips, k) => {
    if (Array.isArray(tips)) return [tips[k]];
    return [tips.names[k], ...tips.columns.map(([heading, values]) => `${heading}: ${values[k] === null ? "–" : written(values[k])}`)];
  };

  const show = (event, lines) => {
    tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
    tip.hidden = false;
    const room = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - room.width - 8))}px`;
    tip.style.top = `${event.clientY + room.height + 20 < innerHeight ? event.clientY + 14 : event.clientY - room.height - 10}px`;
  };

  for (const svg of document.querySelectorAll("svg.figure[data-axes]")) {
    const [left, top, width, height, lowX, highX, lowY, highY] = svg.dataset.axes.split(" ").map(Number);
    let dots = null;
    let curves = null;
    const prepare = () => {
      dots = [...svg.querySelectorAll("path.dots")].map((path) => {
        const told = path.dataset.tips;
        return { at: coordinates(path), tips: told.startsWith("[") ? JSON.parse(told) : table(told) };
      });
      curves = [...svg.querySelectorAll("path.curve")].map((path) => ({ name: path.dataset.name, at: coordinates(path) }));
    };
    const nearest = (x, y, reach) => {
      let best = null;
      let least = reach;
      for (const { at, tips } of dots) {
        at.forEach(([a, b], k) => {
          const away = Math.hypot(a - x, b - y);
          if (away < least) { least = away; best = linesOf(tips, k); }
        });
      }
      return best;
    };
    const read = (x) => curves.flatMap(({ name, at }) => {
      const k = at.findIndex(([a]) => a >= x);
      if (k < 0) return [];
      return [`${name}: ${written(highY - at[k][1] / height * (highY - lowY))}`];
    });
    svg.addEventListener("pointermove", (event) => {
      if (!dots) prepare();
      const box = svg.getBoundingClientRect();
      const unit = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * unit - left;
      const y = (event.clientY - box.top) * unit - top;
      const inside = x >= 0 && y >= 0 && x <= width && y <= height;
      let lines = inside ? nearest(x, y, REACH * unit) : null;
      if (inside && !lines && curves.length) {
        lines = [`number ${Math.round(lowX + x / width * (highX - lowX))} from the largest`, ...read(x)];
      }
      if (lines) show(event, lines);
      else tip.hidden = true;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
})();
