// The versions of a model, newest first: refits, each with the updates that followed it.

const shownVersions = 100;
const shownRefits = matchMedia("(max-width: 40rem)").matches ? 5 : 15; // a phone has a card for each

const versionWords = {
  "refit, update": "A refit is trained on the sample. An update is the version before, corrected for the events since.",
  "promoted, kept back": "A promoted version is what consumers have. The gate keeps back what it shows to be worse.",
  "Gate loss": "Of this version on the held-out rows that the gate judges by; lower is better.",
  "Champion's": "Gate loss of the version that consumers had at that time, on the same rows.",
  "known, new": "Rows whose entity (such as user or item) the version has learned from, and rows of the others.",
  Rows: "Of the sample that it was trained on.",
};

/** VersionsView lists versions, compares two of them, and lets an operator choose one. */
class VersionsView {
  constructor(model) {
    this.model = model;
    this.all = false;
    this.open = new Set(); // refits whose updates are shown
    this.list = el("div");
    this.more = el("button", { type: "button", hidden: true, onclick: () => this.showAll() }, "Show all");
    this.compare = new CompareView(model);
    this.node = [this.compare.node, this.list, this.more, meanings("What the columns mean", versionWords)];
  }

  /** go shows what the address names: a version, or two that are compared. */
  go(rest) {
    const [version, other] = rest.split("-").map(Number);
    this.chosen = version || undefined;
    if (version && other) this.compare.show(version, other);
    else this.compare.clear();
    if (this.versions) this.draw();
  }

  showAll() {
    this.all = true;
    return this.load();
  }

  async load() {
    let answer;
    try {
      answer = await ask(this.model.path + "/versions" + (this.all ? "" : "?limit=" + (shownVersions + 1)));
    } catch (error) {
      this.list.replaceChildren(el("p", { class: "bad" }, error.message));
      return;
    }
    const versions = answer.versions.reverse();
    this.most = versions.length > shownVersions;
    this.versions = this.all ? versions : versions.slice(0, shownVersions);
    this.compare.offer(this.versions);
    this.draw();
  }

  /** groups folds updates under their refit, newest first. A refit that was kept back has none. */
  groups() {
    const groups = [];
    let of = { updates: [] };
    for (const v of [...this.versions].reverse()) {
      if (v.summary.kind === "update") {
        if (!groups.includes(of)) groups.push(of);
        of.updates.unshift(v);
        continue;
      }
      const group = { refit: v, updates: [] };
      groups.push(group);
      if (v.decision === "promoted") of = group;
    }
    return groups.reverse();
  }

  draw() {
    if (!this.versions.length) {
      this.list.replaceChildren(el("p", { class: "empty" }, "No version was published yet."));
      return;
    }
    const now = new Date().toISOString();
    const focused = this.list.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    const rows = [];
    const groups = this.groups(),
      at = groups.findIndex((g) => [g.refit, ...g.updates].some((v) => v?.version === this.chosen)),
      shown = this.all ? groups : groups.slice(0, Math.max(shownRefits, at + 1));
    this.more.hidden = this.all || !(this.most || shown.length < groups.length);
    for (const g of shown) {
      const key = g.refit?.version ?? 0;
      if (g.updates.some((u) => u.version === this.chosen)) this.open.add(key);
      if (g.refit) rows.push(this.row(g.refit, now, this.fold(g, key)));
      else rows.push([`before`, "updates of an older refit", "–", "–", "–", "–", "–", "–", "–", { text: this.fold(g, key), cls: "wide" }]);
      if (this.open.has(key)) rows.push(...g.updates.map((u) => this.row(u, now)));
    }
    this.list.replaceChildren(
      table(
        "Versions, newest first",
        ["Version", "Kind", "Decision", "Made", "Gate loss", "Champion's", "Rows", "Size", "Do", "Why"],
        rows,
        [4, 5, 6, 7],
      ),
    );
    for (const tr of this.list.querySelectorAll("tbody tr")) {
      const version = Number.parseInt(tr.cells[0].textContent);
      if (tr.cells[1].textContent === "update") tr.classList.add("update");
      if (version === this.chosen) tr.setAttribute("aria-current", "true");
    }
    if (focused) [...this.list.querySelectorAll("button, a")].find((b) => b.getAttribute("aria-label") === focused)?.focus();
  }

  /** fold is the button that shows the updates of a refit. */
  fold(g, key) {
    if (!g.updates.length) return null;
    const open = this.open.has(key);
    const newest = g.updates[0],
      oldest = g.updates[g.updates.length - 1];
    const which = newest === oldest ? newest.version : `${oldest.version} to ${newest.version}`;
    const aliases = g.updates.flatMap((u) => (u.aliases || []).map((a) => `${u.version} is ${a}`));
    const toggle = () => {
      this.open[open ? "delete" : "add"](key);
      this.draw();
    };
    return el(
      "button",
      { type: "button", class: "link", "aria-expanded": String(open), "aria-label": `updates of ${key}`, onclick: toggle },
      `${open ? "▾" : "▸"} ${plural(g.updates.length, "update")} since: ${which}${aliases.length ? "; " + aliases.join(", ") : ""}`,
    );
  }

  row(v, now, fold) {
    const s = v.summary,
      kept = v.decision !== "promoted";
    const slices = (known) => (s.gate_slices || []).filter((x) => x.known === known && x.loss !== null).map((x) => `${x.field || "all rows"} ${loss(x.loss)}`);
    const known = slices(true),
      fresh = slices(false);
    const parts = [known.length ? "known " + known.join(", ") : "", fresh.length ? "new " + fresh.join(", ") : ""].filter(Boolean);
    return [
      el("span", {}, el("a", { href: `${this.model.link("versions")}/${v.version}` }, v.version), (v.aliases || []).map((a) => [" ", el("span", { class: "alias" }, a)])),
      s.kind,
      { text: kept ? "kept back" : v.decision, cls: kept ? "bad" : "good" },
      el("time", { datetime: v.created, title: v.created }, ago(now, v.created)),
      loss(s.gate?.loss),
      loss(s.champion_gate?.loss),
      count(s.rows),
      bytes(s.bytes),
      this.actions(v),
      {
        text: el("div", { class: "reason" }, s.reason, parts.length ? el("span", { class: "note" }, `. Gate loss by entity: ${parts.join("; ")}.`) : "", fold ? el("div", {}, fold) : null),
        cls: "wide",
      },
    ];
  }

  /** actions is what can be done with a version: compare it, and where that is on, let consumers have it. */
  actions(v) {
    const champion = this.model.state?.champion;
    const other = v.summary.parent || (champion !== v.version ? champion : null);
    return el(
      "span",
      { class: "actions" },
      other
        ? el("a", { class: "compare", href: `${this.model.link("versions")}/${v.version}-${other}`, "aria-label": `compare ${v.version} with ${other}` }, "compare")
        : null,
      this.model.lifecycle && champion !== v.version
        ? el(
            "button",
            {
              type: "button",
              "aria-label": `${champion > v.version ? "roll back to" : "promote"} ${v.version}`,
              onclick: () => this.compare.propose(v.version, champion),
            },
            champion > v.version ? "Roll back" : "Promote",
          )
        : null,
    );
  }
}
