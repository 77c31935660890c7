// The OpenAPI document as a page.
import { h, replace } from "./dom.js";

const main = document.getElementById("main");

function type(schema, name = "") {
  if (!schema) return "";
  if (schema.$ref) {
    const target = schema.$ref.split("/").pop();
    return h("a", { href: `#schema-${target}` }, target);
  }
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return h("span", {}, "list of ", type(schema.items));
  const kinds = [schema.type].flat().map((kind) => (kind === "null" ? "nothing" : kind));
  let text = kinds.join(" or ");
  if (schema.minimum !== undefined && schema.maximum < 2 ** 52) {
    text += ` ${schema.minimum}–${schema.maximum}`;
  }
  if (schema.default !== undefined) text += `, else ${schema.default}`;
  return text;
}

function parameters(operation) {
  const body = operation.requestBody?.content["application/json"].schema;
  const rows = [
    ...(operation.parameters ?? []),
    ...Object.entries(body?.properties ?? {}).map(([name, schema]) => ({
      name, schema, in: "body", description: schema.description, required: body.required.includes(name),
    })),
  ];
  if (!rows.length) return null;
  return h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, ["value", "in", "type", "meaning"].map((text) => h("th", {}, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {},
      h("td", {}, h("code", {}, row.name), row.required ? " required" : ""),
      h("td", {}, row.in), h("td", {}, type(row.schema)), h("td", {}, row.description))))));
}

function operation(path, method, row) {
  const [kind, answer] = Object.entries(row.responses["200"].content)[0];
  const refusals = Object.keys(row.responses).filter((status) => status !== "200");
  return h("section.card", { id: row.operationId },
    h("h3", {}, h("span.method", {}, method.toUpperCase()), " ", h("code", {}, path),
      " ", h("span.tag", {}, row["x-role"])),
    h("p", {}, row.summary),
    parameters(row),
    h("p.quiet", {}, "200: ", type(answer.schema), kind === "text/event-stream" ? " (event stream)" : "",
      " · refusals: ", refusals.join(" ")),
    row["x-command"] ? h("p.quiet", {}, "the same: ", h("code", {}, row["x-command"])) : null);
}

function schema(name, value) {
  const fields = Object.entries(value.properties ?? {});
  return h("section.card", { id: `schema-${name}` }, h("h3", {}, name),
    fields.length
      ? h("div.scroll", {}, h("table", {}, h("tbody", {}, fields.map(([field, kind]) =>
          h("tr", {}, h("td", {}, h("code", {}, field)), h("td", {}, type(kind)))))))
      : h("p.quiet", {}, "an object of any fields"));
}

const found = await (await fetch("/api/v1/openapi.json")).json();
replace(main,
  h("p", {}, found.info.description),
  h("p", {}, "With a token: ", h("code", {}, "curl -H 'Authorization: Bearer TOKEN' "
    + `${location.origin}/api/v1/overview`)),
  h("h2", {}, "Requests"),
  Object.entries(found.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, row]) => operation(path, method, row))),
  h("h2", {}, "Shapes"),
  Object.entries(found.components.schemas).map(([name, value]) => schema(name, value)));
