// What a model reads: partitions, records that are no events, the sample.

const shownRejected = matchMedia("(max-width: 40rem)").matches ? 4 : 10;

/** DataView shows where events come from, which records are none and why, and what is kept. */
class ReadingView {
  constructor(path) {
    this.path = path;
    this.reading = el("div");
    this.counts = el("div");
    this.reason = el("select", { "aria-label": "Reason", hidden: true, onchange: () => this.drawRejected(shownRejected) });
    this.records = el("div");
    this.more = el("button", { type: "button", hidden: true, onclick: () => this.drawRejected(Infinity) }, "Show all");
    this.rejected = [];
    this.sample = el("div");
    this.ages = new Figure("Age of the sample", "Rows by how many events were applied after them, as the last refit took the sample.");
  }

  update(state, now) {
    this.showReading(state, now);
    this.showCounts(state);
    this.showSample(state);
    const total = state.rejections.reduce((n, r) => n + r.records, 0);
    if (total !== this.total) {
      this.total = total;
      this.load();
    }
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
    const tables = (state.tables || []).map((t) => [t.table, t.of, count(t.rows), t.coverage == null ? "–" : `${Math.round(1000 * t.coverage) / 10} %`]);
    refresh(
      this.reading,
      table(
        "Partitions",
        ["Partition", "State", "Lag (records)", "Next offset", "End offset", "Applied", "Rejected", "Lost", "Rows in the sample"],
        partitions,
        [2, 3, 4, 5, 6, 7, 8],
        "No partition is read: the topic has none yet, or the broker was not reached.",
      ),
      tables.length ? table("Tables", ["Table", "Of", "Rows", "Events with a row"], tables, [2, 3]) : null,
      shards.length ? table("Shards", ["Shard", "State", "Host", "Last head", "Lag (records)", "Last learning"], shards, [4]) : null,
    );
  }

  showCounts(state) {
    const rows = state.rejections.map((r) => [r.reason, r.field || "(whole record)", count(r.records)]);
    refresh(
      this.counts,
      rows.length
        ? table("Rejected since the start", ["Reason", "Field", "Records"], rows, [2])
        : el("p", { class: "note" }, "No record was rejected since the start."),
    );
  }

  /** load reads the last rejected records. */
  async load() {
    try {
      this.rejected = (await ask(this.path + "/rejected")).records;
    } catch (error) {
      this.records.replaceChildren(el("p", { class: "bad" }, error.message));
      return;
    }
    const chosen = this.reason.value;
    const reasons = [...new Set(this.rejected.map((r) => r.reason))].sort();
    this.reason.hidden = reasons.length < 2;
    this.reason.replaceChildren(el("option", { value: "" }, "every reason"), ...reasons.map((r) => el("option", { value: r, selected: r === chosen }, r)));
    this.drawRejected(shownRejected);
  }

  drawRejected(limit) {
    const of = this.rejected.filter((r) => !this.reason.value || r.reason === this.reason.value);
    this.more.hidden = of.length <= limit;
    if (!of.length) return this.records.replaceChildren();
    const rows = of
      .slice(0, limit)
      .map((r) => [
        `${r.topic}/${r.partition} at ${count(r.offset)}`,
        clock(Date.parse(r.time), true),
        r.reason,
        r.field || "(whole record)",
        r.expected || "–",
        r.got || "–",
        { text: el("code", {}, r.outline || "no value"), cls: "wide" },
      ]);
    this.records.replaceChildren(
      table(
        `The last rejected records, newest first: ${count(rows.length)} of ${count(of.length)}`,
        ["Where", "When", "Reason", "Field", "Expected", "Got", "What the record looks like"],
        rows,
      ),
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
      el("p", { class: "note" }, `${plural(s.holdout, "row")} held out: they choose and judge.`),
    );
    const width = this.ages.body.clientWidth,
      drawn = JSON.stringify([s.ages, width]);
    if (!s.ages || !width || drawn === this.agesShown) return;
    this.agesShown = drawn;
    const from = (i) => 2 ** i,
      text = (n) => (n >= 1e6 ? short(n / 1e6) + "M" : n >= 1e3 ? Math.round(n / 1e3) + "k" : String(n));
    this.ages.show(
      () =>
        bars({
          width,
          labels: s.ages.rows.map((_, i) => text(from(i))),
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
}
