// One model: five pages, of which one is shown.

const pages = { quality: "Quality", versions: "Versions", believes: "What it believes", try: "Try it", data: "Data" };

/** linkTo is the address of a page of a model. */
const linkTo = (name, page) => `#/${encodeURIComponent(name)}/${page}`;

/** ModelView is the part of the page about one model. */
class ModelView {
  constructor(name, range) {
    this.name = name;
    this.path = "/v1/models/" + encodeURIComponent(name);
    this.curves = new CurvesView(name, range);
    this.quality = new QualityView(name);
    this.data = new ReadingView(this.path);
    this.belief = new BeliefView(this.path);
    this.versions = new VersionsView(this);
    this.tryIt = new TryView(this);
    this.silence = el("p", { class: "notice warned", role: "status", hidden: true });
    // What the overview shows of it, too.
    this.glance = el("div", {}, this.quality.tiles, this.curves.loss.node);
    const q = this.quality,
      d = this.data;
    this.places = {
      quality: section("quality", name + ": quality", (this.home = el("div", {}, this.glance)), q.facts, this.curves.recall.node, q.losses, q.calibration.node),
      versions: section("versions", name + ": versions", this.versions.node),
      believes: section("believes", name + ": what it believes", this.belief.node),
      try: section("try", name + ": try it", this.tryIt.node),
      data: el(
        "div",
        {},
        section("reads", name + ": what it reads", d.reading, this.curves.lag.node),
        section("rejected", "Records that are no events", d.counts, el("p", { class: "tools" }, d.reason), d.records, d.more),
        section("sample", "Sample", d.sample, d.ages.node),
      ),
    };
    this.node = el("div", { class: "model" }, this.silence, Object.values(this.places));
    this.show();
  }

  link(page) {
    return linkTo(this.name, page);
  }

  /** show shows one of the pages, none of them without one. */
  show(page, rest = "") {
    this.page = page;
    for (const [name, node] of Object.entries(this.places)) node.hidden = name !== page;
    if (page) this.home.append(this.glance);
    if (page === "versions") this.versions.go(rest);
    if (page === "try") this.tryIt.go(rest);
    this.node.hidden = !page;
    this.resized();
    this.loadShown();
  }

  /** resized draws all plots at the width that there is now. */
  resized() {
    if (!this.state) return;
    this.data.showSample(this.state);
    this.quality.showCalibration(this.state.calibration);
    this.curves.show(this.state);
  }

  addCurves(more) {
    this.curves.add(more);
    if (this.state) this.showSilence();
    this.curves.draw();
  }

  /** update shows a new state. */
  update(state, now, lifecycle) {
    Object.assign(this, { state, now, lifecycle });
    this.quality.update(state, now);
    this.data.update(state, now);
    this.curves.show(state);
    this.showSilence();
    this.loadShown();
  }

  /** loadShown reads what the shown page needs of the versions, once for each version that was judged. */
  loadShown() {
    if (!this.state) return;
    const key = `${this.state.champion} ${this.state.judged?.version} ${this.state.digest}`;
    this.loaded ??= {};
    if (this.loaded[this.page] === key) return;
    this.loaded[this.page] = key;
    if (this.page === "versions") this.versions.load();
    if (this.page === "believes" && this.state.champion) this.belief.load();
    if (this.page === "try") this.tryIt.load();
  }

  reload() {
    this.loaded = {};
    this.loadShown();
  }

  /** showSilence says that nothing comes. */
  showSilence() {
    const { state, now } = this,
      quiet = silentFor(state, now);
    const text = !quiet
      ? ""
      : state.lag > 0
        ? `⚠ No event was applied for ${span(quiet)}, and ${plural(state.lag, "record")} wait: see Data.`
        : `⚠ Silent: no event for ${span(quiet)}. All that is in the topic is applied; the losses below are of the events before.`;
    this.silence.hidden = !quiet;
    if (this.silence.textContent !== text) this.silence.textContent = text;
  }
}

// How long nothing has to come, in milliseconds, before the page says so.
const silentAfter = 60e3;

/** silentFor is for how long no event was applied to a model, in milliseconds, 0 if that is not worth a word. */
function silentFor(state, now) {
  const quiet = state.heard && !state.standby ? Date.parse(now) - Date.parse(state.heard) : 0;
  return quiet > silentAfter ? quiet : 0;
}
