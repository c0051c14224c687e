// One model: how it does, what it reads, what it believes.

// What the status of a refit means.
const endings = {
  converged: "converged",
  basis_limit: "as many basis vectors as it may have",
  time_budget: "cut short by train.time_budget",
  interrupted: "interrupted",
  stalled: "no step makes it better",
};

/** ModelView is the part of the page about one model. */
class ModelView {
  constructor(name, range) {
    this.name = name;
    this.path = "/v1/models/" + encodeURIComponent(name);
    this.curves = { at: [], events: [], lag: [], losses: {}, recall_10: {}, marks: [] };
    this.range = range;
    this.tiles = el("div", { class: "tiles" });
    this.facts = el("div");
    this.losses = el("div");
    this.loss = new Figure("Loss over time", "Over the window, each event scored before it is learned from.");
    this.recall = new Figure(
      "Recall at ten",
      "Of the last choices: the share that was in the list of ten, of all names that its entity had not chosen before.",
    );
    this.recall.node.hidden = true;
    this.recallLegend = el("div");
    this.recall.node.append(this.recallLegend);
    this.silence = el("p", { class: "notice warned", role: "status", hidden: true });
    this.lag = new Figure("Lag", "Records that are in the topic and not applied yet.");
    this.calibration = new Figure("Calibration", "Of the window in bins of equal mass: on the line, what was predicted is what came.");
    this.ages = new Figure("Age of the sample", "Rows by how many events were applied after them, as the last refit took the sample.");
    this.ranges = ["5 min", "1 h", "24 h", "all"].map((text) =>
      el("button", { type: "button", "aria-pressed": String(text === range), onclick: () => this.setRange(text) }, text),
    );
    this.loss.tools.prepend(el("span", { role: "group", "aria-label": "Range of time" }, this.ranges));
    this.legend = el("div");
    this.loss.node.append(this.legend);
    this.reading = el("div");
    this.sample = el("div");
    this.belief = el("div", {}, el("p", { class: "empty" }, "Nothing yet: no version was published."));
    this.versions = new VersionsView(this);
    this.node = el(
      "div",
      { class: "model" },
      section("model", name, this.silence, this.tiles, this.facts, this.loss.node, this.recall.node, this.losses, this.lag.node),
      this.versions.node,
      section("believes", "What it believes", this.belief, this.calibration.node),
      section("try", "Try it", (this.tryIt = new TryView(this)).node),
      section("reads", "What it reads", this.reading),
      section("sample", "Sample", this.sample, this.ages.node),
    );
  }

  setRange(text) {
    this.range = text;
    this.ranges.forEach((b) => b.setAttribute("aria-pressed", String(b.textContent === text)));
    this.draw();
  }

  /** addCurves takes up points that came since the last ones. */
  addCurves(more) {
    const c = this.curves,
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
    if (this.state) this.showSilence(this.state, this.now);
    this.draw();
  }

  /** resized draws all plots at the width that there is now. */
  resized() {
    this.agesShown = undefined;
    if (this.state) this.showSample(this.state);
    if (this.state) this.showCalibration(this.state.calibration);
    this.draw();
  }

  draw() {
    const c = this.curves,
      width = this.loss.body.clientWidth || 600;
    const to = c.at.length ? c.at[c.at.length - 1] : Date.now();
    const length = { "5 min": 300e3, "1 h": 3600e3, "24 h": 86400e3 }[this.range];
    const first = c.at[0] ?? to,
      from = length ? Math.max(to - length, first) : first;
    const series = Object.keys(titles)
      .filter((r) => c.losses[r])
      .map((r) => ({ name: titles[r], cls: r, values: c.losses[r] }));
    const last = series.map((s) => s.name + " " + loss(s.values[s.values.length - 1])).join(", ");
    const metric = this.state?.metric === "error_rate" ? "error rate" : "RMSE";
    const inRange = c.at.map((t, i) => i).filter((i) => c.at[i] >= from);
    const every = Math.max(1, Math.ceil(inRange.length / 60));
    const rows = inRange.filter((_, k) => k % every === 0 || k === inRange.length - 1).reverse();
    const part = `newest first, ${count(rows.length)} of ${count(inRange.length)} points`;
    const seconds = (t) => clock(t, true);
    const shown = { at: c.at, from: Math.min(from, to - 10e3), to, marks: c.marks, width };
    if (!this.loss.body.querySelector(":hover, :focus")) {
      this.loss.show(
        () => lines({ ...shown, series, yTitle: metric, label: `${metric} of ${this.name} over time, now: ${last}` }),
        () =>
          el(
            "div",
            {},
            table(
              `${metric} over time, ${part}`,
              ["Time", ...series.map((s) => s.name)],
              rows.map((i) => [seconds(c.at[i]), ...series.map((s) => loss(s.values[i]))]),
              series.map((_, i) => i + 1),
            ),
            table(
              "What happened, newest first, 60 entries at most",
              ["Time", "What", "Version", "Why"],
              c.marks
                .filter((m) => m.at >= from)
                .slice(-60)
                .reverse()
                .map((m) => [seconds(m.at), m.kind, m.version || "", m.text]),
              [2],
              "Nothing happened in this time.",
            ),
          ),
      );
    }
    this.legend.replaceChildren(
      legend(series),
      el("p", { class: "note" }, "▲ promoted · ✕ kept back · ◆ drift · ↕ moved by somebody else · ▷ started · | update"),
    );
    this.drawRecall(shown, rows, part);
    if (!this.lag.body.querySelector(":hover, :focus")) {
      this.lag.show(
        () =>
          lines({
            ...shown,
            height: 150,
            marks: [],
            fromZero: true,
            yTitle: "records",
            series: [{ name: "lag", cls: "live", values: c.lag }],
            yText: short,
            label: `Lag of ${this.name} over time, now ${count(c.lag[c.lag.length - 1])} records`,
          }),
        () =>
          table(
            "Lag over time, " + part,
            ["Time", "Lag (records)", "Events scored"],
            rows.map((i) => [seconds(c.at[i]), count(c.lag[i]), count(c.events[i])]),
            [1, 2],
          ),
      );
    }
  }

