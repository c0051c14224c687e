// How well a model predicts now.

// What the status of a refit means.
const endings = {
  converged: "converged",
  basis_limit: "as many basis vectors as it may have",
  time_budget: "cut short by train.time_budget",
  interrupted: "interrupted",
  stalled: "no step makes it better",
};

/** QualityView has the figures of a model: tiles, facts, all metrics, calibration. */
class QualityView {
  constructor(name) {
    this.name = name;
    this.tiles = el("div", { class: "tiles" });
    this.facts = el("div");
    this.losses = el("div");
    this.calibration = new Figure("Calibration", "Of the window in bins of equal mass: on the line, what was predicted is what came.");
  }

  update(state, now) {
    this.state = state;
    this.showTiles(state, now);
    this.showFacts(state);
    this.showLosses(state);
    this.showCalibration(state.calibration);
  }

  showTiles(state, now) {
    const tile = (title, value, note, cls) =>
      el(
        "div",
        { class: "tile" },
        el("span", { class: "title" }, title),
        el("span", { class: "big " + (cls || "") }, value),
        el("span", { class: "note" }, note),
      );
    const better = state.loss !== null && state.baseline !== null ? (state.loss <= state.baseline ? "good" : "bad") : "";
    const of = state.progressive.window.published,
      base = state.progressive.baselines[state.best];
    const wrong = (m) => (m?.accuracy === undefined ? null : percent(1 - m.accuracy));
    const tiles = [
      tile(
        "Consumers have",
        state.champion ? "version " + state.champion : "no version",
        (state.champion ? `${state.kind}, ${ago(now, state.published)}` : state.waiting) + (state.standby ? "; " + state.standby : ""),
      ),
      tile(
        capital(metricOf(state)),
        loss(state.loss),
        state.baseline === null ? "no baseline yet" : `${titles[state.best]} ${loss(state.baseline)}, live ${loss(state.live)}`,
        better,
      ),
    ];
    if (state.metric === "log_loss" && of?.auc !== undefined) {
      tiles.push(
        tile("AUC", loss(of.auc), `${base?.auc === undefined ? "0.5 by chance" : `${titles[state.best]} ${loss(base.auc)}`}; ${wrong(of)} wrong`),
      );
    }
    for (const r of state.ranking ? [state.ranking] : []) {
      tiles.push(
        tile(
          "Recall at ten",
          loss(r.published.recall_10),
          `most popular names ${loss(r.popularity.recall_10)}, of ${plural(r.published.n, "choice")}`,
          r.published.recall_10 >= r.popularity.recall_10 ? "good" : "bad",
        ),
      );
    }
    tiles.push(
      tile("Lag", count(state.lag), state.catching_up || `records; ${plural(state.events, "event")} applied since the start`),
      tile(
        "Sample",
        state.sample.train ? count(state.sample.train) : "empty",
        state.sample.train ? `of ${count(state.sample.size)} rows, ${bytes(state.sample.bytes)}` : "no event was taken yet",
      ),
      tile(
        "Last refit",
        state.refit_failure ? "failed" : state.last_refit ? ago(now, state.last_refit) : "none yet",
        state.training_disabled ||
          (state.refit_failure && `the last one that ended: ${ago(now, state.last_refit)}`) ||
          (state.judged ? `version ${state.judged.version} ${state.judged.decision === "kept" ? "kept back" : state.judged.decision}` : ""),
        state.refit_failure ? "bad" : "",
      ),
    );
    this.tiles.replaceChildren(...tiles);
  }

  showFacts(state) {
    const judged = state.judged;
    const facts = [
      [
        "Model",
        state.champion ? [plural(state.k, "basis vector"), plural(state.features, "feature"), plural(state.outputs, "output")].join(", ") : "",
      ],
      ["Gate", judged ? `version ${judged.version} (${judged.kind}) was ${judged.decision === "kept" ? "kept back" : judged.decision}: ${judged.reason}` : ""],
      ["Training", judged ? `${endings[judged.status] || judged.status}, ${plural(judged.rows, "row")}, ${state.optimality}` : ""],
      ["Scores here", state.serving],
      ["Scores", state.scoring],
      ["Live model", state.live_held_back ? `held back (${state.live_held_back}): the champion answers in place of it` : ""],
      ...(state.progressive.drift || []).map((d) => [
        "Drift",
        `${d.group} changed ${plural(d.events_ago, "event")} ago; ${plural(d.alarms, "alarm")} in all`,
      ]),
    ];
    refresh(
      this.facts,
      el(
        "dl",
        {},
        facts.filter((f) => f[1]).map((f) => [el("dt", {}, f[0]), el("dd", {}, f[1])]),
      ),
    );
  }

  showLosses(state) {
    const p = state.progressive,
      rows = [];
    const figure = (m) =>
      m.rmse ?? (state.metric === "log_loss" ? (m.entropy_normalised === undefined ? null : m.loss) : m.accuracy === undefined ? null : 1 - m.accuracy);
    const row = (title, m) => {
      if (!m || !m.n) return;
      const others = Object.entries(m)
        .filter(([k, v]) => typeof v === "number" && k !== "n" && k !== "rmse" && !(k === "loss" && state.metric === "log_loss"))
        .map(([k, v]) => `${k} ${loss(v)}`);
      rows.push([title, loss(figure(m)), count(m.n), others.join(", ")]);
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
        table("Losses over the window", ["Predictor", capital(metricOf(state)), "Events", "Other metrics"], rows, [1, 2], "No event was scored yet."),
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

  showCalibration(c) {
    const series = [
      ["published", c.published],
      ["live", c.live],
    ]
      .filter((x) => x[1].length)
      .map(([name, bins]) => ({ name, cls: name, bins }));
    this.calibration.node.hidden = !series.length;
    if (!series.length || !this.calibration.body.clientWidth) return;
    this.calibration.show(
      () =>
        el(
          "div",
          {},
          against({
            width: this.calibration.body.clientWidth,
            series,
            label: "Calibration of " + this.name,
            unit: this.state.metric === "rmse" ? "unit of the label" : "probability",
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
}
