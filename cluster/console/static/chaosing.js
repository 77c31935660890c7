// Chaos runs of a folder: verdicts, and their reports as files.
import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { failure, number, pages, path, table, time } from "./parts.js";

const COLOURS = { valid: "span.good", invalid: "span.bad" };

async function download(run, said) {
  try {
    const found = await get(`/chaos-runs/${path(run)}/report`);
    const address = URL.createObjectURL(new Blob([found.html], { type: "text/html" }));
    h("a", { href: address, download: `${run}.html` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    replace(said, h("p.good", {}, `✓ The report of ${run} is in the file ${run}.html.`));
  } catch (error) {
    replace(said, failure(error));
  }
}

export async function chaos({ main }) {
  const said = h("div", { role: "status" }), where = h("p.quiet"), command = h("pre");
  const list = pages(async (cursor) => {
    const found = await get("/chaos-runs", { cursor, limit: 50 });
    replace(where, found.folder === null ? "No folder of runs is named: set admin.chaos_runs to one on this node's disk."
      : `${number(found.total)} finished in ${found.folder}, on this node's disk. The verdict is the judge's; dledger chaos check compares it with the evidence.`);
    replace(command, found.command || "dledger chaos run conf/chaos-smoke.toml");
    return { rows: found.runs, cursor: found.cursor };
  }, (rows) => table([
    ["finished", (row) => h("span.mono", {}, time(row.at_ms))], ["run", (row) => h("span.mono", {}, row.run)],
    ["verdict", (row) => h(COLOURS[row.verdict] ?? "span.warn", {}, row.verdict)],
    ["acknowledged", (row) => number(row.acked), true], ["lost", (row) => number(row.lost), true],
    ["doubled", (row) => number(row.doubled), true], ["violations", (row) => number(row.violations), true],
    ["faults", (row) => (row.faults === null ? "–" : `${number(row.took_effect)} of ${number(row.faults)}`), true],
    ["seed", (row) => (row.seed === null ? "–" : String(row.seed)), true],
    ["report", (row) => (row.has_report ? h("button", { type: "button", "aria-label": `Download the report of ${row.run}`,
      onclick: () => download(row.run, said) }, "Download") : "none")],
  ], rows, "No run is finished."));
  replace(main, h("div.title", {}, h("h1", {}, "Chaos runs")), where, said, h("section.card", {}, list.element),
    h("p.quiet", {}, "The same as a command, on its machine:"), command);
  await list.start();
}
