// Plots in SVG, drawn at the width that they have.

const titles = {
  published: "published",
  live: "live",
  global_mean: "global mean",
  item_mean: "item mean",
  sgd_bias: "SGD biases",
  majority: "majority",
  last_label: "last label",
  linear: "logistic regression",
};
// What a figure of quality is about. The other baselines are faint.
const leading = ["published", "live"];
const lists = { published: "published", popularity: "most popular names" };
const markSigns = { promoted: "▲", kept: "✕", drift: "◆", moved: "↕", started: "▷", update: "·" };

/** ticks returns round numbers from low to high. */
function ticks(low, high, about) {
  const raw = (high - low) / Math.max(1, about);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const list = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) list.push(Number(v.toPrecision(12)));
  return list;
}

const timeSteps = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 1209600].map(
  (s) => 1000 * s,
);

function timeTicks(from, to, about) {
  const step = timeSteps.find((s) => s >= (to - from) / about) || 2592e6;
  const zone = new Date(from).getTimezoneOffset() * 60000;
  const list = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) list.push(t);
  return list;
}

/** frame is a plot without content: its axes, and the functions that place values. */
function frame(o) {
  const width = Math.max(280, o.width),
    height = o.height || 260,
    left = 52,
    right = 10,
    top = o.yTitle ? 26 : 18,
    bottom = o.xTitle ? 46 : 30;
  const x = (v) => left + ((v - o.x[0]) / (o.x[1] - o.x[0] || 1)) * (width - left - right);
  const y = (v) => height - bottom - ((v - o.y[0]) / (o.y[1] - o.y[0] || 1)) * (height - top - bottom);
  const node = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": o.label });
  for (const v of ticks(o.y[0], o.y[1], 5)) {
    node.append(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      svg("text", { class: "tick", x: left - 6, y: y(v) + 4, "text-anchor": "end" }, (o.yText || short)(v)),
    );
  }
  for (const [v, text] of o.xTicks) {
    const cut = x(v) > width - 20; // a time at the right edge
    node.append(svg("text", { class: "tick", x: cut ? width : x(v), y: height - bottom + 20, "text-anchor": cut ? "end" : "middle" }, text));
  }
  if (o.yTitle) node.append(svg("text", { class: "tick", x: 0, y: 11 }, o.yTitle));
  if (o.xTitle) node.append(svg("text", { class: "tick", x: width - right, y: height - 6, "text-anchor": "end" }, o.xTitle));
  return { node, x, y, width, height, left, right, top, bottom };
}

/** lines draws curves over time. series: [{name, cls, values}], gaps where a value is null. */
function lines(o) {
  const { at, series, marks } = o;
  const from = o.from,
    to = o.to;
  const inside = at.map((t) => t >= from && t <= to);
  let low = Infinity,
    high = -Infinity;
  for (const s of series) {
    s.values.forEach((v, i) => {
      if (inside[i] && v !== null) [low, high] = [Math.min(low, v), Math.max(high, v)];
    });
  }
  if (low > high) return el("p", { class: "empty" }, "Nothing to draw in this time yet.");
  const pad = (high - low || high || 1) * 0.08;
  const zero = o.fromZero || low - pad < 0;
  const wide = to - from;
  const days = wide > 36 * 3600e3;
  const f = frame({
    width: o.width,
    height: o.height,
    label: o.label,
    yTitle: o.yTitle,
    xTitle: days ? "day, local time" : "local time",
    yText: o.yText,
    x: [from, to],
    y: [zero ? 0 : low - pad, high + pad],
    xTicks: timeTicks(from, to, Math.max(2, Math.min(8, o.width / 90))).map((t) => [
      t,
      wide < 300e3 ? clock(t, true).slice(11) : clock(t, days && "day"),
    ]),
  });
  const drawn = marks.filter((m) => m.at >= from && m.at <= to);
  // Lines of many versions would hide the curves: they are short then, and signs that would overlap are left out.
  const dense = drawn.filter((m) => m.kind !== "update").length > o.width / 25;
  let lastSign = -Infinity;
  for (const m of drawn) {
    const place = f.x(m.at),
      rare = !["update", "promoted", "kept"].includes(m.kind),
      sign = m.kind !== "update" && (rare || !dense || place - lastSign > 9);
    if (sign) lastSign = place;
    f.node.append(
      svg(
        "g",
        { class: "mark " + m.kind },
        m.kind === "update" || (dense && !rare)
          ? svg("line", { x1: place, x2: place, y1: f.height - f.bottom - 5, y2: f.height - f.bottom })
          : svg("line", { x1: place, x2: place, y1: f.top, y2: f.height - f.bottom }),
        !sign ? null : svg("text", { x: place, y: f.top - 4, "text-anchor": "middle" }, markSigns[m.kind] || "•"),
        svg("title", {}, markText(m)),
      ),
    );
  }
  for (const s of series) {
    let path = "",
      pen = false;
    at.forEach((t, i) => {
      if (!inside[i] || s.values[i] === null) {
        pen = false;
        return;
      }
      path += (pen ? "L" : "M") + f.x(t).toFixed(1) + " " + f.y(s.values[i]).toFixed(1);
      pen = true;
    });
    f.node.append(svg("path", { class: "line " + s.cls + (s.faint ? " faint" : ""), d: path || "M0 0" }));
  }
  return cursor(f, o, inside, drawn);
}

