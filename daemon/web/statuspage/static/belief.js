// What a version has learned.

/** BeliefView shows how much each field counts, and the strongest interactions. */
class BeliefView {
  constructor(path) {
    this.path = path;
    this.node = el("div", {}, el("p", { class: "empty" }, "Nothing yet: no version was published."));
  }

  async load() {
    let b;
    try {
      b = await ask(this.path + "/belief");
    } catch (error) {
      this.node.replaceChildren(el("p", { class: "bad" }, error.message));
      return;
    }
    const bar = (share) => el("progress", { max: 1, value: share.toFixed(4), "aria-label": percent(share) });
    const known = b.belief.outputs.filter((o) => o.interactions.length);
    this.node.replaceChildren(
      table(
        "Fields by how much they move predictions",
        ["Field", "Share of the movement", "As a bar"],
        b.relevance.map((f) => [f.field, percent(f.share), bar(f.share)]),
        [1],
      ),
      ...known.map((o, i) =>
        details(
          "belief-" + i,
          `Strongest interactions: ${o.output}`,
          table(
            "Interactions of " + o.output,
            ["Features", "Adds to the output"],
            o.interactions.map((x) => [x.features.join(" × "), { text: signed(x.weight), cls: x.weight >= 0 ? "good" : "bad" }]),
            [1],
          ),
        ),
      ),
      known.length ? "" : el("p", { class: "note" }, "It has no interactions: each field and each cross counts for itself."),
      el(
        "p",
        { class: "note" },
        `Version ${b.version}: ${bytes(b.belief.sizes.bytes)}, ${count(b.belief.sizes.nonzero)} of ${plural(b.belief.sizes.parameters, "parameter")} not zero.`,
      ),
    );
    const first = this.node.querySelector("details");
    if (first) first.open = true;
  }
}
