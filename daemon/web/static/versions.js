// The versions of a model, newest first.

const shownVersions = matchMedia("(max-width: 40rem)").matches ? 4 : 12; // a phone has a card for each

const versionWords = {
  Kind: "refit: trained on the sample. update: the version before, corrected for the events since.",
  Decision: "promoted: consumers have it. kept back: the gate did not let it be.",
  "Gate loss": "Of this version on the held-out rows that the gate judges by; lower is better.",
  "Gate loss of the champion": "Of the version that consumers had at that time, on the same rows.",
  "Gate loss, known": "Of rows whose entity (such as user or item) the version has learned from, by field.",
  "Gate loss, new": "Of rows whose entity the version has never seen, by field.",
  Rows: "Of the sample that it was trained on.",
};

/** VersionsView lists versions, and what differs between one and the one before. */
class VersionsView {
  constructor(model) {
    this.model = model;
    this.all = false;
    this.list = el("div");
    this.more = el("button", { type: "button", hidden: true, onclick: () => this.showAll() }, "Show all");
    this.diff = el("div", { "aria-live": "polite" });
    this.node = section("versions", "Versions", this.list, this.more, meanings("What the columns mean", versionWords), this.diff);
  }

  showAll() {
    this.all = true;
    this.load();
  }

  async load() {
    let answer;
    try {
      answer = await ask(this.model.path + "/versions" + (this.all ? "" : "?limit=" + (shownVersions + 1)));
    } catch (error) {
      this.list.replaceChildren(el("p", { class: "bad" }, error.message));
      return;
    }
    const versions = answer.versions.reverse(),
      shown = this.all ? versions : versions.slice(0, shownVersions);
    this.more.hidden = versions.length <= shown.length;
    if (!versions.length) {
      this.list.replaceChildren(el("p", { class: "empty" }, "No version was published yet."));
      return;
    }
    const now = new Date().toISOString();
    const focused = this.list.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.list.replaceChildren(
      table(
        "Versions, newest first",
        [
          "Version",
          "Kind",
          "Decision",
          "Made",
          "Against",
          "Gate loss",
          "Gate loss of the champion",
          "Gate loss, known",
          "Gate loss, new",
          "Rows",
          "Size",
          "Why",
        ],
        shown.map((v) => this.row(v, now)),
        [5, 6, 7, 8, 9, 10],
      ),
    );
    if (focused) [...this.list.querySelectorAll("button")].find((b) => b.textContent === focused)?.focus();
  }

  row(v, now) {
    const s = v.summary,
      slice = (known) => {
        const list = (s.gate_slices || []).filter((x) => x.known === known && x.loss !== null);
        return el(
          "span",
          { title: list.map((x) => `${x.field || "all rows"}: ${loss(x.loss)} on ${x.n}, baseline ${loss(x.baseline)}`).join("\n") },
          list.length ? list.map((x) => (x.field ? x.field + " " : "") + loss(x.loss)).join(", ") : "–",
        );
      };
    const names = v.aliases?.length
      ? el("span", {}, v.version + " ", ...v.aliases.map((a) => el("span", { class: "alias" }, a)))
      : String(v.version);
    return [
      names,
      s.kind,
      { text: v.decision, cls: v.decision === "promoted" ? "good" : "bad" },
      el("time", { datetime: v.created, title: v.created }, ago(now, v.created)),
      s.parent
        ? el(
            "button",
            { type: "button", class: "link", onclick: () => this.compare(v.version, s.parent) },
            `diff with ${s.parent}`,
          )
        : "–",
      loss(s.gate?.loss),
      loss(s.champion_gate?.loss),
      slice(true),
      slice(false),
      count(s.rows),
      bytes(s.bytes),
      { text: el("div", { class: "reason" }, s.reason), cls: "wide" },
    ];
  }

  async compare(version, parent) {
    const at = `${this.model.path}/versions/${version}/diff?with=${parent}`;
    let d;
    try {
      d = await ask(at);
    } catch (error) {
      this.diff.replaceChildren(
        el("p", { class: "bad" }, `Version ${version} cannot be compared with version ${parent}: ${error.message}`),
      );
      return;
    }
    const names = (list, sign) => list.map((n) => sign + n).join(", ");
    this.diff.replaceChildren(
      el("h3", { tabindex: -1 }, `Version ${version} against version ${parent}`),
      el(
        "p",
        {},
        d.same
          ? "The payloads are equal."
          : `${d.basis.kept.length} basis vectors kept, ${d.basis.in.length} in, ${d.basis.out.length} out. ` +
            `Predictions of ${d.golden.events} golden events differ by ` +
              `${loss(d.golden.mean_absolute)} in the mean, ${loss(d.golden.largest_absolute)} at most.`,
      ),
      table(
        "What differs",
        ["What", "Version " + d.a.version, "Version " + d.b.version],
        [
          ["Basis vectors", count(d.a.k), count(d.b.k)],
          ["Features", count(d.a.features), count(d.b.features)],
          ["Rows", count(d.a.rows), count(d.b.rows)],
          ["Refit", d.a.optimality, d.b.optimality],
        ],
      ),
      table(
        "Names",
        ["Field", "Common", "In", "Out", "Which"],
        d.features.map((f) => [
          f.field,
          count(f.common),
          count(f.in),
          count(f.out),
          [names(f.in_names, "+"), names(f.out_names, "−")].filter(Boolean).join(", "),
        ]),
        [1, 2, 3],
      ),
      el("p", {}, el("a", { href: at }, "the same as JSON")),
    );
    this.diff.querySelector("h3").focus();
  }
}
