"use strict";
(() => {
  const map = document.getElementById("map");
  if (!map) return;
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const svg = map.querySelector("svg");
  const whole = { x: 0, y: 0, width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  const chosen = svg.querySelector(".chosen");
  const details = map.querySelector(".map-details");
  const MOST_ZOOM = data.area ? 120 : 30;
  let view = { ...whole };
  let current = -1;

  const shade = (element, bin) => {
    for (const name of [...element.classList]) if (/^s\d+$|^none$/.test(name)) element.classList.remove(name);
    element.classList.add(bin < 0 ? "none" : `s${bin}`);
  };
  const classOf = (bins, k) => (bins[k] === "-" ? -1 : Number(bins[k]));

  const setLabel = (text, x, y, r, dx, dy, pixels) => {
    text.setAttribute("x", (x + dx * (r + data.gap / pixels)).toFixed(2));
    text.setAttribute("y", (y + dy * (r + (data.gap + data.half_height) / pixels) + 4.2 / pixels).toFixed(2));
  };

  const tell = (name, rows) => {
    const title = document.createElement("h3");
    title.textContent = name;
    const list = document.createElement("dl");
    for (const [term, value] of rows) {
      const heading = document.createElement("dt");
      const text = document.createElement("dd");
      heading.textContent = term;
      text.textContent = value;
      list.append(heading, text);
    }
    details.replaceChildren(title, list);
  };

  // A network of which every node is on the page.
  const wholeScene = () => {
    const circles = [...svg.querySelectorAll(".nodes circle")];
    const edges = [...svg.querySelectorAll(".edges > g")];
    const nodes = circles.map((circle) => ({
      circle, x: Number(circle.getAttribute("cx")), y: Number(circle.getAttribute("cy")), r: Number(circle.getAttribute("r")),
    }));
    const labels = [...svg.querySelectorAll(".labels text")].map((text) => {
      const [x, y, r, dx, dy] = text.dataset.at.split(" ").map(Number);
      return { text, x, y, r, dx, dy, scale: Number(text.dataset.scale) };
    });
    // Nodes grow slowly with the scale, labels not at all: both are drawn in units, so they are resized when it changes.
    const growth = (pixels) => Math.pow(pixels, data.growth) / pixels;
    return {
      nodes,
      rows: (k) => data.details[k],
      radius: (k, pixels) => nodes[k].r * growth(pixels),
      seen: () => true,
      update: (pixels) => {
        for (const node of nodes) node.circle.setAttribute("r", (node.r * growth(pixels)).toFixed(2));
        for (const label of labels) {
          label.text.toggleAttribute("hidden", label.scale > pixels);
          if (label.scale > pixels) continue;
          setLabel(label.text, label.x, label.y, label.r * growth(pixels), label.dx, label.dy, pixels);
        }
      },
      colour: (wanted) => {
        circles.forEach((circle, n) => shade(circle, wanted.edges ? -1 : wanted.bins[n]));
        edges.forEach((edge, n) => shade(edge, wanted.edges ? wanted.bins[n] : -1));
      },
    };
  };

  // A network of areas: nodes and lines of an area are made when it is first seen from near.
  const areaScene = () => {
    const OPEN = 95; // px: from this radius on an area shows its nodes
    const LABELS = 70; // at once
    const discs = [...svg.querySelectorAll(".areas .area")].map((group) => {
      const circle = group.querySelector("circle");
      const [x, y, r] = ["cx", "cy", "r"].map((name) => Number(circle.getAttribute(name)));
      return { group, circle, text: group.querySelector("text"), x, y, r, width: Number(group.dataset.width), made: null, members: [], lines: [] };
    });
    const rings = new Set(data.ring);
    const nodes = data.x.map((x, k) => ({ x, y: data.y[k], r: data.r[k], circle: null }));
    data.area.forEach((area, k) => discs[area].members.push(k));
    data.start.forEach((node, line) => {
      discs[data.area[node]].lines.push(line);
      if (data.area[data.end[line]] !== data.area[node]) discs[data.area[data.end[line]]].lines.push(line);
    });
    const lines = new Array(data.start.length).fill(null);
    const columns = Object.entries(data.details).map(([name, column]) => {
      const texts = new Map();
      let node = 0;
      column.nodes.forEach((step, k) => { node += step; texts.set(node, column.texts[k]); });
      return [name, texts];
    });
    const space = "http://www.w3.org/2000/svg";
    const make = (tag, values) => {
      const element = document.createElementNS(space, tag);
      for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
      return element;
    };
    const edgeLayer = svg.querySelector(".edges");
    const nodeLayer = svg.querySelector(".nodes");
    const labelLayer = svg.querySelector(".labels");
    let wanted = data.views[0];
    const paintNode = (k) => shade(nodes[k].circle, wanted.edges ? -1 : classOf(wanted.bins, k));
    const paintLine = (n) => shade(lines[n], wanted.edges ? classOf(wanted.bins, n) : -1);
    const open = (disc) => {
      if (!disc.made) {
        disc.made = make("g", {});
        nodeLayer.append(disc.made);
        for (const k of disc.members) {
          nodes[k].circle = make("circle", { cx: nodes[k].x, cy: nodes[k].y, r: nodes[k].r });
          if (rings.has(k)) nodes[k].circle.classList.add("ring");
          paintNode(k);
          disc.made.append(nodes[k].circle);
        }
        for (const n of disc.lines) {
          if (lines[n]) continue;
          const [a, b] = [nodes[data.start[n]], nodes[data.end[n]]];
          lines[n] = make("g", {});
          lines[n].append(make("path", { d: `M${a.x} ${a.y}L${b.x} ${b.y}` }));
          paintLine(n);
          edgeLayer.append(lines[n]);
        }
      }
      disc.made.toggleAttribute("hidden", false);
    };
    const inSight = (disc) => disc.x + disc.r > view.x && disc.x - disc.r < view.x + view.width
      && disc.y + disc.r > view.y && disc.y - disc.r < view.y + view.height;
    const radius = (k, pixels) => Math.min(nodes[k].r, 9 / pixels);
    const writeLabels = (near, pixels) => {
      const taken = [];
      const texts = [];
      const clear = (box) => taken.every((other) => box[0] > other[2] || box[2] < other[0] || box[1] > other[3] || box[3] < other[1]);
      const shown = near.flatMap((disc) => disc.members).filter((k) => nodes[k].x > view.x && nodes[k].x < view.x + view.width
        && nodes[k].y > view.y && nodes[k].y < view.y + view.height).sort((a, b) => nodes[b].r - nodes[a].r || a - b);
      for (const k of shown) {
        if (texts.length >= LABELS) break;
        const wide = (9 * data.labels[k].length + 4) / pixels;
        const left = nodes[k].x + radius(k, pixels) + data.gap / pixels;
        const box = [left, nodes[k].y - 9 / pixels, left + wide, nodes[k].y + 9 / pixels];
        if (box[2] > view.x + view.width || !clear(box)) continue;
        taken.push(box);
        const text = make("text", { class: "right" });
        text.textContent = data.labels[k];
        setLabel(text, nodes[k].x, nodes[k].y, radius(k, pixels), 1, 0, pixels);
        texts.push(text);
      }
      labelLayer.replaceChildren(...texts);
    };
    return {
      nodes, discs, radius,
      rows: (k) => columns.filter(([, texts]) => texts.has(k)).map(([name, texts]) => [name, texts.get(k)]),
      seen: (k) => { const { made } = discs[data.area[k]]; return Boolean(made) && !made.hasAttribute("hidden"); },
      update: (pixels) => {
        const near = [];
        for (const disc of discs) {
          const opened = disc.r * pixels >= OPEN && inSight(disc);
          disc.group.classList.toggle("open", disc.r * pixels >= OPEN);
          if (disc.group.classList.contains("open")) disc.group.removeAttribute("tabindex");
          else disc.group.setAttribute("tabindex", "0");
          disc.text.toggleAttribute("hidden", disc.r * pixels >= OPEN || 2 * disc.r * pixels < 0.8 * disc.width);
          if (opened) { open(disc); near.push(disc); } else if (disc.made) disc.made.toggleAttribute("hidden", true);
          for (const k of opened ? disc.members : []) nodes[k].circle.setAttribute("r", radius(k, pixels).toFixed(3));
        }
        map.classList.toggle("near", near.length > 0);
        writeLabels(near, pixels);
      },
      colour: (next) => {
        wanted = next;
        discs.forEach((disc, k) => shade(disc.group, classOf(wanted.areas, k)));
        nodes.forEach((node, k) => { if (node.circle) paintNode(k); });
        lines.forEach((line, n) => { if (line) paintLine(n); });
      },
    };
  };

  const scene = data.area ? areaScene() : wholeScene();
  const { nodes } = scene;

  // Pixels per unit of the drawing.
  const scale = () => svg.clientWidth / view.width;

  const resize = () => {
    const pixels = scale();
    if (!(pixels > 0)) return; // not laid out at this moment
    svg.style.setProperty("--pixel", String(1 / pixels));
    scene.update(pixels);
    const marked = current >= 0 && scene.seen(current);
    chosen.toggleAttribute("hidden", !marked);
    if (!marked) return;
    chosen.setAttribute("cx", nodes[current].x);
    chosen.setAttribute("cy", nodes[current].y);
    chosen.setAttribute("r", (scene.radius(current, pixels) + 4 / pixels).toFixed(2));
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
    tell(data.names[k], scene.rows(k));
    resize();
  };

  const openArea = (disc) => {
    tell(disc.group.getAttribute("aria-label"), JSON.parse(disc.group.dataset.rows));
    const width = Math.min(view.width, whole.width, 2.4 * disc.r * whole.width / whole.height);
    show({ x: disc.x - width / 2, y: disc.y - width * whole.height / whole.width / 2, width });
  };

  const chooseNear = (event) => {
    const at = place(event);
    const disc = (scene.discs || []).find((one) => !one.group.classList.contains("open") && Math.hypot(one.x - at.x, one.y - at.y) <= one.r);
    if (disc) { openArea(disc); return; }
    const reach = 18 / scale();
    let best = -1;
    let nearest = Infinity;
    nodes.forEach((node, k) => {
      const distance = Math.hypot(node.x - at.x, node.y - at.y);
      if (distance < nearest && scene.seen(k)) { nearest = distance; best = k; }
    });
    if (best >= 0 && nearest <= reach + nodes[best].r) choose(best);
  };
  for (const disc of scene.discs || []) {
    disc.group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      openArea(disc);
    });
  }

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

  const buttons = [...map.querySelectorAll("[data-view]")];
  const legends = [...map.querySelectorAll("[data-legend]")];
  const colour = (k) => {
    scene.colour(data.views[k]);
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
    const disc = scene.discs && scene.discs[data.area[found]];
    const width = disc ? 2.2 * disc.r : Math.max(whole.width / 6, Math.min(view.width, whole.width / 2));
    show({ x: nodes[found].x - width / 2, y: nodes[found].y - width * whole.height / whole.width / 2, width });
    choose(found);
  });

  colour(0);
  resize();
  window.addEventListener("resize", resize);
})();
