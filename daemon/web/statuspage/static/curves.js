// How a model does over time.

const metricWords = { rmse: "RMSE", log_loss: "log loss", error_rate: "error rate" };
const metricOf = (state) => metricWords[state?.metric] || "loss";
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const ranges = { "5 min": 300e3, "1 h": 3600e3, "24 h": 86400e3, all: undefined };

/** CurvesView keeps the points of a model and draws them: losses, recall of lists, lag. */
class CurvesView {
  constructor(name, range) {
    this.name = name;
    this.range = range;
    this.all = { at: [], events: [], lag: [], losses: {}, recall_10: {}, marks: [] };
    this.loss = new Figure("Loss over time", "Over the window, each event scored before it is learned from. Lower is better.");
    this.recall = new Figure(
      "Recall at ten",
      "Of the last choices: the share that was in the list of ten, of all names that its entity had not chosen before.",
    );
    this.recall.node.hidden = true;
    this.recallLegend = el("div");
    this.recall.node.append(this.recallLegend);
    this.lag = new Figure("Lag", "Records that are in the topic and not applied yet.");
    this.buttons = Object.keys(ranges).map((text) =>
      el("button", { type: "button", "aria-pressed": String(text === range), onclick: () => this.setRange(text) }, text),
    );
    this.loss.tools.prepend(el("span", { role: "group", "aria-label": "Range of time" }, this.buttons));
    this.legend = el("div");
    this.loss.node.append(this.legend);
  }

  setRange(text) {
    this.range = text;
    this.buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.textContent === text)));
    this.draw();
  }

  /** add takes up points that came since the last ones. */
  add(more) {
    const c = this.all,
      last = c.at.length ? c.at[c.at.length - 1] : -1;
    const fresh = more.at.map((t, i) => i).filter((i) => more.at[i] > last);
    for (const [all, news] of [
      [c.losses, more.losses],
      [c.recall_10, more.recall_10 || {}],
    ]) {
      for (const role of new Set([...Object.keys(all), ...Object.keys(news)])) {
        all[role] ??= c.at.map(() => null);
        for (const i of fresh) all[role].push(news[role] ? news[role][i] : null);
      }
    }
    for (const i of fresh) {
      c.at.push(more.at[i]);
      c.events.push(more.events[i]);
      c.lag.push(more.lag[i]);
    }
    const key = (m) => m.at + m.kind + m.version;
    const known = new Set(c.marks.map(key));
    c.marks.push(...more.marks.filter((m) => !known.has(key(m))));
  }

  /** show takes the state that says what the losses are and which baseline is the best. */
  show(state) {
    this.state = state;
    this.draw();
  }

  draw() {
    const c = this.all;
    const to = c.at.length ? c.at[c.at.length - 1] : Date.now();
    const length = ranges[this.range];
    const first = c.at[0] ?? to,
      from = length ? Math.max(to - length, first) : first;
    const inRange = c.at.map((t, i) => i).filter((i) => c.at[i] >= from);
    const every = Math.max(1, Math.ceil(inRange.length / 60));
    const rows = inRange.filter((_, k) => k % every === 0 || k === inRange.length - 1).reverse();
    const part = `newest first, ${count(rows.length)} of ${plural(inRange.length, "point")}`;
    this.shown = { at: c.at, from: Math.min(from, to - 10e3), to, marks: c.marks };
    this.drawLosses(rows, part, from);
    this.drawRecall(rows, part);
    this.drawLag(rows, part);
  }

  /** busy reports whether a figure is not shown, or somebody reads it. */
  busy(figure) {
    return !figure.body.clientWidth || figure.body.querySelector(":hover, :focus");
  }

  drawLosses(rows, part, from) {
    if (this.busy(this.loss)) return;
    const c = this.all;
    const series = Object.keys(titles)
      .filter((r) => c.losses[r])
      .map((r) => ({ name: titles[r], cls: r, values: c.losses[r], faint: !leading.includes(r) && r !== this.state?.best }));
    const last = series.map((s) => s.name + " " + loss(s.values[s.values.length - 1])).join(", ");
    const metric = metricOf(this.state);
    this.loss.show(
      () =>
        lines({
          ...this.shown,
          width: this.loss.body.clientWidth,
          series,
          yTitle: metric,
          label: `${metric} of ${this.name} over time, now: ${last}`,
        }),
      () =>
        el(
          "div",
          {},
          table(
            `${capital(metric)} over time, ${part}`,
            ["Time", ...series.map((s) => s.name)],
            rows.map((i) => [clock(c.at[i], true), ...series.map((s) => loss(s.values[i]))]),
            series.map((_, i) => i + 1),
          ),
          table(
            "What happened, newest first, 60 entries at most",
            ["Time", "What", "Version", "Why"],
            c.marks
              .filter((m) => m.at >= from)
              .slice(-60)
              .reverse()
              .map((m) => [clock(m.at, true), m.kind, m.version || "", m.text]),
            [2],
            "Nothing happened in this time.",
          ),
        ),
    );
    this.legend.replaceChildren(
      legend(series),
      el("p", { class: "note" }, "▲ promoted · ✕ kept back · ◆ drift · ↕ moved by somebody else · ▷ started · | update"),
    );
  }

  /** drawRecall shows how lists do, of a model whose events are choices. */
  drawRecall(rows, part) {
    const c = this.all;
    const series = Object.keys(lists)
      .filter((name) => c.recall_10[name])
      .map((name) => ({ name: lists[name], cls: name, values: c.recall_10[name] }));
    this.recall.node.hidden = !series.length;
    if (!series.length || this.busy(this.recall)) return;
    const last = series.map((s) => s.name + " " + loss(s.values[s.values.length - 1])).join(", ");
    this.recall.show(
      () =>
        lines({
          ...this.shown,
          width: this.recall.body.clientWidth,
          series,
          height: 180,
          yTitle: "recall@10 (share of choices)",
          label: `Recall at ten of ${this.name} over time, now: ${last}`,
        }),
      () =>
        table(
          "Recall at ten over time, " + part,
          ["Time", ...series.map((s) => s.name)],
          rows.map((i) => [clock(c.at[i], true), ...series.map((s) => loss(s.values[i]))]),
          series.map((_, i) => i + 1),
        ),
    );
    this.recallLegend.replaceChildren(legend(series));
  }

  drawLag(rows, part) {
    if (this.busy(this.lag)) return;
    const c = this.all;
    this.lag.show(
      () =>
        lines({
          ...this.shown,
          width: this.lag.body.clientWidth,
          height: 150,
          marks: [],
          fromZero: true,
          yTitle: "records",
          series: [{ name: "lag", cls: "live", values: c.lag }],
          yText: short,
          label: `Lag of ${this.name} over time, now ${plural(c.lag[c.lag.length - 1], "record")}`,
        }),
      () =>
        table(
          "Lag over time, " + part,
          ["Time", "Lag (records)", "Events scored"],
          rows.map((i) => [clock(c.at[i], true), count(c.lag[i]), count(c.events[i])]),
          [1, 2],
        ),
    );
  }
}
