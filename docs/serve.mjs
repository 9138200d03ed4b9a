// A server of files for the checks, and a browser that looks at them.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";

const types = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
  ".wasm": "application/wasm", ".json": "application/json", ".png": "image/png", ".gif": "image/gif" };

export const under = "/transformer_nbdev";  // as GitHub Pages serves it

/** Serve a folder on the loopback; returns { address, close }. */
export async function serve(folder) {
  const server = createServer((request, response) => {
    const asked = decodeURIComponent(new URL(request.url, "http://x").pathname);
    const path = join(folder, asked.startsWith(`${under}/`) ? asked.slice(under.length) : "missing");
    const found = existsSync(path) && !statSync(path).isDirectory();
    response.writeHead(found ? 200 : 404, { "content-type": found ? types[extname(path)] ?? "application/octet-stream" : "text/html" });
    createReadStream(found ? path : join(folder, "404.html")).pipe(response);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { address: `http://127.0.0.1:${server.address().port}${under}`, close: () => server.close() };
}

const quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync), args: quiet });

/** A page that notes its errors and every request that would leave the machine. */
export async function open(browser, address, size = { width: 1280, height: 900 }) {
  const page = await browser.newPage({ viewport: size, reducedMotion: "reduce" });
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && complaints.push(`console: ${message.text()}`));
  await page.route("**", (route) => {
    const url = route.request().url();
    if (url.startsWith(address) || url.startsWith("data:") || url.startsWith("blob:")) return route.continue();
    complaints.push(`leaves the machine: ${url}`);
    return route.abort();
  });
  return { page, complaints };
}
