// Opens the status page at each address given as NAME=URL, as a person would: looks, reads tables, asks, and goes through it by keyboard. Prints one JSON
// object: what went wrong, and how long the page with most to show took.
const puppeteer = require("puppeteer-core");
const axe = require("fs").readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const net = require("net");
const looks = ["light", "dark"].flatMap((scheme) => [
  { name: scheme, width: 1280, scheme },
  { name: scheme + "-phone", width: 390, scheme },
]);

async function seen(page, look) {
  await page.setViewport({ width: look.width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: look.scheme }]);
}

async function open(browser, url, look, wrong) {
  const page = await browser.newPage();
  page.clock = await page.createCDPSession();
  await page.clock.send("Performance.disable"); // which puppeteer has begun by the clock on the wall
  await page.clock.send("Performance.enable", { timeDomain: "threadTicks" });
  await seen(page, look);
  page.on("console", (m) => ["error", "warn"].includes(m.type()) && wrong.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => wrong.push(`error: ${e.message}`));
  const began = Date.now();
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await page.waitForFunction(() => document.getElementById("alerts"), { timeout: 20000 });
  return { page, began };
}

/** worked is how much processor time the page has taken so far, in milliseconds, whatever else used the machine. */
async function worked(page) {
  const { metrics } = await page.clock.send("Performance.getMetrics");
  const seconds = (name) => metrics.find((m) => m.name === name).value;
  return 1000 * (seconds("ScriptDuration") + seconds("LayoutDuration") + seconds("RecalcStyleDuration"));
}

const pages = ["quality", "versions", "believes", "try", "data"];

/** visit opens a page of the model by its link in the menu, as a person would: by one click. */
async function visit(page, name) {
  await page.evaluate((name) => [...document.querySelectorAll("nav a")].find((a) => a.hash.endsWith(name ? "/" + name : "#/")).click(), name);
  await page.waitForFunction((name) => document.querySelector("nav a[aria-current]")?.hash.endsWith(name ? "/" + name : "#/"), {}, name);
}

/** near sees, from the overview, what has to be one click away at most: the last failure, a top ten, why a version is there, a rejected record. */
async function near(page, wrong) {
  const shows = (what, text, place) =>
    page
      .waitForFunction(
        (text, place) => [...document.querySelectorAll(place)].some((e) => e.checkVisibility() && e.innerText.includes(text)),
        { timeout: 5000 },
        text,
        place,
      )
      .catch(() => wrong.push(`${what} is not one click away: no “${text}” in ${place}`));
  await visit(page, "");
  await shows("the last failure", "The last refit failed: ", "#alerts");
  for (const [name, what, text, place] of [
    ["try", "a top ten", "The ten best of item for user u1", "#try caption"],
    ["versions", "why a version is there", "gate loss 0.9, champion 1.0 on 400 rows", "#versions .reason"],
    ["data", "a rejected record", "<string of 4>", "#rejected code"],
    ["quality", "the last failure", "The last refit failed: ", "#alerts > ul > li:first-child"],
  ]) {
    await visit(page, "");
    await visit(page, name);
    await shows(what, text, place);
  }
}

/** kept reloads each page: the address names it still. */
async function kept(page, wrong) {
  for (const name of pages) {
    await visit(page, name);
    await page.reload({ waitUntil: "domcontentloaded" });
    await page
      .waitForFunction((name) => document.getElementById(name === "data" ? "reads" : name)?.checkVisibility() && document.title.includes(": "), { timeout: 5000 }, name)
      .catch(() => wrong.push(`after a reload the page ${name} is not shown`));
  }
}

/** cut finds text that is cut off: a box that does not scroll, and has more than it shows. */
async function cut(page, wrong) {
  const found = await page.$$eval("main td, main th, main dd, main p, main li, main .reason, main code, nav a, svg text", (list) =>
    list
      .filter((e) => {
        if (!e.checkVisibility() || e.closest("thead")) return false;
        if (e.tagName !== "text") return e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).display !== "inline";
        const box = e.getBoundingClientRect(),
          around = e.ownerSVGElement.getBoundingClientRect();
        return box.left < around.left - 1 || box.right > around.right + 1;
      })
      .map((e) => `cut off: ${e.textContent.slice(0, 60)}`),
  );
  wrong.push(...new Set(found));
}

/** promote has consumers go back to an older version: it says what will change, and asks why. */
async function promote(page, wrong) {
  await visit(page, "versions");
  await page.waitForSelector("#versions button[aria-label='roll back to 1']");
  await page.click("#versions button[aria-label='roll back to 1']");
  await page.waitForFunction(() => document.querySelector("dialog[open]")?.innerText.match(/Predictions of \d golden events? differ by/));
  await page.keyboard.type("too hot");
  await page.keyboard.press("Enter");
  await page
    .waitForFunction(() => document.getElementById("versions").innerText.includes("Version 1 is the champion now"), { timeout: 5000 })
    .catch(() => wrong.push("the champion was not moved"));
}

