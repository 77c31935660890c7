// Which page is shown, by the address behind "#"; the token; light and dark; keys.
import { accounts } from "./accounts.js";
import { ApiError, get, token } from "./api.js";
import { audit } from "./auditing.js";
import { chaos } from "./chaosing.js";
import { h, replace } from "./dom.js";
import { raft } from "./leading.js";
import * as operate from "./operating.js";
import * as show from "./pages.js";
import { failure } from "./parts.js";

const main = document.getElementById("main");
const PAGES = [
  ["", "Overview", show.overview], ["topics", "Topics", show.topics], ["messages", "Messages", show.messages],
  ["groups", "Groups", show.groups], ["clients", "Clients", show.clients], ["dead", "Dead letters", show.dead],
  ["scheduled", "Scheduled", operate.scheduled], ["transactions", "Transactions", operate.transactions],
  ["settings", "Settings", operate.settings], ["accounts", "Accounts", accounts],
  ["members", "Members", raft], ["audit", "Audit log", audit], ["chaos", "Chaos runs", chaos],
];
const DETAILS = { topics: show.topic, groups: show.group, dead: operate.deadOf, messages: show.messages };
/** Pages that no link of the bar leads to, with the one that is marked there. */
const OTHERS = { trace: ["messages", operate.trace] };
const ROLES = ["viewer", "operator", "admin"];
let me = null, current = new AbortController();

function go(hash) {
  location.hash = `#/${hash}`;
}

async function route() {
  current.abort();
  current = new AbortController();
  const { signal } = current;
  const [name = "", ...params] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const other = OTHERS[name], page = PAGES.find(([key]) => key === (other?.[0] ?? name)) ?? PAGES[0];
  replace(document.getElementById("nav"), PAGES.map(([key, text]) =>
    h("a", { href: `#/${key}`, "aria-current": key === page[0] ? "page" : null }, text)),
    h("a", { href: "/docs" }, "API"));
  document.title = `${params[0] ?? page[1]} · dledger`;
  const draw = other?.[1] ?? (params.length && DETAILS[name] ? DETAILS[name] : page[2]);
  const ctx = {
    main, params, signal, go, again: route,
    may: (role) => ROLES.indexOf(me.role) >= ROLES.indexOf(role),
    every: (delay, work, place) => repeat(delay, work, place, signal),
  };
  try {
    me ??= await get("/me");
    document.getElementById("who").textContent = `${me.cluster} · ${me.node} · ${me.role}`;
    await draw(ctx);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    if (error instanceof ApiError && error.status === 401) ask(error);
    else replace(main, failure(error));
  }
}

async function repeat(delay, work, place, signal) {
  while (!signal.aborted) {
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) replace(place, failure(error));
    }
    await new Promise((done) => setTimeout(done, delay * 1000));
  }
}

function ask(error) {
  const input = h("input", { type: "password", autocomplete: "off", required: true, size: 40 });
  replace(main, h("h1", {}, "Token"), token.get() ? failure(error) : null,
    h("p", {}, "This node asks for a token: admin.token, operator_token or viewer_token of its settings."),
    h("form.row", { onsubmit: (event) => {
      event.preventDefault();
      token.set(input.value);
      route();
    } }, h("label", {}, "Token", input), h("button.main", {}, "Open")));
  input.focus();
}

const theme = document.getElementById("theme");
const paint = () => { document.documentElement.dataset.theme = localStorage.getItem("theme") ?? ""; };
theme.addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!localStorage.getItem("theme") && matchMedia("(prefers-color-scheme: dark)").matches);
  localStorage.setItem("theme", dark ? "light" : "dark");
  paint();
});
paint();
const KEYS = [["/", "the first field of the page"], ["?", "this list"]];

function showKeys() {
  const dialog = document.getElementById("dialog");
  const rows = [...PAGES.slice(0, 9).map(([, text], at) => [at + 1, text]), ...KEYS];
  replace(dialog, h("h2", {}, "Keys"), h("dl", {}, rows.map(([key, text]) =>
    [h("dt", {}, h("code", {}, key)), h("dd", {}, text)])),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  dialog.showModal();
}

document.getElementById("keys").addEventListener("click", showKeys);
addEventListener("hashchange", () => { route(); main.focus(); });
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog[open]")) return;
  if (event.key === "?") showKeys();
  if (event.key === "/") {
    event.preventDefault();
    main.querySelector("input")?.focus();
  }
  const at = "123456789".indexOf(event.key);
  if (event.key && at >= 0) go(PAGES[at][0]);
});
route();
