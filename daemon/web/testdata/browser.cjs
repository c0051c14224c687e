// Opens the status page at each address given as NAME=URL, as a person would: looks, reads tables, asks, and goes through it by keyboard. Prints one JSON
// object: what went wrong, and how long the page with most to show took.
const puppeteer = require("puppeteer-core");
const axe = require("fs").readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const looks = { light: { width: 1280, scheme: "light" }, dark: { width: 1280, scheme: "dark" }, phone: { width: 390, scheme: "dark" } };

async function open(browser, url, look, wrong) {
  const page = await browser.newPage();
  await page.setViewport({ width: look.width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: look.scheme }]);
  page.on("console", (m) => ["error", "warn"].includes(m.type()) && wrong.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => wrong.push(`error: ${e.message}`));
  const began = Date.now();
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await page.waitForFunction(() => document.getElementById("alerts"), { timeout: 20000 });
  return { page, began };
}

/** worked is how long the page was busy so far, in milliseconds, whoever else wanted the machine. */
async function worked(page) {
  const m = await page.metrics();
  return 1000 * (m.ScriptDuration + m.LayoutDuration + m.RecalcStyleDuration);
}

/** settled waits until the page does not grow any more, so that a picture has all of it. */
async function settled(page) {
  for (let before = -1, now = 0; before !== now; ) {
    before = now;
    await new Promise((done) => setTimeout(done, 200));
    now = await page.evaluate(() => document.documentElement.scrollHeight);
  }
}

/** rules runs those of axe-core over the page; bypassing the content policy is what a debugger may do and no page can. */
async function rules(page, wrong) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await axe.run(document, { resultTypes: ["violations"] })).violations);
  for (const v of found)
    wrong.push(
      `axe ${v.id}: ${v.help}: ${v.nodes
        .map((n) => n.html.slice(0, 120))
        .slice(0, 3)
        .join(" | ")}`,
    );
}

/** keyboard goes through the page by Tab: every control has to be reached, have a name, and show that it is reached. */
async function keyboard(page, wrong) {
  const controls = await page.$$eval(
    "main a[href], main button, main input, main select, main summary",
    (list) => list.filter((e) => e.checkVisibility()).length,
  );
  const seen = new Set();
  for (let i = 0; i < controls + 80; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      if (!e || !document.querySelector("main").contains(e)) return null;
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
    if (!at || seen.has(at.id)) continue;
    if (at.control) seen.add(at.id);
    if (!at.outlined) wrong.push(`keyboard: no outline on ${at.html}`);
    if (!at.name) wrong.push(`keyboard: no name of ${at.html}`);
  }
  if (seen.size < controls - 3) wrong.push(`keyboard: ${seen.size} of ${controls} controls were reached`); // parts that are drawn anew meanwhile
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
  const diff = await page.$("#versions button.link");
  if (!diff) return wrong.push("no version can be compared");
  await diff.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /against version/.test(document.getElementById("versions").textContent));
  for (const button of await page.$$("figcaption button[aria-pressed=false]")) {
    if ((await button.evaluate((b) => b.textContent)) === "Table" && (await button.evaluate((b) => b.checkVisibility())))
      await button.click();
  }
  const recall = await page.$$eval("figure", (list) => list.filter((f) => f.checkVisibility() && /most popular names/.test(f.textContent)).length);
  if (recall !== 1) wrong.push(`${recall} plots of recall`);
  if ((await page.$$("figure table")).length < 3) wrong.push("plots without tables");
}

(async () => {
  const wrong = [],
    times = {};
  const browser = await puppeteer.launch({
    executablePath: process.env.REFITD_BROWSER,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  for (const one of process.argv.slice(2)) {
    const [name, url] = [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)];
    const [state, look] = name.split("-");
    const mine = [];
    const { page, began } = await open(browser, url, looks[look], mine);
    if (state === "many") {
      await page.waitForFunction(
        () => document.querySelectorAll("#models tbody tr").length === 50 && document.querySelector("#versions tbody tr"),
      );
      const alerts = await page.$$eval("#alerts > ul > li", (list) => list.map((l) => l.innerText));
      if (alerts.length !== 1 || !alerts[0].includes("and 47 more")) mine.push(`one rule with 50 models is said so: ${alerts.slice(0, 3)}`);
      const from = Date.now();
      times.opened = from - began;
      times.opening = await worked(page);
      await page.evaluate(() => [...document.querySelectorAll("#versions button")].find((b) => b.textContent === "Show all").click());
      await page.waitForFunction(() => document.querySelectorAll("#versions tbody tr").length === 1000);
      times.versions = Date.now() - from;
      times.listing = (await worked(page)) - times.opening;
    } else {
      await page.waitForFunction((s) => s === "empty" || document.querySelector("figure svg path.line"), {}, state);
    }
    if (["well", "night"].includes(state)) await page.waitForFunction(() => document.body.textContent.includes("Strongest interactions"));
    if (state === "well") await ask(page, mine);
    await settled(page);
    await page.screenshot({ path: `${process.env.PICTURES}/${name}.png`, fullPage: state !== "many" });
    if (state !== "many") await rules(page, mine);
    if (state === "night") await keyboard(page, mine);
    wrong.push(...mine.map((w) => `${name}: ${w}`));
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) wrong.push(`${name}: the page is ${over} pixels wider than the window`);
    await page.close();
  }
  await browser.close();
  console.log(JSON.stringify({ wrong, times }));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