  /** drawRecall shows how lists do, of a model whose events are choices. */
  drawRecall(shown, rows, part) {
    const c = this.curves;
    const series = Object.keys(lists)
      .filter((name) => c.recall_10[name])
      .map((name) => ({ name: lists[name], cls: name, values: c.recall_10[name] }));
    this.recall.node.hidden = !series.length;
    if (!series.length || this.recall.body.querySelector(":hover, :focus")) return;
    const last = series.map((s) => s.name + " " + loss(s.values[s.values.length - 1])).join(", ");
    this.recall.show(
      () => lines({ ...shown, series, height: 180, yTitle: "recall@10 (share of choices)", label: `Recall at ten of ${this.name} over time, now: ${last}` }),
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

  /** update shows a new state. */
  update(state, now) {
    const before = this.state;
    Object.assign(this, { state, now });
    const tile = (title, value, note, cls) =>
      el(
        "div",
        { class: "tile" },
        el("span", { class: "title" }, title),
        el("span", { class: "big " + (cls || "") }, value),
        el("span", { class: "note" }, note),
      );
    const ranked = state.ranking ? [state.ranking] : [];
    const better = state.loss !== null && state.baseline !== null ? (state.loss <= state.baseline ? "good" : "bad") : "";
    this.tiles.replaceChildren(
      tile(
        "Consumers have",
        state.champion ? "version " + state.champion : "no version",
        (state.champion ? `${state.kind}, ${ago(now, state.published)}` : state.waiting) + (state.standby ? "; " + state.standby : ""),
      ),
      tile(
        state.metric === "error_rate" ? "Error rate" : "RMSE",
        loss(state.loss),
        state.baseline === null ? "no baseline yet" : `${titles[state.best]} ${loss(state.baseline)}, live ${loss(state.live)}`,
        better,
      ),
      ...ranked.map((r) =>
        tile(
          "Recall at ten",
          loss(r.published.recall_10),
          `most popular names ${loss(r.popularity.recall_10)}, of ${count(r.published.n)} choices`,
          r.published.recall_10 >= r.popularity.recall_10 ? "good" : "bad",
        ),
      ),
      tile("Lag", count(state.lag), state.catching_up || `records; ${count(state.events)} events applied since the start`),
      tile(
        "Sample",
        state.sample.train ? count(state.sample.train) : "empty",
        state.sample.train ? `of ${count(state.sample.size)} rows, ${bytes(state.sample.bytes)}` : "no event was taken yet",
      ),
      tile(
        "Last refit",
        state.last_refit ? ago(now, state.last_refit) : "none yet",
        state.training_disabled ||
          (state.refit_failure && `a later one failed: ${state.refit_failure}`) ||
          (state.judged ? `version ${state.judged.version} ${state.judged.decision}` : ""),
      ),
    );
    const facts = [
      [
        "Model",
        state.champion ? `${count(state.k)} basis vectors, ${count(state.features)} features, ${count(state.outputs)} outputs` : "",
      ],
      [
        "Gate",
        state.judged ? `version ${state.judged.version} (${state.judged.kind}) was ${state.judged.decision}: ${state.judged.reason}` : "",
      ],
      ["Training", state.judged ? `${endings[state.judged.status] || state.judged.status}, ${count(state.judged.rows)} rows, ${state.optimality}` : ""],
      ["Scores here", state.serving],
      ["Scores", state.scoring],
      ["Live model", state.live_held_back ? `held back (${state.live_held_back}): the champion answers in place of it` : ""],
      ...(state.progressive.drift || []).map((d) => [
        "Drift",
        `${d.group} changed ${count(d.events_ago)} events ago; ${d.alarms} alarms in all`,
      ]),
    ];
    this.facts.replaceChildren(
      el(
        "dl",
        {},
        facts.filter((f) => f[1]).map((f) => [el("dt", {}, f[0]), el("dd", {}, f[1])]),
      ),
    );
    this.showSilence(state, now);
    this.showLosses(state);
    this.showReading(state, now);
    this.showSample(state);
    this.showCalibration(state.calibration);
    if (!before || before.champion !== state.champion || before.judged?.version !== state.judged?.version) {
      this.versions.load();
      if (!before || before.digest !== state.digest) this.showBelief();
      this.tryIt.load();
    }
  }

  /** showSilence says that nothing comes. */
  showSilence(state, now) {
    const quiet = silentFor(state, now);
    const text = !quiet
      ? ""
      : state.lag > 0
        ? `⚠ No event was applied for ${span(quiet)}, and ${count(state.lag)} records wait: see its partitions below.`
        : `⚠ Silent: no event for ${span(quiet)}. All that is in the topic is applied; the losses below are of the events before.`;
    this.silence.hidden = !quiet;
    if (this.silence.textContent !== text) this.silence.textContent = text;
  }

  showLosses(state) {
    const p = state.progressive,
      rows = [];
    const row = (title, m) => {
      if (!m || !m.n) return;
      const value = m.rmse !== undefined ? m.rmse : m.accuracy === undefined ? null : 1 - m.accuracy;
      const others = Object.entries(m)
        .filter(([k, v]) => typeof v === "number" && !["n", "rmse", "accuracy"].includes(k))
        .map(([k, v]) => `${k} ${loss(v)}`);
      rows.push([title, loss(value), count(m.n), others.join(", ")]);
    };
    const ranked = state.ranking && [
      ["published", state.ranking.published],
      ["most popular names", state.ranking.popularity],
    ];
    row("published", p.window.published);
    row("live", p.window.live);
    for (const [name, m] of Object.entries(p.baselines)) row(titles[name] || name, m);
    for (const [key, title] of [
      ["new_entity", "new entities"],
      ["known_entity", "known entities"],
    ]) {
      row("published, " + title, p.slices?.[key].published);
      row("live, " + title, p.slices?.[key].live);
    }
    const parts = p.parts.map((x) => [x.name, x.weight.toFixed(3), loss(x.loss), x.in_versions ? "yes" : "no"]);
    refresh(
      this.losses,
      details(
        "loss-table",
        "All metrics, new and known entities, parts of the live model",
        table(
          "Losses over the window",
          ["Predictor", state.metric === "error_rate" ? "Error rate" : "RMSE", "Events", "Other metrics"],
          rows,
          [1, 2],
          "No event was scored yet.",
        ),
        el("p", { class: "note" }, "New entities: names that the version had not learned from when their event came. Known entities: all others."),
        ranked
          ? table(
              "Lists of ten",
              ["List", "Recall at ten", "nDCG at ten", "Choices"],
              ranked.map(([name, m]) => [name, loss(m.recall_10), loss(m.ndcg_10), count(m.n)]),
              [1, 2, 3],
            )
          : null,
        parts.length
          ? table("What the live prediction is mixed from", ["Part", "Weight", "Recent loss", "In versions"], parts, [1, 2])
          : null,
      ),
    );
  }

  showReading(state, now) {
    const partitions = state.partitions.map((p) => [
      `${p.topic}/${p.partition}`,
      p.halted ? { text: "halted: " + p.halted, cls: "bad" } : "reading",
      count(p.lag),
      count(p.next),
      p.end < 0 ? "–" : count(p.end),
      count(p.applied),
      count(p.rejected),
      count(p.gap),
      count(p.rows),
    ]);
    const shards = (state.shards || []).map((s) => [
      s.shard,
      s.refused ? { text: "not merged: " + s.refused, cls: "bad" } : s.merged ? "merged" : { text: "not heard of", cls: "bad" },
      s.host || "–",
      s.merged ? ago(now, s.merged) : "–",
      count(s.lag),
      s.learned ? ago(now, s.learned) : "–",
    ]);
    const rejections = state.rejections.map((r) => [r.reason, r.field || "(whole record)", count(r.records)]);
    refresh(
      this.reading,
      table(
        "Partitions",
        ["Partition", "State", "Lag (records)", "Next offset", "End offset", "Applied", "Rejected", "Lost", "Rows in the sample"],
        partitions,
        [2, 3, 4, 5, 6, 7, 8],
        "No partition is read: the topic has none yet, or the broker was not reached.",
      ),
      shards.length ? table("Shards", ["Shard", "State", "Host", "Last head", "Lag (records)", "Last learning"], shards, [4]) : null,
      rejections.length
        ? table("Rejected since the start", ["Reason", "Field", "Records"], rejections, [2])
        : el("p", { class: "note" }, "No record was rejected since the start."),
    );
  }

  showSample(state) {
    const s = state.sample;
    this.ages.node.hidden = !s.ages;
    if (!s.train && !s.holdout) {
      const text = s.size ? `Empty: no event was taken yet. It holds ${count(s.size)} rows at most.` : "Empty: no event was taken yet.";
      this.sample.replaceChildren(el("p", { class: "empty" }, text));
      return;
    }
    this.sample.replaceChildren(
      meter("Rows to train on", s.train, s.size, `${count(s.train)} of ${count(s.size)}`),
      meter("Bytes", s.bytes, s.max_bytes, `${bytes(s.bytes)} of ${bytes(s.max_bytes)}`),
      el("p", { class: "note" }, `${count(s.holdout)} rows are held out: they choose and judge.`),
    );
    if (!s.ages || JSON.stringify(s.ages) === this.agesShown) return;
    this.agesShown = JSON.stringify(s.ages);
    const from = (i) => 2 ** i,
      text = (n) => (n >= 1e6 ? short(n / 1e6) + "M" : n >= 1e3 ? Math.round(n / 1e3) + "k" : String(n));
    const labels = s.ages.rows.map((_, i) => "from " + text(from(i)));
    this.ages.show(
      () =>
        bars({
          width: this.ages.body.clientWidth || 600,
          labels: labels.map((l) => l.slice(5)),
          values: s.ages.rows,
          yTitle: "rows",
          xTitle: "events applied since, from",
          label: "Rows of the sample by age in events",
        }),
      () =>
        table(
          "Age of the sample",
          ["Events applied since", "Rows"],
          s.ages.rows.map((n, i) => [`${count(from(i))} to ${count(2 * from(i) - 1)}`, count(n)]),
          [1],
        ),
    );
  }

  showCalibration(c) {
    const series = [
      ["published", c.published],
      ["live", c.live],
    ]
      .filter((x) => x[1].length)
      .map(([name, bins]) => ({ name, cls: name, bins }));
    this.calibration.node.hidden = !series.length;
    if (!series.length) return;
    this.calibration.show(
      () =>
        el(
          "div",
          {},
          against({
            width: this.calibration.body.clientWidth || 420,
            series,
            label: "Calibration of " + this.name,
            unit: this.state.metric === "error_rate" ? "probability" : "unit of the label",
          }),
          legend(series),
        ),
      () =>
        table(
          "Calibration",
          ["Predictor", "Predicted", "Came", "Events"],
          series.flatMap((s) => s.bins.map((b) => [s.name, loss(b.predicted), loss(b.observed), count(b.n)])),
          [1, 2, 3],
        ),
    );
  }

  async showBelief() {
    if (!this.state.champion) return;
    let b;
    try {
      b = await ask(this.path + "/belief");
    } catch (error) {
      this.belief.replaceChildren(el("p", { class: "bad" }, error.message));
      return;
    }
    const bar = (share) => el("progress", { max: 1, value: share.toFixed(4), "aria-label": percent(share) });
    this.belief.replaceChildren(
      table(
        "Fields by how much they move predictions",
        ["Field", "Share of the movement", "As a bar"],
        b.relevance.map((f) => [f.field, percent(f.share), bar(f.share)]),
        [1],
      ),
      ...b.belief.outputs
        .filter((o) => o.interactions.length)
        .map((o, i) =>
          details(
            "belief-" + i,
            `Strongest interactions: ${o.output}`,
            table(
              "Interactions of " + o.output,
              ["Features", "Weight (adds to the output)"],
              o.interactions.map((x) => [
                x.features.join(" × "),
                { text: (x.weight >= 0 ? "+" : "") + loss(x.weight), cls: x.weight >= 0 ? "good" : "bad" },
              ]),
              [1],
            ),
          ),
        ),
      el(
        "p",
        { class: "note" },
        `Version ${b.version}: ${bytes(b.belief.sizes.bytes)}, ${count(b.belief.sizes.nonzero)} of ${count(b.belief.sizes.parameters)} parameters not zero.`,
      ),
    );
    const first = this.belief.querySelector("details");
    if (first) first.open = true;
  }
}

// How long nothing has to come, in milliseconds, before the page says so.
const silentAfter = 60e3;

/** silentFor is for how long no event was applied to a model, in milliseconds, 0 if that is not worth a word. */
function silentFor(state, now) {
  const quiet = state.heard && !state.standby ? Date.parse(now) - Date.parse(state.heard) : 0;
  return quiet > silentAfter ? quiet : 0;
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