/** tasks asks models of every task: each says in words what its terms add, and has ten best names. */
async function tasks(page, wrong) {
  const words = {
    ratings: /adds [+−][\d.]+ log odds of a higher y \(× [\d.]+\)/,
    clicks: /adds [+−][\d.]+ log odds \(× [\d.]+\)/,
    prices: /adds [+−][\d.]+/,
    colours: /adds [+−][\d.]+ to (red|green|blue) \(× [\d.]+\)/,
    labels: /adds [+−][\d.]+ log odds \(× [\d.]+\)/,
  };
  for (const [model, text] of Object.entries(words)) {
    await page.evaluate((model) => (location.hash = `#/${model}/try`), model);
    await page
      .waitForFunction(
        (text) => new RegExp(text).test(document.getElementById("try")?.innerText) && document.querySelectorAll("#try caption").length > 1,
        { timeout: 20000 },
        text.source,
      )
      .catch(() => wrong.push(`${model}: no ${text}`));
    const shown = await page.$eval("#try", (e) => e.innerText);

    if (!shown.includes("The ten best of item for user u1") || !/1\s+i\d/.test(shown)) wrong.push(`${model}: no top ten in ${shown.slice(0, 400)}`);
    if (/e-\d/.test(shown)) wrong.push(`${model}: a number such as 1e-16 is shown`);
    const named = { colours: "blue", labels: "x", ratings: "5" }[model];
    if (named && !new RegExp(`^${named}\\s+[\\d.]+ %`, "m").test(shown)) wrong.push(`${model}: no probability of ${named} in ${shown.slice(0, 400)}`);
  }
}

/** settled waits until the page does not grow any more, so that a picture has all of it. */
async function settled(page) {
  for (let before = -1, now = 0; before !== now; ) {
    before = now;
    await new Promise((done) => setTimeout(done, 200));
    now = await page.evaluate(() => document.documentElement.scrollHeight);
  }
}

/**
 * rules runs those of axe-core over the page, in the dark those of colours alone, as nothing else differs; bypassing the content policy is what a debugger
 * may do and no page can.
 */
async function rules(page, look, wrong) {
  await page.evaluate(axe);
  const which = { resultTypes: ["violations"], ...(look.scheme === "dark" && { runOnly: ["color-contrast"] }) };
  const found = await page.evaluate(async (options) => (await axe.run(document, options)).violations, which);
  for (const v of found)
    wrong.push(
      `axe ${v.id}: ${v.help}: ${v.nodes
        .map((n) => n.html.slice(0, 120))
        .slice(0, 3)
        .join(" | ")}`,
    );
}

/** phone measures what a thumb needs: controls of 44 pixels, and no table or page that scrolls sideways. */
async function phone(page, wrong) {
  const found = await page.evaluate(() => {
    const small = [...document.querySelectorAll("main button, main input, main select, main summary, #models a, nav a, nav select")]
      .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44)
      .map((e) => `${e.getBoundingClientRect().height} pixels high: ${e.outerHTML.slice(0, 80)}`);
    const wide = [...document.querySelectorAll(".scroll")]
      .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth)
      .map((e) => `${e.scrollWidth - e.clientWidth} pixels of a table are off the screen: ${e.getAttribute("aria-label")}`);
    return [...small, ...wide];
  });
  wrong.push(...found);
}

/** bounded looks at open table views of plots: none may bury the page. */
async function bounded(page, wrong) {
  const high = await page.$$eval("figure .scroll", (list) => list.map((e) => e.clientHeight).filter((h) => h > 400));
  if (high.length) wrong.push(`table views of plots are ${high} pixels high`);
}

/** refused asks for what cannot be answered: the page says why in words. */
async function refused(page, wrong) {
  await visit(page, "try");
  await page.waitForFunction(() => document.querySelector("#try input[name=user]")?.value === "u1"); // an event that exists
  await page.waitForFunction(() => /adds [+−]/.test(document.getElementById("try").textContent));
  await page.$$eval("#try input", (list) => list.forEach((i) => (i.value = "")));
  const said = async (form, fields, want) => {
    for (const [name, text] of Object.entries(fields)) await page.type(`#try input[name=${name}]`, text);
    await page.evaluate((n) => document.querySelectorAll("#try form")[n].requestSubmit(), form);
    await page
      .waitForFunction((text) => document.getElementById("try").textContent.includes(text), { timeout: 3000 }, want)
      .catch(() => wrong.push(`bad input: “${want}” is not said`));
    await page.$$eval("#try input", (list) => list.forEach((i) => (i.value = "")));
  };
  await said(0, {}, "Nothing to score: fill in at least one field.");
  await said(0, { user: "u1", item: "i2", age: "many" }, "age is “many”, which is no number");
  await said(0, { user: "nobody", item: "i2", age: "33" }, "Not known to it: ");
  await said(1, { name: "  " }, "Nothing to look up: write the name of a ");
  await said(1, { name: "nobody" }, "does not know ");
}

