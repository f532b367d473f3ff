// Requests to the gateway. The cookie says who asks; an embedded page has a token instead, which it was
// given in its address and which never leaves this module except as a header.

import { hear } from "./clock";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

export const headers: Record<string, string> = { "X-Interpreter": "page" };

export function useToken(token: string): void {
  headers["Authorization"] = `Bearer ${token}`;
}

// What happens when the gateway does not know us any more.
let whenSignedOut = (): void => {};

export function onSignedOut(then: () => void): void {
  whenSignedOut = then;
}

export function signedOut(): void {
  whenSignedOut();
}

export async function call(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const isData = body instanceof Blob;
  const answer = await fetch(path, {
    method,
    headers: body === undefined || isData ? headers : { ...headers, "Content-Type": "application/json" },
    body: body === undefined ? undefined : isData ? body : JSON.stringify(body),
    signal,
  });
  hear(answer);
  if (!answer.ok) throw await problem(answer);
  return answer;
}

export async function problem(answer: Response): Promise<ApiError> {
  return refusal(answer.status, await answer.json().catch(() => null));
}

// The answer may not be the gateway's own: then what the status says has to do.
export function refusal(status: number, answer: { error?: Partial<ApiError> } | null): ApiError {
  if (status === 401) whenSignedOut();
  const { code = "unknown", message = `The gateway answered ${status}.`, hint = "" } = answer?.error ?? {};
  return new ApiError(status, code, message, hint);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await call("GET", path, undefined, signal)).json();
}

export async function post<T>(path: string, body?: unknown): Promise<T> {
  const answer = await call("POST", path, body ?? {});
  return answer.status === 204 ? (undefined as T) : answer.json();
}

export const sessionUrl = (id: string): string => `/v1/sessions/${encodeURIComponent(id)}`;

export const fileUrl = (session: string, path: string): string =>
  `${sessionUrl(session)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;

// What to tell a person of something that went wrong.
export function explain(error: unknown): string {
  if (error instanceof ApiError) return `${error.message} ${error.hint}`.trim();
  if (error instanceof TypeError) return "The gateway cannot be reached.";
  return error instanceof Error ? error.message : String(error);
}
