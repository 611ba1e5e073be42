// Draws the charts of a report from the page's data. Texts are set as text, never as markup.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg";
const [TOP, RIGHT, BOTTOM] = [8, 12, 36];
const within = (low, value, high) => Math.max(low, Math.min(high, value));
const hidden = new Set();

function add(parent, name, attributes = {}, text = "") {
  const child = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) child.setAttribute(key, value);
  child.textContent = text;
  return parent.appendChild(child);
}

// Round places within a range: 1, 2 or 5 times a power of ten apart.
function ticks(low, high, most, least = 0) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const fine = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * 0.999);
  const step = Math.max(fine, least), places = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) places.push(at * step);
  return [places, step];
}

function tickLabel(value, step) {
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const size = Math.abs(value);
  if (places > 5 || size >= 1e7) return value === 0 ? "0" : value.toExponential(1).replace("-", "−");
  if (size >= 10000) return `${+(value / 1000).toFixed(3)}k`.replace("-", "−");
  return value.toFixed(places).replace("-", "−");
}

const formatted = (value) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4))).replace("-", "−");

function range(values, always = false) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low === high) { const pad = Math.abs(low) * 0.1 || 1; return [low - pad, high + pad]; }
  const pad = always ? (high - low) * 0.08 : 0;
  return [low - pad, high + pad];
}

