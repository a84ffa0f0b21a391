"use strict";

// Times arrive in microseconds.
function timeText(us) {
  const size = Math.abs(us);
  const [value, unit] = size >= 1e6 ? [us / 1e6, "s"] : size >= 1e3 ? [us / 1e3, "ms"]
    : size >= 1 ? [us, "\u00b5s"] : [us * 1e3, "ns"];
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return size === 0 ? "0 s" : value.toFixed(digits) + " " + unit;
}

function bytesText(bytes) {
  for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]]) {
    if (bytes >= unit) return (bytes / unit).toPrecision(3) + " " + name;
  }
  return bytes + " B";
}

function niceTicks(from, to, count) {
  const raw = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((m) => raw / power <= m) || 10);
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-12); ++i) ticks.push(i * step);
  return ticks;
}

class TimelineView {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.body = document.getElementById("tl-body");
    this.zoomed = document.getElementById("tl-zoomed");
    this.ticks = document.getElementById("tl-ticks");
    this.grid = document.getElementById("tl-grid");
    this.text = document.getElementById("tl-text");
    this.tip = document.getElementById("tl-tip");
    this.scale = 1;  // plot units per plot unit of the whole step
    this.offset = 0;  // plot units, <= 0
    this.sortRects();
    this.listen();
    this.draw();
  }

  sortRects() {
    this.byEvent = new Map();
    this.lanes = [...this.zoomed.querySelectorAll(".tl-lane")].map((lane) => {
      const rects = [...lane.querySelectorAll("rect[data-i], rect[data-l]")].map((rect) => {
        const bar = rect.dataset.i === undefined ? null : this.data.bars[rect.dataset.i];
        if (bar && bar[4] >= 0) {
          if (!this.byEvent.has(bar[4])) this.byEvent.set(bar[4], []);
          this.byEvent.get(bar[4]).push(rect);
        }
        const number = (name) => Number(rect.getAttribute(name));
        return {
          x: number("x"), width: number("width"), y: number("y"), height: number("height"),
          text: bar ? this.shortName(bar) : rect.dataset.l, block: !bar,
          light: rect.classList.contains("w") || rect.classList.contains("k-pointwise"),
        };
      });
      return {node: lane, rects: rects.filter((r) => r.height >= (r.block ? 8 : 12))};
    });
  }

  shortName(bar) {
    if (bar[9] > 1) return bar[9] + " events";
    const parts = this.data.names[bar[3]].split("/");
    if (parts[0] !== "forward" && parts[0] !== "backward") return parts[parts.length - 1];
    return parts.length > 4 ? parts.slice(3, -1).join("/") : parts[parts.length - 1];
  }

  unitsPerPixel() {
    const box = this.body.getBoundingClientRect();
    return this.body.viewBox.baseVal.width / Math.max(1, box.width);
  }

  plotX(event) {
    const box = this.body.getBoundingClientRect();
    return (event.clientX - box.left) * this.unitsPerPixel() - this.data.gutter;
  }

  zoom(factor, around) {
    const most = 5000;
    const scale = Math.min(most, Math.max(1, this.scale * factor));
    this.offset = around - (around - this.offset) * scale / this.scale;
    this.scale = scale;
    this.move(0);
  }

  move(by) {
    const least = this.data.plot * (1 - this.scale);
    this.offset = Math.min(0, Math.max(least, this.offset + by));
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  draw() {
    const d = this.data;
    this.zoomed.setAttribute("transform",
      `translate(${d.gutter + this.offset},0) scale(${this.scale},1)`);
    for (const hatch of this.body.querySelectorAll(".hatch")) {
      hatch.setAttribute("patternTransform", `scale(${1 / this.scale},1) rotate(45)`);
    }
    const perUs = d.plot * this.scale / (d.end - d.begin);
    const from = d.begin - this.offset / perUs;
    const to = from + d.plot / perUs;
    const height = Math.max(this.body.dataset.hs, this.body.dataset.hp);
    let texts = "", lines = "";
    for (const t of niceTicks(from, to, 10)) {
      const x = (d.gutter + (t - from) * perUs).toFixed(2);
      texts += `<text x="${x}" y="14" text-anchor="middle">${timeText(t)}</text>`;
      lines += `<line x1="${x}" x2="${x}" y1="0" y2="${height}"></line>`;
    }
    this.ticks.innerHTML = texts;
    this.grid.innerHTML = lines;
    this.drawText();
  }

  // Names go into bars that are wide enough for a few letters.
  drawText() {
    const fragment = document.createDocumentFragment();
    let left = 1500;
    for (const lane of this.lanes) {
      const paired = this.root.classList.contains("paired");
      const laneY = Number(paired ? lane.node.dataset.yp : lane.node.dataset.ys);
      for (const r of lane.rects) {
        const from = Math.max(0, r.x * this.scale + this.offset);
        const to = Math.min(this.data.plot, (r.x + r.width) * this.scale + this.offset);
        const letters = Math.floor((to - from - 4) / 5.6);
        if (letters < (r.block ? r.text.length : 4) || left-- <= 0) continue;
        const text = document.createElementNS(this.text.namespaceURI, "text");
        text.setAttribute("x", this.data.gutter + from + 3);
        text.setAttribute("y", laneY + r.y + r.height / 2 + 3.4);
        if (r.block || r.light) text.setAttribute("class", r.block ? "on-block" : "on-light");
        text.textContent = r.text.length > letters ? r.text.slice(0, letters - 1) + "\u2026" : r.text;
        fragment.append(text);
      }
    }
    this.text.replaceChildren(fragment);
  }

  arrange(paired) {
    this.root.classList.toggle("paired", paired);
    for (const g of this.body.querySelectorAll(".tl-lane, .tl-label")) {
      g.setAttribute("transform", `translate(0,${paired ? g.dataset.yp : g.dataset.ys})`);
    }
    const height = paired ? this.body.dataset.hp : this.body.dataset.hs;
    this.body.setAttribute("viewBox", `0 0 ${this.body.viewBox.baseVal.width} ${height}`);
    this.drawText();
  }

  listen() {
    const middle = () => this.data.plot / 2;
    this.root.addEventListener("click", (e) => {
      const action = e.target.dataset && e.target.dataset.zoom;
      if (action === "in") this.zoom(2, middle());
      if (action === "out") this.zoom(0.5, middle());
      if (action === "all") this.zoom(0, 0);
    });
    document.getElementById("tl-arrange").addEventListener("change", (e) => {
      this.arrange(e.target.value === "paired");
    });
    this.body.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY * 0.003), this.plotX(e));
    }, {passive: false});
    this.body.addEventListener("dblclick", (e) => this.zoom(e.shiftKey ? 0.4 : 2.5, this.plotX(e)));
    this.body.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      this.grip = e.clientX;
      this.body.setPointerCapture(e.pointerId);
      this.body.classList.add("moving");
    });
    const release = () => { this.grip = undefined; this.body.classList.remove("moving"); };
    this.body.addEventListener("pointerup", release);
    this.body.addEventListener("pointercancel", release);
    this.body.addEventListener("pointermove", (e) => {
      if (this.grip !== undefined) {
        this.move((e.clientX - this.grip) * this.unitsPerPixel());
        this.grip = e.clientX;
        this.hide();
        return;
      }
      const rect = e.target.closest && e.target.closest("rect[data-i]");
      if (rect) this.show(rect, e); else this.hide();
    });
    this.body.addEventListener("pointerleave", () => this.hide());
  }

  hide() {
    this.tip.hidden = true;
    for (const rect of this.lit || []) rect.classList.remove("lit");
    this.lit = [];
  }

  show(rect, e) {
    this.hide();
    const bar = this.data.bars[rect.dataset.i];
    this.lit = bar[4] >= 0 ? this.byEvent.get(bar[4]) : [rect];
    for (const other of this.lit) other.classList.add("lit");
    this.tip.replaceChildren(...this.tipContent(bar));
    this.tip.hidden = false;
    const box = this.tip.getBoundingClientRect();
    const x = Math.min(e.clientX + 14, innerWidth - box.width - 8);
    const y = e.clientY + 18 + box.height > innerHeight ? e.clientY - box.height - 12 : e.clientY + 18;
    this.tip.style.left = Math.max(4, x) + "px";
    this.tip.style.top = Math.max(4, y) + "px";
  }

  tipContent([panel, rank, stream, name, event, start, end, waiting, bytes, merged, busy]) {
    const d = this.data;
    const title = document.createElement("b");
    title.textContent = merged > 1 ? `${merged} short events, mostly like ${d.names[name]}` : d.names[name];
    const table = document.createElement("table");
    const row = (label, value) => {
      const tr = table.insertRow();
      tr.insertCell().textContent = label;
      tr.insertCell().textContent = value;
    };
    row("where", `${d.panels[panel]}, rank ${rank}, ${d.streams[stream]}`);
    row("start", timeText(start));
    row("duration", timeText(end - start) + (merged > 1 ? `, busy ${timeText(busy)}` : ""));
    if (waiting > 0) row("waiting", `${timeText(waiting)}, then ${timeText(end - start - waiting)}`);
    if (bytes > 0) row("data", bytesText(bytes));
    if (event >= 0) this.partnerRows(d.events[event], row);
    return [title, table];
  }

  // Without the waiting: that is what the cost model prices.
  partnerRows(joined, row) {
    const d = this.data;
    const work = d.panels.map((_, p) => joined[2 * p] < 0 ? null : joined[2 * p] - joined[2 * p + 1]);
    const measured = work[work.length - 1];
    const waits = d.panels.some((_, p) => joined[2 * p + 1] > 0);
    d.panels.forEach((title, p) => {
      if (work[p] === null) { row(title, "no such event"); return; }
      const percent = measured > 0 && p < work.length - 1
        ? ` (${work[p] >= measured ? "+" : "\u2212"}${Math.abs((work[p] / measured - 1) * 100).toFixed(1)} %)` : "";
      row(title + (waits ? " work" : ""), timeText(work[p]) + percent);
    });
  }
}