/** restarted has a daemon go away and another come at its address, with the page open: it says so, and continues without a reload. */
async function restarted(browser, before, after, wrong) {
  const open1 = new Set();
  const front = (url) =>
    new Promise((listening) => {
      const { port } = new URL(url);
      const server = net.createServer((from) => {
        const to = net.connect(port, "127.0.0.1");
        for (const s of [from, to]) {
          open1.add(s);
          s.on("error", () => {});
          s.on("close", () => (from.destroy(), to.destroy(), open1.delete(s)));
        }
        from.pipe(to).pipe(from);
      });
      server.listen(front.port || 0, "127.0.0.1", () => ((front.port = server.address().port), listening(server)));
    });
  const end = (server) => {
    server.close();
    for (const s of open1) s.destroy();
  };
  const first = await front(before);
  const { page } = await open(browser, `http://127.0.0.1:${front.port}/`, looks[0], []); // a browser logs each try that fails
  const says = (text) => page.waitForFunction((t) => document.body.innerText.includes(t), { timeout: 10000 }, text).catch(() => wrong.push(`“${text}” is not said`));
  await page.waitForFunction(() => document.querySelector("#models tbody tr") && document.querySelector("figure svg path.line"));
  await page.evaluate(() => (window.loadedOnce = true));
  end(first);
  await says("not connected: the daemon does not answer");
  if (!(await page.evaluate(() => document.body.classList.contains("stale")))) wrong.push("what is old does not look so");
  const second = await front(after);
  await says("Not ready");
  if ((await page.$eval("#link", (e) => e.textContent)) !== "live") wrong.push("connected again, and not said so");
  if (!(await page.evaluate(() => window.loadedOnce))) wrong.push("the page was loaded again");
  await page.close();
  end(second);
}

/** keyboard goes through the page by Tab: every control has to be reached, have a name, and show that it is reached. */
async function keyboard(page, wrong) {
  const controls = await page.$$eval(
    ":is(main, nav) :is(a[href], button, input, select, summary)",
    (list) => list.filter((e) => e.checkVisibility()).length,
  );
  const seen = new Set();
  for (let i = 0; i < controls + 80; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      if (!e?.closest("main, nav")) return null;
      window.reached ??= new Map();
      if (!window.reached.has(e)) window.reached.set(e, window.reached.size);
      const style = getComputedStyle(e);
      const name = e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.[0]?.textContent;
      return {
        id: window.reached.get(e),
        control: e.matches("a[href], button, input, select, summary"),
        outlined: style.outlineStyle !== "none",
        name,
        html: e.outerHTML.slice(0, 100),
      };
    });
    if (!at || seen.has(at.id)) {
      if (seen.size >= controls) break;
      continue;
    }
    if (at.control) seen.add(at.id);
    if (!at.outlined) wrong.push(`keyboard: no outline on ${at.html}`);
    if (!at.name) wrong.push(`keyboard: no name of ${at.html}`);
  }
  if (seen.size < controls - 3) wrong.push(`keyboard: ${seen.size} of ${controls} controls were reached`); // some parts are drawn anew in between
}

async function ask(page, wrong) {
  await page.waitForSelector("#try input[name=user]");
  await page.type("#try form:first-of-type input[name=user]", "u1");
  await page.type("#try form:first-of-type input[name=item]", "i2");
  await page.type("#try input[name=age]", "33");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /By version/.test(document.getElementById("try").textContent));
  await page.type("#try input[name=name]", "u2");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /knows user=u2/.test(document.getElementById("try").textContent));
  await page.$eval("#try input[name=user]", (i) => (i.value = ""));
  await page.type("#try input[name=user]", "u");
  await page
    .waitForFunction(() => [...document.querySelectorAll("#names option")].map((o) => o.value).join() === "u1,u2,u3", { timeout: 5000 })
    .catch(() => wrong.push("names are not completed"));
  await visit(page, "versions");
  await page.waitForSelector("#versions a.compare");
  const diff = await page.$("#versions a.compare");
  await diff.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /against version/.test(document.getElementById("versions").textContent));
  await visit(page, "quality");
  for (const button of await page.$$("figcaption button[aria-pressed=false]")) {
    if ((await button.evaluate((b) => b.textContent)) === "Table" && (await button.evaluate((b) => b.checkVisibility())))
      await button.click();
  }
  const recall = await page.$$eval("figure", (list) => list.filter((f) => f.checkVisibility() && /most popular names/.test(f.textContent)).length);
  if (recall !== 1) wrong.push(`${recall} plots of recall`);
  if ((await page.$$("#quality figure table")).length < 3) wrong.push("plots without tables");
}