// Draws the axes of a chart; returns functions from values to pixels.
function frame(figure, xs, ys, xName, yName, height) {
  figure.querySelector("svg")?.remove();
  const width = figure.querySelector("figcaption").clientWidth;
  const svg = add(figure, "svg", { height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": figure.querySelector("figcaption").textContent.trim() });
  const [yTicks, yStep] = ticks(...ys, 4), labels = yTicks.map((tick) => tickLabel(tick, yStep));
  const left = 10 + 6.8 * Math.max(...labels.map((text) => text.length)) + (yName ? 14 : 0);
  const x = (value) => left + (value - xs[0]) / (xs[1] - xs[0]) * (width - left - RIGHT);
  const y = (value) => height - BOTTOM - (value - ys[0]) / (ys[1] - ys[0]) * (height - TOP - BOTTOM);
  yTicks.forEach((tick, index) => {
    add(svg, "line", { x1: left, x2: width - RIGHT, y1: y(tick), y2: y(tick), stroke: "var(--line)" });
    add(svg, "text", { x: left - 5, y: within(9, y(tick) + 4, height), "text-anchor": "end", class: "y" }, labels[index]);
  });
  const [xTicks, xStep] = ticks(...xs, within(2, Math.floor((width - left) / 75), 8), xName === "steps" ? 1 : 0);
  for (const tick of xTicks) {
    const text = tickLabel(tick, xStep), half = 3.6 * text.length;
    add(svg, "line", { x1: x(tick), x2: x(tick), y1: height - BOTTOM, y2: height - BOTTOM + 4, stroke: "var(--faint)" });
    add(svg, "text", { x: within(left - 4, x(tick), width - half), y: height - BOTTOM + 16, "text-anchor": "middle", class: "x" }, text);
  }
  add(svg, "line", { x1: left, x2: width - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM, stroke: "var(--faint)" });
  add(svg, "text", { x: (left + width - RIGHT) / 2, y: height - 5, "text-anchor": "middle" }, xName);
  if (yName) add(svg, "text", { transform: `translate(11 ${(height - BOTTOM + TOP) / 2}) rotate(-90)`, "text-anchor": "middle" }, yName);
  return { svg, x, y, width, height };
}

// A chart in a closed part of the page is drawn when the part is opened.
const visible = (figure) => !figure.closest("details:not([open])") && figure.querySelector("figcaption").clientWidth > 0;
const colour = (index) => `var(--c${index % 8})`;
const dashes = (index) => (index % 16 < 8 ? {} : { "stroke-dasharray": "6 3" });

function draw(figure) {
  const chart = data.charts[figure.dataset.chart];
  const axis = data.axes.indexOf(document.getElementById("axis").value);
  const place = ["steps", "tokens", "seconds"].indexOf(data.axes[axis]);
  const seeds = document.getElementById("seeds").checked;
  const lines = chart.lines.filter((line) => !hidden.has(line.group) && (seeds || line.kind !== "seed"));
  if (!visible(figure)) return;
  if (!lines.length) { figure.querySelector("svg")?.replaceChildren(); figure.onpointermove = null; return; }
  const { svg, x, y, width, height } = frame(figure, range(lines.flatMap((line) => line.x[place])), range(lines.flatMap((line) => line.y), true), data.axes[axis], "", 210);
  for (const line of lines.sort((a, b) => (a.kind === "mean") - (b.kind === "mean"))) {
    const main = line.kind === "mean", points = line.y.map((value, index) => [x(line.x[place][index]), y(value)]);
    const style = { fill: "none", stroke: colour(line.group), "stroke-width": main ? 2.2 : 1, opacity: line.kind === "seed" ? 0.45 : 1, "stroke-linejoin": "round", ...(line.kind === "open" ? { "stroke-dasharray": "3 3" } : dashes(line.group)) };
    add(svg, "polyline", { ...style, points: points.map((point) => point.map((at) => at.toFixed(1)).join(",")).join(" ") });
    if (main && points.length < 15 || points.length === 1) for (const [cx, cy] of points) add(svg, "circle", { cx, cy, r: 2.6, fill: colour(line.group) });
  }
  figure.onpointermove = (event) => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    const near = lines.filter((line) => line.kind !== "seed").map((line) => {
      const index = line.x[place].reduce((best, value, i) => Math.abs(x(value) - at) < Math.abs(x(line.x[place][best]) - at) ? i : best, 0);
      return { line, index, cx: x(line.x[place][index]) };
    }).filter(({ line, cx }) => line.kind === "mean" || Math.abs(cx - at) < 25);
    near.sort((a, b) => (a.line.kind === "open") - (b.line.kind === "open") || a.line.group - b.line.group);
    svg.querySelectorAll(".mark").forEach((mark) => mark.remove());
    for (const { line, index, cx } of near) add(svg, "circle", { class: "mark", cx, cy: y(line.y[index]), r: 4.5, fill: "none", stroke: colour(line.group), "stroke-width": 2 });
    tip(figure, near.map(({ line, index }) => {
      const ends = line.low && line.low[index] !== line.high[index] ? ` (${formatted(line.low[index])} to ${formatted(line.high[index])})` : "";
      const which = line.kind === "open" ? `, seed ${line.seed ?? "?"}` : "";
      return [line.group, `${data.groups[line.group]}${which}: ${formatted(line.y[index])}${ends} at ${formatted(line.x[place][index])}`];
    }), at, width);
  };
  figure.onpointerleave = () => { figure.querySelector(".tip")?.remove(); svg.querySelectorAll(".mark").forEach((mark) => mark.remove()); };
}

function drawFront(figure) {
  const panel = data.fronts[figure.dataset.front], axes = [0, 1].map((axis) => range(panel.points.map((point) => point.at[axis]), true));
  if (!visible(figure)) return;
  const { svg, x, y, width } = frame(figure, axes[0], axes[1], panel.x, panel.y, 290);
  const path = panel.points.filter((point) => point.kind === "path");
  add(svg, "polyline", { fill: "none", stroke: "var(--faint)", "stroke-width": 0.8, points: path.map((point) => `${x(point.at[0])},${y(point.at[1])}`).join(" ") });
  for (const point of panel.points) {
    const [cx, cy] = [x(point.at[0]), y(point.at[1])], share = (path.indexOf(point) + 1) / path.length;
    if (point.ring) add(svg, "circle", { class: "ring", cx, cy, r: 9, fill: "none", stroke: "var(--ink)" });
    const opacity = point.kind === "run" ? 0.45 : point.kind === "path" ? 0.25 + 0.75 * share : 1;
    add(svg, "circle", { class: point.kind, cx, cy, r: point.kind === "run" ? 2.5 : 5, fill: colour(point.family), opacity });
  }
  figure.onpointermove = (event) => {
    const box = svg.getBoundingClientRect(), [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const away = (point) => Math.hypot(x(point.at[0]) - px, y(point.at[1]) - py);
    const near = panel.points.reduce((best, point) => away(point) < away(best) ? point : best);
    tip(figure, [[near.family, `${near.label}${near.kind === "run" ? " (a run)" : ""}: ${panel.x} ${formatted(near.at[0])}, ${panel.y} ${formatted(near.at[1])}`]], px, width);
  };
  figure.onpointerleave = () => figure.querySelector(".tip")?.remove();
}

function svgTop(figure) {
  const caption = figure.querySelector("figcaption");
  return caption.offsetTop + caption.offsetHeight + 4;
}

function tip(figure, rows, at, width) {
  figure.querySelector(".tip")?.remove();
  const box = figure.appendChild(document.createElement("div"));
  box.className = "tip";
  for (const [group, text] of rows) {
    const row = box.appendChild(document.createElement("div")), swatch = row.appendChild(document.createElement("span"));
    swatch.className = "swatch";
    swatch.style.background = colour(group);
    row.append(text);
  }
  box.style.top = `${svgTop(figure)}px`;
  // On the side of the chart without the pointer, and never beyond its edge.
  box.style.left = `${within(4, at < width / 2 ? figure.clientWidth - box.offsetWidth - 6 : 6, figure.clientWidth - box.offsetWidth)}px`;
}

function redraw() {
  document.querySelectorAll("figure[data-chart]").forEach(draw);
  document.querySelectorAll("figure[data-front]").forEach(drawFront);
}

document.querySelectorAll("input[data-group]").forEach((box) => box.addEventListener("change", () => {
  const group = +box.dataset.group;
  if (box.checked) hidden.delete(group); else hidden.add(group);
  document.querySelectorAll(`.arms [data-arm="${group}"]`).forEach((arm) => { arm.hidden = !box.checked; });
  redraw();
}));
["axis", "seeds"].forEach((id) => document.getElementById(id)?.addEventListener("change", redraw));
document.querySelectorAll("details").forEach((part) => part.addEventListener("toggle", () => part.open && redraw()));
document.getElementById("by")?.addEventListener("change", (event) => {
  document.getElementById("answers").className = `by-${event.target.value}`;
});
addEventListener("resize", redraw);
redraw();