function sortTable(table, column, header) {
  const descending = header.getAttribute("aria-sort") !== "descending";
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].dataset.k;
  const numeric = [...body.rows].every((row) => key(row) !== "" && !isNaN(key(row)));
  const sorted = [...body.rows].sort((a, b) => {
    const order = numeric ? key(a) - key(b) : key(a).localeCompare(key(b));
    return descending ? -order : order;
  });
  for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  body.append(...sorted);
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => sortTable(table, column, header));
  });
}

// Memory by Chart.js, when it is in the page.
const charts = [];
function drawMemory() {
  const data = document.getElementById("memory-data");
  if (!data || typeof Chart === "undefined") return;
  while (charts.length) charts.pop().destroy();
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  for (const m of JSON.parse(data.textContent)) {
    const axis = (title, more) => ({
      type: "linear", title: {display: true, text: title, color: colour("soft")},
      ticks: {color: colour("soft"), includeBounds: false}, grid: {color: colour("line")}, ...more,
    });
    charts.push(new Chart(document.getElementById(m.id), {
      type: "line",
      data: {
        datasets: m.kinds.map((kind) => ({
          label: kind.name, data: m.x.map((x, i) => ({x, y: kind.y[i]})), fill: "stack",
          stepped: "before", pointRadius: 0, borderWidth: 0,
          backgroundColor: colour(kind.css.replace(/^m-/, "")),
        })),
      },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
        interaction: {mode: "index", intersect: false},
        plugins: {
          legend: {display: false},
          tooltip: {callbacks: {
            title: (items) => items.length ? items[0].parsed.x.toPrecision(4) + " ms" : "",
            label: (item) => `${item.dataset.label}: ${item.parsed.y.toPrecision(4)} MiB`,
            footer: (items) => "total: " + items.reduce((sum, i) => sum + i.parsed.y, 0).toPrecision(4) + " MiB",
          }},
        },
        scales: {
          x: axis("ms from the start of the rank's step", {min: 0, max: m.x_end}),
          y: axis("MiB", {min: 0, max: m.y_top, stacked: true}),
        },
      },
    }));
  }
}
drawMemory();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMemory);

const timelineData = document.getElementById("tl-data");
if (timelineData) {
  new TimelineView(document.getElementById("timeline-view"), JSON.parse(timelineData.textContent));
}
