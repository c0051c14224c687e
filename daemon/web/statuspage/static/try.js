// Ask the version that consumers have: one event, what its prediction is made of, the ten best names, one entity.

// Terms below this share of the largest one are added up: they would only say what rounding is.
const leastShare = 0.005,
  shownTerms = 15;

/** TryView asks the champion about events. */
class TryView {
  constructor(model) {
    this.model = model;
    this.form = el("form", { onsubmit: (event) => this.send(event) });
    this.lookup = el("form", { onsubmit: (event) => this.find(event) });
    this.answer = el("div", { "aria-live": "polite" });
    this.best = el("div", { "aria-live": "polite" });
    this.found = el("div", { "aria-live": "polite" });
    this.node = el("div", {}, el("p", { class: "empty" }, "Nothing to ask yet: no version was published."));
    this.examples = [];
    this.next = 0;
  }

  /** load makes the form of the fields that the champion has, and asks about the first of its events. */
  async load() {
    const version = this.model.state.champion;
    if (!version) return;
    let manifest;
    try {
      manifest = (await ask(`${this.model.path}/versions/${version}`)).manifest;
    } catch {
      return; // shown with the versions
    }
    const schema = manifest.schema;
    this.link = manifest.link;
    if (JSON.stringify(schema) === this.shown) return;
    this.shown = JSON.stringify(schema);
    this.schema = schema;
    this.derived = new Set((schema.derived || []).map((d) => d.name));
    const named = [...(schema.categorical || []), ...(schema.multi || [])];
    const own = (f) => !this.derived.has(f) && !f.includes("×");
    this.over = (schema.categorical || []).filter(own);
    this.names = el("datalist", { id: "names" });
    const input = (field, note, mode, completes) =>
      el(
        "label",
        {},
        field + (note ? ` (${note})` : ""),
        el("input", {
          name: field,
          inputmode: mode,
          autocomplete: "off",
          list: completes ? "names" : undefined,
          onfocus: completes ? () => this.complete(field, "") : undefined,
          oninput: completes ? (event) => this.complete(field, event.target.value) : undefined,
        }),
      );
    this.overSelect = el("select", { "aria-label": "Best names of" }, this.over.map((f) => el("option", {}, f)));
    this.overSelect.value = this.over[1] || this.over[0]; // a user comes first, and what is offered second
    this.overSelect.addEventListener("change", () => this.rank());
    this.classSelect = el("select", { "aria-label": "Class" }, (schema.classes || []).map((c) => el("option", {}, c)));
    this.classSelect.addEventListener("change", () => (this.explain(), this.rank()));
    this.form.replaceChildren(
      el("h3", {}, "Score and explain an event"),
      ...this.over.map((f) => input(f, "", undefined, true)),
      ...(schema.multi || []).filter(own).map((f) => input(f, "names, with commas between")),
      ...(schema.numeric || []).filter((f) => own(f.name)).map((f) => input(f.name, "number", "decimal")),
      ...(schema.classes?.length ? [el("label", {}, "Explain class", this.classSelect)] : []),
      el("button", {}, "Score"),
      el("button", { type: "button", hidden: true, onclick: () => this.example() }, "Another event"),
      this.names,
    );
    this.another = this.form.querySelector("button[type=button]");
    this.lookup.replaceChildren(
      el("h3", {}, "Look up an entity"),
      el("label", {}, "Field", el("select", { name: "field" }, named.map((n) => el("option", {}, n)))),
      el("label", {}, "Name", el("input", { name: "name", autocomplete: "off", list: "names", oninput: (event) => this.complete(this.lookup.elements.field.value, event.target.value) })),
      el("button", {}, "Look up"),
    );
    this.node.replaceChildren(
      this.form,
      el("div", { class: "try" }, this.answer, el("div", {}, this.over.length ? el("p", {}, el("label", { class: "inline" }, "The ten best of ", this.overSelect)) : "", this.best)),
      this.lookup,
      this.found,
    );
    await this.readExamples();
  }

