// Notebooks in JupyterLab as a reader uses it: Run All, then every slider and picker is moved, and what it shows changes.
//     node check_lab.mjs ADDRESS NAME...
import { launch } from "./serve.mjs";

const [address, ...names] = process.argv.slice(2);
const browser = await launch();
const failures = [], must = (holds, what) => (holds ? 0 : failures.push(what));

/** Do it; true as soon as the box shows other figures or another text than before. */
async function changes(page, box, move) {
  const look = () => box.evaluate((element) => [...element.querySelectorAll(".jp-OutputArea")].map((area) =>
    area.innerText + [...area.querySelectorAll("img")].map(({ src }) => src)).join());
  const before = await look();
  await move();
  for (let i = 0; i < 40; i++) {
    if ((await look()) !== before) return true;
    await page.waitForTimeout(250);
  }
  return false;
}

for (const name of names) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => failures.push(`${name}: ${error.message}`));
  await page.goto(`${address}/lab/workspaces/${name.slice(0, 2)}/tree/${name}.ipynb`);
  await page.waitForSelector(".jp-Notebook .jp-Cell");
  await page.waitForSelector('.jp-Notebook-ExecutionIndicator[data-status="idle"]');
  const connected = async () => (await (await fetch(`${address}/api/sessions`)).json())
    .some(({ path, kernel }) => path === `${name}.ipynb` && kernel?.connections && kernel.execution_state === "idle");
  for (let i = 0; i < 120 && !(await connected()); i++) await page.waitForTimeout(500);  // the page says "idle" before it has a kernel
  await page.waitForTimeout(1000);
  await page.locator(".lm-MenuBar-item", { hasText: /^Run$/ }).click();
  await page.locator(".lm-Menu-item", { hasText: /^Run All Cells$/ }).click();
  const ended = () => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map(({ textContent }) => textContent);
    const failed = document.querySelector('[data-mime-type$="vnd.jupyter.stderr"]');
    return failed || prompts.filter(Boolean).every((prompt) => /\[\d+\]/.test(prompt));  // a folded cell has none
  };
  await page.waitForFunction(ended, null, { timeout: 300_000, polling: 1000 }).catch(() => failures.push(`${name}: does not end`));
  const errors = await page.locator('[data-mime-type$="vnd.jupyter.stderr"]').allInnerTexts();
  must(!errors.length, `${name}: ${errors[0]?.slice(0, 300)}`);
  const boxes = page.locator(".widget-interact");
  must(await boxes.count(), `${name}: nothing to move`);
  let moved = 0;
  for (let i = 0; i < await boxes.count(); i++) {
    const box = boxes.nth(i);
    for (const handle of await box.locator(".noUi-handle").all()) {
      await handle.scrollIntoViewIfNeeded();
      const press = (key) => async () => {
        await handle.focus();
        for (let n = 0; n < 3; n++) await page.keyboard.press(key);
      };
      const label = `${name}, box ${i + 1}, slider ${++moved}`;
      must(await changes(page, box, press("ArrowRight")) || await changes(page, box, press("ArrowLeft")), `${label} changes nothing`);
    }
    for (const picker of await box.locator("select").all()) {
      const choices = await picker.locator("option").count(), label = `${name}, box ${i + 1}, picker ${++moved}`;
      const choose = (index) => () => picker.selectOption({ index });
      if (choices > 1) must(await changes(page, box, choose(choices - 1)) || await changes(page, box, choose(0)), `${label} changes nothing`);
    }
  }
  console.log(`${name}: run to its end, ${moved} sliders and pickers moved`);
  await page.close();
}
await browser.close();
if (failures.length) {
  console.error(failures.join("\n"));
  process.exit(1);
}
