// The page: what is wrong, the models, one of them in detail. The address after # names it.

/** Page draws what /v1/stream sends. */
class Page {
  constructor(root) {
    this.link = document.getElementById("link");
    this.about = document.getElementById("about");
    this.alerts = el("div");
    this.models = el("div");
    this.detail = el("div");
    this.machine = el("div");
    this.runbooks = new Map();
    root.replaceChildren(
      this.alerts,
      section("models", "Models", this.models),
      this.detail,
      section("machine", "Memory and disk", this.machine),
    );
    addEventListener("hashchange", () => this.choose());
    let settled;
    addEventListener("resize", () => {
      clearTimeout(settled);
      settled = setTimeout(() => this.view?.draw(), 150);
    });
    this.listen();
  }

  chosen() {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  }

  choose() {
    const name = this.chosen();
    if (this.overview?.models.some((m) => m.model === name) && name !== this.view?.name) this.listen();
  }

  /** listen follows the daemon and the model that is chosen. */
  listen() {
    this.source?.close();
    clearTimeout(this.again);
    const name = this.overview?.models.some((m) => m.model === this.chosen()) ? this.chosen() : this.overview?.models[0]?.model;
    if (name !== undefined && name !== this.view?.name) {
      this.view = new ModelView(name, this.view?.range || "1 h");
      this.detail.replaceChildren(this.view.node);
    }
    const at = this.view?.curves.at,
      after = at?.length ? at[at.length - 1] : 0;
    this.source = new EventSource("/v1/stream" + (name === undefined ? "" : `?model=${encodeURIComponent(name)}&after=${after}`));
    this.source.addEventListener("status", (event) => this.show(JSON.parse(event.data)));
    this.source.addEventListener("state", (event) => this.view.update(JSON.parse(event.data), this.overview.now));
    this.source.addEventListener("curves", (event) => this.view.addCurves(JSON.parse(event.data)));
    this.source.onerror = () => {
      this.said("not connected: trying again", "bad");
      this.source.close();
      this.again = setTimeout(() => this.listen(), 3000);
    };
  }

  said(text, cls) {
    if (this.link.textContent !== text) this.link.replaceChildren(el("span", { class: cls }, text));
  }

  show(o) {
    this.overview = o;
    this.said("live", "good");
    this.about.textContent = `${o.version} · started ${ago(o.now, o.started)} · ${clock(Date.parse(o.now), true)}`;
    const title = (o.alerts.length ? `(${o.alerts.length}) ` : "") + "refitd";
    if (document.title !== title) document.title = title;
    this.showAlerts(o);
    this.showModels(o);
    const m = o.memory,
      limit = m.budget_bytes || m.computed_bytes;
    this.machine.replaceChildren(
      meter(
        "Memory in use",
        m.resident_bytes,
        limit,
        `${bytes(m.resident_bytes)} of ${bytes(limit)} ${m.budget_bytes ? "(memory_budget)" : "that the configuration may take"}`,
        true,
      ),
      ...o.disks.map((d) =>
        el(
          "p",
          { class: d.free_bytes < 2 * d.min_free_bytes ? "bad" : undefined },
          `${bytes(d.free_bytes)} free at ${d.path}; below ${bytes(d.min_free_bytes)} reading pauses`,
        ),
      ),
    );
    if (!this.view && o.models.length) this.listen();
  }

  showAlerts(o) {
    const key = JSON.stringify(o.alerts);
    if (key === this.alertsShown) return;
    this.alertsShown = key;
    const groups = new Map();
    for (const a of o.alerts) groups.set(a.severity + a.name, [...(groups.get(a.severity + a.name) || []), a]);
    this.alerts.replaceChildren(
      el(
        "section",
        { id: "alerts", class: o.alerts.length ? "wrong" : "well", "aria-labelledby": "alerts-title" },
        el(
          "h2",
          { id: "alerts-title" },
          o.alerts.length ? (o.ready ? "Needs attention" : "Not ready") : o.models.length ? "All is well" : "Ready: no model is configured",
        ),
        o.alerts.length ? el("ul", {}, [...groups.values()].map((g) => this.alertsOf(g))) : null,
      ),
    );
  }

  /** alertsOf is an entry for the alerts of one rule, which many models may have at once. */
  alertsOf(list) {
    const said = (a) => [a.model ? [el("a", { href: "#" + encodeURIComponent(a.model) }, a.model), ": "] : "", a.text].flat();
    const lead = el("strong", {}, list[0].severity === "critical" ? "Critical" : "Warning");
    const more = list.slice(3).map((a) => el("li", {}, said(a)));
    return el(
      "li",
      { class: list[0].severity },
      lead,
      " ",
      ...(list.length === 1 ? said(list[0]) : [el("ul", {}, list.slice(0, 3).map((a) => el("li", {}, said(a))))]),
      more.length ? el("details", {}, el("summary", {}, `and ${count(more.length)} more`), el("ul", {}, more)) : "",
      " ",
      this.runbook(list[0].name),
    );
  }

  /** runbook is what to do about an alert, read when somebody opens it. */
  runbook(name) {
    const text = el("pre", { tabindex: 0 }, this.runbooks.get(name) || "…");
    return el(
      "details",
      {
        ontoggle: async (event) => {
          if (!event.target.open || this.runbooks.has(name)) return;
          const response = await fetch("/runbook/" + encodeURIComponent(name));
          const said = await response.text();
          if (response.ok) this.runbooks.set(name, said);
          text.textContent = said;
        },
      },
      el("summary", {}, name + ": what to do"),
      text,
    );
  }

  showModels(o) {
    const rows = o.models.map((m) => [
      el("a", { href: "#" + encodeURIComponent(m.model), "aria-current": m.model === this.view?.name ? "true" : undefined }, m.model),
      m.ready ? (m.alerts ? { text: "needs attention", cls: "warn" } : { text: "ready", cls: "good" }) : { text: "not ready", cls: "bad" },
      m.champion ? `${m.champion}, ${ago(o.now, m.published)}` : "none yet",
      { text: loss(m.loss), cls: m.loss !== null && m.baseline !== null ? (m.loss <= m.baseline ? "good" : "bad") : "" },
      loss(m.live),
      m.baseline === null ? "–" : `${loss(m.baseline)} ${titles[m.best]}`,
      count(m.lag),
      count(m.rows),
    ]);
    const at = this.models.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.models.replaceChildren(
      table("Models of this daemon", ["Model", "State", "Version", "Loss", "Live", "Best baseline", "Lag", "Sample"], rows, [3, 4, 6, 7]),
    );
    if (at) [...this.models.querySelectorAll("a")].find((a) => a.getAttribute("href") === at)?.focus();
  }
}

new Page(document.getElementById("page"));
