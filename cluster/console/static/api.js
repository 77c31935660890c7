// Requests to /api/v1. A token stays in this tab; it is sent in a header, never as a cookie.

export const token = {
  get: () => sessionStorage.getItem("token") ?? "",
  set: (text) => sessionStorage.setItem("token", text),
};

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.id = error.id;
    this.attempt = error.try;
  }
}

function headers() {
  return token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
}

export function address(path, values = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  }
  const text = query.toString();
  return `/api/v1${path}${text ? `?${text}` : ""}`;
}

async function read(answer) {
  const found = await answer.json();
  if (!answer.ok) throw new ApiError(answer.status, found.error);
  return found;
}

export async function get(path, values, signal) {
  let answer;
  try {
    answer = await fetch(address(path, values), { headers: headers(), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { id: "node-away", message: "this node does not answer",
      try: "start it, or open the console of another node" });
  }
  return read(answer);
}

export async function send(method, path, body) {
  const said = { "Content-Type": "application/json", ...headers() };
  return read(await fetch(address(path), { method, headers: said, body: JSON.stringify(body) }));
}

/** Calls `take` with each event of a stream until `signal` is aborted. */
export async function stream(path, values, take, signal) {
  const answer = await fetch(address(path, values), { headers: headers(), signal });
  if (!answer.ok) return read(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) return null;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const data = lines.find((line) => line.startsWith("data: "));
      if (!data) continue;
      const found = JSON.parse(data.slice(6));
      if (lines.some((line) => line === "event: error")) throw new ApiError(500, found.error);
      take(found);
    }
  }
}
