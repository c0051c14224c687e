// Score and explain an event by name; look up an entity.

/** TryView asks the champion. */
class TryView {
  constructor(model) {
    this.model = model;
    this.form = el("form", { onsubmit: (event) => this.send(event) });
    this.lookup = el("form", { onsubmit: (event) => this.find(event) });
    this.answer = el("div", { "aria-live": "polite" });
    this.found = el("div", { "aria-live": "polite" });
    this.node = el("div", { class: "try" }, el("p", { class: "empty" }, "Nothing to ask yet: no version was published."));
  }

  /** load makes the form of the fields that the champion has. */
  async load() {
    if (!this.model.state.champion) return;
    let schema;
    try {
      schema = (await ask(`${this.model.path}/versions/${this.model.state.champion}`)).manifest.schema;
    } catch {
      return; // shown with the versions
    }
    if (JSON.stringify(schema) === this.shown) return;
    this.shown = JSON.stringify(schema);
    this.schema = schema;
    const derived = new Set((schema.derived || []).map((d) => d.name));
    const names = [...(schema.categorical || []), ...(schema.multi || [])];
    const input = (field, note, mode) =>
      el(
        "label",
        {},
        field + (note ? ` (${note})` : ""),
        el("input", { name: field, inputmode: mode, autocomplete: "off" }),
      );
    this.form.replaceChildren(
      el("h3", {}, "Score and explain an event"),
      ...(schema.categorical || []).filter((f) => !derived.has(f)).map((f) => input(f, "")),
      ...(schema.multi || []).map((f) => input(f, "names, with commas between")),
      ...(schema.numeric || []).filter((f) => !derived.has(f.name)).map((f) => input(f.name, "number", "decimal")),
      el("button", {}, "Score"),
    );
    this.lookup.replaceChildren(
      el("h3", {}, "Look up an entity"),
      el(
        "label",
        {},
        "Field",
        el(
          "select",
          { name: "field" },
          names.map((n) => el("option", {}, n)),
        ),
      ),
      el("label", {}, "Name", el("input", { name: "name", autocomplete: "off" })),
      el("button", {}, "Look up"),
    );
    this.node.replaceChildren(el("div", {}, this.form, this.answer), el("div", {}, this.lookup, this.found));
  }

  async send(event) {
    event.preventDefault();
    const values = new FormData(this.form),
      ask1 = {},
      refuse = (text) => this.answer.replaceChildren(el("p", { class: "bad" }, text));
    const given = (name) => String(values.get(name) || "").trim();
    for (const f of this.schema.categorical || []) if (given(f)) ask1[f] = given(f);
    for (const f of this.schema.multi || []) {
      const names = given(f)
        .split(",")
        .map((s) => s.trim())
        .filter(Boolean);
      ask1[f] = names;
    }
    for (const { name } of this.schema.numeric || []) {
      if (!given(name)) continue;
      ask1[name] = Number(given(name));
      if (!Number.isFinite(ask1[name])) return refuse(`${name} is “${given(name)}”, which is no number: write one such as 3.5.`);
    }
    const fields = [...this.form.elements].map((input) => input.name).filter(Boolean);
    if (!fields.some(given)) return refuse("Nothing to score: fill in at least one field.");
    const lacking = fields.filter((f) => this.schema.optional && !this.schema.optional.includes(f) && !given(f));
    if (lacking.length) return refuse(`An event has to have ${lacking.join(", ")}: fill in the field${lacking.length > 1 ? "s" : ""}.`);
    try {
      const a = await ask(this.model.path + "/explain", { event: ask1 });
      const binary = this.schema.task === "binary" && a.probabilities;
      const said = binary
        ? `${a.prediction} (${a.classes ? a.classes[1] : "1"}: ${Number((100 * a.probabilities[1]).toPrecision(3))} %)`
        : Array.isArray(a.prediction)
          ? a.prediction.join(", ") || "no class"
          : typeof a.prediction === "number"
            ? loss(a.prediction)
            : a.prediction;
      const name = (t) => t.features.join(" × ") || "(bias)";
      this.answer.replaceChildren(
        el("p", { class: "big" }, said),
        el(
          "p",
          { class: "note" },
          `By version ${a.version}` +
            (a.probabilities ? `, probabilities ${a.probabilities.map(loss).join(", ")}` : "") +
            (a.unseen.length ? `. Not known to it: ${a.unseen.join(", ")}` : "."),
        ),
        table(
          "What the prediction is made of",
          ["Term", "Adds to the outputs"],
          a.terms.slice(0, 20).map((t) => [name(t), t.contribution.map(loss).join(", ")]),
          [1],
        ),
      );
    } catch (error) {
      this.answer.replaceChildren(el("p", { class: "bad" }, error.message));
    }
  }

  async find(event) {
    event.preventDefault();
    const q = new FormData(this.lookup);
    if (!q.get("name").trim()) {
      this.found.replaceChildren(el("p", { class: "bad" }, `Nothing to look up: write the name of a ${q.get("field")}.`));
      return;
    }
    try {
      const e = await ask(
        `${this.model.path}/entity?field=${encodeURIComponent(q.get("field"))}&name=${encodeURIComponent(q.get("name").trim())}`,
      );
      if (!e.known) {
        this.found.replaceChildren(
          el("p", {}, `Version ${e.version} does not know ${e.field}=${e.name}.`),
          el("p", { class: "note" }, e.similar.length ? "It knows " + e.similar.join(", ") : ""),
        );
        return;
      }
      this.found.replaceChildren(
        el("p", {}, `Version ${e.version} knows ${e.field}=${e.name}.`),
        ...e.outputs.map((o) =>
          table(
            `${o.output}: alone ${loss(o.alone)}, and with`,
            ["With", "Weight"],
            o.interactions.map((x) => [x.features[1], loss(x.weight)]),
            [1],
          ),
        ),
      );
    } catch (error) {
      this.found.replaceChildren(el("p", { class: "bad" }, error.message));
    }
  }
}
