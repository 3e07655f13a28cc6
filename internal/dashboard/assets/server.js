// Requests to the process that serves this page. The bearer value is in sessionStorage and
// in a header: cookies would also go to the notebooks on other ports of this computer.

const bearerKey = "tunctl-bearer", serverKey = "tunctl-server";

export class Refused extends Error {
  constructor(status, body) {
    super(body?.message ?? `the dashboard answered with status ${status}`);
    this.status = status;
    this.hint = body?.hint ?? "";
  }
}

// enter exchanges the one-time value in the address for a bearer value, once.
export async function enter() {
  const once = location.hash.slice(1);
  if (/^[A-Z2-7]{26}$/.test(once)) {
    history.replaceState(null, "", "/");
    const { bearer, server } = await request("/api/enter", { once });
    sessionStorage.setItem(bearerKey, bearer);
    sessionStorage.setItem(serverKey, server);
  }
  return sessionStorage.getItem(bearerKey) !== null;
}

// isOwnServer reports whether the server is the one that this page entered: another program may
// have its port since.
export const isOwnServer = (name) => name === sessionStorage.getItem(serverKey);

// turning are the characters that change the direction of writing: a job's name could reverse its row.
const turning = /[\u202a-\u202e\u2066-\u2069]/g;
const parse = (text) => JSON.parse(text.replace(turning, ""));
const post = (body) => (body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });

// pathOf is where the server does something with a session or a host.
export const pathOf = (kind, name, verb) => `/api/${kind}/${encodeURIComponent(name)}/${verb}`;

async function send(path, options) {
  const response = await fetch(path, {
    ...options, cache: "no-store", credentials: "omit",
    headers: { Authorization: `Bearer ${sessionStorage.getItem(bearerKey) ?? ""}`, "Content-Type": "application/json" },
  });
  if (response.ok) return response;
  throw new Refused(response.status, await response.text().then(parse).catch(() => null));
}

export async function request(path, body) {
  return parse(await (await send(path, post(body))).text());
}

// lines calls each with every JSON value of a stream until that ends or signal does.
export async function lines(path, signal, each, body) {
  const response = await send(path, { signal, ...post(body) });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const complete = (rest + value).split("\n");
    rest = complete.pop();
    for (const line of complete) if (line) each(parse(line));
  }
}
