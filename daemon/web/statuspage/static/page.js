// The page: a menu, what is wrong, the models, one of them in detail. The address after # names the page, and survives a reload.

/** Page draws what /v1/stream sends. */
class Page {
  constructor(root) {
    this.link = document.getElementById("link");
    this.about = document.getElementById("about");
    this.alerts = el("div");
    this.models = el("div");
    this.detail = el("div");
    this.machine = el("div");
    this.now = el("div");
    this.menu = el("nav", { "aria-label": "Pages" });
    this.runbooks = new Map();
    this.overviewPage = el(
      "div",
      {},
      section("models", "Models", this.models, meanings("What the columns mean", modelWords)),
      this.now,
      section("machine", "Memory and disk", this.machine),
    );
    root.before(this.menu);
    root.replaceChildren(this.alerts, this.overviewPage, this.detail);
    addEventListener("hashchange", () => this.go());
    addEventListener(
      "resize",
      after(150, () => this.view?.resized()),
    );
    this.listen();
  }

  /** address returns what the address names: a model, a page of it, and what follows. Without a page it is the overview. */
  address() {
    try {
      const parts = location.hash.slice(1).split("/").map(decodeURIComponent);
      if (parts[0]) return { name: parts[0], page: "quality", rest: "" }; // as addresses were once
      return { name: parts[1], page: pages[parts[2]] ? parts[2] : parts[1] ? "quality" : undefined, rest: parts[3] || "" };
    } catch {
      return {};
    }
  }

  /** chosen is the name of the model to follow: that of the address, the one before, or the first. */
  chosen() {
    const has = (name) => this.overview?.models.some((m) => m.model === name);
    const { name } = this.address();
    return has(name) ? name : has(this.view?.name) ? this.view.name : this.overview?.models[0]?.model;
  }

  /** go shows the page that the address names. */
  go() {
    if (!this.overview) return;
    if (this.chosen() !== this.view?.name) this.listen();
    this.showPage();
    scrollTo(0, 0);
  }

  /** showPage shows the overview, or a page of the model. */
  showPage() {
    const { name, page, rest } = this.address();
    const on = this.view && name === this.view.name ? page : undefined;
    this.overviewPage.hidden = Boolean(on);
    this.view?.show(on, rest);
    if (!on && this.view) this.glance();
    this.alertsShown = this.menuShown = undefined;
    if (this.overview) {
      this.showMenu();
      this.showAlerts(this.overview);
      this.entitle();
    }
    if (!on) this.view?.resized();
  }

  /** glance is what the overview shows of the model that is followed. */
  glance() {
    const { name } = this.view;
    this.now.replaceChildren(section("now", name, this.view.glance));
  }

  entitle() {
    const o = this.overview,
      on = this.view?.page;
    const title = (o.alerts.length ? `(${o.alerts.length}) ` : "") + (on ? `${this.view.name}: ${pages[on]} – ` : "") + "refitd";
    if (document.title !== title) document.title = title;
  }

  /** showMenu has the overview, and the pages of the model that is followed. */
  showMenu() {
    const name = this.view?.name,
      on = this.view?.page;
    const key = JSON.stringify([name, on, this.overview.models.map((m) => m.model)]);
    if (key === this.menuShown) return;
    this.menuShown = key;
    const focused = this.menu.contains(document.activeElement) ? document.activeElement.textContent : null;
    const item = (href, text, current) => el("li", {}, el("a", { href, "aria-current": current ? "page" : undefined }, text));
    const many = this.overview.models.length > 1;
    const choose = (event) => (location.hash = linkTo(event.target.value, on || "quality"));
    this.menu.replaceChildren(
      el(
        "ul",
        {},
        item("#/", "Overview", !on),
        many
          ? el("li", {}, el("select", { "aria-label": "Model", onchange: choose }, this.overview.models.map((m) => el("option", { selected: m.model === name }, m.model))))
          : name && el("li", { class: "of" }, name),
        name ? Object.entries(pages).map(([p, title]) => item(linkTo(name, p), title, p === on)) : null,
      ),
    );
    if (focused) [...this.menu.querySelectorAll("a")].find((a) => a.textContent === focused)?.focus();
  }

