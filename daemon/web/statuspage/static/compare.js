// Two versions side by side, and the change of the champion.

/** CompareView compares versions, and says what will change before the champion moves. */
class CompareView {
  constructor(model) {
    this.model = model;
    const choose = (label) => el("select", { "aria-label": label });
    this.one = choose("Version");
    this.other = choose("With version");
    this.form = el(
      "form",
      { class: "compare", onsubmit: (event) => this.send(event) },
      el("label", {}, "Version", this.one),
      el("label", {}, "with", this.other),
      el("button", {}, "Compare"),
    );
    this.diff = el("div", { "aria-live": "polite" });
    this.said = el("p", { role: "status" });
    this.dialog = el("dialog", { "aria-label": "Change of the champion" });
    this.node = el("div", {}, this.form, this.said, this.diff, this.dialog);
  }

  /** offer fills the choices, and keeps what is chosen. */
  offer(versions) {
    this.versions = new Map(versions.map((v) => [v.version, v]));
    this.form.hidden = versions.length < 2;
    [this.one, this.other].forEach((select, i) => {
      const chosen = Number(select.value) || versions[Math.min(i, versions.length - 1)]?.version;
      if (document.activeElement === select) return;
      select.replaceChildren(
        ...versions.map((v) =>
          el("option", { value: v.version, selected: v.version === chosen }, `${v.version} ${v.summary.kind}${v.aliases?.length ? " " + v.aliases.join(", ") : ""}`),
        ),
      );
    });
  }

  send(event) {
    event.preventDefault();
    location.hash = `${this.model.link("versions")}/${this.one.value}-${this.other.value}`;
  }

  clear() {
    this.diff.replaceChildren();
  }

  /** read returns how a version differs from another, or why they cannot be compared. */
  async read(version, other) {
    const at = `${this.model.path}/versions/${version}/diff?with=${other}`;
    try {
      return { at, d: await ask(at) };
    } catch (error) {
      return { at, error: error.message };
    }
  }

  /** sides is the table of two versions: a from the list, b likewise, and what the comparison adds. */
  async sides(version, other, d) {
    const listed = async (v) => this.versions?.get(v) || ask(`${this.model.path}/versions/${v}`);
    const both = await Promise.all([listed(other), listed(version)]).catch(() => []);
    const s = both.map((v) => v.summary || {});
    const row = (name, f) => [name, ...both.map((v, i) => f(v, s[i]) ?? "–")];
    const now = new Date().toISOString();
    const rows = both.length
      ? [
          row("Kind", (_, x) => x.kind),
          row("Made", (v) => ago(now, v.created)),
          row("Decision", (v) => (v.decision === "kept" ? "kept back" : v.decision)),
          row("Gate loss", (_, x) => loss(x.gate?.loss)),
          row("Of the champion then", (_, x) => loss(x.champion_gate?.loss)),
          row("Size", (_, x) => (x.bytes ? bytes(x.bytes) : null)),
          row("Why", (_, x) => x.reason),
        ]
      : [];
    if (d) {
      rows.splice(
        5,
        0,
        ["Basis vectors", count(d.a.k), count(d.b.k)],
        ["Features", count(d.a.features), count(d.b.features)],
        ["Rows", count(d.a.rows), count(d.b.rows)],
        ["Training", d.a.optimality, d.b.optimality],
      );
    }
    return table("Side by side", ["What", "Version " + other, "Version " + version], rows);
  }

  /** change says in a sentence how predictions differ. */
  change(d) {
    if (d.same) return "The payloads are equal: predictions do not change.";
    return (
      `Predictions of ${plural(d.golden.events, "golden event")} differ by ${loss(d.golden.mean_absolute)} in the mean, ` +
      `${loss(d.golden.largest_absolute)} at most. ` +
      `${plural(d.basis.kept.length, "basis vector")} kept, ${count(d.basis.in.length)} in, ${count(d.basis.out.length)} out.`
    );
  }

  /** fields is the table of names that came and went. */
  fields(d) {
    const names = (list, sign) => list.map((n) => sign + n).join(", ");
    return table(
      "Names that came and went",
      ["Field", "Common", "In", "Out", "Which"],
      d.features.filter((f) => f.in + f.out > 0).map((f) => [
        f.field,
        count(f.common),
        count(f.in),
        count(f.out),
        { text: [names(f.in_names, "+"), names(f.out_names, "−")].filter(Boolean).join(", ") || "–", cls: "wide" },
      ]),
      [1, 2, 3],
      "Both know the same names.",
    );
  }

  async show(version, other) {
    const { at, d, error } = await this.read(version, other);
    const head = el("h3", { tabindex: -1 }, `Version ${version} against version ${other}`);
    const sides = await this.sides(version, other, d);
    this.diff.replaceChildren(
      head,
      d ? el("p", {}, this.change(d)) : el("p", { class: "bad" }, `They cannot be compared: ${error}`),
      sides,
      d ? this.fields(d) : "",
      d ? el("p", {}, el("a", { href: at }, "the same as JSON")) : "",
    );
    head.focus();
  }

  /** propose says what will change, and asks for the reason before it moves the champion. */
  async propose(version, champion) {
    const back = champion > version,
      verb = back ? "Roll back to" : "Promote";
    const why = el("input", { name: "why", required: true, maxlength: 200, autocomplete: "off" });
    const wrong = el("p", { class: "bad", role: "alert" });
    const { d, error } = champion ? await this.read(version, champion) : {};
    const sides = champion ? await this.sides(version, champion, d) : "";
    const close = () => this.dialog.close();
    const send = async (event) => {
      event.preventDefault();
      try {
        await ask(`${this.model.path}/aliases/champion`, { version, why: why.value.trim() || " " }, "PUT");
      } catch (e) {
        wrong.textContent = e.message;
        return;
      }
      close();
      this.said.textContent = `Version ${version} is the champion now. Consumers take it up within seconds.`;
      this.model.reload();
    };
    this.dialog.replaceChildren(
      el("h3", {}, `${verb} version ${version}?`),
      el(
        "p",
        {},
        champion
          ? `Consumers get version ${version} in place of version ${champion}. It stays until a refit beats it at the gate.`
          : `Consumers get version ${version}, their first one.`,
      ),
      d ? el("p", {}, this.change(d)) : error ? el("p", { class: "bad" }, `What will change is not known: ${error}`) : "",
      sides,
      d ? this.fields(d) : "",
      el(
        "form",
        { method: "dialog", onsubmit: send },
        el("label", {}, "Why (kept in the publish log)", why),
        wrong,
        el("span", { class: "actions" }, el("button", { class: "danger" }, `${verb} ${version}`), el("button", { type: "button", onclick: close }, "Cancel")),
      ),
    );
    this.dialog.showModal();
    why.focus();
  }
}
