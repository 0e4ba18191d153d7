// Asks `culvert web`, which asks the daemon.

const KEY = "culvert-token";

// A token is longer than any name of a section.
const TOKEN_MIN_LEN = 32;

/** An answer that takes longer never comes: the way to the gateway is broken. `culvert web` waits 10 s for the daemon. */
const LONGEST_MS = 15_000;

/** Why there is no answer. `status` is HTTP's, 0 where nobody answered; `field` is the parameter that is wrong, if one is. */
export class Fault extends Error {
  constructor(status, text, field) {
    super(text);
    this.status = status;
    this.field = field;
  }
}

/** Takes the token out of the URL, where it would stand in every screenshot. It stays with this tab, and goes nowhere
 * but into requests of this page: a cookie would go to other ports of the same address. */
export function takeToken() {
  const token = location.hash.slice(1);
  if (token.length < TOKEN_MIN_LEN) return;
  keepToken(token);
  history.replaceState(null, "", location.pathname);
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

/** The answer's response, or a fault. */
export async function ask(what, parameters = {}, signal) {
  const query = new URLSearchParams(parameters).toString();
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
  let response;
  try {
    response = await fetch(`/api/${what}${query && `?${query}`}`, { headers, signal });
  } catch {
    throw new Fault(0, "culvert web does not answer");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Fault(response.status, said.error ?? `status ${response.status}`, said.field);
}

/** The answer as an object. */
export async function json(what, parameters) {
  const response = await ask(what, parameters, AbortSignal.timeout(LONGEST_MS));
  return response.json().catch(() => {
    throw new Fault(0, "culvert web does not answer");
  });
}
