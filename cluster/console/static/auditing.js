// The audit log: changes and refusals with accounts, times and addresses.
import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { pages, time } from "./parts.js";

const COLOURS = { refused: "span.bad", begun: "span.warn", done: "span" };

/** One entry; its facts fold out. */
function entry(row) {
  const asked = [row.via, row.by].filter(Boolean).join(", ");
  const facts = {
    account: row.account || "none", from: row.address, with: [asked, row.client].filter(Boolean).join("; "),
    "written by": `${row.node}, ${row.broker} number ${row.number}`, "request code": row.code, why: row.why,
    "as a command": row.command,
  };
  return h("details.message", {},
    h("summary", {}, h("span.mono", {}, time(row.at_ms)), h(COLOURS[row.outcome] ?? "span", {}, row.outcome),
      h("b", {}, row.verb), h("span", {}, row.target), h("span.quiet", {}, row.account || row.by || row.address)),
    h("dl", {}, Object.entries(facts).filter(([, value]) => value !== "")
      .map(([name, value]) => [h("dt", {}, name), h("dd.mono", {}, value)])),
    h("pre", {}, JSON.stringify(row.parameters, null, 2)));
}

export async function audit({ main }) {
  const since = h("input", { type: "datetime-local", step: 1 });
  const account = h("input", { size: 16, placeholder: "access key" });
  const target = h("input", { size: 16, placeholder: "topic orders" });
  const outcome = h("select", {}, h("option", { value: "" }, "any"),
    ["done", "begun", "refused"].map((one) => h("option", {}, one)));
  const said = h("div", { role: "status" }), command = h("pre");
  const list = pages(async (cursor) => {
    const found = await get("/audit", {
      since_ms: since.value ? new Date(since.value).getTime() : "", account: account.value, target: target.value,
      outcome: outcome.value, cursor, limit: 50,
    });
    replace(command, found.command);
    replace(said, found.left_out.map((one) => h("p.warn", {}, `${one.broker} is left out: ${one.why}`)),
      found.damaged ? h("p.warn", {}, `${found.damaged} entries are left out: they are damaged on the leader's disk.`) : null);
    return { rows: found.entries, cursor: found.cursor };
  }, (rows) => (rows.length ? rows.map(entry) : h("p.quiet", {}, "No entry like that.")));
  let timer = 0;
  for (const input of [since, account, target, outcome]) {
    input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(list.start, 300); });
  }
  replace(main, h("div.title", {}, h("h1", {}, "Audit log")),
    h("div.row", {}, [["Since", since], ["Account", account], ["Target", target], ["Outcome", outcome]]
      .map(([name, input]) => h("label", {}, name, input))),
    said, h("section.card", {}, list.element), h("p.quiet", {}, "The same as a command:"), command);
  await list.start();
}
