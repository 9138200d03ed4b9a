// A server of files for the checks, and a browser that looks at them.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";

const types = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
  ".wasm": "application/wasm", ".json": "application/json", ".png": "image/png" };

/** Serve a folder on the loopback; returns { address, close }. */
export async function serve(folder) {
  const server = createServer((request, response) => {
    const path = join(folder, decodeURIComponent(new URL(request.url, "http://x").pathname));
    if (!existsSync(path) || statSync(path).isDirectory()) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream" });
    createReadStream(path).pipe(response);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { address: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

const quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: quiet });

/** A page that notes its errors and every request that would leave the machine. */
export async function open(browser, address, size = { width: 1280, height: 900 }) {
  const page = await browser.newPage({ viewport: size });
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