  /** listen follows the daemon and the model that is chosen. */
  listen() {
    this.source?.close();
    clearTimeout(this.again);
    const name = this.chosen();
    if (name !== undefined && name !== this.view?.name) {
      this.view = new ModelView(name, this.view?.curves.range || "1 h");
      this.detail.replaceChildren(this.view.node);
      this.showPage();
    }
    const at = this.view?.curves.all.at,
      since = at?.length ? at[at.length - 1] : 0;
    this.source = new EventSource("/v1/stream" + (name === undefined ? "" : `?model=${encodeURIComponent(name)}&after=${since}`));
    this.source.addEventListener("status", (event) => this.show(JSON.parse(event.data)));
    this.source.addEventListener("state", (event) => this.view.update(JSON.parse(event.data), this.overview.now, this.overview.lifecycle));
    this.source.addEventListener("curves", (event) => this.view.addCurves(JSON.parse(event.data)));
    this.source.onerror = () => this.lost();
    this.expect();
  }

  /** expect takes a stream for lost that says nothing for a while: a machine that has gone closes no connection. */
  expect() {
    clearTimeout(this.again);
    this.again = setTimeout(() => this.lost(), silentStream);
  }

  /** lost says that the page is not followed by the daemon any more, and tries until it is. */
  lost() {
    this.source.close();
    clearTimeout(this.again);
    const as = this.overview ? `. What is below is from ${clock(Date.parse(this.overview.now), true)}` : "";
    this.said(`not connected: the daemon does not answer, trying again every ${retryEvery / 1000} s${as}`, "bad");
    document.body.classList.add("stale");
    this.again = setTimeout(async () => {
      try {
        this.overview = await ask("/v1/status"); // which models there are now
      } catch {
        return this.lost();
      }
      if (!this.overview.models.some((m) => m.model === this.view?.name)) {
        this.view = undefined;
        this.detail.replaceChildren();
        this.now.replaceChildren();
      }
      this.listen();
    }, retryEvery);
  }

  said(text, cls) {
    if (this.link.textContent !== text) this.link.replaceChildren(el("span", { class: cls }, text));
  }