  /** readExamples takes the events that the version was checked with: they exist. */
  async readExamples() {
    try {
      const response = await fetch(`${this.model.path}/versions/${this.model.state.champion}/files/golden.jsonl`);
      if (response.ok) this.examples = (await response.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line).event);
    } catch {
      // without examples the form is empty
    }
    this.another.hidden = this.examples.length < 2;
    if ([...this.form.elements].some((i) => i.tagName === "INPUT" && i.value)) return;
    if (this.wanted) this.fill(this.wanted);
    else if (this.examples.length) this.example();
  }

  /** go takes the event that the address names. */
  go(rest) {
    try {
      this.wanted = rest ? JSON.parse(rest) : undefined;
    } catch {
      this.wanted = undefined;
    }
  }

  /** example asks about the next event that exists. */
  example() {
    this.fill(this.examples[this.next++ % this.examples.length]);
  }

  /** fill writes an event into the form, and asks about it. */
  fill(event) {
    for (const i of this.form.elements) {
      if (i.tagName !== "INPUT") continue;
      const value = event[i.name];
      i.value = Array.isArray(value) ? value.join(", ") : value ?? "";
    }
    this.ask();
  }

  /** complete lists the names that begin like what is written. */
  complete(field, text) {
    this.completing ??= after(150, async () => {
      const [f, prefix] = this.completed;
      try {
        const { names } = await ask(`${this.model.path}/names?field=${encodeURIComponent(f)}&prefix=${encodeURIComponent(prefix)}`);
        if (this.completed[0] === f && this.completed[1] === prefix) this.names.replaceChildren(...names.map((n) => el("option", { value: n })));
      } catch {
        // a field can be filled in without
      }
    });
    this.completed = [field, text.trim()];
    this.completing();
  }

  /** event returns what the form says, or refuses it in words. */
  event() {
    const values = new FormData(this.form),
      event = {};
    const refuse = (text) => {
      this.answer.replaceChildren(el("p", { class: "bad" }, text));
      this.best.replaceChildren();
      return null;
    };
    const given = (name) => String(values.get(name) || "").trim();
    for (const f of this.over) if (given(f)) event[f] = given(f);
    for (const f of this.schema.multi || []) {
      if (this.derived.has(f)) continue;
      event[f] = given(f)
        .split(",")
        .map((s) => s.trim())
        .filter(Boolean);
    }
    for (const { name } of this.schema.numeric || []) {
      if (!given(name)) continue;
      event[name] = Number(given(name));
      if (!Number.isFinite(event[name])) return refuse(`${name} is “${given(name)}”, which is no number: write one such as 3.5.`);
    }
    const fields = [...this.form.elements].map((i) => i.name).filter(Boolean);
    if (!fields.some(given)) return refuse("Nothing to score: fill in at least one field.");
    const lacking = fields.filter((f) => this.schema.optional && !this.schema.optional.includes(f) && !given(f));
    if (lacking.length) return refuse(`An event has to have ${lacking.join(", ")}: fill in the field${lacking.length > 1 ? "s" : ""}.`);
    return event;
  }

  send(event) {
    event.preventDefault();
    this.ask();
  }

  async ask() {
    const event = this.event();
    if (!event) return;
    this.asked = event;
    if (this.model.page === "try") history.replaceState(null, "", `${this.model.link("try")}/${encodeURIComponent(JSON.stringify(event))}`);
    this.rank();
    try {
      this.explained = await ask(this.model.path + "/explain", { event });
    } catch (error) {
      this.answer.replaceChildren(el("p", { class: "bad" }, error.message));
      return;
    }
    const a = this.explained;
    if (a.ranked?.length) this.classSelect.value = a.ranked[0];
    else if (Array.isArray(a.prediction) && a.prediction.length) this.classSelect.value = a.prediction[0];
    this.explain();
  }

  /** explain shows the prediction, the probabilities by name, and the terms. */
  explain() {
    const a = this.explained;
    if (!a) return;
    const said = Array.isArray(a.prediction) ? a.prediction.join(", ") || "no class" : typeof a.prediction === "number" ? loss(a.prediction) : a.prediction;
    const bar = (p) => el("progress", { max: 1, value: p.toFixed(4), "aria-label": percent(p) });
    this.answer.replaceChildren(
      el("p", { class: "big" }, `${this.schema.label || "prediction"}: ${said}`),
      el("p", { class: "note" }, `By version ${a.version}` + (a.unseen.length ? `. Not known to it: ${a.unseen.join(", ")}` : ".")),
      a.probabilities
        ? table(
            "Probabilities",
            [this.schema.label || "class", "Probability", "As a bar"],
            this.likely(a).map(([name, p]) => [name, percent(p), bar(p)]),
            [1],
          )
        : "",
      table("What the prediction is made of, largest first", ["Term", "Effect"], this.terms(a)),
    );
  }

  /** likely returns the names of classes or levels with their probabilities: all levels in order, of many classes the ten likeliest. */
  likely(a) {
    const names = a.classes || this.schema.classes;
    const rows = a.probabilities.map((p, i) => [names?.[i] ?? String(this.link === "ordinal" ? i + 1 : i), p]);
    if (this.link === "ordinal" || rows.length <= 2) return rows;
    return rows.sort((x, y) => y[1] - x[1]).slice(0, 10);
  }

  /** output returns which number of a term is shown, and what it adds to. A level's outputs are those of being at most that. */
  output() {
    const at = Math.max(0, (this.schema.classes || []).indexOf(this.classSelect.value));
    switch (this.link) {
      case "logistic":
        return { of: (c) => c[at], text: (v) => `adds ${signed(v)} log odds (× ${factor(v)})` };
      case "softmax":
        return { of: (c) => c[at], text: (v) => `adds ${signed(v)} to ${this.classSelect.value} (× ${factor(v)})` };
      case "ordinal":
        return { of: (c) => -c.reduce((s, v) => s + v, 0) / c.length, text: (v) => `adds ${signed(v)} log odds of a higher ${this.schema.label} (× ${factor(v)})` };
    }
    return { of: (c) => c[at], text: (v) => `adds ${signed(v)}${this.schema.classes?.length ? ` to the score of ${this.classSelect.value}` : ""}` };
  }

  terms(a) {
    const { of, text } = this.output();
    const all = a.terms.map((t) => [t.features.join(" × ") || "(start: no feature known)", of(t.contribution)]).sort((x, y) => Math.abs(y[1]) - Math.abs(x[1]));
    const least = leastShare * Math.abs(all[0]?.[1] ?? 0);
    const shown = all.filter((t) => Math.abs(t[1]) > least).slice(0, shownTerms),
      rest = all.slice(shown.length);
    const effect = (v) => ({ text: text(v), cls: v >= 0 ? "good" : "bad" });
    const rows = shown.map(([name, v]) => [name, effect(v)]);
    const left = rest.reduce((s, t) => s + t[1], 0);
    if (rest.length) rows.push([`${plural(rest.length, "smaller term")} together`, Math.abs(left) > least / 10 ? effect(left) : "nothing to speak of"]);
    return rows;
  }

  /** rank shows the ten names of a field that are predicted best with the rest of the event. */
  async rank() {
    const over = this.overSelect.value;
    if (!this.asked || !over) return;
    const classes = this.schema.classes?.length ? { class: this.classSelect.value } : {};
    let answer;
    try {
      answer = await ask(this.model.path + "/topk", { event: this.asked, over, k: 10, ...classes });
    } catch (error) {
      this.best.replaceChildren(el("p", { class: "bad" }, error.message));
      return;
    }
    const rest = Object.entries(this.asked).filter(([f]) => f !== over && this.over.includes(f)).map(([f, v]) => `${f} ${v}`);
    const shown = (v) => (this.schema.task === "binary" && v >= 0 && v <= 1 ? `${Number((100 * v).toPrecision(3))} %` : loss(v));
    this.best.replaceChildren(
      table(
        `The ten best of ${over}${rest.length ? " for " + rest.join(", ") : ""}`,
        ["Rank", over, this.schema.task === "binary" ? `P(${this.schema.positive || this.schema.label || "1"})` : classes.class || this.schema.label || "Prediction"],
        answer.items.map((item, i) => [i + 1, item.name, shown(item.prediction)]),
        [2],
        "It knows no name of that field.",
      ),
    );
  }

  async find(event) {
    event.preventDefault();
    const q = new FormData(this.lookup);
    if (!q.get("name").trim()) {
      this.found.replaceChildren(el("p", { class: "bad" }, `Nothing to look up: write the name of a ${q.get("field")}.`));
      return;
    }
    try {
      const e = await ask(`${this.model.path}/entity?field=${encodeURIComponent(q.get("field"))}&name=${encodeURIComponent(q.get("name").trim())}`);
      const said = Object.entries(e.tables || {}).map(([field, value]) => [field, Array.isArray(value) ? value.join(", ") : `${value}`]);
      const tables = said.length ? table("Tables say", ["Field", "Value"], said, []) : "";
      if (!e.known) {
        this.found.replaceChildren(
          el("p", {}, `Version ${e.version} ${said.length ? "knows it by tables alone:" : "does not know"} ${e.field}=${e.name}.`),
          tables,
          el("p", { class: "note" }, e.similar.length ? "It knows " + e.similar.join(", ") : ""),
        );
        return;
      }
      this.found.replaceChildren(
        el("p", {}, `Version ${e.version} knows ${e.field}=${e.name}.`),
        tables,
        ...e.outputs.map((o) =>
          table(
            `${o.output}: alone ${signed(o.alone)}, and with`,
            ["With", "Adds"],
            o.interactions.map((x) => [x.features[1], signed(x.weight)]),
            [1],
          ),
        ),
      );
    } catch (error) {
      this.found.replaceChildren(el("p", { class: "bad" }, error.message));
    }
  }
}