const markText = (m) => `${clock(m.at, true)} ${m.kind}${m.version ? " version " + m.version : ""}: ${m.text}`;

/** cursor lets a plot be read point by point, by pointer or with the arrow keys. */
function cursor(f, o, inside, marks) {
  const at = o.at.map((t, i) => i).filter((i) => inside[i]);
  const line = svg("line", { class: "cursor", y1: f.top, y2: f.height - f.bottom, visibility: "hidden" });
  f.node.append(line);
  const note = el("p", { class: "readout", "aria-live": "polite" }, o.hint || " ");
  let chosen = at.length - 1;
  const show = (k) => {
    chosen = Math.max(0, Math.min(at.length - 1, k));
    const i = at[chosen],
      place = f.x(o.at[i]);
    for (const name of ["x1", "x2"]) line.setAttribute(name, place);
    line.setAttribute("visibility", "visible");
    const near = marks.filter((m) => Math.abs(f.x(m.at) - place) < 4).map((m) => markText(m).slice(20));
    note.textContent = [
      clock(o.at[i], true),
      ...o.series.filter((s) => s.values[i] !== null).map((s) => s.name + " " + (o.yText || loss)(s.values[i])),
      ...near,
    ].join(" · ");
  };
  const nearest = (event) => {
    const box = f.node.getBoundingClientRect(),
      place = ((event.clientX - box.left) / box.width) * f.width;
    let best = 0;
    at.forEach((i, k) => {
      if (Math.abs(f.x(o.at[i]) - place) < Math.abs(f.x(o.at[at[best]]) - place)) best = k;
    });
    show(best);
  };
  const keys = { ArrowLeft: () => chosen - 1, ArrowRight: () => chosen + 1, Home: () => 0, End: () => at.length - 1 };
  return el(
    "div",
    {
      class: "readable",
      tabindex: 0,
      role: "group",
      "aria-label": o.label + ". Arrow keys read point by point.",
      onpointermove: nearest,
      onpointerleave: () => line.setAttribute("visibility", "hidden"),
      onkeydown: (event) => {
        if (!keys[event.key]) return;
        event.preventDefault();
        show(keys[event.key]());
      },
    },
    f.node,
    note,
  );
}

/** bars draws counts by label. */
function bars(o) {
  const most = Math.max(1, ...o.values),
    n = o.values.length;
  const every = Math.max(1, Math.ceil((n * 62) / o.width));
  const f = frame({
    width: o.width,
    height: 216,
    label: o.label,
    xTitle: o.xTitle,
    x: [0, n],
    y: [0, most],
    yText: (v) => (v >= 1000 ? short(v / 1000) + "k" : short(v)),
    xTicks: o.labels.map((text, i) => [i + 0.5, text]).filter((_, i) => i % every === 0),
    yTitle: o.yTitle,
  });
  o.values.forEach((v, i) =>
    f.node.append(
      svg(
        "rect",
        { class: "bar", x: f.x(i + 0.1), width: f.x(i + 0.9) - f.x(i + 0.1), y: f.y(v), height: f.y(0) - f.y(v) },
        svg("title", {}, o.labels[i] + ": " + count(v)),
      ),
    ),
  );
  return f.node;
}

/** against draws what came against what was predicted, with the diagonal. */
function against(o) {
  const all = o.series.flatMap((s) => s.bins.flatMap((b) => [b.predicted, b.observed]));
  const low = Math.min(...all),
    high = Math.max(...all),
    pad = (high - low || 1) * 0.05;
  const range = [low - pad, high + pad];
  const f = frame({
    width: Math.min(o.width, 420),
    height: 316,
    label: o.label,
    xTitle: o.unit ? `predicted (${o.unit})` : "predicted",
    x: range,
    y: range,
    xTicks: ticks(range[0], range[1], 5).map((v) => [v, short(v)]),
    yTitle: o.unit ? `what came, mean (${o.unit})` : "what came, mean",
  });
  f.node.append(svg("line", { class: "diagonal", x1: f.x(range[0]), y1: f.y(range[0]), x2: f.x(range[1]), y2: f.y(range[1]) }));
  for (const s of o.series) {
    f.node.append(
      svg("path", {
        class: "line " + s.cls,
        d: s.bins.map((b, i) => (i ? "L" : "M") + f.x(b.predicted) + " " + f.y(b.observed)).join("") || "M0 0",
      }),
    );
    for (const b of s.bins) f.node.append(svg("circle", { class: "dot " + s.cls, cx: f.x(b.predicted), cy: f.y(b.observed), r: 3 }));
  }
  return f.node;
}

/** legend names the lines. */
function legend(series) {
  return el(
    "ul",
    { class: "legend" },
    series.map((s) => el("li", { class: s.faint ? "faint" : undefined }, el("span", { class: "swatch " + s.cls + (s.faint ? " faint" : "") }), s.name)),
  );
}
