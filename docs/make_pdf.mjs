// The course as one book to print: every chapter of the site behind the other, with an outline and links that arrive.
//     node make_pdf.mjs SITE BOOK.pdf
import { launch, open, serve } from "./serve.mjs";

const [site, book] = process.argv.slice(2);
const server = await serve(site), browser = await launch();
const { page, complaints } = await open(browser, server.address);
page.setDefaultTimeout(0);
await page.goto(`${server.address}/index.html`);

const chapters = await page.evaluate(async () => {
  const links = [...document.querySelectorAll(".sidebar-tree a.reference.internal")].map((link) => link.getAttribute("href"));
  const names = ["index.html", ...links.filter((name) => /^[0-9A-E].*\.html$/.test(name))];
  const here = (name, id) => `${name}--${id}`.replaceAll(".html", "");
  const articles = [];
  for (const name of names) {
    const page = new DOMParser().parseFromString(await (await fetch(name)).text(), "text/html");
    const article = page.querySelector("article"), top = article.querySelector("h1");
    article.querySelectorAll("a.headerlink, details.hide, .colab, script").forEach((part) => part.remove());
    article.querySelectorAll("details").forEach((part) => (part.open = true));
    article.querySelectorAll("img[loading]").forEach((image) => image.removeAttribute("loading"));
    article.querySelectorAll("[id]").forEach((part) => (part.id = here(name, part.id)));
    top.id = here(name, "");
    for (const link of article.querySelectorAll("a[href]")) {
      const [target, id = ""] = link.getAttribute("href").split("#");
      if (names.includes(target || name)) link.setAttribute("href", `#${here(target || name, decodeURIComponent(id))}`);
      else if (!/^https?:/.test(target)) link.setAttribute("href", new URL(target, "https://transformer-nbdev.github.io/transformer_nbdev/"));
    }
    articles.push({ top, article });
  }
  const contents = document.createElement("article"), list = document.createElement("ul");
  contents.innerHTML = "<h1>Transformer, from nothing</h1>";
  list.append(...articles.map(({ top }) => {
    const row = document.createElement("li"), link = document.createElement("a");
    [link.href, link.textContent] = [`#${top.id}`, top.textContent];
    row.append(link);
    return row;
  }));
  contents.append(list);
  document.body.replaceChildren(contents, ...articles.map(({ article }) => article));
  document.body.dataset.theme = "light";
  document.body.className = "book";
  return articles.length;
});
await page.waitForFunction(() => [...document.images].every((image) => image.complete));
await page.pdf({
  path: book, format: "A4", outline: true, tagged: true, displayHeaderFooter: true, headerTemplate: "<i></i>",
  footerTemplate: '<p style="width: 100%; text-align: center; font: 8pt serif"><span class="pageNumber"></span></p>',
  margin: { top: "18mm", bottom: "20mm", left: "20mm", right: "20mm" },
});
console.log(`${chapters} chapters: ${book}`);
if (complaints.length) console.error(complaints.slice(0, 9).join("\n"));
await browser.close();
server.close();
process.exitCode = complaints.length ? 1 : 0;
