"use strict";
(() => {
  const map = document.getElementById("map");
  if (!map) return;
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const svg = map.querySelector("svg");
  const whole = { x: 0, y: 0, width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  const circles = [...svg.querySelectorAll(".nodes circle")];
  const nodes = circles.map((circle) => ({
    circle, x: Number(circle.getAttribute("cx")), y: Number(circle.getAttribute("cy")), r: Number(circle.getAttribute("r")),
  }));
  const edges = [...svg.querySelectorAll(".edges > g")];
  const labels = [...svg.querySelectorAll(".labels text")].map((text) => {
    const [x, y, r, dx, dy] = text.dataset.at.split(" ").map(Number);
    return { text, x, y, r, dx, dy, scale: Number(text.dataset.scale) };
  });
  const chosen = svg.querySelector(".chosen");
  const details = map.querySelector(".map-details");
  const MOST_ZOOM = 30;
  let view = { ...whole };
  let current = -1;

  // Pixels per unit of the drawing.
  const scale = () => svg.clientWidth / view.width;

  // Nodes grow slowly with the scale, labels not at all: both are drawn in units, so they are resized when it changes.
  const resize = () => {
    const pixels = scale();
    if (!(pixels > 0)) return; // not laid out at this moment
    const growth = Math.pow(pixels, data.growth) / pixels;
    for (const node of nodes) node.circle.setAttribute("r", (node.r * growth).toFixed(2));
    svg.style.setProperty("--pixel", String(1 / pixels));
    for (const label of labels) {
      label.text.toggleAttribute("hidden", label.scale > pixels);
      if (label.scale > pixels) continue;
      label.text.setAttribute("x", (label.x + label.dx * (label.r * growth + data.gap / pixels)).toFixed(2));
      label.text.setAttribute("y", (label.y + label.dy * (label.r * growth + (data.gap + data.half_height) / pixels) + 4.2 / pixels).toFixed(2));
    }
    if (current >= 0) {
      chosen.setAttribute("cx", nodes[current].x);
      chosen.setAttribute("cy", nodes[current].y);
      chosen.setAttribute("r", (nodes[current].r * growth + 4 / pixels).toFixed(2));
    }
  };

  const show = (next) => {
    const width = Math.min(whole.width, Math.max(whole.width / MOST_ZOOM, next.width));
    const height = width * whole.height / whole.width;
    view = {
      width, height,
      x: Math.min(Math.max(next.x, 0), whole.width - width),
      y: Math.min(Math.max(next.y, 0), whole.height - height),
    };
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
    svg.classList.toggle("zoomed", width < whole.width);
    resize();
  };

  const zoomAt = (x, y, factor) => {
    const width = Math.min(whole.width, Math.max(whole.width / MOST_ZOOM, view.width / factor));
    const share = width / view.width;
    show({ x: x - (x - view.x) * share, y: y - (y - view.y) * share, width });
  };

  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return {
      x: view.x + (event.clientX - box.left) / box.width * view.width,
      y: view.y + (event.clientY - box.top) / box.height * view.height,
    };
  };

  const choose = (k) => {
    current = k;
    const title = document.createElement("h3");
    title.textContent = data.names[k];
    const list = document.createElement("dl");
    for (const [name, value] of data.details[k]) {
      const term = document.createElement("dt");
      const text = document.createElement("dd");
      term.textContent = name;
      text.textContent = value;
      list.append(term, text);
    }
    details.replaceChildren(title, list);
    resize();
  };

  const chooseNear = (event) => {
    const at = place(event);
    const reach = 18 / scale();
    let best = -1;
    let nearest = Infinity;
    nodes.forEach((node, k) => {
      const distance = Math.hypot(node.x - at.x, node.y - at.y);
      if (distance < nearest) { nearest = distance; best = k; }
    });
    if (best >= 0 && nearest <= reach + nodes[best].r) choose(best);
  };

  // One pointer moves the drawing, two zoom it; a press without a move chooses a node.
  const pointers = new Map();
  let moved = 0;
  svg.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    if (pointers.size === 1) moved = 0;
  });
  svg.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    moved += Math.hypot(event.clientX - last.clientX, event.clientY - last.clientY);
    if (pointers.size === 1 && moved > 4) {
      svg.setPointerCapture(event.pointerId);
      show({ ...view, x: view.x - (event.clientX - last.clientX) / scale(), y: view.y - (event.clientY - last.clientY) / scale() });
    } else if (pointers.size === 2) {
      const [other] = [...pointers.values()].filter((one) => one.pointerId !== event.pointerId);
      const gap = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      const middle = place({ clientX: (event.clientX + other.clientX) / 2, clientY: (event.clientY + other.clientY) / 2 });
      if (gap(last) > 0) zoomAt(middle.x, middle.y, gap(event) / gap(last));
    }
    pointers.set(event.pointerId, event);
  });
  const release = (event) => {
    if (pointers.delete(event.pointerId) && event.type === "pointerup" && moved <= 4) chooseNear(event);
  };
  svg.addEventListener("pointerup", release);
  svg.addEventListener("pointercancel", release);
  svg.addEventListener("pointerleave", release);
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const at = place(event);
    zoomAt(at.x, at.y, Math.exp(-event.deltaY / 300));
  }, { passive: false });

  const actions = {
    in: () => zoomAt(view.x + view.width / 2, view.y + view.height / 2, 1.6),
    out: () => zoomAt(view.x + view.width / 2, view.y + view.height / 2, 1 / 1.6),
    reset: () => show({ ...whole }),
  };
  for (const button of map.querySelectorAll("[data-zoom]")) button.addEventListener("click", actions[button.dataset.zoom]);

  // The colours: of nodes or of edges, by class.
  const shade = (element, bin) => {
    for (const name of [...element.classList]) if (/^s\d+$|^none$/.test(name)) element.classList.remove(name);
    element.classList.add(bin < 0 ? "none" : `s${bin}`);
  };
  const buttons = [...map.querySelectorAll("[data-view]")];
  const legends = [...map.querySelectorAll(".legend")];
  const colour = (k) => {
    const wanted = data.views[k];
    circles.forEach((circle, n) => shade(circle, wanted.edges ? -1 : wanted.bins[n]));
    edges.forEach((edge, n) => shade(edge, wanted.edges ? wanted.bins[n] : -1));
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === k)));
    legends.forEach((legend, other) => { legend.hidden = other !== k; });
  };
  buttons.forEach((button, k) => button.addEventListener("click", () => colour(k)));

  map.querySelector(".map-zoom input").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    if (!wanted) return;
    const exact = data.names.findIndex((name) => name.toLowerCase() === wanted);
    const found = exact >= 0 ? exact : data.names.findIndex((name) => name.toLowerCase().includes(wanted));
    if (found < 0) return;
    const width = Math.max(whole.width / 6, Math.min(view.width, whole.width / 2));
    show({ x: nodes[found].x - width / 2, y: nodes[found].y - width * whole.height / whole.width / 2, width });
    choose(found);
  });

  colour(0);
  resize();
  window.addEventListener("resize", resize);
})();
