// Every page of the site in a real browser, wide and narrow; the links; the thirty questions.
//     node check_site.mjs SITE [SCREENSHOTS]
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { launch, open, serve } from "./serve.mjs";

const [site, photographs] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const failures = [], must = (holds, what) => (holds ? 0 : failures.push(what));
const server = await serve(site), browser = await launch();
const pages = ["", "reference/", "glass/"].flatMap((folder) =>
  readdirSync(`${site}/${folder}`).filter((name) => name.endsWith(".html")).map((name) => folder + name));

const rendered = () => [...document.querySelectorAll(".math")].every((formula) => formula.querySelector("mjx-container"));
const ids = new Map(), links = new Map();
for (const name of pages) {
  for (const width of [1280, 390]) {
    const { page, complaints } = await open(browser, server.address, { width, height: 900 });
    await page.goto(`${server.address}/${name}`);
    await page.waitForFunction(rendered, null, { timeout: 20_000 }).catch(() => {});  // if not, it is counted below
    if (name.startsWith("glass")) await page.waitForSelector(".tree");
    const seen = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth - innerWidth,
      raw: [...document.querySelectorAll(".math")].filter((x) => !x.querySelector("mjx-container")).length,
      ids: [...document.querySelectorAll("[id], a[name]")].map((x) => x.id || x.name),
      links: [...document.querySelectorAll("a[href]")].map((x) => x.href),
    }));
    must(seen.wide <= 0, `${name} at ${width}: ${seen.wide} px too wide`);
    must(!seen.raw, `${name}: ${seen.raw} formulas not rendered`);
    if (width === 1280) {
      ids.set(name, new Set(seen.ids));
      links.set(name, seen.links);
      if (!name.startsWith("reference")) {
        await page.addScriptTag({ content: axe });
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        for (const { id, impact, nodes } of violations.filter(({ impact }) => ["serious", "critical"].includes(impact))) {
          failures.push(`${name}: axe ${impact} ${id}, ${nodes.length} times: ${nodes[0].html.slice(0, 120)}`);
        }
      }
    }
    if (photographs) await page.screenshot({ path: `${photographs}/${name.replaceAll("/", "_")}.${width}.png`, fullPage: true });
    for (const complaint of complaints) failures.push(`${name} at ${width}: ${complaint}`);
    await page.close();
  }
}

for (const [name, targets] of links) {
  for (const target of new Set(targets.filter((target) => target.startsWith(server.address)))) {
    const url = new URL(target), path = url.pathname.slice(1) || "index.html", id = decodeURIComponent(url.hash.slice(1));
    if (!path.endsWith(".html")) continue;
    must(ids.has(path), `${name}: no page ${path}`);
    if (id && !path.startsWith("glass")) must(!ids.has(path) || ids.get(path).has(id), `${name}: nothing at ${path}#${id}`);
  }
}

const { page } = await open(browser, server.address);
await page.goto(`${server.address}/index.html`);
const questions = readFileSync(new URL("questions.tsv", import.meta.url), "utf8").split("\n").filter((x) => x && !x.startsWith("#"));
let right = 0;
for (const [question, answers] of questions.map((line) => line.split("\t"))) {
  const hits = (await page.evaluate((q) => window.courseSearch(q, 3), question)).map(({ url }) => url.replace(/^\/(.*)\.html#/, "$1#"));
  if (hits.some((hit) => answers.split(" ").includes(hit))) right += 1;
}
must(right >= 27, `the search answers ${right} of ${questions.length} questions`);
console.log(`${pages.length} pages, ${[...links.values()].flat().length} links, ${right} of ${questions.length} questions answered`);
await browser.close();
server.close();
if (failures.length) {
  console.error(failures.slice(0, 60).join("\n"), `\n${failures.length} failures`);
  process.exit(1);
}
