"use strict";
// Elements, numbers and times. Text from outside becomes text nodes and nothing else.

/** el makes an element: attributes by name, on… as listeners, children as nodes or text. */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** svg is el for the elements of SVG. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== ""));
  return node;
}

const whole = new Intl.NumberFormat("en");
const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
const loss = (v) => (v === null || v === undefined ? "–" : v.toFixed(4));
const short = (v) => (v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(1) : String(Number(v.toPrecision(3))));
// A number with its sign, two significant digits and a real minus.
const digits = (v) => (Math.abs(v) >= 10 ? Math.abs(v).toFixed(0) : Number(Math.abs(v).toPrecision(2)).toString());
const signed = (v) => (v < 0 ? "−" : "+") + digits(v);
// What a sum of log odds multiplies odds by.
const factor = (v) => (Math.abs(v) < 0.1 ? Math.exp(v).toFixed(2) : digits(Math.exp(v)));
const plural = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;
const percent = (v) => (v === null || v === undefined ? "–" : (100 * Math.max(v, 0)).toFixed(v < 0.1 ? 1 : 0) + " %");

function bytes(n) {
  let prefix = -1;
  for (; n >= 1024 && prefix < 3; prefix++) n /= 1024;
  return prefix < 0 ? n + " B" : n.toFixed(1) + " " + "KMGT"[prefix] + "iB";
}

/** span says how long a time in milliseconds is. */
function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 100) return s + " s";
  if (s < 6000) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " days";
}

const ago = (now, then) => (then ? span(Date.parse(now) - Date.parse(then)) + " ago" : "never");

function clock(ms, wide) {
  const d = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  const day = d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate());
  const time = two(d.getHours()) + ":" + two(d.getMinutes());
  if (wide === "day") return day.slice(5);
  return wide ? day + " " + time + ":" + two(d.getSeconds()) : time;
}

/**
 * table makes a table; a cell is text, a node, or {text, cls}. Columns in numeric are set to the right. Without rows it is the sentence empty. On a phone
 * a row of more than three columns is a card whose cells carry their heads; the roles keep it a table for readers of text.
 */
function table(caption, heads, rows, numeric = [], empty = caption + ": nothing yet.") {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const cls = (i) => (numeric.includes(i) ? "number" : undefined);
  const cell = (c, i) => {
    const plain = c === null || c === undefined || typeof c !== "object" || c instanceof Node;
    const of = [cls(i), plain ? undefined : c.cls].filter(Boolean).join(" ");
    const content = plain ? c : c.text;
    return el(
      i === 0 ? "th" : "td",
      {
        scope: i === 0 ? "row" : undefined,
        role: i === 0 ? "rowheader" : "cell",
        class: of || undefined,
        "data-head": heads[i],
      },
      content instanceof Node ? content : String(content ?? "–"),
    );
  };
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el(
      "table",
      { role: "table", class: heads.length > 3 ? "cards" : undefined },
      el("caption", {}, caption),
      el(
        "thead",
        { role: "rowgroup" },
        el(
          "tr",
          { role: "row" },
          heads.map((h, i) => el("th", { scope: "col", role: "columnheader", class: cls(i) }, h)),
        ),
      ),
      el(
        "tbody",
        { role: "rowgroup" },
        rows.map((r) => el("tr", { role: "row" }, r.map(cell))),
      ),
    ),
  );
}

/** Figure is a plot that can be read as a table. */
class Figure {
  constructor(title, note) {
    this.asTable = false;
    this.body = el("div", { class: "plot" });
    this.button = el("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggle() }, "Table");
    this.tools = el("span", { class: "tools" }, this.button);
    this.note = note;
    this.node = el(
      "figure",
      {},
      el("figcaption", {}, el("h3", {}, title), this.tools),
      note ? el("p", { class: "note" }, note) : null,
      this.body,
    );
  }
  toggle() {
    this.asTable = !this.asTable;
    this.button.setAttribute("aria-pressed", this.asTable);
    this.draw();
  }
  /** show draws with two functions that return nodes. */
  show(plot, rows) {
    Object.assign(this, { plot, rows });
    this.draw();
  }
  draw() {
    if (!this.plot) return;
    const tops = [...this.body.querySelectorAll(".scroll")].map((s) => s.scrollTop);
    this.body.replaceChildren(this.asTable ? this.rows() : this.plot());
    this.body.querySelectorAll(".scroll").forEach((s, i) => (s.scrollTop = tops[i] || 0)); // where somebody reads
  }
}

/** meter is a bar of use against a limit, which is bad to come near where isBad says so. */
function meter(label, value, limit, text, isBad = false) {
  const share = limit > 0 ? Math.min(1, value / limit) : 0;
  return el(
    "div",
    { class: "meter" },
    el("span", {}, label),
    el("span", { class: "value" }, text),
    el("progress", { max: 1, value: share.toFixed(4), "aria-label": label, class: isBad && share > 0.9 ? "near" : undefined }),
  );
}

/** meanings explains words where they are used, for those who open it, by pointer, touch or key. */
function meanings(title, words) {
  return el(
    "details",
    { class: "meanings" },
    el("summary", {}, title),
    el(
      "dl",
      {},
      Object.entries(words).map(([word, text]) => [el("dt", {}, word), el("dd", {}, text)]),
    ),
  );
}

const opened = new Set();

/** details is a part that stays open when it is drawn anew. */
function details(id, title, ...children) {
  return el(
    "details",
    { open: opened.has(id), ontoggle: (event) => (event.target.open ? opened.add(id) : opened.delete(id)) },
    el("summary", {}, title),
    children,
  );
}

/** refresh draws a part anew, unless somebody is reading or choosing something in it. */
function refresh(node, ...children) {
  const selection = document.getSelection();
  if (node.contains(document.activeElement) || (!selection.isCollapsed && node.contains(selection.anchorNode))) return;
  node.replaceChildren(...children.filter(Boolean));
}

/** after returns a function that calls f once, some milliseconds after its last call. */
function after(wait, f) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(f, wait);
  };
}

/** section is a part of the page with its heading. */
function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": id + "-title" }, el("h2", { id: id + "-title" }, title), children);
}

/** ask reads JSON of this daemon; a refusal is an Error in its words. */
async function ask(path, body, method = "POST") {
  const response = await fetch(
    path,
    body === undefined ? {} : { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) },
  );
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error(response.status + " " + text.trim());
  }
  if (!response.ok) throw new Error(answer.error || String(response.status));
  return answer;
}