/** listing shows all versions of a model. */
async function listing(page, times) {
  const [from, before] = [Date.now(), await worked(page)];
  await page.waitForFunction(() => document.querySelector("#versions tbody tr"));
  await page.evaluate(() => [...document.querySelectorAll("#versions button")].find((b) => b.textContent === "Show all").click());
  await page.waitForFunction(() => document.querySelectorAll("#versions tbody tr").length === 1000);
  times.versions = Date.now() - from;
  times.listing = (await worked(page)) - before;
}

const wrong = [];

(async () => {
  const times = {};
  const browser = await puppeteer.launch({
    executablePath: process.env.REFITD_BROWSER,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  const urls = {};
  for (const one of process.argv.slice(2)) {
    const [state, url] = [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)];
    const mine = [];
    urls[state] = url;
    const { page, began } = await open(browser, url, looks[0], mine);
    if (state === "many") {
      await page.waitForFunction(
        () => document.querySelectorAll("#models tbody tr").length === 50 && document.querySelector("#now svg"),
      );
      const alerts = await page.$$eval("#alerts > ul > li", (list) => list.map((l) => l.innerText));
      if (alerts.length !== 1 || !alerts[0].includes("and 47 more")) mine.push(`one rule with 50 models is said so: ${alerts.slice(0, 3)}`);
      times.opened = Date.now() - began;
      times.opening = await worked(page);
      await visit(page, "versions");
      await listing(page, times);
      await visit(page, "");
    } else {
      await page.waitForFunction((s) => s === "empty" || document.querySelector("figure svg path.line"), {}, state);
    }
    if (state !== "empty") await visit(page, "quality");
    const silent = await page.evaluate(() => [...document.querySelectorAll(".notice")].some((e) => e.checkVisibility() && /Silent: no event for/.test(e.textContent)));
    if (state !== "many" && silent !== (state === "silent")) mine.push(`the stream is ${silent ? "" : "not "}said to be silent`);
    await visit(page, "");
    const shown = await page.$$eval("#models tbody tr", (list) => list.map((r) => r.cells[1].textContent));
    if (state === "tasks" && shown.length !== 5) mine.push(`${shown.length} models`);
    const silence = { silent: "needs attention, no event for 10 min", well: "needs attention" }[state];
    if (silence && shown[0] !== silence) mine.push(`the table of models says “${shown[0]}”, not “${silence}”`);
    const whole = ["well", "night"].includes(state); // all pages of these are looked at, of the others the overview
    if (whole) {
      await visit(page, "believes");
      await page.waitForFunction(() => document.body.textContent.includes("Strongest interactions"));
      await kept(page, mine);
    }
    if (state === "well") {
      await refused(page, mine);
      await ask(page, mine);
      await bounded(page, mine);
      await promote(page, mine);
    }
    if (state === "night") await near(page, mine);
    if (state === "tasks") await tasks(page, mine);
    wrong.push(...mine.splice(0).map((w) => `${state}: ${w}`));
    for (const at of ["", ...(whole ? pages : [])]) {
      await visit(page, at);
      for (const look of looks) {
        const name = [state, at, look.name].filter(Boolean).join("-");
        await seen(page, look);
        await settled(page);
        if ((look === looks[0] && !at) || process.env.PICTURES_ALL)
          await page.screenshot({ path: `${process.env.PICTURES}/${name}.png`, fullPage: state !== "many" });
        await rules(page, look, mine);
        await cut(page, mine);
        if (look.width < 640) await phone(page, mine);
        if (state === "night" && look === looks[0]) await keyboard(page, mine);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (over > 0) mine.push(`the page is ${over} pixels wider than the window`);
        wrong.push(...mine.splice(0).map((w) => `${name}: ${w}`));
      }
    }
    await page.close();
  }
  await restarted(browser, urls.well, urls.night, wrong);
  await browser.close();
  console.log(JSON.stringify({ wrong, times }));
})().catch((error) => {
  console.error(error, wrong);
  process.exit(1);
});