  show(o) {
    this.overview = o;
    this.expect();
    this.said("live", "good");
    document.body.classList.remove("stale");
    this.about.textContent = `${o.version} · started ${ago(o.now, o.started)} · ${clock(Date.parse(o.now), true)}`;
    this.showMenu();
    this.entitle();
    this.showAlerts(o);
    this.showModels(o);
    const m = o.memory,
      limit = m.budget_bytes || m.computed_bytes;
    this.machine.replaceChildren(
      limit ? meter(
        "Memory in use",
        m.resident_bytes,
        limit,
        `${bytes(m.resident_bytes)} of ${bytes(limit)} ${m.budget_bytes ? "(memory_budget)" : "that the configuration may take"}`,
        true,
      ) : el("p", {}, `${bytes(m.resident_bytes)} of memory in use; no limit is known.`),
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

  /** showAlerts shows what is wrong: on the page of a model, with it or with the daemon. */
  showAlerts(o) {
    const of = this.view?.page ? this.view.name : undefined;
    const failed = (a) => a.name === "RefitdTrainingFailing"; // what has to be seen first
    const alerts = o.alerts.filter((a) => !of || !a.model || a.model === of).sort((a, b) => failed(b) - failed(a));
    const key = JSON.stringify([of, alerts]);
    if (key === this.alertsShown) return;
    this.alertsShown = key;
    if (of && !alerts.length) return this.alerts.replaceChildren();
    const groups = new Map();
    for (const a of alerts) groups.set(a.severity + a.name, [...(groups.get(a.severity + a.name) || []), a]);
    this.alerts.replaceChildren(
      el(
        "section",
        { id: "alerts", class: !alerts.length ? "well" : alerts.some((a) => a.severity === "critical") ? "wrong" : "warned", "aria-labelledby": "alerts-title" },
        el(
          "h2",
          { id: "alerts-title" },
          alerts.length ? (o.ready ? "Needs attention" : "Not ready") : o.models.length ? "All is well" : "Ready: no model is configured",
        ),
        alerts.length ? el("ul", {}, [...groups.values()].map((g) => this.alertsOf(g))) : null,
      ),
    );
  }

  /** alertsOf is an entry for the alerts of one rule, which many models may have at once. */
  alertsOf(list) {
    const said = (a) => [a.model ? [el("a", { href: linkTo(a.model, alertPages[a.name] || "quality") }, a.model), ": "] : "", a.text].flat();
    const lead = el("strong", {}, list[0].severity === "critical" ? "✕ Critical" : "⚠ Warning");
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

  /** stateOf says in words whether a model does its work, and whether it has any. */
  stateOf(m, now) {
    const quiet = silentFor(m, now),
      silence = quiet ? `, no event for ${span(quiet)}` : "";
    if (!m.ready) return { text: "not ready" + silence, cls: "bad" };
    if (m.alerts) return { text: "needs attention" + silence, cls: "warn" };
    return quiet ? { text: "ready" + silence, cls: "warn" } : { text: "ready", cls: "good" };
  }

  showModels(o) {
    const rows = o.models.map((m) => [
      el("a", { href: linkTo(m.model, "quality") }, m.model),
      this.stateOf(m, o.now),
      el("a", { href: linkTo(m.model, "data") }, count(m.lag)),
      el("a", { href: linkTo(m.model, "versions") }, m.champion ? `${m.champion}, ${ago(o.now, m.published)}` : "none yet"),
      { text: loss(m.loss), cls: m.loss !== null && m.baseline !== null ? (m.loss <= m.baseline ? "good" : "bad") : "" },
      loss(m.live),
      m.baseline === null ? "–" : `${loss(m.baseline)} ${titles[m.best]}`,
      count(m.rows),
      el("a", { href: linkTo(m.model, "try") }, "try it"),
    ]);
    const at = this.models.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.models.replaceChildren(
      table(
        "Models of this daemon",
        ["Model", "State", "Lag (records)", "Version", "Loss", "Live", "Best baseline", "Sample (rows)", "Ask"],
        rows,
        [2, 4, 5, 7],
        "No model is configured. A model is an entry of models in the configuration; refitd init writes one from a file or a topic.",
      ),
    );
    if (at) [...this.models.querySelectorAll("a")].find((a) => a.getAttribute("href") === at)?.focus();
  }
}

// How long a stream says nothing before it is taken for lost, and between two tries, in milliseconds.
const silentStream = 15e3,
  retryEvery = 3000;

const modelWords = {
  State: "Whether it does its work, and for how long no event came if that is more than a minute.",
  "Lag (records)": "In the topic and not applied yet.",
  Version: "That consumers have, and when it was published.",
  Loss: "Of that version over the last events, each scored before it is learned from. RMSE of numbers, log loss of classes; lower is better.",
  Live: "The same of the model that learns from each event, which is ahead of the published version.",
  "Best baseline": "The same of the best simple predictor, such as the mean of each item, or a logistic regression that learns from each event. A model that is worse than it is of no use.",
};

// Where to look first, by alert.
const alertPages = {
  RefitdRejectRatioHigh: "data",
  RefitdPartitionHalted: "data",
  RefitdConsumerLagGrowing: "data",
  RefitdMappedFieldAbsent: "data",
  RefitdSchemaUnavailable: "data",
  RefitdSchemaLosesField: "data",
  RefitdEventTimesWrongUnit: "data",
  RefitdModelStale: "versions",
  RefitdTrainingFailing: "versions",
  RefitdTrainingDisabled: "versions",
  RefitdColdRefitRejected: "versions",
};

new Page(document.getElementById("page"));
